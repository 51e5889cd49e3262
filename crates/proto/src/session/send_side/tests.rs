use std::time::Duration;

use dfcp_wire::DATAGRAM_BYTES_MAX;
use dfcp_wire::feedback::{self, Report, ReportWriter, Run, StreamState};

use super::*;
use crate::config::SendBuffering;
use crate::error::PeerMisbehaved;
use crate::limits;
use crate::path::in_flight::Carried;
use crate::path::numbers::DatagramNumbers;
use crate::path::rate::RateBounds;
use crate::path::receiver_flow_control::QueueReport;
use crate::stream::send::plan;
use crate::stream::send::shared::HoldUp;
use crate::stream::send::symbol::Reason;
use crate::stream::send::write_turns::WriteAllowance;

const NOW: Time = Time::from_s(1);

fn numbered(datagrams: u64) -> DatagramNumbers {
    let mut numbers = DatagramNumbers::default();
    numbers.jump_to(datagrams);
    numbers
}

/// Returns the RTT sample of a report that was news.
fn sample(heard: Result<Heard, PeerMisbehaved>) -> Result<Option<Duration>, String> {
    match heard {
        Ok(Heard::News { path, .. }) => Ok(path.rtt_sample),
        other => Err(format!("{other:?}")),
    }
}

/// A sending side and its path.
struct Sender {
    side: SendSide,
    path: Path,
}

impl std::ops::Deref for Sender {
    type Target = SendSide;

    fn deref(&self) -> &SendSide {
        &self.side
    }
}

impl std::ops::DerefMut for Sender {
    fn deref_mut(&mut self) -> &mut SendSide {
        &mut self.side
    }
}

fn with_config(config: &Config) -> Sender {
    Sender {
        side: SendSide::new(config, Kernel::detect(), Opener::Initiator, None),
        path: Path::new(([192, 0, 2, 1], 9).into(), 0, RateBounds::new(config, 0)),
    }
}

/// A report's record of the first stream: its state, and the runs of its blocks.
type FirstRecord<'a> = Option<(StreamState, &'a [Run])>;

impl Sender {
    fn establish(&mut self, window_blocks: u32) {
        self.path = Path::open(self.path.remote(), NOW, false);
        self.side.establish(NOW, &self.path, (1420, 1420), (window_blocks, 1 << 30));
    }

    /// Returns the next symbol, with unlimited credit.
    fn next(&mut self, now: Time) -> Option<Ready<'_>> {
        self.side.next_symbol(now, &self.path, Spending::Freely).unwrap()
    }

    fn send(&mut self, symbol: Symbol, number: u64) {
        Ready::new(&mut self.side, symbol).unwrap().sent(NOW, &mut self.path, number);
    }

    fn is_under_way(&self) -> bool {
        self.side.is_under_way(&self.path)
    }

    fn first_mut(&mut self) -> &mut SendStream {
        self.streams.get_mut(StreamId::FIRST).unwrap()
    }

    fn write_first(&mut self, data: &[u8]) -> usize {
        self.side.write(NOW, &self.path, StreamId::FIRST, data).unwrap()
    }

    /// Sends the next symbol as datagram `number`. Returns false if there is no symbol, or if the number has reached
    /// `end`.
    fn send_one(&mut self, now: Time, number: &mut u64, end: u64) -> bool {
        let next = self.side.next_symbol(now, &self.path, Spending::Freely).unwrap();
        let Some(ready) = next.filter(|_| *number < end) else { return false };
        ready.sent(now, &mut self.path, *number);
        *number += 1;
        true
    }

    /// Sends everything that can be sent at this instant.
    fn send_all(&mut self, number: &mut u64) {
        while self.send_one(NOW, number, u64::MAX) {}
    }

    fn flush_first(&mut self) {
        self.flush(StreamId::FIRST);
    }

    fn first_block_bytes(&mut self) -> usize {
        self.streams.get(StreamId::FIRST).unwrap().block_bytes(self.path.flight(), &self.shared)
    }

    fn first_window_is_open(&self, bytes: u64) -> bool {
        self.streams.get(StreamId::FIRST).unwrap().window_is_open(bytes, &self.shared)
    }

    fn first_asks_for_more(&self) -> bool {
        self.streams.get(StreamId::FIRST).unwrap().asks_for_more(self.path.flight(), &self.shared)
    }

    /// Encodes, decodes and processes a report that arrives as the peer's datagram `number`, after `sent` datagrams of
    /// ours.
    fn hear(
        &mut self,
        now: Time,
        number: u64,
        report: &Report,
        record: FirstRecord<'_>,
        sent: u64,
    ) -> Result<Heard, PeerMisbehaved> {
        let mut payload = [0; DATAGRAM_BYTES_MAX];
        let mut writer = ReportWriter::new(&mut payload, report).unwrap();
        if let Some((state, runs)) = record {
            let mut list = writer.stream(&state).unwrap();
            assert!(runs.iter().all(|&run| list.push(run)));
            list.finish();
        }
        let length = writer.finish();
        let (report, records) = feedback::decode(&payload[..length]).unwrap();
        self.side.on_report(now, &mut self.path, number, (&report, &records), &numbered(sent))
    }
}

