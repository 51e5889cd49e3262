//! Tests of the receiving side alone, with honest and hostile peers.

use std::time::Duration;

use dfcp_wire::BlockInfo;
use dfcp_wire::feedback::{self, Record, Report, Run, StreamState};
use proptest::prelude::*;

use super::*;
use crate::error::Dropped;
use crate::limits;
use crate::shared::memory::MemoryBudget;
use crate::shared::memory::MemoryReservation;
use crate::stream::send::shared::own_place_bytes;

const NOW: Time = Time::from_s(9);
/// Bytes available for a report.
const ROOM: usize = 1_420;
const SYMBOL_BYTES: usize = 100;

fn config() -> Config {
    Config {
        symbol_size: SYMBOL_BYTES as u16,
        streams: StreamLimits { bidirectional: 1_000, one_way: 1_000 },
        ..Config::danger_unsealed()
    }
}

/// The receiving side of the acceptor. The initiator sends.
fn side_with(config: &Config) -> RecvSide {
    RecvSide::new(config, Kernel::detect(), false, Role::Acceptor)
}

fn side() -> RecvSide {
    side_with(&config())
}

fn one_way(index: u32) -> StreamId {
    StreamId::new(Opener::Initiator, StreamKind::OneWay, index).unwrap()
}

/// Opens the peer's one-way streams 0 to `count` − 1.
fn open(side: &mut RecvSide, count: u32) {
    (0..count).for_each(|index| assert!(side.open(one_way(index))));
}

/// Returns the byte that fills a block.
fn fill(block_id: u32) -> u8 {
    block_id as u8 ^ 0x5A
}

/// Source symbol `esi` of a block of `k` symbols. `ends` marks the last block of its stream.
fn symbol(stream: StreamId, block_id: u32, esi: u32, k: u16, ends: bool) -> (Data, Vec<u8>) {
    let block = BlockInfo { k, length_bytes: u32::from(k) * SYMBOL_BYTES as u32, end_of_stream: ends };
    (Data { stream, block_id, esi, block, fragment: dfcp_wire::Fragment::WHOLE }, vec![fill(block_id); SYMBOL_BYTES])
}

fn push(side: &mut RecvSide, (data, payload): (Data, Vec<u8>)) -> Result<bool, PushError> {
    side.push(&data, &payload)
}

/// Pushes a whole block of one symbol.
fn push_block(side: &mut RecvSide, stream: StreamId, block_id: u32, ends: bool) -> Result<bool, PushError> {
    push(side, symbol(stream, block_id, 0, 1, ends))
}

fn misbehaved(result: Result<impl Sized, PushError>) -> PeerMisbehaved {
    match result {
        Err(PushError::Misbehaved(what)) => what,
        Err(PushError::Dropped(why)) => panic!("only dropped: {why}"),
        Ok(_) => panic!("taken"),
    }
}

const REFUSED: Result<bool, PushError> = Err(PushError::Dropped(Dropped::NoMemory));

/// Writes the next report, and returns its stream records.
fn report_with(side: &mut RecvSide, room: usize) -> Vec<(StreamState, Vec<Run>)> {
    let mut payload = vec![0; room];
    let mut writer = ReportWriter::new(&mut payload, &Report::default()).unwrap();
    side.write_records(&mut writer, StreamLimits { bidirectional: 1, one_way: 7 });
    let length = writer.finish();
    let (_, mut records) = feedback::decode(&payload[..length]).unwrap();
    assert!(matches!(records.next(), Some(Record::Unseen(StreamLimits { bidirectional: 1, one_way: 7 }))));
    let streams = records.map(|record| match record {
        Record::Stream(state, runs) => (state, runs.collect()),
        record => panic!("{record:?} is not the stream's"),
    });
    streams.collect()
}

fn report(side: &mut RecvSide) -> Vec<(StreamState, Vec<Run>)> {
    report_with(side, ROOM)
}

/// Returns the streams named in the next report.
fn named(side: &mut RecvSide) -> Vec<StreamId> {
    report(side).into_iter().map(|(state, _)| state.stream).collect()
}

/// Reads until nothing is left. Returns the number of bytes, and the last result.
fn read_all(side: &mut RecvSide, id: StreamId) -> (usize, Result<Read, StreamError>) {
    let mut bytes = 0;
    let mut out = [0; 150];
    loop {
        match side.read(id, &mut out) {
            Ok(Read::Bytes(copied)) => bytes += copied,
            end => return (bytes, end),
        }
    }
}

/// Returns all answers owed at `now`.
fn answers(side: &mut RecvSide, now: Time) -> Vec<Ack> {
    std::iter::from_fn(|| side.next_answer(now)).collect()
}

// ---- a stream's life ----

