//! Check of a modern sender's datagrams against their limits (`spec/protocol.md`, [safe-1]).

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use dfcp_proto::limits;
use dfcp_testkit::raw::Header;
use dfcp_time::Time;
use dfcp_wire::feedback::{self, Record, Run, Runs, StreamState};
use dfcp_wire::handshake::Parameters;
use dfcp_wire::segment::{Data, Segment};
use dfcp_wire::{Flags, StreamId, Unverified};

/// Lateness that a pacer may make up for in a burst ([rate-1]).
const CATCH_UP: Duration = Duration::from_millis(4);
/// Control segments beyond those permitted by time and by the peer's segments: the early copies of SYN, ACK and FIN.
const CONTROL_BASE: u64 = 64;
/// One of this many datagram numbers is skipped ([data-5]).
const NUMBERS_PER_SKIPPED: u64 = 128;

/// Bytes by which a stream may exceed the peer's memory: a symbol, and the rounding to KiB ([window-1]).
const FREE_BYTES_MAX: u64 = 1_472 + 1_023;

/// Longest time for which a sender may use its rate on credit: eight of the longest counted round trips ([credit-2]).
const CREDIT_SPAN_MAX: Duration = limits::CREDIT_RTT_MAX.saturating_mul(8);

/// A sent block.
#[derive(Debug)]
struct Sent {
    k: u64,
    symbols: u64,
    /// IP bytes of its longest datagram.
    datagram_bytes: u64,
    /// True if the peer has acknowledged this block, even without a valid proof.
    is_acknowledged: bool,
}

/// Account of one sender's datagrams.
#[derive(Debug)]
pub struct Emission {
    started: Time,
    /// Time of the peer's SYNACK.
    pub opened: Option<Time>,
    own_rate_bps: u64,
    rate_bps: u64,
    overhead_bytes: u32,
    window_blocks: u64,
    /// Highest limit of block ids that any window has permitted, exclusive.
    block_limit: u64,
    /// Most memory that the peer has offered for unread blocks, bytes.
    memory_bytes: u64,
    /// Most bytes that the peer has reported as read.
    read_bytes: u64,
    /// Sum of the charged sizes of all sent blocks ([window-1]).
    cut_bytes: u64,
    /// Highest block id sent, plus one.
    pub next_block: u32,
    /// Number of all datagrams sent.
    pub datagrams: u64,
    /// Highest datagram number sent, plus one. Some numbers are skipped ([data-5]).
    pub numbers_end: u64,
    control: u64,
    data_bits: u64,
    data_bits_max: u64,
    blocks: BTreeMap<u32, Sent>,
    /// True once the peer has sent a report.
    has_reported: bool,
    /// IP bytes of K datagrams for each acknowledged block.
    proven_bytes: u64,
    /// Most IP bytes that a single block may take on credit.
    block_bytes_max: u64,
    /// Number of segments sent by the peer.
    heard: u64,
    syn_id: Option<u32>,
    /// Last sending time and bytes of the RST that ended the session.
    last_words: Option<(Time, Vec<u8>)>,
}

impl Emission {
    /// Account of a sender that starts its handshake at `now`.
    #[must_use]
    pub fn new(now: Time, rate_bps: u64, overhead_bytes: u32) -> Self {
        Self {
            started: now,
            opened: None,
            own_rate_bps: rate_bps,
            rate_bps,
            overhead_bytes,
            window_blocks: 0,
            block_limit: 0,
            memory_bytes: 0,
            read_bytes: 0,
            cut_bytes: 0,
            next_block: 0,
            datagrams: 0,
            numbers_end: 0,
            control: 0,
            data_bits: 0,
            data_bits_max: 0,
            blocks: BTreeMap::new(),
            has_reported: false,
            proven_bytes: 0,
            block_bytes_max: 0,
            heard: 0,
            syn_id: None,
            last_words: None,
        }
    }