/// Returns a sender that has written `blocks` full blocks and sent all symbols possible at one instant, and the number
/// of datagrams.
fn sender(first_id: u32, blocks: usize) -> (Sender, u64) {
    let mut sender = with_config(&Config::danger_unsealed());
    sender.establish(100);
    sender.first_mut().start_at(first_id);
    let bytes = blocks * sender.first_block_bytes();
    assert_eq!(sender.write_first(&vec![7; bytes]), bytes);
    let mut number = 0;
    while sender.send_one(NOW, &mut number, 1_000) {}
    (sender, number)
}

/// Marks all datagrams up to `highest` as arrived. No block is acknowledged.
fn arrive(sender: &mut Sender, highest: u64) {
    let first = sender.side.streams.get_mut(StreamId::FIRST).unwrap();
    sender.path.flight_mut().all_arrived(highest, |sent| {
        if let Carried::Symbol { block_id, .. } = sent.what() {
            first.on_fate(block_id);
        }
    });
}

fn report(highest: u64, received: u64) -> Report {
    Report {
        highest_datagram: highest as u32,
        datagrams_received: received as u32,
        memory_kib: 1 << 20,
        ..Report::default()
    }
}

/// Record of a stream whose blocks before `next_needed` are decoded, none of them read.
fn record(next_needed: u32, runs: &[Run]) -> FirstRecord<'_> {
    Some((StreamState { next_needed, ..StreamState::default() }, runs))
}

#[test]
fn when_block_ids_run_out_the_last_blocks_are_still_delivered() {
    let (mut sender, sent) = sender(u32::MAX - 2, 3);
    assert!(sent > 2 * 45 && !sender.is_exhausted());
    let late = Wasted { late: sent as u32 - 2 * 45, ..Default::default() };
    let all = Report { wasted: late, ..report(sent - 1, sent) };
    let state = StreamState { next_needed: u32::MAX, blocks_read: u32::MAX - 2, ..StreamState::default() };
    assert_eq!(sample(sender.hear(NOW, 0, &all, Some((state, &[][..])), sent)), Ok(None));
    assert!(sender.next(NOW).is_none());
    assert!(sender.is_exhausted());
}

#[test]
fn a_report_which_counts_more_than_was_sent_is_misbehaviour() {
    let (mut sender, sent) = sender(0, 2);
    let result = sender.hear(NOW, 0, &report(sent - 1, sent + 1), record(0, &[]), sent);
    assert_eq!(result, Err(PeerMisbehaved::ReportOfUnsentDatagrams { claimed: sent + 1, sent }));
    let (mut sender, sent) = self::sender(0, 2);
    assert!(sender.hear(NOW, 0, &report(9, 10), record(0, &[]), sent).is_ok());
    assert!(sender.hear(NOW, 1, &report(9, 9), record(0, &[]), sent).is_err(), "counts do not fall");
}

/// A report that does not name a stream updates the path. The stream's blocks wait for a report that names it.
#[test]
fn a_report_which_does_not_name_the_stream_settles_datagrams_alone() {
    let (mut sender, sent) = sender(0, 2);
    let heard = sender.hear(NOW, 0, &report(sent - 1, 40), None, sent);
    assert_eq!((sample(heard), sender.path.flight().len()), (Ok(None), 0));
    let next = sender.next(NOW);
    assert!(next.is_none_or(|ready| ready.reason() == Reason::Proactive), "nobody has said what is missing");
    let unaccounted = sender.hear(NOW, 1, &report(sent - 1, sent), None, sent);
    assert!(matches!(unaccounted, Err(PeerMisbehaved::InconsistentReport { .. })), "two blocks take 90");
}