#[test]
fn a_stream_is_read_to_its_end_told_three_times_and_then_gone() {
    let mut side = side();
    let id = one_way(0);
    open(&mut side, 1);
    assert_eq!(side.poll_event(), Some((id, RecvEvent::Opened)));
    assert_eq!((side.accept(), side.accept()), (Some(id), None));
    assert_eq!(push_block(&mut side, id, 0, false), Ok(true));
    assert_eq!(push_block(&mut side, id, 1, true), Ok(true));
    assert_eq!((side.poll_event(), side.poll_event()), (Some((id, RecvEvent::Readable)), None));
    assert_eq!(read_all(&mut side, id), (2 * SYMBOL_BYTES, Ok(Read::End)));
    assert_eq!(side.read(id, &mut [0; 9]), Err(StreamError::Ended), "the end is told once");
    assert_eq!(side.take_gone(), None, "the peer does not know yet");
    for _ in 0..3 {
        assert!(side.has(id) && side.owes_naming());
        let (state, runs) = report(&mut side).pop().unwrap();
        assert_eq!((state.stream, state.next_needed, state.blocks_read), (id, 2, 2));
        assert_eq!(runs, [], "nothing is missing before the end");
    }
    assert_eq!((side.has(id), side.take_gone()), (false, Some((id, false))));
    assert_eq!((named(&mut side), side.owes_naming()), (vec![], false));
    assert_eq!(side.common.memory.paid_bytes(), 0);
}

#[test]
fn streams_are_accepted_in_the_order_of_their_ids() {
    let mut side = side();
    let bidirectional = |index| StreamId::new(Opener::Initiator, StreamKind::Bidirectional, index).unwrap();
    open(&mut side, 2);
    assert!(side.open(bidirectional(1)) && side.open(bidirectional(2)));
    let own = StreamId::new(Opener::Acceptor, StreamKind::Bidirectional, 0).unwrap();
    assert!(side.open(own), "the other half of one that this side has opened");
    let accepted: Vec<_> = std::iter::from_fn(|| side.accept()).collect();
    assert_eq!(accepted, [bidirectional(1), bidirectional(2), one_way(0), one_way(1)]);
    let events: Vec<_> = std::iter::from_fn(|| side.poll_event()).collect();
    assert_eq!(events.len(), 4, "{events:?}");
}

#[test]
fn an_empty_stream_is_there_until_its_end_is_read() {
    let mut side = side();
    let id = one_way(0);
    open(&mut side, 1);
    side.on_fin(id, 0).unwrap();
    assert_eq!(answers(&mut side, NOW), [Ack::OfFin { stream: id, end: 0, proof: 0 }]);
    (0..5).for_each(|_| drop(report(&mut side)));
    assert!(side.has(id) && side.is_readable(id));
    assert_eq!(side.accept(), Some(id));
    assert_eq!(side.read(id, &mut [0; 9]), Ok(Read::End));
    assert_eq!(side.take_gone(), Some((id, false)));
}

#[test]
fn stream_0_stays_and_tells_its_end_once_as_any_other() {
    let mut side = side();
    assert_eq!(push_block(&mut side, StreamId::FIRST, 0, true), Ok(true));
    assert!(matches!(side.poll_event(), Some((StreamId::FIRST, RecvEvent::Readable))));
    assert_eq!(read_all(&mut side, StreamId::FIRST).1, Ok(Read::End));
    for _ in 0..9 {
        assert!(side.is_first_finished());
        report(&mut side);
        assert_eq!(side.read(StreamId::FIRST, &mut [0; 9]), Err(StreamError::Ended));
    }
    assert_eq!((side.take_gone(), side.poll_event(), side.accept()), (None, None, None));
}

// ---- streams that reports name ----

#[test]
fn a_stream_is_named_three_times_after_each_change_and_question_and_while_it_has_open_blocks() {
    let mut side = side();
    let (idle, open_one, asked) = (one_way(0), one_way(1), one_way(2));
    open(&mut side, 3);
    assert_eq!(named(&mut side), [], "nothing is known of them");
    push_block(&mut side, idle, 0, false).unwrap();
    push(&mut side, symbol(open_one, 0, 0, 2, false)).unwrap();
    for _ in 0..3 {
        let mut named = named(&mut side);
        named.sort_unstable();
        assert_eq!(named, [idle, open_one]);
    }
    assert!(!side.owes_naming(), "what has open blocks waits for no one's report");
    assert_eq!(named(&mut side), [open_one]);
    side.on_question(asked);
    assert!(side.owes_naming());
    let named: Vec<_> = (0..4).map(|_| named(&mut side).contains(&asked)).collect();
    assert_eq!(named, [true, true, true, false]);
}

