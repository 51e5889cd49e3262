//! Buffers and results of receive calls.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use dfcp_proto::Ecn;
use quinn_udp::{BATCH_SIZE, EcnCodepoint, RecvMeta};

use super::{Socket, canonical, ipv4};
use crate::buffers::Buffer;
use crate::limits;

/// Datagrams of one sender that the system delivered together.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    /// Source address; over raw IP without a port.
    pub(crate) remote: SocketAddr,
    /// ECN mark of the packets.
    pub(crate) ecn: Ecn,
    /// Destination address, an address of this machine, if the system reports it.
    pub(crate) local_ip: Option<IpAddr>,
    /// Length of each datagram, bytes; the last one may be shorter.
    pub(crate) stride: usize,
    /// Index of the buffer; `range` is the position of the datagrams in it.
    buffer: usize,
    range: Range<usize>,
}

impl Arrival {
    /// Returns the part of the arrival in `bytes`, a range relative to its begin.
    pub(crate) fn part(&self, bytes: Range<usize>) -> Self {
        let at = |offset: usize| (self.range.start + offset).min(self.range.end);
        Self { range: at(bytes.start)..at(bytes.end), ..self.clone() }
    }

    /// Returns the number of datagrams.
    pub(crate) fn count(&self) -> usize {
        self.len().div_ceil(self.stride)
    }

    pub(crate) fn len(&self) -> usize {
        self.range.len()
    }
}

/// Buffers of the first call after a pause: two suffice to see whether more than one run waits.
const BUFFERS_AT_FIRST: usize = 2;

/// Buffers of a call if the kernel joins datagrams into runs.
const BUFFERS_OF_RUNS: usize =
    if limits::BUFFERS_PER_RECEIVE_CALL < BATCH_SIZE { limits::BUFFERS_PER_RECEIVE_CALL } else { BATCH_SIZE };

/// Buffers of a call if the kernel joins few datagrams: at most as many as are kept, or each turn would have to
/// allocate and clear new ones.
const BUFFERS_SCATTERED: usize =
    if limits::BUFFERS_KEPT_MAX < BATCH_SIZE { limits::BUFFERS_KEPT_MAX } else { BATCH_SIZE };

/// Buffers and metadata of receive calls on one socket.
#[derive(Debug)]
pub(crate) struct ReceiveBuffers {
    /// Empty while nothing is received.
    buffers: Vec<Buffer>,
    buffers_max: usize,
    /// Size of the part of a buffer that holds one message, bytes.
    message_bytes: usize,
    meta: [RecvMeta; BATCH_SIZE],
    /// Protocol number if messages begin with an IPv4 header, which must be removed.
    ipv4_protocol: Option<u8>,
}

impl ReceiveBuffers {
    pub(crate) fn new(socket: &Socket) -> Self {
        let (buffers_max, message_bytes) =
            if socket.joins() { (BUFFERS_OF_RUNS, limits::BUFFER_BYTES) } else { (1, limits::PACKET_BYTES_MAX) };
        let ipv4_protocol = match socket {
            Socket::RawIp(raw) if raw.local_addr().is_ipv4() => Some(raw.protocol()),
            _ => None,
        };
        let meta = [RecvMeta::default(); BATCH_SIZE];
        Self { buffers: Vec::with_capacity(buffers_max), buffers_max, message_bytes, meta, ipv4_protocol }
    }