#[test]
fn what_was_read_opens_the_window_and_cannot_exceed_what_was_decoded() {
    let read = |blocks_read, kib_read| {
        let (mut sender, sent) = sender(0, 3);
        let state = StreamState { next_needed: 2, blocks_read, kib_read, ..StreamState::default() };
        let report = report(sent - 1, 90);
        let result = sender.hear(NOW, 0, &report, Some((state, &[][..])), sent);
        (result, sender)
    };
    let kib = (2 * 45 * 1420 / 1024) as u32;
    let (result, mut sender) = read(2, kib);
    assert!(result.is_ok());
    sender.shared.peer_window_blocks = 2;
    assert!(sender.first_window_is_open(1), "of two blocks, one is not read");
    for (blocks, kib) in [(3, kib), (2, kib / 2 * 3 + 2), (2, u32::MAX)] {
        assert!(matches!(read(blocks, kib).0, Err(PeerMisbehaved::InconsistentReading { .. })), "{blocks}, {kib}");
    }
}

/// A list may end anywhere, but the missing blocks must not account for more wasted datagrams.
#[test]
fn what_blocks_behind_the_list_can_have_is_what_was_sent_of_them_and_no_more_than_they_need() {
    let taken = |runs: &[Run], received: u64, dependent: u32| {
        let (mut sender, sent) = sender(0, 3);
        assert!(sent > 3 * 45 + 10, "proactive repair follows");
        let wasted = Wasted { dependent, ..Default::default() };
        let report = Report { wasted, ..report(sent - 1, received) };
        sender.hear(NOW, 0, &report, record(0, runs), sent).is_ok()
    };
    let (none, one) = ([], [Run::Open { missing: 40 }]);
    assert!(taken(&none, 135, 0) && taken(&none, 139, 4));
    assert!(!taken(&none, 136, 0) && !taken(&none, 140, 4), "three blocks of 45 take no more");
    assert!(taken(&one, 95, 0) && taken(&one, 5, 0) && !taken(&one, 96, 0) && !taken(&one, 4, 0));
    let one_and_empty = [Run::Open { missing: 40 }, Run::Empty(1)];
    assert!(taken(&one_and_empty, 50, 0) && !taken(&one_and_empty, 51, 0));
}

#[test]
fn what_can_have_served_falls_with_each_acknowledged_block() {
    let (mut sender, sent) = sender(0, 3);
    assert_eq!(sender.shared.served_max, 135);
    let runs = [Run::Open { missing: 40 }, Run::Complete(1)];
    let with = |received, late| Report { wasted: Wasted { late, ..Default::default() }, ..report(sent - 1, received) };
    assert!(sender.hear(NOW, 0, &with(95, 0), record(1, &runs), sent).is_ok());
    assert_eq!(sender.shared.served_max, 45);
    assert!(sender.hear(NOW, 1, &with(sent, sent as u32 - 135), record(3, &[]), sent).is_ok());
    assert_eq!(sender.shared.served_max, 0);
}

#[test]
fn a_report_overtaken_by_a_later_one_changes_nothing() {
    let (mut sender, sent) = sender(0, 2);
    assert!(matches!(sender.hear(NOW, 5, &report(9, 10), record(0, &[]), sent), Ok(Heard::News { .. })));
    let old = Report { memory_kib: 2 << 20, ..report(9, 10) };
    assert_eq!(sender.hear(NOW, 4, &old, record(0, &[]), sent), Ok(Heard::Stale));
    assert!(sender.first_window_is_open(1) && !sender.first_window_is_open(3 << 29));
}

#[test]
fn a_hold_longer_than_the_datagrams_age_is_no_sample() {
    let later = NOW + Duration::from_millis(50);
    let (mut sender, sent) = sender(0, 2);
    let held = Report { hold_us: 20_000, ..report(9, 10) };
    let heard = sender.hear(later, 0, &held, record(0, &[]), sent);
    assert_eq!(sample(heard), Ok(Some(Duration::from_millis(30))));
    let lying = Report { hold_us: 50_000, ..report(19, 20) };
    assert_eq!(sample(sender.hear(later, 1, &lying, record(0, &[]), sent)), Ok(None));
}