#[test]
fn stream_0_alone_is_named_while_it_has_news_or_open_blocks() {
    let mut side = side_with(&Config { symbol_size: 100, ..Config::danger_unsealed() });
    let report = |side: &mut RecvSide| {
        let mut payload = vec![0; ROOM];
        let mut writer = ReportWriter::new(&mut payload, &Report::default()).unwrap();
        side.write_records(&mut writer, StreamLimits { bidirectional: 1, one_way: 0 });
        let length = writer.finish();
        feedback::decode(&payload[..length]).unwrap().1.count()
    };
    assert_eq!(report(&mut side), 0, "no word of streams which the peer may not open");
    push(&mut side, symbol(StreamId::FIRST, 1, 0, 2, false)).unwrap();
    assert!((0..20).all(|_| report(&mut side) == 1));
    push(&mut side, symbol(StreamId::FIRST, 1, 1, 2, false)).unwrap();
    assert!((0..20).all(|_| report(&mut side) == 1), "block 0 is missing");
    push_block(&mut side, StreamId::FIRST, 0, false).unwrap();
    assert_eq!([(); 4].map(|()| report(&mut side)), [1, 1, 1, 0]);
}

#[test]
fn everybody_is_named_however_many_have_news_and_open_blocks() {
    const STREAMS: u32 = 300;
    let mut side = side();
    open(&mut side, STREAMS);
    for index in 0..STREAMS {
        // The first half of the streams goes on. The other half gets no more symbols.
        push(&mut side, symbol(one_way(index), 0, 0, 40, false)).unwrap();
    }
    let mut last = vec![0_u32; STREAMS as usize];
    for number in 1..400_u32 {
        for index in 0..STREAMS / 2 {
            push(&mut side, symbol(one_way(index), 0, 100 + number, 40, false)).unwrap();
        }
        let named = named(&mut side);
        assert!(named.len() > 20, "{named:?}");
        let distinct: std::collections::BTreeSet<_> = named.iter().collect();
        assert_eq!(distinct.len(), named.len(), "none twice");
        for id in named {
            last[id.index() as usize] = number;
        }
        let longest = last.iter().map(|last| number - last).max().unwrap();
        assert!(longest <= 40, "report {number}: one has not been named for {longest}");
    }
}

#[test]
fn a_quarter_of_the_window_read_is_told_of_all_streams_together_and_once() {
    const STREAMS: u32 = 10;
    let mut side = side();
    open(&mut side, STREAMS);
    for index in 0..STREAMS {
        for (block_id, esi) in (0..9).flat_map(|block_id| (0..250).map(move |esi| (block_id, esi))) {
            push(&mut side, symbol(one_way(index), block_id, esi, 250, false)).unwrap();
        }
    }
    (0..3).for_each(|_| drop(report(&mut side)));
    let (quarter, each) = (side.common.memory.bytes() / 4, 9 * 250 * SYMBOL_BYTES as u64);
    assert!(!side.owes_naming() && (1..u64::from(STREAMS)).contains(&(quarter / each)));
    for index in 0..STREAMS {
        read_all(&mut side, one_way(index)).1.unwrap();
        let is_enough = u64::from(index + 1) * each >= quarter && u64::from(index) * each < quarter;
        assert_eq!((side.has_room_to_tell(), side.has_room_to_tell()), (is_enough, false), "{index}");
    }
    let told: Vec<_> = report(&mut side).into_iter().map(|(state, _)| (state.blocks_read, state.kib_read)).collect();
    assert_eq!(told, [(9, (each / 1_024) as u32); STREAMS as usize]);
}

#[test]
fn a_quarter_of_the_blocks_read_is_told() {
    let mut side = side_with(&config().with_window_blocks(8));
    open(&mut side, 2);
    for (index, block_id) in [(0, 0), (1, 0), (0, 1)] {
        push_block(&mut side, one_way(index), block_id, false).unwrap();
        (0..3).for_each(|_| drop(report(&mut side)));
    }
    assert_eq!(side.read(one_way(1), &mut [0; 150]), Ok(Read::Bytes(SYMBOL_BYTES)));
    assert!(!side.has_room_to_tell());
    read_all(&mut side, one_way(0)).1.unwrap();
    assert!(side.has_room_to_tell() && side.owes_naming());
}

// ---- ends, and attacks by them ----

#[test]
fn ends_which_contradict_each_other_or_the_data_are_misbehaviour() {
    for (first, second) in [(3, 4), (4, 3)] {
        let mut side = side();
        open(&mut side, 2);
        let id = one_way(0);
        side.on_fin(id, first).unwrap();
        let expected = PeerMisbehaved::InconsistentEnd { earlier: first, later: second };
        assert_eq!(misbehaved(side.on_fin(id, second)), expected);
        assert_eq!(misbehaved(side.on_reset(id, 1, second)), expected);
        let past = PeerMisbehaved::InconsistentEnd { earlier: first, later: first };
        assert_eq!(misbehaved(push_block(&mut side, id, first, false)), past);
        assert_eq!(misbehaved(push_block(&mut side, id, second - 1, true)), expected);
        // An end before blocks that have been seen.
        push_block(&mut side, one_way(1), 5, false).unwrap();
        let expected = PeerMisbehaved::InconsistentEnd { earlier: 5, later: 6 };
        assert_eq!(misbehaved(side.on_reset(one_way(1), 1, 5)), expected);
        assert_eq!(misbehaved(side.on_fin(one_way(1), 5)), expected);
    }
}