    /// Connection id in the sender's SYN.
    #[must_use]
    pub fn syn_id(&self) -> Option<u32> {
        self.syn_id
    }

    /// Number of datagrams with data.
    #[must_use]
    pub fn data_datagrams(&self) -> u64 {
        self.datagrams - self.control
    }

    /// Number of datagrams without data.
    #[must_use]
    pub fn control_datagrams(&self) -> u64 {
        self.control
    }

    /// Number of source symbols of a block; 0 if no symbol of it was sent.
    #[must_use]
    pub fn source_symbols(&self, block_id: u32) -> u64 {
        self.blocks.get(&block_id).map_or(0, |block| block.k)
    }

    /// Records the parameters in the peer's SYNACK, which is about to arrive.
    pub fn open(&mut self, now: Time, parameters: &Parameters) {
        self.opened = Some(now);
        if parameters.offer.rate_max_bps > 0 {
            self.rate_bps = self.own_rate_bps.min(parameters.offer.rate_max_bps);
        }
        self.window_blocks = parameters.offer.window_blocks.into();
        self.block_limit = self.window_blocks;
        self.memory_bytes = parameters.offer.receive_memory_bytes;
    }

    /// Records a segment of the peer, which is about to arrive.
    pub fn allow(&mut self, header: &Header, payload: &[u8]) {
        self.heard += 1;
        if header.flags == (Flags::FIN | Flags::ACK) {
            self.acknowledge(0..u32::MAX);
        }
        if header.flags == Flags::FBK
            && let Ok((report, records)) = feedback::decode(payload)
        {
            self.has_reported = true;
            self.memory_bytes = self.memory_bytes.max(u64::from(report.memory_kib) << 10);
            for record in records {
                if let Record::Stream(state, runs) = record
                    && state.stream == StreamId::FIRST
                {
                    self.allow_stream(&state, runs);
                }
            }
        }
    }

    fn allow_stream(&mut self, state: &StreamState, runs: Runs<'_>) {
        self.block_limit = self.block_limit.max(u64::from(state.blocks_read) + self.window_blocks);
        let read_bytes = u64::from(state.kib_read) << 10;
        if read_bytes <= self.cut_bytes {
            self.read_bytes = self.read_bytes.max(read_bytes);
        }
        // [window-1]: for any reported KiB, a stream whose blocks are all read holds nothing.
        if state.blocks_read >= self.next_block {
            self.read_bytes = self.read_bytes.max(self.cut_bytes);
        }
        self.acknowledge(0..state.next_needed);
        let mut block = state.next_needed;
        for run in runs {
            let (blocks, is_complete) = match run {
                Run::Complete(blocks) => (blocks, true),
                Run::Empty(blocks) => (blocks, false),
                Run::Open { .. } => (1, false),
            };
            let end = block.saturating_add(blocks);
            if is_complete {
                self.acknowledge(block..end);
            }
            block = end;
        }
    }

    /// Counts these blocks as acknowledged, even if the sender rejects the acknowledgement: the account is an upper
    /// bound.
    fn acknowledge(&mut self, blocks: Range<u32>) {
        for block in self.blocks.range_mut(blocks).map(|(_, block)| block).filter(|block| !block.is_acknowledged) {
            block.is_acknowledged = true;
            self.proven_bytes += block.k * block.datagram_bytes;
        }
    }