#[test]
fn past_its_ceiling_a_block_gets_a_symbol_every_ten_milliseconds_at_the_most() {
    let (mut sender, mut number) = sender(0, 1);
    sender.path.sample_rtt(Duration::from_micros(1));
    // A peer that claims repeatedly that all symbols have arrived and all were dependent.
    for ms in 0..1_000 {
        let now = NOW + Duration::from_millis(ms);
        let wasted = Wasted { dependent: number as u32, ..Default::default() };
        let report = Report { wasted, ..report(number - 1, number) };
        assert!(sender.hear(now, ms, &report, record(0, &[Run::Empty(1)]), number).is_ok());
        while sender.send_one(now, &mut number, 5_000) {}
    }
    let ceiling = u64::from(plan::symbols_per_block_max(45, 0.05));
    assert!((ceiling - 30..ceiling + 102).contains(&number), "{number} symbols, ceiling {ceiling}");
}

/// A sender of one block on a lossy path with a known loss rate.
struct Lossy {
    sender: Sender,
    sent: u64,
    /// Dependent symbols reported so far.
    dependent: u64,
    reports: u64,
}

impl Lossy {
    fn new(loss_percent: u64) -> Self {
        let (sender, sent) = sender(0, 1);
        let mut lossy = Self { sender, sent, dependent: 0, reports: 0 };
        lossy.becomes(loss_percent, 400);
        lossy
    }

    /// Makes the estimator see a loss of `loss_percent` for `hundreds` × 100 datagrams.
    fn becomes(&mut self, loss_percent: u64, hundreds: u32) {
        (0..hundreds).for_each(|_| self.sender.path.flight_mut().observe_loss(100, 100 - loss_percent));
    }

    /// Reports all source symbols except `missing`, and the dependent ones.
    fn report(&mut self, missing: u16) {
        let received = 45 - u64::from(missing) + self.dependent;
        let wasted = Wasted { dependent: self.dependent as u32, ..Default::default() };
        let report = Report { wasted, ..report(self.sent - 1, received) };
        let runs = [Run::Open { missing }];
        assert!(self.sender.hear(NOW, self.reports, &report, record(0, &runs), self.sent).is_ok());
        self.reports += 1;
    }

    fn next_round_symbol(&mut self) -> Option<Symbol> {
        let Sender { side: SendSide { streams, shared, .. }, path } = &mut self.sender;
        let context = SendContext { now: NOW, flight: path.flight(), rtt: path.rtt(), spending: Spending::Freely };
        streams.get_mut(StreamId::FIRST).unwrap().round_symbol(shared, &context).unwrap()
    }

    /// Sends up to `most` datagrams at one instant. Returns their number.
    fn send(&mut self, most: u64) -> u64 {
        let before = self.sent;
        while self.sent < before + most
            && let Some(symbol) = self.next_round_symbol()
        {
            self.sender.send(symbol, self.sent);
            self.sent += 1;
        }
        self.sent - before
    }
}

#[test]
fn rounds_are_as_large_as_heavy_loss_requires() {
    let mut lossy = Lossy::new(90);
    lossy.report(40);
    let round = lossy.send(1_000);
    assert!((300..400).contains(&round), "{round} symbols, for 40 to arrive of ten times as many");
}

#[test]
fn from_the_third_round_on_a_loss_which_has_just_begun_counts() {
    let mut lossy = Lossy::new(0);
    lossy.becomes(90, 8);
    lossy.report(40);
    let second = lossy.send(1_000);
    assert!((40..60).contains(&second), "{second}: it may pass");
    lossy.report(36);
    let third = lossy.send(1_000);
    assert!((200..400).contains(&third), "{third}: it holds up all that is behind this block");
}

#[test]
fn a_round_shrinks_when_the_path_gets_better() {
    let mut lossy = Lossy::new(90);
    lossy.report(40);
    assert_eq!(lossy.send(100), 100);
    lossy.becomes(0, 100);
    lossy.report(10);
    let rest = lossy.send(1_000);
    assert!((10..14).contains(&rest), "{rest} symbols, of which the receiver needs ten");
}

#[test]
fn what_a_bad_path_took_does_not_hold_a_block_back_on_a_better_one() {
    let mut lossy = Lossy::new(96);
    for missing in [40, 30] {
        lossy.report(missing);
        assert!(lossy.send(1_000) > 400, "of {missing} missing ones");
    }
    lossy.report(10);
    lossy.becomes(0, 400);
    lossy.report(10);
    assert_eq!(lossy.send(1_000), 10, "at once, not one in each round trip");
}