#[test]
fn a_reset_discards_what_is_not_read_and_its_reader_gets_the_error_once() {
    let mut side = side();
    open(&mut side, 1);
    let id = one_way(0);
    push_block(&mut side, id, 0, false).unwrap();
    push(&mut side, symbol(id, 3, 0, 5, false)).unwrap();
    push(&mut side, symbol(id, 3, 1, 5, false)).unwrap();
    assert!(side.has_open_blocks());
    side.on_reset(id, 77, 9).unwrap();
    assert!(!side.has_open_blocks() && !side.owes_naming());
    assert_eq!((side.common.memory.held_bytes(), named(&mut side)), (0, vec![]));
    let of_reset = Ack::OfReset { stream: id, served: 3 };
    assert_eq!(answers(&mut side, NOW), [of_reset]);
    // A late symbol is counted as late, and does not change the acknowledgement.
    assert_eq!(push_block(&mut side, id, 4, false), Ok(false));
    assert_eq!(side.symbols().late, 1);
    side.on_reset(id, 78, 9).unwrap();
    side.on_fin(id, 9).unwrap();
    side.on_question(id);
    assert_eq!(answers(&mut side, NOW), [of_reset], "one for all questions");
    assert_eq!(
        misbehaved(push_block(&mut side, id, 9, false)),
        PeerMisbehaved::InconsistentEnd { earlier: 9, later: 9 }
    );
    assert_eq!(misbehaved(side.on_reset(id, 77, 8)), PeerMisbehaved::InconsistentEnd { earlier: 9, later: 8 });
    assert_eq!(side.take_gone(), None, "its reader does not know");
    assert_eq!(side.read(id, &mut [0; 9]), Err(StreamError::Reset(77)));
    assert_eq!(side.take_gone(), Some((id, true)));
    assert_eq!(side.read(id, &mut [0; 9]), Err(StreamError::Ended));
    assert_eq!(side.common.memory.paid_bytes(), 0);
    side.on_question(id);
    assert_eq!(answers(&mut side, NOW), [of_reset], "it is remembered");
}

#[test]
fn a_reset_takes_nothing_away_from_a_stream_that_was_decoded_to_its_end() {
    let mut side = side();
    open(&mut side, 2);
    let id = one_way(0);
    push_block(&mut side, id, 0, true).unwrap();
    side.on_reset(id, 77, 1).unwrap();
    assert_eq!(answers(&mut side, NOW), [Ack::OfReset { stream: id, served: 1 }]);
    assert_eq!(read_all(&mut side, id), (SYMBOL_BYTES, Ok(Read::End)));
    (0..3).for_each(|_| drop(report(&mut side)));
    assert_eq!(side.take_gone(), Some((id, false)));
    side.on_reset(id, 77, 1).unwrap();
    assert_eq!(answers(&mut side, NOW), [Ack::OfReset { stream: id, served: 1 }]);
    // Here only the reset names the end, so the received data may be incomplete.
    push_block(&mut side, one_way(1), 0, false).unwrap();
    side.on_reset(one_way(1), 77, 1).unwrap();
    assert_eq!(read_all(&mut side, one_way(1)), (0, Err(StreamError::Reset(77))));
}

#[test]
fn a_reset_that_comes_when_all_was_read_is_answered_as_one() {
    let mut side = side();
    open(&mut side, 1);
    let id = one_way(0);
    push_block(&mut side, id, 0, true).unwrap();
    read_all(&mut side, id).1.unwrap();
    (0..3).for_each(|_| drop(report(&mut side)));
    assert!(!side.has(id));
    side.on_fin(id, 1).unwrap();
    assert_eq!(answers(&mut side, NOW), [Ack::OfFin { stream: id, end: 1, proof: 0 }]);
    side.on_reset(id, 5, 1).unwrap();
    assert_eq!(answers(&mut side, NOW), [Ack::OfReset { stream: id, served: 1 }]);
    assert_eq!(misbehaved(side.on_fin(id, 2)), PeerMisbehaved::InconsistentEnd { earlier: 1, later: 2 });
    assert_eq!(push_block(&mut side, id, 0, true), Ok(false));
    assert_eq!((side.symbols().late, answers(&mut side, NOW).len()), (1, 1));
}

