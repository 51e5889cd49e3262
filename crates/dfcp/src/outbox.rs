//! Outbox: a batch of datagrams that leave with one call (GSO over UDP).

mod batch_limit;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use dfcp_proto::{Dscp, Ecn, Transmit as Datagram};
use dfcp_time::Time;
use quinn_udp::{EcnCodepoint, Transmit};

use crate::buffers::Buffer;
use crate::limits;
use batch_limit::BatchLimit;

/// Result of [`Outbox::send`].
#[derive(Debug)]
pub(crate) enum Sent {
    /// The system took the whole batch. Datagrams that it refused permanently count as lost on the path.
    All,
    /// The socket is full; the rest is kept.
    Blocked,
}

/// A socket that sends a batch of datagrams with one call. It is a trait so that tests can script the system's answers.
pub(crate) trait BatchSocket {
    /// Returns the maximum number of datagrams in one [`Transmit`]. Over UDP it drops to 1 when the system turns out to
    /// lack GSO.
    fn segments_max(&self) -> usize;

    /// Sends whole datagrams with the given code point, or with the socket's default. Returns the number of bytes sent:
    /// over UDP all bytes of `transmit`.
    ///
    /// # Errors
    /// `WouldBlock` if the socket has no room; otherwise the system's error.
    fn try_send(&self, transmit: &Transmit<'_>, dscp: Option<Dscp>) -> io::Result<usize>;
}

/// A connection with datagrams in the batch.
pub(crate) trait Sender {
    /// Called if the system has refused to send a datagram of this connection.
    fn refused(&self, error: &io::Error);
}

/// Result of [`Outbox::fill`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filled {
    /// At least one datagram was added.
    pub(crate) something: bool,
    /// The batch must be sent before more datagrams can be added.
    pub(crate) is_full: bool,
}

/// Source address and DSCP of a connection's datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Departure {
    /// Source address. `None` if the system chooses it.
    pub(crate) src_ip: Option<IpAddr>,
    /// DSCP. `None` for the socket's default.
    pub(crate) dscp: Option<Dscp>,
}

/// Addresses and code points of a datagram. A GSO call has one value of each, so all datagrams of a batch must have the
/// same route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Route {
    departure: Departure,
    destination: SocketAddr,
    ecn: Ecn,
}

/// A batch: consecutive datagrams of equal size on one route (the last may be shorter), plus one further datagram that
/// did not fit. Several connections may share a batch.
#[derive(Debug)]
pub(crate) struct Outbox<S> {
    /// `None` while the outbox is empty.
    buffer: Option<Buffer>,
    route: Route,
    segment_size: usize,
    segments: usize,
    start: usize,
    end: usize,
    /// No further datagram fits into this batch.
    closed: bool,
    /// Route, length and `is_alone` of the datagram behind `end`, which belongs to the next batch.
    carried: Option<(Route, usize, bool)>,
    /// Connections with datagrams in the batch. Each is notified if the system refuses the batch.
    senders: Vec<S>,
    limit: BatchLimit,
}