/// Each arrival permits two more symbols, and counts once even if it is reported repeatedly.
#[test]
fn past_its_ceiling_a_block_gets_on_as_fast_as_its_symbols_arrive() {
    let mut lossy = Lossy::new(0);
    while lossy.send(1_000) > 0 || lossy.reports == 0 {
        lossy.dependent = lossy.sent - 30;
        lossy.report(20);
    }
    assert!(
        (230..240).contains(&lossy.sent),
        "{} symbols: four times 45, and twice the 25 which have arrived",
        lossy.sent
    );
    lossy.report(18);
    assert_eq!(lossy.send(1_000), 4);
    for _ in 0..3 {
        lossy.report(18);
        assert_eq!(lossy.send(1_000), 0);
    }
}

/// Sends what can be sent at `now`. Returns the number of symbols.
fn sent_at(sender: &mut Sender, now: Time, number: &mut u64) -> u64 {
    let before = *number;
    while sender.send_one(now, number, u64::MAX) {}
    *number - before
}

/// [window-8]: 45 symbols at 10 % loss take a round of 48, or of 52 while the window holds the sender back.
#[test]
fn a_sender_which_its_window_holds_back_plans_for_fewer_rounds() {
    const RTT: Duration = Duration::from_millis(100);
    let mut sender = with_config(&Config::danger_unsealed());
    sender.establish(2);
    sender.path.sample_rtt(RTT);
    (0..400).for_each(|_| sender.path.flight_mut().observe_loss(100, 90));
    let (block_bytes, mut number) = (sender.first_block_bytes(), 0);
    // The writer has more to come at any time, so no proactive repair is sent.
    let write = |sender: &mut Sender, blocks: usize| {
        sender.write_first(&vec![7; blocks * block_bytes]);
        sender.first_mut().set_more_to_come();
    };
    write(&mut sender, 3);
    assert_eq!(sent_at(&mut sender, NOW, &mut number), 2 * 48, "the third block finds no room");
    let reports = [(1, NOW + RTT, 52), (2, NOW + RTT * 8, 52), (3, NOW + RTT * 20, 48)];
    for (index, now, expected) in reports {
        // Everything is decoded and read. The last datagrams count as lost, which moves the loss estimate little.
        let next_needed = 1 + index as u32;
        let kib_read = (u64::from(next_needed) * block_bytes as u64 / 1024) as u32;
        let state = StreamState { next_needed, blocks_read: next_needed, kib_read, ..StreamState::default() };
        let report = report(number - 1, 45 * u64::from(next_needed));
        sender.hear(now, index, &report, Some((state, &[][..])), number).unwrap();
        if index > 1 {
            write(&mut sender, 1);
        }
        let count = sent_at(&mut sender, now, &mut number);
        assert!(count.abs_diff(expected) <= 1, "{count} symbols after report {index}, not {expected}");
    }
}

/// [window-8]: what holds a sender back besides the peer's window.
#[test]
fn a_full_send_buffer_and_more_blocks_than_a_report_lists_hold_the_sender_back() {
    for (buffer_bytes, is_held_back) in [(200_000, true), (20_000_000, false)] {
        let mut sender = with_config(&Config::danger_unsealed().with_send_buffer_bytes(buffer_bytes));
        sender.establish(100);
        sender.write_first(&vec![7; 1 << 20]);
        sender.flush_first();
        sender.send_all(&mut 0);
        let HoldUp { is_new, is_recent, .. } = sender.shared.hold_up;
        assert_eq!(is_new || is_recent, is_held_back, "{buffer_bytes}");
    }
    let mut hold_up = HoldUp::default();
    let recent = [1, plan::LISTED_BLOCKS, plan::LISTED_BLOCKS + 1].map(|blocks| {
        hold_up.blocks = blocks as u32;
        hold_up.update(NOW, Duration::ZERO);
        hold_up.is_recent
    });
    assert_eq!(recent, [false, false, true]);
}