#[test]
fn what_has_been_gone_for_long_is_told_only_that() {
    let mut side = side();
    const STREAMS: u32 = limits::GONE_STREAMS_MAX as u32 + 1;
    open(&mut side, STREAMS);
    for index in 0..STREAMS {
        side.on_reset(one_way(index), 1, 0).unwrap();
        assert_eq!(side.read(one_way(index), &mut [0; 9]), Err(StreamError::Reset(1)));
        assert_eq!(side.take_gone(), Some((one_way(index), true)));
        answers(&mut side, NOW);
    }
    for index in [0, 1] {
        side.on_question(one_way(index));
    }
    let (oldest, second) = (one_way(0), one_way(1));
    assert_eq!(answers(&mut side, NOW), [Ack::Gone { stream: oldest }, Ack::OfReset { stream: second, served: 0 }]);
}

#[test]
fn no_more_answers_wait_than_the_limit() {
    let mut side = side();
    for index in 0..10_000 {
        push_block(&mut side, one_way(index), 0, false).unwrap();
        side.on_question(one_way(index));
    }
    assert_eq!(answers(&mut side, NOW).len(), limits::STREAM_ANSWERS_MAX);
    assert_eq!(side.symbols().late, 10_000);
}

#[test]
fn stopping_discards_what_comes_and_asks_at_doubling_intervals_until_the_end() {
    let mut side = side();
    open(&mut side, 1);
    let id = one_way(0);
    push_block(&mut side, id, 0, false).unwrap();
    push_block(&mut side, id, 2, false).unwrap();
    side.stop_sending(NOW, id, 4);
    assert_eq!(side.read(id, &mut [0; 9]), Err(StreamError::Ended));
    let stop = Ack::StopSending { stream: id, error: 4 };
    let mut asked = Vec::new();
    for ms in 0..2_000 {
        let now = NOW + Duration::from_millis(ms);
        if side.answer_at().is_some_and(|at| at <= now) {
            assert_eq!(answers(&mut side, now), [stop]);
            asked.push(ms);
        }
    }
    assert_eq!(asked, [0, 100, 300, 700, 1_500]);
    // The window moves as if the data were read.
    push_block(&mut side, id, 1, false).unwrap();
    let (state, _) = report(&mut side).pop().unwrap();
    assert_eq!((state.next_needed, state.blocks_read, side.common.memory.held_bytes()), (3, 3, 0));
    assert_eq!(side.bytes_read(), 0);
    push_block(&mut side, id, 3, true).unwrap();
    assert_eq!(side.answer_at(), None, "it has ended");
    (0..3).for_each(|_| drop(report(&mut side)));
    assert_eq!(side.take_gone(), Some((id, false)));
    assert_eq!(side.common.memory.paid_bytes(), 0);
}

#[test]
fn a_stream_which_was_stopped_is_gone_when_the_peer_resets_it() {
    let mut side = side();
    open(&mut side, 2);
    side.stop_sending(NOW, one_way(0), 4);
    side.on_reset(one_way(0), 4, 0).unwrap();
    assert_eq!(side.take_gone(), Some((one_way(0), true)));
    // The same in the opposite order.
    side.on_reset(one_way(1), 4, 0).unwrap();
    side.stop_sending(NOW, one_way(1), 4);
    assert_eq!(side.take_gone(), Some((one_way(1), true)));
    let resets = answers(&mut side, NOW);
    assert!(resets.len() == 2 && resets.iter().all(|ack| matches!(ack, Ack::OfReset { .. })), "{resets:?}");
    assert_eq!(side.answer_at(), None);
}

// ---- memory ----

#[test]
fn an_idle_half_takes_half_a_kibibyte() {
    let mut side = side();
    open(&mut side, 1);
    let id = one_way(0);
    push_block(&mut side, id, 0, false).unwrap();
    push_block(&mut side, id, 1, false).unwrap();
    read_all(&mut side, id).1.unwrap();
    let heap = side.halves.get(id).unwrap().stream.heap_bytes();
    let place = size_of::<(StreamId, Box<Half>)>();
    let queues = 4 * size_of::<StreamId>();
    let bytes = size_of::<Half>() + heap + 2 * (place + queues);
    assert!(heap > 0 && bytes as u64 <= STREAM_BYTES_MAX / 2, "{} + {heap} + {place}", size_of::<Half>());
}

#[test]
fn streams_without_room_are_not_opened_and_closing_gives_all_back() {
    let budget = MemoryBudget::new(1 << 20);
    let mut side = side();
    side.charge_to(MemoryReservation::open(&budget, 1 << 10).unwrap());
    let mut count = 0;
    while side.open(one_way(count)) {
        count += 1;
    }
    let each = side.opening_bytes();
    assert_eq!(budget.used_bytes(), (1 << 10) + u64::from(count) * each);
    assert!(u64::from(count) * each <= 1 << 19, "half stays for others");
    side.on_reset(one_way(0), 1, 0).unwrap();
    side.stop_sending(NOW, one_way(0), 1);
    assert!(side.open(one_way(count)) && !side.open(one_way(count + 1)), "its place is free again");
    drop(side);
    assert_eq!(budget.used_bytes(), 0);
}