impl<S: Sender> Outbox<S> {
    pub(crate) fn new() -> Self {
        let route = Route {
            departure: Departure::default(),
            destination: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
            ecn: Ecn::NotCapable,
        };
        Self {
            buffer: None,
            route,
            segment_size: 0,
            segments: 0,
            start: 0,
            end: 0,
            closed: false,
            carried: None,
            senders: Vec::new(),
            limit: BatchLimit::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end && self.carried.is_none()
    }

    /// Adds the datagrams that `next` writes, until it returns `None` or the batch must be sent first.
    pub(crate) fn fill(
        &mut self,
        segments_max: usize,
        departure: Departure,
        mut next: impl FnMut(&mut [u8]) -> Option<Datagram>,
    ) -> Filled {
        let segments_max = segments_max.min(self.limit.segments_max());
        let mut something = false;
        loop {
            let is_full = self.segments >= segments_max || self.end + self.segment_size > limits::TRANSMIT_BYTES_MAX;
            if self.closed || (self.segments > 0 && is_full) {
                return Filled { something, is_full: true };
            }
            let buffer = self.buffer.get_or_insert_with(Buffer::take);
            let Some(datagram) = buffer.get_mut(self.end..).and_then(&mut next) else {
                self.release();
                return Filled { something, is_full: false };
            };
            let route = Route { departure, destination: datagram.remote, ecn: datagram.ecn };
            self.add(route, datagram.length, datagram.is_alone);
            something = true;
        }
    }

    /// Adds the datagram that was written behind `end`, or carries it over to the next batch.
    fn add(&mut self, route: Route, length: usize, is_alone: bool) {
        if self.segments == 0 {
            (self.route, self.segment_size) = (route, length);
        } else if is_alone || length > self.segment_size || route != self.route {
            (self.carried, self.closed) = (Some((route, length, is_alone)), true);
            return;
        }
        self.end += length;
        self.segments += 1;
        self.closed = is_alone || length < self.segment_size;
    }

    /// Records that `sender` has added datagrams, so that it is notified of a refusal.
    pub(crate) fn record_sender(&mut self, sender: S) {
        self.senders.push(sender);
    }

    /// Sends the batch, or as much of it as the socket has room for. After a complete batch, the carried datagram
    /// begins the next one.
    pub(crate) fn send(&mut self, socket: &impl BatchSocket) -> Sent {
        let sent = self.send_batch(socket);
        // The carried datagram belongs to the last recorded sender, which therefore stays for the next batch.
        let gone = self.senders.len().saturating_sub(usize::from(self.carried.is_some()));
        match sent {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Sent::Blocked,
            // Too long for the interface: packet size discovery treats this as a loss.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::MSGSIZE.raw_os_error()) => {}
            Err(error) => {
                tracing::debug!(%error, to = %self.route.destination, "the system refused to send");
                self.senders.iter().take(gone).for_each(|sender| sender.refused(&error));
            }
        }
        self.senders.drain(..gone);
        self.open_next();
        Sent::All
    }

    /// Called after a rebind, before pending datagrams leave from the new socket: source addresses that it does not
    /// have are dropped.
    pub(crate) fn on_rebound(&mut self, keeps: impl Fn(IpAddr) -> bool) {
        let carried = self.carried.as_mut().map(|(route, ..)| route);
        for route in [&mut self.route].into_iter().chain(carried) {
            route.departure.src_ip = route.departure.src_ip.filter(|&ip| keeps(ip));
        }
    }

    /// Called when the socket is full.
    pub(crate) fn on_full(&mut self, now: Time) {
        self.limit.on_full(now);
    }

    /// Called with the current time, before the outbox is filled.
    pub(crate) fn advance(&mut self, now: Time) {
        self.limit.expire(now);
    }

    /// Sends until the batch is empty. Returns the last error if the system refused datagrams permanently, or
    /// `WouldBlock` if some are left.
    fn send_batch(&mut self, socket: &impl BatchSocket) -> io::Result<()> {
        let Route { departure: Departure { src_ip, dscp }, destination, ecn } = self.route;
        let ecn = (ecn == Ecn::Capable).then_some(EcnCodepoint::Ect0);
        let mut result = Ok(());
        while self.start < self.end {
            let segments = socket.segments_max();
            let end = self.end.min(self.start + segments * self.segment_size);
            let contents = self.buffer.as_ref().and_then(|buffer| buffer.get(self.start..end));
            let Some(contents) = contents else { break };
            let several = contents.len() > self.segment_size;
            let segment_size = several.then_some(self.segment_size);
            match socket.try_send(&Transmit { destination, ecn, contents, segment_size, src_ip }, dscp) {
                Ok(bytes) => {
                    self.start += bytes;
                    self.limit.on_taken(bytes.div_ceil(self.segment_size.max(1)) as u64);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The system has just turned out to lack GSO: send the same datagrams one by one.
                Err(_) if several && socket.segments_max() < segments => {}
                Err(error) => {
                    result = Err(error);
                    self.start = end;
                }
            }
        }
        result
    }

    /// Begins the next batch with the carried datagram.
    fn open_next(&mut self) {
        let behind = self.end;
        (self.start, self.end, self.segments, self.closed) = (0, 0, 0, false);
        if let Some((route, length, is_alone)) = self.carried.take()
            && let Some(buffer) = &mut self.buffer
        {
            buffer.copy_within(behind..behind + length, 0);
            self.add(route, length, is_alone);
        }
        self.release();
    }

    /// Returns the buffer to the pool if the outbox is empty.
    fn release(&mut self) {
        if self.is_empty() {
            self.buffer = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dfcp_proto::DATAGRAM_BUFFER_BYTES;
    use std::cell::RefCell;
    use std::collections::VecDeque;

    type Outbox = super::Outbox<()>;

    impl Sender for () {
        fn refused(&self, _error: &io::Error) {}
    }

    const DRY: Filled = Filled { something: true, is_full: false };
    const FULL: Filled = Filled { something: true, is_full: true };

    /// Length of a datagram that is a probe, and therefore leaves alone.
    const ALONE: usize = 1_472;

    fn at(port: u16) -> SocketAddr {
        ([192, 0, 2, 1], port).into()
    }

    /// Fills once from `(length, port)` pairs. Returns the batch's bytes, segment size and port.
    fn fill(outbox: &mut Outbox, segments_max: usize, datagrams: &mut Vec<(usize, u16)>) -> (usize, usize, u16) {
        add(outbox, segments_max, None, datagrams);
        sent(outbox)
    }

    fn add(
        outbox: &mut Outbox,
        segments_max: usize,
        src_ip: Option<IpAddr>,
        datagrams: &mut Vec<(usize, u16)>,
    ) -> Filled {
        outbox.fill(segments_max, Departure { src_ip, dscp: None }, |out| {
            assert!(out.len() >= DATAGRAM_BUFFER_BYTES);
            if datagrams.is_empty() {
                return None;
            }
            let (length, port) = datagrams.remove(0);
            out[..length].fill((length % 251) as u8);
            Some(Datagram {
                length,
                remote: at(port),
                virtual_bytes: 0,
                is_alone: length == ALONE,
                ecn: Ecn::NotCapable,
            })
        })
    }

    /// Empties the outbox as if the batch had been sent. Returns its bytes, segment size and port.
    fn sent(outbox: &mut Outbox) -> (usize, usize, u16) {
        let state = (outbox.end, outbox.segment_size, outbox.route.destination.port());
        outbox.start = outbox.end;
        outbox.open_next();
        state
    }

    #[test]
    fn equal_datagrams_share_a_batch_and_a_shorter_one_ends_it() {
        let mut outbox = Outbox::new();
        let mut datagrams = vec![(1_000, 1), (1_000, 1), (400, 1), (1_000, 1)];
        assert_eq!(fill(&mut outbox, 64, &mut datagrams), (2_400, 1_000, 1));
        assert_eq!(fill(&mut outbox, 64, &mut datagrams), (1_000, 1_000, 1));
        assert!(outbox.is_empty() && outbox.buffer.is_none(), "what is empty holds no buffer");
    }

    #[test]
    fn a_longer_datagram_is_carried_over_whole() {
        let mut outbox = Outbox::new();
        let mut datagrams = vec![(40, 1), (1_000, 1), (1_000, 1)];
        assert_eq!(add(&mut outbox, 64, None, &mut datagrams), FULL);
        assert_eq!(sent(&mut outbox), (40, 40, 1));
        assert!(!outbox.is_empty());
        assert_eq!(add(&mut outbox, 64, None, &mut datagrams), DRY);
        assert!(outbox.buffer.as_ref().unwrap()[..2_000].iter().all(|&byte| byte == (1_000 % 251) as u8));
        assert_eq!(sent(&mut outbox), (2_000, 1_000, 1));
    }

    /// An oversized datagram is sent alone, so EMSGSIZE neither drops a batch nor disables GSO.
    #[test]
    fn a_probe_leaves_alone_wherever_it_comes() {
        let mut outbox = Outbox::new();
        let mut datagrams = vec![(1_472, 1), (1_000, 1), (1_000, 1), (1_472, 1), (1_472, 1), (400, 1)];
        assert_eq!(fill(&mut outbox, 64, &mut datagrams), (1_472, 1_472, 1));
        assert_eq!(fill(&mut outbox, 64, &mut datagrams), (2_000, 1_000, 1));
        assert_eq!(fill(&mut outbox, 64, &mut datagrams), (1_472, 1_472, 1), "the one carried over");
        assert_eq!(fill(&mut outbox, 64, &mut datagrams), (1_472, 1_472, 1));
        assert_eq!(fill(&mut outbox, 64, &mut datagrams), (400, 400, 1));
        assert!(outbox.is_empty());
    }

    #[test]
    fn several_connections_share_a_batch_if_their_datagrams_go_the_same_way() {
        let mut outbox = Outbox::new();
        assert_eq!(add(&mut outbox, 64, None, &mut vec![(1_000, 1); 3]), DRY);
        assert_eq!(add(&mut outbox, 64, None, &mut vec![]), Filled::default());
        assert_eq!(add(&mut outbox, 64, None, &mut vec![(1_000, 1); 2]), DRY);
        let other = Some([192, 0, 2, 9].into());
        assert_eq!(add(&mut outbox, 64, other, &mut vec![(1_000, 1); 2]), FULL);
        assert_eq!(add(&mut outbox, 64, other, &mut vec![(1_000, 1)]), Filled { something: false, is_full: true });
        assert_eq!(sent(&mut outbox), (5_000, 1_000, 1));
        assert_eq!((outbox.route.departure.src_ip, sent(&mut outbox)), (other, (1_000, 1_000, 1)));
        assert!(outbox.is_empty());
    }

    #[test]
    fn a_datagram_for_another_address_waits_for_its_own_batch() {
        let mut outbox = Outbox::new();
        let mut datagrams = vec![(1_000, 1), (40, 2), (1_000, 1), (1_000, 1)];
        assert_eq!(fill(&mut outbox, 64, &mut datagrams), (1_000, 1_000, 1));
        assert_eq!(fill(&mut outbox, 64, &mut datagrams), (40, 40, 2));
        assert_eq!(fill(&mut outbox, 64, &mut datagrams), (2_000, 1_000, 1));
        assert!(outbox.is_empty());
    }

    #[test]
    fn neither_the_segments_nor_the_bytes_of_one_call_are_exceeded() {
        let mut outbox = Outbox::new();
        let mut datagrams = vec![(1_448, 1); 200];
        assert_eq!(fill(&mut outbox, 8, &mut datagrams).0, 8 * 1_448);
        let (bytes, ..) = fill(&mut outbox, 64, &mut datagrams);
        assert_eq!(bytes, limits::TRANSMIT_BYTES_MAX / 1_448 * 1_448);
        assert_eq!(fill(&mut outbox, 1, &mut vec![(9, 1), (9, 1)]).0, 9);
    }

    /// Socket that gives scripted answers in turn, and then accepts everything.
    #[derive(Default)]
    struct Scripted {
        answers: RefCell<VecDeque<io::Result<usize>>>,
        /// Bytes, destination port, and true for a GSO call.
        taken: RefCell<Vec<(Vec<u8>, u16, bool)>>,
        /// The socket loses GSO with its first refusal.
        is_without_gso: bool,
    }

    impl Scripted {
        fn that_says(answers: impl IntoIterator<Item = io::Result<usize>>) -> Self {
            Self { answers: RefCell::new(answers.into_iter().collect()), ..Self::default() }
        }

        fn calls(&self) -> Vec<(usize, u16, bool)> {
            self.taken.borrow().iter().map(|(bytes, port, split)| (bytes.len(), *port, *split)).collect()
        }
    }

    impl BatchSocket for Scripted {
        fn segments_max(&self) -> usize {
            if self.is_without_gso && self.answers.borrow().is_empty() { 1 } else { 64 }
        }

        fn try_send(&self, transmit: &Transmit<'_>, _dscp: Option<Dscp>) -> io::Result<usize> {
            let answer = self.answers.borrow_mut().pop_front().unwrap_or(Ok(transmit.contents.len()))?;
            let port = transmit.destination.port();
            let taken = transmit.contents[..answer].to_vec();
            self.taken.borrow_mut().push((taken, port, transmit.segment_size.is_some()));
            Ok(answer)
        }
    }

    fn is_all(sent: &Sent) -> bool {
        matches!(sent, Sent::All)
    }

    #[test]
    fn a_full_socket_gets_the_rest_later_and_nothing_twice() {
        let mut outbox = Outbox::new();
        let lengths = [1_000, 1_000, 1_000, 1_000, 800];
        let mut datagrams = lengths.map(|length| (length, if length == 800 { 2 } else { 1 })).to_vec();
        assert_eq!(add(&mut outbox, 64, None, &mut datagrams), FULL);
        let full = || Err(io::ErrorKind::WouldBlock.into());
        let socket = Scripted::that_says([full(), Err(io::ErrorKind::Interrupted.into()), Ok(2_000), full(), full()]);
        assert!([0; 3].iter().all(|_| !is_all(&outbox.send(&socket)) && !outbox.is_empty()));
        assert!(is_all(&outbox.send(&socket)) && !outbox.is_empty(), "what was carried over begins the next batch");
        assert!(is_all(&outbox.send(&socket)) && outbox.is_empty());
        assert_eq!(socket.calls(), [(2_000, 1, true), (2_000, 1, true), (800, 2, false)]);
        let sent = socket.taken.borrow().iter().flat_map(|(bytes, ..)| bytes.clone()).collect::<Vec<_>>();
        assert!(sent.iter().copied().eq(lengths.iter().flat_map(|&length| vec![(length % 251) as u8; length])));
    }

    #[test]
    fn what_the_system_refuses_for_good_is_lost_and_the_next_batch_goes() {
        let mut outbox = Outbox::new();
        add(&mut outbox, 64, None, &mut vec![(1_000, 1), (1_000, 1), (900, 2)]);
        let socket = Scripted::that_says([Err(io::ErrorKind::NetworkUnreachable.into())]);
        // The refusal is not caused by GSO: a retry would be refused again.
        assert!(is_all(&outbox.send(&socket)) && socket.calls().is_empty() && !outbox.is_empty());
        assert!(is_all(&outbox.send(&socket)) && outbox.is_empty());
        assert_eq!(socket.calls(), [(900, 2, false)]);
    }

    #[test]
    fn a_system_which_turns_out_to_have_no_gso_gets_them_one_by_one() {
        let mut outbox = Outbox::new();
        add(&mut outbox, 64, None, &mut vec![(1_000, 1), (1_000, 1), (700, 1)]);
        let refused = Scripted::that_says([Err(io::ErrorKind::InvalidInput.into())]);
        let socket = Scripted { is_without_gso: true, ..refused };
        assert!(is_all(&outbox.send(&socket)) && outbox.is_empty());
        assert_eq!(socket.calls(), [(1_000, 1, false), (1_000, 1, false), (700, 1, false)]);
    }
}