#[test]
fn what_waits_to_be_sent_is_bounded_and_its_writer_woken() {
    let mut sender = with_config(&Config::danger_unsealed().with_send_buffer_bytes(1 << 30));
    sender.establish(16_384);
    let data = vec![1; 1 << 20];
    let written: usize = (0..10).map(|_| sender.write_first(&data)).sum();
    assert_eq!(written as u64, limits::UNSENT_BYTES_MAX);
    assert!(!sender.first_asks_for_more());
    let mut number = 0;
    while !sender.first_asks_for_more() {
        assert!(sender.send_one(NOW, &mut number, u64::MAX));
    }
    let sent_bytes = number * 1420;
    assert!(sent_bytes.abs_diff(limits::UNSENT_BYTES_MAX / 2) < 3 * 45 * 1420, "{sent_bytes}");
}

/// With shallow buffering, the application may write as much as can be sent, and always a whole block.
#[test]
fn what_is_written_near_is_what_may_be_in_flight() {
    let mut sender = with_config(&Config::danger_unsealed());
    sender.establish(16_384);
    sender.set_send_buffering(SendBuffering::Shallow);
    let data = vec![1; 1 << 20];
    assert_eq!(sender.write_first(&data) as u64, limits::UNSENT_SHALLOW_BYTES_MAX);
    sender.flush_first();
    let mut number = 0;
    let mut send = |sender: &mut Sender| {
        sender.send_all(&mut number);
        number
    };
    let all = send(&mut sender);
    let queue = |datagrams| QueueReport {
        queue_bytes: 1420 * datagrams,
        arrival_rate_bps: 0,
        rate_bps: None,
        rtt: Some(Duration::from_millis(1)),
        interval: Duration::from_millis(1),
    };
    sender.path.flight_mut().on_queue(NOW, 1420, queue(all + 100));
    assert!(sender.first_asks_for_more());
    let room = sender.path.flight().room() as u64;
    assert!((100..120).contains(&room), "{room}");
    assert_eq!(sender.write_first(&data) as u64, room * 1420);
    sender.flush_first();
    assert_eq!(send(&mut sender), all + room);
    assert_eq!(sender.path.flight().room(), 0);
    assert!(sender.first_asks_for_more());
    assert_eq!(sender.write_first(&data), 45 * 1420, "a block waits for room");
    assert!(!sender.first_asks_for_more());
}

/// A small allowance permits filling the block that it begins. Further blocks need a new allowance.
#[test]
fn what_is_allowed_is_written_in_whole_blocks() {
    const BLOCK_BYTES: usize = 45 * 1420;
    let mut sender = with_config(&Config::danger_unsealed());
    sender.establish(16_384);
    sender.set_send_buffering(SendBuffering::Shallow);
    let data = vec![1; 1 << 20];
    let write = |sender: &mut Sender| {
        let counts = std::iter::from_fn(|| Some(sender.write_first(&data)).filter(|&count| count > 0));
        counts.sum::<usize>()
    };
    sender.allow(WriteAllowance::Bytes(0));
    assert_eq!((write(&mut sender), sender.first_asks_for_more(), sender.is_under_way()), (0, false, false));
    assert!(sender.has_used_allowance());
    sender.allow(WriteAllowance::Bytes(1));
    assert!(sender.first_asks_for_more() && !sender.has_used_allowance(), "its turn has come");
    assert_eq!(write(&mut sender), BLOCK_BYTES);
    assert!(sender.is_under_way() && sender.has_used_allowance());
    let mut number = 0;
    while let Some(symbol) = sender.side.choose(NOW, &sender.path, Spending::Freely).unwrap() {
        assert!(sender.is_under_way(), "{number} of a block are sent");
        sender.send(symbol, number);
        number += 1;
    }
    let highest = number - 1 - limits::PEER_QUEUE_DATAGRAMS_MIN as u64;
    arrive(&mut sender, highest - 1);
    assert!(sender.is_under_way());
    arrive(&mut sender, highest);
    assert!(!sender.is_under_way());
    sender.allow(WriteAllowance::Bytes(BLOCK_BYTES as u64 + 1));
    assert_eq!(write(&mut sender), 2 * BLOCK_BYTES);
    sender.shared.peer_window_blocks = 1;
    assert!(!sender.is_under_way() && !sender.is_writer_held_up(), "the peer has no room");
    sender.shared.peer_window_blocks = 16_384;
    assert!(sender.is_under_way());
    sender.allow(WriteAllowance::Any);
    assert!(write(&mut sender) > 0);
}