/// Unread streams of one byte each fill the shared memory, and then one reserved symbol each.
#[test]
fn streams_of_one_byte_that_are_never_read_take_what_is_shared_and_then_one_symbol_each() {
    let memory_bytes = limits::RECEIVE_MEMORY_BYTES_MIN;
    let mut side = side_with(&config().with_receive_memory_bytes(memory_bytes).with_window_blocks(16_384));
    const STREAMS: u32 = 8;
    open(&mut side, STREAMS);
    let byte = |stream, block_id| {
        let block = BlockInfo { k: 1, length_bytes: 1, end_of_stream: false };
        (Data { stream, block_id, esi: 0, block, fragment: dfcp_wire::Fragment::WHOLE }, vec![7])
    };
    let mut taken = [0_u64; STREAMS as usize];
    for block_id in 0..16_384 {
        for index in 0..STREAMS - 1 {
            match push(&mut side, byte(one_way(index), block_id)) {
                Ok(_) => taken[index as usize] += 1,
                refused => assert_eq!(refused, REFUSED),
            }
        }
    }
    let counted = taken.iter().sum::<u64>() * 256;
    let own = own_place_bytes(SYMBOL_BYTES);
    assert!(counted <= memory_bytes + u64::from(STREAMS) * own, "{taken:?}");
    assert!(counted >= memory_bytes - 256, "{taken:?}");
    // A stream without data gets exactly the place reserved for one symbol.
    let last = one_way(STREAMS - 1);
    let refused = (0..).find(|&block_id| push(&mut side, byte(last, block_id)) == REFUSED).unwrap();
    assert!((own / 256..=own / 256 + 1).contains(&u64::from(refused)), "{refused}");
    read_all(&mut side, last).1.unwrap();
    assert_eq!(push(&mut side, byte(last, refused)), Ok(true), "read, it has its place again");
    assert_eq!(u64::from(side.memory_kib()), memory_bytes / 1_024, "and the peer was told no more than it has got");
}

/// Later blocks of every stream come first, then the needed ones. A block without room gets none by becoming the needed
/// one.
#[test]
fn no_order_of_blocks_and_streams_passes_the_bound() {
    let memory_bytes = limits::RECEIVE_MEMORY_BYTES_MIN;
    let mut side = side_with(&config().with_receive_memory_bytes(memory_bytes).with_window_blocks(16_384));
    const STREAMS: u32 = 200;
    open(&mut side, STREAMS);
    for first in [1, 0] {
        for index in 0..STREAMS {
            for block_id in first..first + 5 {
                let _taken_or_refused = push(&mut side, symbol(one_way(index), block_id, 0, 250, false));
            }
        }
    }
    let held = side.common.memory.held_bytes();
    assert!(held > memory_bytes - 25_000 && held <= memory_bytes, "{held}");
}

#[test]
fn the_reserve_serves_the_block_which_one_stream_after_the_other_needs() {
    let config = config();
    let reserve = crate::stream::recv::slot::reserve_bytes(&config);
    // Memory for two open streams, and nothing more.
    let budget = MemoryBudget::new((reserve + 8_000) * 4 / 3);
    let mut side = side_with(&config);
    side.charge_to(MemoryReservation::open(&budget, reserve).unwrap());
    let used = |side: &mut RecvSide| {
        let mut taken = Vec::new();
        for index in 0..2 {
            let blocks = (0..2).filter(|&block_id| push(side, symbol(one_way(index), block_id, 0, 250, false)).is_ok());
            taken.push(blocks.collect::<Vec<_>>());
        }
        taken
    };
    open(&mut side, 2);
    assert_eq!(used(&mut side), [vec![0], vec![]], "one of them, for the block which it needs");
    for esi in 1..250 {
        push(&mut side, symbol(one_way(0), 0, esi, 250, false)).unwrap();
    }
    assert_eq!(push_block(&mut side, one_way(1), 0, false), Ok(true), "which still has its own place");
    read_all(&mut side, one_way(1)).1.unwrap();
    read_all(&mut side, one_way(0)).1.unwrap();
    assert!(push(&mut side, symbol(one_way(1), 1, 0, 250, false)).is_ok(), "then the other");
}

#[test]
fn what_is_told_falls_with_the_endpoints_memory() {
    let budget = MemoryBudget::new(4 << 20);
    let mut side = side();
    side.charge_to(MemoryReservation::open(&budget, 1 << 20).unwrap());
    let before = side.memory_kib();
    let mut other = MemoryReservation::open(&budget, 0).unwrap();
    while other.take(1 << 10) {}
    assert!(side.memory_kib() < before && side.memory_kib() >= (limits::BLOCK_BYTES_MAX / 1_024) as u32);
}

