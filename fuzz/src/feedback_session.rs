//! A modern sender with a peer that sends any values in well-formed segments: reports, acknowledgements, ends and data
//! (`spec/protocol.md` §5, §6 and §10).
//!
//! For every input, the sender must not panic, and must not send more than the rate, the credit, the ceiling on symbols per
//! block, the window and the repeats of control segments permit.

use std::net::SocketAddr;
use std::time::Duration;

use dfcp_proto::{Config, Rate, State, Traffic};
use dfcp_testkit::raw::{self, Header};
use dfcp_time::Time;
use dfcp_wire::feedback::{Report, ReportWriter, Run, StreamState, Wasted};
use dfcp_wire::handshake::{Offer, Parameters};
use dfcp_wire::segment::SynOptions;
use dfcp_wire::{BlockInfo, DATAGRAM_BYTES_MAX, Features, Flags, StreamId, StreamLimits, SymbolSize, VERSION};

use crate::emission::Emission;
use crate::input::{Input, filler};
use crate::side::{Action, Side};

const OPERATIONS_MAX: usize = 400;
const DATAGRAMS_MAX: u64 = 5_000;
/// Maximum number of timers served in one run.
const STEPS_MAX: u32 = 6_000;
/// Code id 1 in options: random linear.
const CODE_RANDOM_LINEAR: u8 = 1;

const PAUSES: [Duration; 8] = [
    Duration::from_micros(50),
    Duration::from_millis(1),
    Duration::from_millis(7),
    Duration::from_millis(40),
    Duration::from_millis(200),
    Duration::from_secs(1),
    Duration::from_secs(4),
    Duration::from_secs(31),
];

/// Runs the session described by the input.
pub fn run(data: &[u8]) {
    simulate(data);
}

/// Runs the session; returns its state at the end of the input.
fn simulate(data: &[u8]) -> Session {
    let mut input = Input::new(data);
    let rate_bps = input.pick(&[10_000_000, 1_000, 64_000, 1_000_000, 200_000_000]);
    let config = Config::danger_unsealed()
        .with_rate(Rate::Fixed { rate_bps })
        .with_breaker(input.bool())
        .with_traffic(input.pick(&[Traffic::Bulk, Traffic::LowLatency]))
        .with_symbol_size(input.pick(&[1420, 64, 300]))
        .with_window_blocks(input.pick(&[4096, 1, 3, 100]))
        .with_send_buffer_bytes(input.pick(&[32 << 20, 1, 5_000, 300_000]))
        .with_keep_alive(input.pick(&[Some(Duration::from_secs(10)), None, Some(Duration::from_millis(10))]));
    let mut session = Session::new(config, rate_bps);
    session.answer(&mut input);
    for _ in 0..OPERATIONS_MAX {
        if input.is_empty() || session.is_over() {
            break;
        }
        session.operation(&mut input);
        session.check();
    }
    // The peer is silent from now on, and the sender's timers continue.
    session.advance(Duration::from_secs(40));
    session.check();
    session
}

struct Session {
    side: Side,
    peer: SocketAddr,
    now: Time,
    emission: Emission,
    send_buffer_bytes: u64,
    /// Connection id of the sender, to which the peer's datagrams are addressed.
    id: u32,
    /// Number of the peer's next datagram.
    number: u32,
    /// Contents of the peer's honest reports so far: the next block needed, and the counts of wasted symbols.
    next_needed: u32,
    wasted: Wasted,
    steps: u32,
}

impl Session {
    /// Creates a session whose sender has sent its SYN.
    fn new(config: Config, rate_bps: u64) -> Self {
        let peer = SocketAddr::from(([192, 0, 2, 2], 9_000));
        let mut side = Side::new(SocketAddr::from(([192, 0, 2, 1], 40_000)), None, 1, 2);
        let now = Time::from_s(1);
        let send_buffer_bytes = config.send_buffer_bytes;
        let emission = Emission::new(now, rate_bps, config.overhead_bytes);
        side.is_checked = false; // the peer's bytes match no pattern
        side.connect(now, peer, config);
        let (id, number, next_needed, wasted, steps) = (0, 0, 0, Wasted::default(), 0);
        let mut session = Self { side, peer, now, emission, send_buffer_bytes, id, number, next_needed, wasted, steps };
        session.work();
        session.id = session.emission.syn_id().expect("the first datagram is a SYN");
        session
    }

    fn is_over(&self) -> bool {
        self.side.main().is_none() || self.emission.datagrams > DATAGRAMS_MAX || self.steps > STEPS_MAX
    }

    fn work(&mut self) {
        let mut out = Vec::new();
        self.side.work(self.now, &mut out);
        for datagram in out {
            self.emission.note(self.now, &datagram.bytes);
        }
    }

    /// Advances the time by `pause`, and serves every timer in between.
    fn advance(&mut self, pause: Duration) {
        let end = self.now + pause;
        while let Some(next) = self.side.next_timeout(self.now).filter(|&next| next <= end) {
            if self.is_over() {
                return;
            }
            self.steps += 1;
            self.now = self.now.max(next);
            self.work();
        }
        self.now = end;
    }