/// Shallow buffering also fills long blocks, which are chosen after heavy loss.
#[test]
fn who_writes_near_fills_blocks() {
    let mut sender = with_config(&Config::danger_unsealed());
    sender.establish(16_384);
    sender.set_send_buffering(SendBuffering::Shallow);
    (0..400).for_each(|_| sender.path.flight_mut().observe_loss(100, 60));
    assert_eq!(sender.first_block_bytes(), 256 * 1420);
    assert_eq!(sender.write_first(&vec![1; 1 << 20]), 2 * 256 * 1420);
    assert!(sender.next(NOW).is_some());
}

#[test]
fn bulk_spends_no_repair_while_its_writer_is_about_to_write_more() {
    let proactive = |more: bool| {
        let mut sender = with_config(&Config::danger_unsealed());
        sender.establish(16_384);
        let bytes = if more { limits::UNSENT_BYTES_MAX as usize + 1 } else { sender.first_block_bytes() };
        assert_eq!(sender.write_first(&vec![1; bytes]) < bytes, more);
        if !more {
            sender.flush_first();
            sender.shut_down(NOW, StreamId::FIRST);
        }
        let mut number = 0;
        sender.send_all(&mut number);
        sender.counters().sent.proactive
    };
    assert_eq!(proactive(true), 0);
    assert!(proactive(false) > 10, "with a loss as yet unknown");
}

#[test]
fn waste_is_counted_on_over_the_reports_wrap() {
    let mut waste = WasteCounters::default();
    waste.on_report(Wasted { late: u32::MAX - 1, ..Wasted::default() });
    waste.on_report(Wasted { late: 3, dependent: 2, refused: 1 });
    let WastedSymbols { dependent, late, refused } = waste.total;
    assert_eq!((dependent, late, refused), (2, u64::from(u32::MAX) + 4, 1));
}

/// Processes a report that names datagram 9, with a clock and with marks (µs back, datagram numbers back).
fn hear_clock(sender: &mut Sender, sent: u64, clock_us: u32, marks: &[(u32, u32)]) -> Result<Heard, PeerMisbehaved> {
    let mut payload = [0; DATAGRAM_BYTES_MAX];
    let mut writer = ReportWriter::new(&mut payload, &report(9, 10)).unwrap();
    assert!(writer.arrival_clock(clock_us));
    let marks: Vec<_> = marks
        .iter()
        .map(|&(back_us, numbers_back)| feedback::Mark { back_us, numbers_back, received_back: numbers_back })
        .collect();
    assert!(marks.is_empty() || writer.marks(&marks));
    let length = writer.finish();
    let (report, records) = feedback::decode(&payload[..length]).unwrap();
    sender.side.on_report(NOW, &mut sender.path, 0, (&report, &records), &numbered(sent))
}

/// [report-16], attack: false clocks and marks change only the sender's queue estimate; and not even that if the clock
/// was not negotiated. The effect on rate control is bounded by `path/rate_control/tests.rs`, and the resulting traffic
/// by `tests/end-to-end/hostile/lies.rs`.
#[test]
fn a_peer_which_lies_about_its_clock_moves_the_queue_alone() {
    let (mut honest, sent) = sender(0, 2);
    let plain = sample(honest.hear(NOW, 0, &report(9, 10), None, sent));
    let next =
        |sender: &mut Sender| sender.next(NOW).map(|ready| ready.segment()).map(|data| (data.block_id, data.esi));
    let honest_next = next(&mut honest);
    for reads_clock in [false, true] {
        for clock_us in [0, 1, 5_000_000, 1 << 31, u32::MAX] {
            // Marks of datagrams never sent, of datagrams older than all, and marks that claim an arrival long before
            // sending.
            for marks in [&[][..], &[(1, 0)], &[(1, 0), (2, 10), (1 << 23, 1 << 23)], &[((1 << 24) - 1, 9)]] {
                let (mut lied_to, sent) = sender(0, 2);
                lied_to.path.flight_mut().set_reads_clock(reads_clock);
                assert_eq!(sample(hear_clock(&mut lied_to, sent, clock_us, marks)), plain);
                assert_eq!(
                    (lied_to.path.flight().len(), lied_to.path.flight().room()),
                    (honest.path.flight().len(), honest.path.flight().room())
                );
                assert_eq!(
                    (next(&mut lied_to), lied_to.path.flight().queue_delay().is_some()),
                    (honest_next, reads_clock)
                );
                assert!(lied_to.path.flight().queue_delay().is_none_or(|queue| queue <= limits::QUEUE_DELAY_MAX));
            }
        }
    }
}