proptest! {
    /// For any sequence of segments on any streams, and any calls of the application: sums match the streams, read
    /// bytes match the sent bytes, the budget is kept, and all memory is returned.
    #[test]
    fn sums_and_bytes_are_right_whatever_happens(
        steps in prop::collection::vec((0_u8..12, 0_u32..6, 0_u32..6, 0_u32..8, 1_u16..4), 0..400), seed: u8
    ) {
        let budget = MemoryBudget::new(1 << 22);
        let mut side = side();
        side.charge_to(MemoryReservation::open(&budget, 1 << 20).unwrap());
        let mut opened = 0;
        let mut read = [0_u64; 7];
        for (step, (what, index, block_id, esi, _)) in steps.into_iter().enumerate() {
            let now = NOW + Duration::from_millis(step as u64);
            let id = if index == 0 { StreamId::FIRST } else { one_way(index - 1) };
            if index > opened {
                prop_assert!(side.open(one_way(opened)));
                opened += 1;
                continue;
            }
            // All segments of a block agree, as from an honest peer, in any order.
            let k = 1 + (block_id as u16 + u16::from(seed)) % 4;
            match what {
                0..6 => {
                    let result = push(&mut side, symbol(id, block_id, esi % u32::from(k), k, block_id == 5));
                    prop_assert!(!matches!(result, Err(PushError::Misbehaved(_))), "{:?}", result);
                }
                6 => {
                    let mut out = vec![0; 130];
                    if let Ok(Read::Bytes(copied)) = side.read(id, &mut out) {
                        let mut at = read[index as usize];
                        for byte in &out[..copied] {
                            let mut start = 0;
                            let block = (0..6_u32).find(|block| {
                                start += u64::from(1 + (*block as u16 + u16::from(seed)) % 4) * SYMBOL_BYTES as u64;
                                at < start
                            });
                            prop_assert_eq!(*byte, fill(block.unwrap()));
                            at += 1;
                        }
                        read[index as usize] = at;
                    }
                }
                7 => drop(report_with(&mut side, 256)),
                8 if index > 0 => prop_assert_eq!(side.on_fin(id, 6), Ok(())),
                9 if index > 0 && esi == 0 => prop_assert_eq!(side.on_reset(id, 3, 6), Ok(())),
                10 if index > 0 && esi == 0 => side.stop_sending(now, id, 3),
                _ => side.on_question(id),
            }
            answers(&mut side, now);
            let open = side.halves.iter().filter(|(_, half)| half.stream.has_open_blocks()).count();
            prop_assert_eq!(side.has_open_blocks(), open > 0);
            prop_assert_eq!(side.open_halves, open);
            let untold: u64 = side.halves.iter().map(|(_, half)| half.stream.untold_bytes()).sum();
            prop_assert_eq!(side.untold.bytes(), untold);
            let owing = side.halves.iter().filter(|(_, half)| half.owes_news()).count();
            prop_assert_eq!(side.owes_naming(), owing > 0);
            let held: u64 = side.halves.iter().map(|(_, half)| half.stream.shared_bytes(&side.common)).sum();
            prop_assert_eq!(side.common.memory.held_bytes(), held);
            while let Some((id, _)) = side.take_gone() {
                prop_assert!(!side.has(id));
            }
        }
        let ids: Vec<_> = side.halves.iter().map(|(id, _)| id).collect();
        for id in ids {
            side.stop_sending(NOW, id, 1);
            let _known = side.on_reset(id, 1, 6);
        }
        (0..20).for_each(|_| drop(report(&mut side)));
        prop_assert_eq!(side.halves.len(), 1, "stream 0 alone is left");
        prop_assert_eq!(side.common.memory.paid_bytes(), side.halves.get(StreamId::FIRST).unwrap().stream.places_bytes());
        drop(side);
        prop_assert_eq!(budget.used_bytes(), 0);
    }
}

// ---- parts of symbols ----

/// Returns part `index` of `count` of a symbol made by [`symbol`].
fn part(of: (Data, Vec<u8>), index: u8, count: u8) -> (Data, Vec<u8>) {
    let (data, payload) = of;
    let fragment = dfcp_wire::Fragment::new(index, count).unwrap();
    (Data { fragment, ..data }, payload[fragment.range(payload.len())].to_vec())
}

#[test]
fn parts_in_any_order_make_the_symbol_and_count_once() {
    for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
        let mut side = side();
        let pushed = order.map(|index| push(&mut side, part(symbol(StreamId::FIRST, 0, 0, 1, true), index, 3)));
        assert_eq!(pushed, [Ok(false), Ok(false), Ok(true)]);
        assert_eq!((side.symbols().useful, side.symbols().distinct()), (1, 1));
        assert_eq!(read_all(&mut side, StreamId::FIRST), (SYMBOL_BYTES, Ok(Read::End)));
        assert_eq!(push(&mut side, part(symbol(StreamId::FIRST, 0, 0, 1, true), 1, 3)), Ok(false));
        assert_eq!(side.symbols().late, 1, "each part of a decoded block is late");
    }
}