    /// Sends a segment to the sender, with valid integrity.
    fn send(&mut self, header: Header, options: &[u8], payload: &[u8]) {
        let datagram = raw::write(&header, options, payload);
        if datagram.len() > DATAGRAM_BYTES_MAX {
            return;
        }
        self.number = self.number.wrapping_add(1);
        self.emission.allow(&header, payload);
        let mut out = Vec::new();
        self.side.receive(self.now, self.peer, &datagram, &mut out);
        assert!(out.is_empty(), "an initiator has answered a segment without a connection");
        self.work();
    }

    fn header(&self, flags: Flags, block_id: u32) -> Header {
        Header { block_id, s3: self.number, ..Header::modern(flags, self.id) }
    }

    /// Sends the SYNACK, with any parameters.
    fn answer(&mut self, input: &mut Input<'_>) {
        let parameters = Parameters {
            connection_id: 77,
            offer: Offer {
                window_blocks: input.pick(&[4096, 0, 1, 30, u32::MAX]),
                receive_memory_bytes: if input.bool() { input.number() } else { 32 << 20 },
                rate_max_bps: if input.bool() { input.number() } else { 0 },
                idle_timeout_ms: if input.bool() { input.number32() } else { 30_000 },
                streams: StreamLimits::default(),
            },
        };
        let mut payload = [0; 128];
        let length = parameters.encode(&mut payload).expect("room for the parameters");
        let symbol_size = SymbolSize::nearest(input.pick(&[1420, 64, 1472]));
        let options =
            SynOptions { version: VERSION, code: CODE_RANDOM_LINEAR, symbol_size, features: Features::ARRIVAL_CLOCK }
                .to_bytes();
        let header = Header { s2: input.below(3) as u32, ..self.header(Flags::SYN | Flags::ACK, 0) };
        self.now += Duration::from_millis(input.u8().into());
        if self.emission.opened.is_none() {
            self.emission.open(self.now, &parameters);
        }
        self.send(header, &options, &payload[..length]);
    }

    fn operation(&mut self, input: &mut Input<'_>) {
        match input.below(16) {
            0..=2 => {
                let length = if input.bool() { input.u8().into() } else { usize::from(input.u16()) };
                self.side.write(self.now, length);
                self.work();
            }
            3 | 4 => {
                let pause = input.pick(&PAUSES);
                self.advance(pause);
            }
            5..=9 => self.report(input),
            10 => {
                let s1 = if input.bool() { input.below(3) as u32 } else { input.number32() };
                let header = self.header(Flags::ACK, self.block_near(input));
                self.send(Header { s1, s2: input.number32(), ..header }, &[], &[]);
            }
            11 => {
                let flags = if input.bool() { Flags::FIN } else { Flags::FIN | Flags::ACK };
                self.send(self.header(flags, self.block_near(input)), &[], &[]);
            }
            12 => self.data(input),
            13 => {
                let action = if input.rarely(4) { Action::ShutDown } else { Action::Flush };
                self.side.act(self.now, action);
                self.work();
            }
            14 if input.rarely(4) => self.answer(input),
            14 => self.side.read(self.now, usize::from(input.u16())),
            _ => self.anything(input),
        }
    }

    fn block_near(&self, input: &mut Input<'_>) -> u32 {
        input.number_near(self.emission.next_block.into()) as u32
    }

    /// Sends a report: either one with consistent counts, which the sender accepts, or an arbitrary one.
    fn report(&mut self, input: &mut Input<'_>) {
        let end = self.emission.numbers_end;
        let honest = input.bool();
        let highest = end.saturating_sub(1 + u64::from(input.u8() % 16));
        let received = input.u8();
        let report = Report {
            highest_datagram: if honest { highest } else { input.number_near(highest) } as u32,
            datagrams_received: if honest { 0 } else { input.number_near(end) } as u32,
            bytes_received: input.number(),
            hold_us: input.number32(),
            arrival_rate_bps: input.number(),
            memory_kib: if honest { 32 << 10 } else { input.number32() },
            streams: StreamLimits::default(),
            wasted: self.wasted(honest, input),
        };
        let next = self.emission.next_block.saturating_sub(input.u8().into()).max(self.next_needed);
        let next = if honest { next } else { self.block_near(input) };
        let state = StreamState {
            stream: StreamId::from_word(if honest || !input.rarely(4) { 0 } else { input.number32() }),
            next_needed: next,
            blocks_read: if honest || input.bool() { next } else { self.block_near(input) },
            kib_read: if honest || input.bool() { 0 } else { input.number32() % (1 << 14) },
            ..StreamState::default()
        };
        let mut payload = [0; 1400];
        let mut runs: Vec<Run> = (0..input.below(24)).map(|_| any_run(input)).collect();
        let mut writer = ReportWriter::new(&mut payload, &report).expect("room for a report");
        let mut record = writer.stream(&state).expect("room for a record");
        let room_for = runs.iter().take_while(|&&run| record.push(run)).count();
        runs.truncate(room_for);
        let report = if honest { self.with_true_counts(report, next, &runs, received) } else { report };
        let mut writer = ReportWriter::new(&mut payload, &report).expect("room for a report");
        // Sometimes no stream is named.
        if honest || !input.rarely(8) {
            let mut record = writer.stream(&state).expect("room for a record");
            let fits = runs.iter().all(|&run| record.push(run));
            assert!(fits, "these have fitted before");
            record.finish();
        }
        let length = writer.finish();
        self.send(self.header(Flags::FBK, 0), &[], &payload[..length]);
    }