    /// Records a datagram of the sender, and checks all limits of data.
    pub fn note(&mut self, now: Time, datagram: &[u8]) {
        let Ok(Unverified::Clear(header)) = Unverified::read(datagram) else { panic!("it is not in the clear") };
        let received = header.verify(datagram).expect("what is sent can be decoded");
        let number = u64::from(received.number);
        if let Some((sent, words)) = &mut self.last_words {
            // [rst-10]: after the RST only copies of it are sent, and seldom.
            assert_eq!(datagram, words, "it follows the end");
            assert!(now.since(*sent) >= limits::LAST_WORDS_INTERVAL_MIN, "the end is repeated too soon");
            *sent = now;
            return;
        }
        if matches!(received.segment, Segment::Reset(_)) {
            self.last_words = Some((now, datagram.to_vec()));
        }
        assert!(number >= self.numbers_end, "number {number} after {}", self.numbers_end);
        self.datagrams += 1;
        self.numbers_end = number + 1;
        let skipped_max = self.numbers_end.div_ceil(NUMBERS_PER_SKIPPED);
        assert!(self.numbers_end <= self.datagrams + skipped_max, "{} datagrams, the last is {number}", self.datagrams);
        let Segment::Data(Data { block_id, block: info, .. }) = received.segment else {
            self.control += 1;
            if matches!(received.segment, Segment::Syn(_)) {
                self.syn_id = Parameters::decode(received.payload).ok().map(|parameters| parameters.connection_id);
            }
            return;
        };
        let opened = self.opened.expect("no data before the peer has answered");
        let ip_bytes = datagram.len() as u64 + u64::from(self.overhead_bytes);
        let bits = 8 * ip_bytes;
        self.data_bits += bits;
        self.data_bits_max = self.data_bits_max.max(bits);
        self.next_block = self.next_block.max(block_id + 1);
        let new = || Sent { k: info.k.into(), symbols: 0, datagram_bytes: 0, is_acknowledged: false };
        if !self.blocks.contains_key(&block_id) {
            self.cut_bytes += u64::from(info.length_bytes).max(limits::BLOCK_COUNT_BYTES_MIN);
        }
        let block = self.blocks.entry(block_id).or_insert_with(new);
        block.symbols += 1;
        block.datagram_bytes = block.datagram_bytes.max(ip_bytes);
        let (k, symbols) = (block.k, block.symbols);
        assert_eq!(k, u64::from(info.k), "a block has one K");
        let factor = (limits::SYMBOLS_PER_BLOCK_FACTOR / (1.0 - limits::LOSS_BELIEVED_MAX)).ceil() as u64;
        self.block_bytes_max = self.block_bytes_max.max(factor * k * block.datagram_bytes);

        // [plan-5]: the number required at the highest loss that is believed if all but one symbol have arrived; then
        // one per round trip.
        let factor =
            (limits::SYMBOLS_PER_BLOCK_FACTOR + limits::SYMBOLS_PER_ARRIVAL) / (1.0 - limits::ROUND_LOSS_BELIEVED_MAX);
        let age = now.since(opened).as_millis() / limits::CAPPED_BLOCK_INTERVAL_MIN.as_millis();
        let symbols_max = k * factor.ceil() as u64 + 1 + age as u64;
        assert!(symbols <= symbols_max, "{symbols} symbols of block {block_id} with {k}");
        let limit = self.block_limit;
        assert!(u64::from(block_id) < limit, "block {block_id} was sent, {limit} are permitted");
        let held = self.cut_bytes.saturating_sub(self.read_bytes);
        let lent = self.memory_bytes.saturating_add(FREE_BYTES_MAX);
        assert!(held <= lent, "{held} bytes are unread, {lent} are lent");
        self.check_rate(now, opened);
        self.check_credit(now, opened);
    }