#[test]
fn a_part_which_comes_twice_or_never_makes_no_symbol() {
    let mut side = side();
    for _ in 0..3 {
        assert_eq!(push(&mut side, part(symbol(StreamId::FIRST, 0, 0, 2, false), 0, 2)), Ok(false));
    }
    assert_eq!((side.symbols().useful, side.symbols().duplicate), (0, 2));
    assert_eq!(push(&mut side, symbol(StreamId::FIRST, 0, 1, 2, false)), Ok(false));
    assert_eq!(push(&mut side, part(symbol(StreamId::FIRST, 0, 0, 2, false), 1, 2)), Ok(true));
}

/// [stream-11]: parts that contradict each other, their block, or the lengths that follow from the block.
#[test]
fn parts_which_do_not_fit_are_misbehaviour() {
    let first = || part(symbol(StreamId::FIRST, 0, 0, 4, false), 0, 2);
    let with = |change: fn(&mut (Data, Vec<u8>))| {
        let mut changed = first();
        change(&mut changed);
        changed
    };
    let contradictions = [
        part(symbol(StreamId::FIRST, 0, 0, 4, false), 1, 3),
        part(symbol(StreamId::FIRST, 0, 0, 5, false), 1, 2),
        with(|(_, payload)| payload.push(0)),
        with(|(_, payload)| payload.truncate(49)),
        with(|(_, payload)| payload.clear()),
        with(|(data, _)| data.block.k = 256),
        with(|(data, _)| data.block.length_bytes = 3), // one-byte symbols cannot be cut in two
    ];
    for contradiction in contradictions {
        let mut side = side();
        assert_eq!(push(&mut side, first()), Ok(false));
        assert_eq!(misbehaved(push(&mut side, contradiction)), PeerMisbehaved::InconsistentBlock { block_id: 0 });
    }
    let mut side = side();
    assert_eq!(push(&mut side, symbol(StreamId::FIRST, 0, 1, 5, false)), Ok(false));
    assert_eq!(misbehaved(push(&mut side, first())), PeerMisbehaved::InconsistentBlock { block_id: 0 });
}

/// A peer that sends first parts of ever more symbols, and completes none.
#[test]
fn symbols_in_parts_take_bounded_memory_and_the_newest_can_always_be_completed() {
    let budget = MemoryBudget::new(1_000_000);
    let mut side = side();
    side.charge_to(MemoryReservation::open(&budget, 0).unwrap());
    let before = budget.used_bytes();
    for esi in 0..100_000 {
        assert_eq!(push(&mut side, part(symbol(StreamId::FIRST, 1 + esi % 50, esi, 4, false), 0, 2)), Ok(false));
        let most = limits::SYMBOLS_IN_PARTS_MAX as u64 * (SYMBOL_BYTES as u64 + 200);
        assert!(budget.used_bytes() - before <= most, "{}", budget.used_bytes());
    }
    assert_eq!((side.symbols().distinct(), side.has_open_blocks()), (0, false), "they open no block");
    assert_eq!(push(&mut side, part(symbol(StreamId::FIRST, 0, 7, 1, false), 0, 2)), Ok(false));
    assert_eq!(push(&mut side, part(symbol(StreamId::FIRST, 0, 7, 1, false), 1, 2)), Ok(true));
    drop(side);
    assert_eq!(budget.used_bytes(), 0);
}

/// [window-2]: the block needed next has room, also in parts, when all shared memory is used.
#[test]
fn without_memory_one_symbol_in_parts_is_kept() {
    let budget = MemoryBudget::new(1_000);
    let mut greedy = MemoryReservation::open(&budget, 0).unwrap();
    while greedy.take(1) {}
    let mut side = side();
    let mut own = MemoryReservation::open(&budget, 0).unwrap();
    while own.take(1) {}
    side.charge_to(own);
    for esi in 0..50 {
        assert_eq!(push(&mut side, part(symbol(StreamId::FIRST, 0, esi, 1, false), 0, 2)), Ok(false));
    }
    assert_eq!(push(&mut side, part(symbol(StreamId::FIRST, 0, 48, 1, false), 1, 2)), Ok(false), "it had to make room");
    assert_eq!(push(&mut side, part(symbol(StreamId::FIRST, 0, 48, 1, false), 0, 2)), Ok(true));
}

/// Waiting parts of a symbol are dropped once its block is decoded.
#[test]
fn parts_of_a_decoded_block_are_given_back() {
    let budget = MemoryBudget::new(1_000_000);
    let mut side = side();
    side.charge_to(MemoryReservation::open(&budget, 0).unwrap());
    assert_eq!(push(&mut side, part(symbol(StreamId::FIRST, 0, 5, 1, false), 0, 2)), Ok(false));
    let waiting = budget.used_bytes();
    assert_eq!(push_block(&mut side, StreamId::FIRST, 0, false), Ok(true));
    assert!(budget.used_bytes() < waiting, "{} {waiting}", budget.used_bytes());
}