    /// Receives available datagrams, or returns `WouldBlock`. Returns the number of messages.
    pub(crate) fn try_receive(&mut self, socket: &Socket) -> io::Result<usize> {
        while self.buffers.len() < self.buffers_max {
            self.buffers.push(Buffer::take());
        }
        let mut messages = self.buffers.iter_mut().flat_map(|buffer| buffer.chunks_mut(self.message_bytes));
        let mut count = 0;
        let mut slices: [IoSliceMut<'_>; BATCH_SIZE] = std::array::from_fn(|_| {
            let message = messages.next();
            count += usize::from(message.is_some());
            IoSliceMut::new(message.unwrap_or_default())
        });
        let slices = slices.get_mut(..count).unwrap_or_default();
        let received = socket.try_receive(slices, &mut self.meta)?;
        if self.message_bytes == limits::BUFFER_BYTES && self.were_all_filled(received) {
            self.buffers_max = buffers_for_next(self.meta.get(..received).unwrap_or_default());
        }
        Ok(received)
    }

    /// Returns the arrivals in the first `count` messages. Messages without a valid IP header are skipped.
    pub(crate) fn arrivals(&self, count: usize) -> impl Iterator<Item = Arrival> {
        self.meta.iter().take(count).enumerate().filter_map(|(index, meta)| self.arrival(index, meta))
    }

    fn arrival(&self, index: usize, meta: &RecvMeta) -> Option<Arrival> {
        let per_buffer = limits::BUFFER_BYTES / self.message_bytes;
        let (buffer, start) = (index / per_buffer, index % per_buffer * self.message_bytes);
        let mut range = start..start + meta.len.min(self.message_bytes);
        let mut stride = meta.stride;
        if let Some(protocol) = self.ipv4_protocol {
            let packet = self.buffers.get(buffer)?.get(range)?;
            let payload = ipv4::payload(packet, protocol)?;
            range = start + payload.start..start + payload.end;
            stride = range.len();
        }
        let ecn = mark_of(meta.ecn);
        let (remote, local_ip) = (canonical(meta.addr), meta.dst_ip.map(|ip| ip.to_canonical()));
        Some(Arrival { remote, ecn, local_ip, stride: stride.max(1), buffer, range })
    }

    pub(crate) fn bytes(&self, arrival: &Arrival) -> &[u8] {
        self.buffers.get(arrival.buffer).and_then(|buffer| buffer.get(arrival.range.clone())).unwrap_or_default()
    }

    pub(crate) fn bytes_mut(&mut self, arrival: &Arrival) -> &mut [u8] {
        let buffer = self.buffers.get_mut(arrival.buffer);
        buffer.and_then(|buffer| buffer.get_mut(arrival.range.clone())).unwrap_or_default()
    }

    /// Returns true if the last call, which returned `count` messages, had filled all of its room, so that more may be
    /// waiting.
    pub(crate) fn were_all_filled(&self, count: usize) -> bool {
        let room = self.buffers.len() * (limits::BUFFER_BYTES / self.message_bytes);
        count >= room.min(BATCH_SIZE)
    }

    /// Returns the buffers to the pool, before a pause.
    pub(crate) fn release(&mut self) {
        self.buffers.clear();
        self.buffers_max = self.buffers_max.min(BUFFERS_AT_FIRST);
    }
}

/// Converts a packet's ECN field.
fn mark_of(field: Option<EcnCodepoint>) -> Ecn {
    match field {
        None => Ecn::NotCapable,
        Some(EcnCodepoint::Ect0 | EcnCodepoint::Ect1) => Ecn::Capable,
        Some(EcnCodepoint::Ce) => Ecn::CongestionExperienced,
    }
}

/// Returns the number of buffers for the next call after `received`: more if the kernel joins few datagrams.
fn buffers_for_next(received: &[RecvMeta]) -> usize {
    let bytes: usize = received.iter().map(|meta| meta.len).sum();
    let is_scattered = received.len() >= BUFFERS_OF_RUNS && bytes < received.len() * limits::SCATTERED_BYTES_MAX;
    if is_scattered { BUFFERS_SCATTERED } else { BUFFERS_OF_RUNS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_little_is_joined_a_call_gets_more_buffers() {
        let of = |bytes: usize, count: usize| {
            let mut received = vec![RecvMeta::default(); count];
            received.iter_mut().for_each(|meta| meta.len = bytes);
            buffers_for_next(&received)
        };
        assert_eq!((of(60_000, 8), of(1_500, 1), of(1_500, 7)), (BUFFERS_OF_RUNS, BUFFERS_OF_RUNS, BUFFERS_OF_RUNS));
        let scattered = (BUFFERS_SCATTERED, BUFFERS_SCATTERED, BUFFERS_OF_RUNS);
        assert_eq!((of(1_500, 8), of(1_500, 32), of(60_000, 32)), scattered);
    }
}
