//! Bare UDP in runs of datagrams that the kernel splits (GSO) and joins (GRO): the upper bound for a transport on this machine.
//!
//! Each datagram is a sequence number (8 bytes), payload, and for `udp-aes` an AEAD tag; the number is also the nonce. There is no
//! feedback: the sender sends as fast as its socket accepts, and goodput is the rate of arrivals.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::Context;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};

use super::{COUNTERS_MAX, udp_socket};
use crate::limits::{DATAGRAM_BYTES, RUN_BYTES_MAX, RUN_DATAGRAMS_MAX, SOCKET_WAIT};
use crate::meter::Meter;
use crate::protocol::Ready;

const SEQUENCE_BYTES: usize = 8;
const TAG_BYTES: usize = 16;
const KEY_BYTES: usize = 16;

/// Maximum number of bytes received by one call in one buffer.
const BUFFER_BYTES: usize = 1 << 16;

/// Counters of a sender.
pub(crate) const SENDER_COUNTERS: &[&str] = &["datagrams_sent", "send_calls"];

/// Counters of a receiver; `loss_runs` counts gaps in the sequence, each of one datagram or more.
pub(crate) const RECEIVER_COUNTERS: &[&str] = &["datagrams_received", "receive_calls", "lost", "loss_runs", "forged"];

/// An end of a bare UDP flow.
#[derive(Debug)]
pub(crate) struct Blaster {
    socket: UdpSocket,
    state: UdpSocketState,
    key: Option<LessSafeKey>,
}

/// Losses, computed from gaps in the sequence numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Gaps {
    next: Option<u64>,
    lost: u64,
    runs: u64,
}

impl Gaps {
    /// Counts a datagram with this number. Two namespaces do not reorder; a late datagram counts as lost.
    fn see(&mut self, sequence: u64) {
        if let Some(next) = self.next
            && sequence > next
        {
            self.lost += sequence - next;
            self.runs += 1;
        }
        self.next = Some(sequence + 1);
    }
}

impl Blaster {
    /// Makes a receiver on a port chosen by the system, with the data for its sender.
    pub(crate) fn receiver(ip: IpAddr, sealed: bool) -> anyhow::Result<(Self, Ready)> {
        let secret = if sealed { Some(secret()?) } else { None };
        let blaster = Self::bind(ip, secret.as_deref())?;
        let ready = Ready { address: blaster.socket.local_addr()?, key: None, bytes: secret };
        Ok((blaster, ready))
    }

    /// Makes a sender to that receiver.
    pub(crate) fn sender(ip: IpAddr, server: &Ready) -> anyhow::Result<Self> {
        Self::bind(ip, server.bytes.as_deref())
    }