    /// Counts of wasted symbols. Honest counts never fall.
    fn wasted(&mut self, honest: bool, input: &mut Input<'_>) -> Wasted {
        let (dependent, refused) = (input.u8().into(), input.number32());
        if !honest {
            return Wasted { dependent, late: 0, refused };
        }
        self.wasted.dependent += dependent % 4;
        self.wasted.refused += refused % 4;
        self.wasted
    }

    /// Returns the report with a consistent number of received datagrams: those that it accounts for, and a share of
    /// the control datagrams ([report-12]).
    fn with_true_counts(&mut self, report: Report, next: u32, runs: &[Run], part: u8) -> Report {
        self.next_needed = next;
        let mut symbols: u64 = (0..next).map(|block| self.emission.source_symbols(block)).sum();
        let mut block = next;
        for &run in runs {
            let (count, missing) = match run {
                Run::Complete(count) => (count, 0),
                Run::Empty(count) => (count, u64::MAX),
                Run::Open { missing } => (1, missing.into()),
            };
            let end = block.saturating_add(count);
            let listed = (block..end.min(self.emission.next_block)).map(|block| self.emission.source_symbols(block));
            symbols += listed.map(|k| k.saturating_sub(missing)).sum::<u64>();
            block = end;
        }
        let Wasted { dependent, late, refused } = report.wasted;
        let control = self.emission.control_datagrams() * u64::from(part) / 255;
        let received = symbols + u64::from(dependent) + u64::from(late) + u64::from(refused) + control;
        Report { datagrams_received: received as u32, ..report }
    }

    /// Sends a symbol of one of the peer's own blocks.
    fn data(&mut self, input: &mut Input<'_>) {
        let info = BlockInfo {
            k: 1 + u16::from(input.u8()),
            length_bytes: 1 + input.number32() % ((1 << 19) - 1),
            end_of_stream: input.rarely(8),
        };
        let length =
            if input.rarely(4) { input.u8().into() } else { info.length_bytes.div_ceil(info.k.into()) as usize };
        let header = self.header(Flags::NONE, input.number32());
        let header = Header { s1: input.number32(), s2: info.to_s2(), ..header };
        self.send(header, &[], &filler(3, length.min(1_476)));
    }

    /// Sends an arbitrary segment.
    fn anything(&mut self, input: &mut Input<'_>) {
        let flags = Flags::from_bits(input.u8() & 0x3F).unwrap_or_default();
        let header = self.header(flags, input.number32());
        let header = Header { s1: input.number32(), s2: input.number32(), epoch: input.u8() & 3, ..header };
        let number = input.number_near(self.number.into()) as u32;
        self.send(Header { s3: number, ..header }, &[], input.short_bytes());
    }

    /// Checks the invariants that hold at any time.
    fn check(&self) {
        self.emission.check(self.now);
        let Some((connection, stream)) = self.side.main() else { return };
        let acknowledged = connection.stats().stream_bytes_acknowledged;
        assert!(acknowledged <= stream.written, "{acknowledged} bytes of {} are acknowledged", stream.written);
        let held = stream.written - acknowledged;
        assert!(held <= self.send_buffer_bytes, "{held} bytes wait in a buffer of {}", self.send_buffer_bytes);
        let open = connection.state() != State::SynSent;
        assert!(open || self.emission.data_datagrams() == 0, "data before the peer's address was proven");
    }
}

fn any_run(input: &mut Input<'_>) -> Run {
    match input.below(4) {
        0 => Run::Complete(input.u8().into()),
        1 => Run::Empty(if input.bool() { input.u8().into() } else { 100_000 }),
        _ => Run::Open { missing: 1 + u16::from(input.u8()) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds;

    /// Guards against a sender that sends nothing, and so never exceeds its limits.
    #[test]
    fn an_honest_session_carries_data() {
        let all = seeds::all();
        let seed = all.iter().find(|seed| seed.target == "feedback_session" && seed.name == "honest");
        let session = simulate(&seed.expect("a seed of this name").bytes);
        assert!(session.emission.data_datagrams() > 45, "{:?}", session.emission);
        assert!(session.emission.next_block > 0 && session.number > 5);
    }
}
