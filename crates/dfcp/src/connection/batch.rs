//! Datagrams of one connection which leave with one call: over UDP one of the system's (GSO).

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use dfcp_proto::Transmit as Datagram;
use quinn_udp::Transmit;

use crate::buffers::Buffer;
use crate::limits;
use crate::socket::Socket;

/// What became of a batch.
#[derive(Debug)]
pub(crate) enum Sent {
    /// All of it was given to the system. What it refused for good counts as lost on the way; the last such error.
    All(Option<io::Error>),
    /// The socket is full; the rest is kept.
    Blocked,
}

/// Consecutive datagrams of equal size for one address, of which the last may be shorter; and one more which did not fit
/// in.
#[derive(Debug)]
pub(crate) struct Batch {
    /// While there is anything in it.
    buffer: Option<Buffer>,
    segment_size: usize,
    start: usize,
    end: usize,
    destination: SocketAddr,
    /// The datagram behind `end` which belongs to the next batch.
    carried: Option<Datagram>,
}

impl Batch {
    pub(crate) fn new() -> Self {
        let destination = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        Self { buffer: None, segment_size: 0, start: 0, end: 0, destination, carried: None }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end && self.carried.is_none()
    }

    /// Fills an empty batch with what `next` writes until it has nothing more or one call can carry no more.
    pub(crate) fn fill(&mut self, segments_max: usize, mut next: impl FnMut(&mut [u8]) -> Option<Datagram>) {
        if self.start < self.end {
            return;
        }
        let carried = self.carried.take();
        let length = carried.map_or(0, |carried| carried.length);
        let mut buffer = self.buffer.take().unwrap_or_else(Buffer::take);
        buffer.copy_within(self.end..self.end + length, 0);
        (self.start, self.end, self.segment_size) = (0, length, length);
        if let Some(carried) = carried {
            self.destination = carried.remote;
        }
        let mut segments = usize::from(self.end > 0);
        while segments < segments_max && self.end + self.segment_size <= limits::TRANSMIT_BYTES_MAX {
            let Some(datagram) = buffer.get_mut(self.end..).and_then(&mut next) else { break };
            if segments == 0 {
                (self.segment_size, self.destination) = (datagram.length, datagram.remote);
            } else if datagram.length > self.segment_size || datagram.remote != self.destination {
                self.carried = Some(datagram);
                break;
            }
            self.end += datagram.length;
            segments += 1;
            if datagram.length < self.segment_size {
                break;
            }
        }
        self.buffer = (!self.is_empty()).then_some(buffer);
    }

    /// Sends until all of the batch is gone (but not what was carried over) or the socket is full.
    pub(crate) fn send(&mut self, socket: &Socket, src_ip: Option<IpAddr>) -> Sent {
        let destination = self.destination;
        let mut failure = None;
        while self.start < self.end {
            let segments = socket.segments_max();
            let end = self.end.min(self.start + segments * self.segment_size);
            let contents = self.buffer.as_ref().and_then(|buffer| buffer.get(self.start..end));
            let Some(contents) = contents else { break };
            let several = contents.len() > self.segment_size;
            let segment_size = several.then_some(self.segment_size);
            match socket.try_send(&Transmit { destination, ecn: None, contents, segment_size, src_ip }) {
                Ok(bytes) => self.start += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Sent::Blocked,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The system has just turned out not to have GSO: the same again, one by one.
                Err(_) if several && socket.segments_max() < segments => {}
                Err(error) => {
                    failure = Some(error);
                    self.start = end;
                }
            }
        }
        if self.carried.is_none() {
            self.buffer = None;
        }
        Sent::All(failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dfcp_proto::DATAGRAM_BUFFER_BYTES;

    fn at(port: u16) -> SocketAddr {
        ([192, 0, 2, 1], port).into()
    }

    /// Fills once from datagrams of these lengths to these ports; returns what was taken into the batch.
    fn fill(batch: &mut Batch, segments_max: usize, datagrams: &mut Vec<(usize, u16)>) -> (usize, usize, u16) {
        batch.fill(segments_max, |out| {
            assert!(out.len() >= DATAGRAM_BUFFER_BYTES);
            if datagrams.is_empty() {
                return None;
            }
            let (length, port) = datagrams.remove(0);
            out[..length].fill((length % 251) as u8);
            Some(Datagram { length, remote: at(port), elided_bytes: 0 })
        });
        let state = (batch.end, batch.segment_size, batch.destination.port());
        batch.start = batch.end;
        state
    }

    #[test]
    fn equal_datagrams_share_a_batch_and_a_shorter_one_ends_it() {
        let mut batch = Batch::new();
        let mut datagrams = vec![(1_000, 1), (1_000, 1), (400, 1), (1_000, 1)];
        assert_eq!(fill(&mut batch, 64, &mut datagrams), (2_400, 1_000, 1));
        assert_eq!(fill(&mut batch, 64, &mut datagrams), (1_000, 1_000, 1));
        assert!(batch.is_empty());
    }

    #[test]
    fn a_longer_datagram_is_carried_over_whole() {
        let mut batch = Batch::new();
        let mut datagrams = vec![(40, 1), (1_000, 1), (1_000, 1)];
        assert_eq!(fill(&mut batch, 64, &mut datagrams), (40, 40, 1));
        assert!(!batch.is_empty());
        assert_eq!(fill(&mut batch, 64, &mut datagrams), (2_000, 1_000, 1));
        assert!(batch.buffer.as_ref().unwrap()[..2_000].iter().all(|&byte| byte == (1_000 % 251) as u8));
    }

    #[test]
    fn a_datagram_for_another_address_waits_for_its_own_batch() {
        let mut batch = Batch::new();
        let mut datagrams = vec![(1_000, 1), (40, 2), (1_000, 1), (1_000, 1)];
        assert_eq!(fill(&mut batch, 64, &mut datagrams), (1_000, 1_000, 1));
        assert_eq!(fill(&mut batch, 64, &mut datagrams), (40, 40, 2));
        assert_eq!(fill(&mut batch, 64, &mut datagrams), (2_000, 1_000, 1));
        assert!(batch.is_empty());
    }

    #[test]
    fn neither_the_segments_nor_the_bytes_of_one_call_are_exceeded() {
        let mut batch = Batch::new();
        let mut datagrams = vec![(1_448, 1); 200];
        assert_eq!(fill(&mut batch, 8, &mut datagrams).0, 8 * 1_448);
        let (bytes, ..) = fill(&mut batch, 64, &mut datagrams);
        assert_eq!(bytes, limits::TRANSMIT_BYTES_MAX / 1_448 * 1_448);
        assert_eq!(fill(&mut batch, 1, &mut vec![(9, 1), (9, 1)]).0, 9);
    }
}