    fn bind(ip: IpAddr, secret: Option<&[u8]>) -> anyhow::Result<Self> {
        let socket = udp_socket(SocketAddr::new(ip, 0)).context("cannot open a socket for UDP")?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket)).context("cannot set up a socket for UDP")?;
        let key = secret.map(|secret| UnboundKey::new(&AES_128_GCM, secret)).transpose();
        let key = key.ok().context("the blaster's key has the wrong length")?.map(LessSafeKey::new);
        Ok(Self { socket, state, key })
    }

    const fn payload_bytes(&self) -> usize {
        DATAGRAM_BYTES - SEQUENCE_BYTES - if self.key.is_some() { TAG_BYTES } else { 0 }
    }

    /// Sends until the process ends, at most this number of bits of datagrams per second.
    ///
    /// # Errors
    /// Fails if the socket fails.
    pub(crate) fn send(&self, server: SocketAddr, rate_bps: Option<u64>, meter: &Meter) -> anyhow::Result<()> {
        let mut buffer = vec![0x5a; RUN_DATAGRAMS_MAX * DATAGRAM_BYTES];
        let (mut sequence, mut calls) = (0_u64, 0);
        loop {
            let datagrams =
                self.state.max_gso_segments().clamp(1, RUN_DATAGRAMS_MAX.min(RUN_BYTES_MAX / DATAGRAM_BYTES));
            let run = &mut buffer[..datagrams * DATAGRAM_BYTES];
            for datagram in run.chunks_exact_mut(DATAGRAM_BYTES) {
                self.seal(datagram, sequence)?;
                sequence += 1;
            }
            let segment_size = (datagrams > 1).then_some(DATAGRAM_BYTES);
            let transmit = Transmit { destination: server, ecn: None, contents: run, segment_size, src_ip: None };
            self.when(PollFlags::POLLOUT, || self.state.try_send(UdpSockRef::from(&self.socket), &transmit))?;
            calls += 1;
            meter.set_counters(0, [sequence, calls, 0, 0, 0, 0]);
            meter.add_bytes(0, datagrams * self.payload_bytes());
            if let Some(rate_bps) = rate_bps {
                std::thread::sleep(Duration::from_secs_f64(8.0 * run.len() as f64 / rate_bps.max(1) as f64));
            }
        }
    }

    /// Receives until the process ends.
    ///
    /// # Errors
    /// Fails if the socket fails.
    pub(crate) fn receive(&self, meter: &Meter) -> anyhow::Result<()> {
        let mut bytes = vec![0; BATCH_SIZE * BUFFER_BYTES];
        let mut meta = [RecvMeta::default(); BATCH_SIZE];
        let (mut gaps, mut received, mut calls, mut forged) = (Gaps::default(), 0, 0, 0);
        loop {
            let filled = self.when(PollFlags::POLLIN, || {
                let mut chunks = bytes.chunks_mut(BUFFER_BYTES);
                let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
                    std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
                self.state.recv(UdpSockRef::from(&self.socket), &mut slices, &mut meta)
            })?;
            calls += 1;
            let mut payload_bytes = 0;
            for (buffer, meta) in bytes.chunks_mut(BUFFER_BYTES).zip(&meta).take(filled) {
                for datagram in buffer[..meta.len].chunks_mut(meta.stride.max(1)) {
                    received += 1;
                    match self.open(datagram) {
                        Some(sequence) => {
                            gaps.see(sequence);
                            payload_bytes += self.payload_bytes();
                        }
                        None => forged += 1,
                    }
                }
            }
            meter.set_counters(0, [received, calls, gaps.lost, gaps.runs, forged, 0]);
            meter.add_bytes(0, payload_bytes);
        }
    }

    /// Writes the number of a datagram, and encrypts its payload in place.
    fn seal(&self, datagram: &mut [u8], sequence: u64) -> anyhow::Result<()> {
        let (number, rest) = datagram.split_at_mut(SEQUENCE_BYTES);
        number.copy_from_slice(&sequence.to_be_bytes());
        let Some(key) = &self.key else { return Ok(()) };
        let (payload, tag) = rest.split_at_mut(rest.len() - TAG_BYTES);
        let made = key.seal_in_place_separate_tag(nonce(sequence), Aad::from(number), payload);
        tag.copy_from_slice(made.ok().context("AES-128-GCM cannot seal a datagram")?.as_ref());
        Ok(())
    }

    /// Number of a genuine datagram; `None` for any other.
    fn open(&self, datagram: &mut [u8]) -> Option<u64> {
        if datagram.len() != DATAGRAM_BYTES {
            return None;
        }
        let (number, rest) = datagram.split_first_chunk_mut::<SEQUENCE_BYTES>()?;
        let sequence = u64::from_be_bytes(*number);
        if let Some(key) = &self.key {
            key.open_in_place(nonce(sequence), Aad::from(number), rest).ok()?;
        }
        Some(sequence)
    }

    /// Runs `what` as soon as the socket is ready for it.
    fn when<T>(&self, ready: PollFlags, mut what: impl FnMut() -> io::Result<T>) -> anyhow::Result<T> {
        loop {
            match what() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let timeout = PollTimeout::try_from(SOCKET_WAIT)?;
                    poll(&mut [PollFd::new(self.socket.as_fd(), ready)], timeout)
                        .context("cannot wait for a socket")?;
                }
                // The receiver has ended or is ending; the parent process reports it.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                result => return result.context("the blaster's socket failed"),
            }
        }
    }
}

fn secret() -> anyhow::Result<Vec<u8>> {
    let mut secret = vec![0; KEY_BYTES];
    SystemRandom::new().fill(&mut secret).ok().context("the system gives no random bytes for a key")?;
    Ok(secret)
}

fn nonce(sequence: u64) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[NONCE_LEN - SEQUENCE_BYTES..].copy_from_slice(&sequence.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

const _: () = assert!(SENDER_COUNTERS.len() <= COUNTERS_MAX && RECEIVER_COUNTERS.len() <= COUNTERS_MAX);

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn gaps_are_counted_once_each() {
        let mut gaps = Gaps::default();
        [7, 8, 10, 11, 15, 16].into_iter().for_each(|sequence| gaps.see(sequence));
        assert_eq!(gaps, Gaps { next: Some(17), lost: 4, runs: 2 });
    }

    #[test]
    fn a_sealed_datagram_opens_and_a_changed_one_does_not() {
        let (receiver, ready) = Blaster::receiver(Ipv4Addr::LOCALHOST.into(), true).unwrap();
        let sender = Blaster::sender(Ipv4Addr::LOCALHOST.into(), &ready).unwrap();
        let mut datagram = vec![3; DATAGRAM_BYTES];
        sender.seal(&mut datagram, 99).unwrap();
        let mut changed = datagram.clone();
        changed[100] ^= 1;
        assert_eq!(receiver.open(&mut changed), None);
        let mut renumbered = datagram.clone();
        renumbered[7] ^= 1;
        assert_eq!(receiver.open(&mut renumbered), None);
        assert_eq!(receiver.open(&mut datagram[..20].to_vec()), None);
        assert_eq!(receiver.open(&mut datagram), Some(99));
        assert_eq!(&datagram[SEQUENCE_BYTES..][..4], [3; 4]);
    }

    #[test]
    fn a_bare_datagram_carries_its_number() {
        let (receiver, ready) = Blaster::receiver(Ipv4Addr::LOCALHOST.into(), false).unwrap();
        let sender = Blaster::sender(Ipv4Addr::LOCALHOST.into(), &ready).unwrap();
        let mut datagram = vec![0; DATAGRAM_BYTES];
        sender.seal(&mut datagram, u64::MAX).unwrap();
        assert_eq!(receiver.open(&mut datagram), Some(u64::MAX));
        assert_eq!((sender.payload_bytes(), ready.bytes), (1464, None));
    }
}
