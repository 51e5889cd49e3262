//! A hand-written peer that lies about streams.

use std::time::{Duration, Instant};

use dfcp_proto::{
    Accept, Config, ConnectionError, Event, Handle, Opener, PeerMisbehaved, Rate, StreamEvent, StreamId, StreamKind,
    StreamLimits, Streams,
};
use dfcp_wire::BlockInfo;
use dfcp_wire::feedback::{Report, ReportWriter, Run, StreamState};
use dfcp_wire::segment::{Ack, Data, ReportHeader, Segment};

use crate::support::{Rogue, SYMBOL_SIZE, Server, decode};

pub(crate) const MS: Duration = Duration::from_millis(1);
/// Number of streams of each kind that the liar may open at first.
pub(crate) const LIMIT: u32 = 100;
const REPORT: Segment = Segment::Report(ReportHeader { receive_queue_kib: 0 });

/// A session with a lying peer. The liar opens the streams with bit 0 clear.
pub(crate) struct Liar {
    pub(crate) server: Server,
    pub(crate) rogue: Rogue,
    pub(crate) handle: Handle,
    /// Bytes sent by the liar.
    pub(crate) said_bytes: u64,
    /// Stream limits that the liar has received.
    pub(crate) permitted: StreamLimits,
    /// Time that the server has spent in [`timed`](Self::timed). The liar's own work is excluded.
    pub(crate) server_took: Duration,
}

pub(crate) fn theirs(kind: StreamKind, index: u32) -> StreamId {
    StreamId::new(Opener::Initiator, kind, index).unwrap()
}

impl Liar {
    pub(crate) fn new() -> Self {
        Self::with(LIMIT, 1 << 30)
    }

    /// Creates a liar that may open `limit` streams of each kind. All blocks together may use `memory_bytes_max` bytes.
    pub(crate) fn with(limit: u32, memory_bytes_max: u64) -> Self {
        let streams = StreamLimits { bidirectional: limit, one_way: limit };
        // A fixed rate, since reports of arrivals do not matter here.
        let rate = Rate::Fixed { rate_bps: 100_000_000 };
        let config = Config { streams, rate, ..Config::danger_unsealed() };
        let mut server = Server::new(Accept { memory_bytes_max: Some(memory_bytes_max), ..config.into() });
        let mut rogue = Rogue::new(1);
        assert!(rogue.open(&mut server));
        let handle = rogue.handle.unwrap();
        Self { server, rogue, handle, said_bytes: 0, permitted: streams, server_took: Duration::ZERO }
    }

    pub(crate) fn say(&mut self, segment: Segment, payload: &[u8]) {
        let datagram = self.rogue.segment(segment, payload);
        self.said_bytes += datagram.len() as u64;
        let from = self.rogue.address;
        self.timed(|server, _| server.take(from, &datagram));
    }

    /// Runs `act` on the server or on its application, and measures the time.
    pub(crate) fn timed<T>(&mut self, act: impl FnOnce(&mut Server, Handle) -> T) -> T {
        #[expect(clippy::disallowed_methods, reason = "what is measured is printed, and judges nothing")]
        let began = Instant::now();
        let result = act(&mut self.server, self.handle);
        self.server_took += began.elapsed();
        result
    }

    pub(crate) fn ack(&mut self, ack: Ack) {
        self.say(Segment::Ack(ack), &[]);
    }

    /// Sends a block of one symbol.
    pub(crate) fn block(&mut self, stream: StreamId, block_id: u32, bytes: usize, end_of_stream: bool) {
        let block = BlockInfo { k: 1, length_bytes: bytes as u32, end_of_stream };
        self.say(
            Segment::Data(Data { stream, block_id, esi: 0, block, fragment: dfcp_wire::Fragment::WHOLE }),
            &vec![7; bytes],
        );
    }

    /// Sends a report with these stream records. `first_unseen`, if given, is the report's *unseen* record: for each kind of
    /// stream, the index of the first stream of which nothing has arrived.
    pub(crate) fn report(
        &mut self,
        report: &Report,
        records: &[(StreamState, &[Run])],
        first_unseen: Option<StreamLimits>,
    ) {
        let mut out = [0; SYMBOL_SIZE as usize];
        let mut writer = ReportWriter::new(&mut out, report).unwrap();
        assert!(first_unseen.is_none_or(|first| writer.unseen(first)));
        for (state, runs) in records {
            let mut record = writer.stream(state).unwrap();
            assert!(runs.iter().all(|&run| record.push(run)));
            record.finish();
        }
        let length = writer.finish();
        self.say(REPORT, &out[..length]);
    }

    pub(crate) fn streams(&mut self) -> Streams<'_> {
        self.server.connection(self.handle).streams()
    }

    /// Returns the numbers of the datagrams sent now.
    pub(crate) fn sent_numbers(&mut self) -> Vec<u32> {
        self.server.sent(self.handle).iter().map(|it| decode(it).1.number).collect()
    }

    pub(crate) fn sent_acks(&mut self) -> Vec<Ack> {
        let sent = self.server.sent(self.handle);
        let acks = sent.iter().map(|it| decode(it).1.segment);
        acks.filter_map(|it| if let Segment::Ack(ack) = it { Some(ack) } else { None }).collect()
    }

    pub(crate) fn events(&mut self) -> Vec<StreamEvent> {
        let mut streams = self.streams();
        std::iter::from_fn(|| streams.poll_event()).collect()
    }

    /// Returns the stream limits in the newest report.
    pub(crate) fn granted(&mut self) -> StreamLimits {
        self.ack(Ack::KeepAlive { stream: StreamId::FIRST });
        let end = self.server.now + Duration::from_secs(1);
        while self.server.now < end {
            for datagram in self.server.sent(self.handle) {
                let (_, received) = decode(&datagram);
                if matches!(received.segment, Segment::Report(_)) {
                    return dfcp_wire::feedback::decode(received.payload).unwrap().0.streams;
                }
            }
            self.server.wait(MS);
        }
        panic!("no report");
    }

    pub(crate) fn misbehaved(&mut self) -> Option<PeerMisbehaved> {
        match self.server.closed(self.handle)? {
            Event::Closed(Some(ConnectionError::PeerMisbehaved(what))) => Some(what),
            event => panic!("{event:?}"),
        }
    }

    pub(crate) fn reset(&mut self, stream: StreamId) {
        self.ack(Ack::ResetStream { stream, error: 7, end: 0 });
    }
}

pub(crate) fn permitting(highest: u32, received: u32) -> Report {
    Report {
        highest_datagram: highest,
        datagrams_received: received,
        memory_kib: u32::MAX,
        streams: StreamLimits { bidirectional: LIMIT, one_way: LIMIT },
        ..Report::default()
    }
}