    /// Checks the credit: [credit-3] before the first report; then [credit-6] for one minute, and the trickle of each
    /// further minute. Two more datagrams are permitted, and one in each minute for rates so low that a datagram takes
    /// longer than the trickle's period.
    fn check_credit(&self, now: Time, opened: Time) {
        let elapsed = now.since(opened);
        let rate = |time: Duration| u128::from(self.rate_bps / 8) * time.as_nanos() / 1_000_000_000;
        let trickle = |time: Duration| rate(time) / u128::from(limits::CREDIT_TRICKLE_SHARE);
        let by_credit = if self.has_reported {
            let by_block = u128::from(self.block_bytes_max) + trickle(elapsed.saturating_sub(limits::CREDIT_PERIOD));
            (rate(CREDIT_SPAN_MAX) + trickle(elapsed)).max(by_block)
        } else {
            rate(Duration::from_secs(1)).min(limits::CREDIT_BEFORE_REPORT_BYTES.into()) + trickle(elapsed)
        };
        let datagrams = 2 + elapsed.as_secs() / limits::CREDIT_PERIOD.as_secs();
        let besides = u128::from(datagrams * self.data_bits_max / 8);
        let allowed = by_credit + besides + u128::from(self.proven_bytes) * 9 / 2;
        let sent = u128::from(self.data_bits / 8);
        assert!(sent <= allowed, "{sent} bytes of data on credit, {allowed} allowed");
    }

    fn check_rate(&self, now: Time, opened: Time) {
        let elapsed_ns = (now.since(opened) + CATCH_UP).as_nanos();
        let paced = elapsed_ns * u128::from(self.rate_bps) / 1_000_000_000;
        let allowed = paced + 2 * u128::from(self.data_bits_max);
        assert!(u128::from(self.data_bits) <= allowed, "{} bits of data, {allowed} allowed", self.data_bits);
    }

    /// Checks the number of control segments. Permitted are one answer and one urgent report for each received segment,
    /// a report per millisecond, and repeats and keep-alives, at most two per ten milliseconds.
    pub fn check(&self, now: Time) {
        let elapsed_ms = now.since(self.started).as_millis() as u64;
        let allowed = CONTROL_BASE + 2 * self.heard + elapsed_ms + elapsed_ms / 5;
        assert!(self.control <= allowed, "{} control datagrams, {allowed} allowed", self.control);
    }
}

#[cfg(test)]
mod tests {
    use dfcp_wire::handshake::Offer;

    use super::*;
    use dfcp_testkit::raw;
    use dfcp_wire::BlockInfo;
    use dfcp_wire::StreamLimits;
    use dfcp_wire::feedback::{Report, ReportWriter};

    fn datagram(flags: Flags, block_id: u32, number: u32) -> Vec<u8> {
        let s2 = BlockInfo { k: 1, length_bytes: 1_000, end_of_stream: false }.to_s2();
        raw::write(&Header { block_id, s2, s3: number, ..Header::modern(flags, 0x0001_0002) }, &[], &[0; 1_000])
    }

    fn account() -> Emission {
        account_at(1_000_000)
    }

    fn account_at(rate_bps: u64) -> Emission {
        let mut emission = Emission::new(Time::ZERO, rate_bps, 28);
        let parameters = Parameters {
            connection_id: 1,
            offer: Offer {
                window_blocks: 30,
                receive_memory_bytes: 1 << 20,
                rate_max_bps: 0,
                idle_timeout_ms: 0,
                streams: StreamLimits::default(),
            },
        };
        emission.open(Time::ZERO, &parameters);
        emission
    }

    #[test]
    fn a_sender_at_its_rate_passes() {
        let mut emission = account();
        // 1056 IP bytes at 1 Mbit/s take 8448 µs.
        (0..30).for_each(|i| emission.note(Time::from_us(u64::from(i) * 8_448), &datagram(Flags::NONE, i, i)));
        emission.check(Time::from_ms(300));
        assert_eq!(emission.data_datagrams(), 30);
    }

    /// Reports that the peer needs the block `next_needed`, and has `complete` blocks after it.
    fn report(emission: &mut Emission, next_needed: u32, complete: u32) {
        emission.window_blocks = 1 << 20;
        let report = Report::default();
        let mut payload = [0; 200];
        let mut writer = ReportWriter::new(&mut payload, &report).expect("room for a report");
        let state = StreamState { next_needed, blocks_read: next_needed, ..StreamState::default() };
        let mut record = writer.stream(&state).expect("room for a record");
        assert!(record.push(Run::Open { missing: 1 }) && record.push(Run::Complete(complete)));
        record.finish();
        let length = writer.finish();
        let header = Header::modern(Flags::FBK, 0);
        emission.allow(&header, &payload[..length]);
    }

    /// Sends datagrams of 1056 IP bytes with a block each, at 1 Mbit/s, from number `from` on.
    fn send(emission: &mut Emission, from: u32, datagrams: u32) {
        for i in from..from + datagrams {
            emission.note(Time::from_us(u64::from(i) * 8_448), &datagram(Flags::NONE, i, i));
        }
    }

    #[test]
    fn a_sender_within_its_credit_passes() {
        let mut emission = account();
        emission.block_limit = 1_000;
        // 120 datagrams are 125 000 bytes and a trickle of 1/64 of the rate for the elapsed second.
        send(&mut emission, 0, 120);
        report(&mut emission, 50, 20);
        assert_eq!(emission.proven_bytes, 70 * 1_056, "all before the block needed, and 20 behind it");
    }

    #[test]
    #[should_panic(expected = "bytes of data on credit")]
    fn a_sender_beyond_what_an_unknown_peer_gets_is_noticed() {
        let mut emission = account();
        emission.block_limit = 1_000;
        send(&mut emission, 0, 130);
    }

    /// On credit: 4.8 s of the rate are 568 datagrams, their trickle 9, and 20 proven blocks give 90.
    fn on_credit(datagrams: u32) {
        let mut emission = account();
        send(&mut emission, 0, 20);
        report(&mut emission, 20, 0);
        send(&mut emission, 20, datagrams - 20);
    }

    #[test]
    fn a_sender_whose_peer_has_proven_blocks_passes() {
        on_credit(660);
    }

    #[test]
    #[should_panic(expected = "bytes of data on credit")]
    fn a_sender_beyond_its_credit_is_noticed() {
        on_credit(690);
    }

    #[test]
    #[should_panic(expected = "bits of data")]
    fn a_sender_above_its_rate_is_noticed() {
        let mut emission = account();
        (0..30).for_each(|i| emission.note(Time::from_us(u64::from(i) * 7_000), &datagram(Flags::NONE, i, i)));
    }

    #[test]
    #[should_panic(expected = "the last is 4")]
    fn numbers_skipped_too_often_are_noticed() {
        let mut emission = account();
        (0..50).for_each(|i| emission.note(Time::from_us(u64::from(i) * 8_448), &datagram(Flags::NONE, i % 30, 2 * i)));
    }

    #[test]
    #[should_panic(expected = "number 6 after 7")]
    fn a_number_given_twice_is_noticed() {
        let mut emission = account();
        (0..7).chain([6]).for_each(|i| emission.note(Time::from_ms(1_000), &datagram(Flags::NONE, i, i)));
    }

    #[test]
    #[should_panic(expected = "symbols of block")]
    fn a_block_past_its_ceiling_is_noticed() {
        let mut emission = account_at(100_000_000);
        report(&mut emission, 0, 0);
        (0..1_500).for_each(|i| emission.note(Time::from_ms(u64::from(i) * 9), &datagram(Flags::NONE, 5, i)));
    }

    #[test]
    #[should_panic(expected = "are permitted")]
    fn a_block_past_the_window_is_noticed() {
        account().note(Time::from_ms(1), &datagram(Flags::NONE, 30, 0));
    }

    #[test]
    #[should_panic(expected = "bytes are unread")]
    fn a_sender_which_fills_more_than_is_lent_is_noticed() {
        let mut emission = account();
        emission.memory_bytes = 10_000;
        send(&mut emission, 0, 13);
    }

    #[test]
    #[should_panic(expected = "control datagrams")]
    fn a_flood_of_control_is_noticed() {
        let mut emission = account();
        (0..80).for_each(|i| emission.note(Time::from_ms(1), &datagram(Flags::ACK, 0, i)));
        emission.check(Time::from_ms(1));
    }
}
