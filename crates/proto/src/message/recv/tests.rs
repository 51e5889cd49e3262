//! Tests of the receiver of messages, with honest and with forged segments.

use dfcp_fountain::random_linear::Encoder;
use dfcp_wire::feedback::{self, MessageRun, Record, Report};
use dfcp_wire::segment::Message;

use super::*;
use crate::limits::{
    MESSAGE_GROUPS_HELD_MAX, MESSAGE_IDS_MAX, MESSAGE_PAGE_BYTES, MESSAGES_HELD_BYTES_MAX, MESSAGES_PARTIAL_MAX,
    MESSAGES_UNREAD_MAX,
};
use crate::shared::memory::{MemoryBudget, MemoryReservation};

const SYMBOL_SIZE: usize = 1_420;
const LIFETIME_US: u32 = 100_000;

struct World {
    recv: RecvMessages,
    memory: ReceiveMemory,
    number: u64,
}

impl World {
    fn new() -> Self {
        let recv = RecvMessages::new(Kernel::detect(), true, SYMBOL_SIZE);
        Self { recv, memory: ReceiveMemory::new(64 << 20), number: 1 << 20 }
    }

    /// Delivers a segment at `now_us`. Its message was handed over at 0, and the segment left at `sent_us`.
    fn push(&mut self, now_us: u64, sent_us: u32, segment: Message, payload: &[u8]) -> Result<(), Dropped> {
        let segment = Message { clock_us: sent_us, age_us: sent_us, ..segment };
        self.recv.push(Time::from_us(now_us), self.number, &segment, payload, &mut self.memory)
    }

    fn read(&mut self) -> Option<ReceivedMessage> {
        self.recv.read(&mut self.memory)
    }

    fn ids(&mut self) -> Vec<u32> {
        std::iter::from_fn(|| self.read()).map(|message| message.id).collect()
    }

    /// Returns the memory charged, bytes. Asserts the limits.
    fn charged(&self) -> u64 {
        let held = self.recv.store.held_bytes();
        assert!(held <= MESSAGES_HELD_BYTES_MAX, "{held}");
        let charged = (held + self.recv.unread.paid_bytes()) as u64;
        assert_eq!(self.memory.paid_bytes(), charged);
        charged
    }
}

fn one(id: u32, k: u16, length_bytes: u32) -> Message {
    let coverage = Coverage::One(MessageInfo { k, length_bytes });
    Message { id, esi: 0, coverage, clock_us: 0, age_us: 0, lifetime_us: LIFETIME_US }
}

fn payload(byte: u8, length: usize, secret: u32) -> Vec<u8> {
    let mut payload = vec![byte; length];
    payload.extend(secret.to_be_bytes());
    payload
}

#[test]
fn each_is_delivered_once_whatever_comes_twice() {
    let mut world = World::new();
    for id in [3, 0, 3, 1, 0, 3] {
        world.push(1_000, 0, one(id, 1, 5), &payload(id as u8, 5, id)).unwrap();
    }
    world.push(1_000, 0, Message { esi: 7, ..one(1, 1, 0) }, &[1; 4]).unwrap();
    assert_eq!(world.ids(), [3, 0, 1]);
    let stats = world.recv.stats();
    assert_eq!((stats.in_time, stats.late, stats.lost, stats.symbols_in_vain), (3, 0, 1, 4));
}

#[test]
fn what_comes_after_its_lifetime_is_late_and_not_delivered() {
    let mut world = World::new();
    world.push(1_000, 0, one(0, 1, 0), &[0; 4]).unwrap();
    // The delay of the same path is 99.9 ms longer, and then 100.1 ms.
    world.push(100_900, 0, one(1, 1, 0), &[0; 4]).unwrap();
    world.push(101_100, 0, one(2, 1, 0), &[0; 4]).unwrap();
    // As fast as the first datagram, but the message is 100.1 ms old at departure.
    world.push(101_100, 100_099, one(3, 1, 0), &[0; 4]).unwrap();
    world
        .push(500_000_000, 499_000_000, Message { lifetime_us: Message::LIFETIME_UNLIMITED, ..one(4, 1, 0) }, &[0; 4])
        .unwrap();
    assert_eq!(world.ids(), [0, 1, 4]);
    assert_eq!((world.recv.stats().in_time, world.recv.stats().late), (3, 2));
}

#[test]
fn a_group_gives_back_what_is_missing_and_its_times() {
    for missing in [vec![1], vec![0, 2], vec![0, 1, 2, 3]] {
        let mut world = World::new();
        let heads = [0, 1, 2, 3].map(|id| RowHead { length_bytes: 10 + id, created_us: 0, lifetime_us: LIFETIME_US });
        let row_bytes = crate::message::rows::row_bytes(13, true);
        let mut rows = vec![0; 4 * row_bytes];
        for (id, (head, row)) in heads.iter().zip(rows.chunks_exact_mut(row_bytes)).enumerate() {
            head.write(&vec![id as u8; 10 + id], Some(id as u32), row);
            if !missing.contains(&(id as u32)) {
                world
                    .push(1_000, 0, one(id as u32, 1, 10 + id as u32), &payload(id as u8, 10 + id, id as u32))
                    .unwrap();
            }
        }
        let shape = super::super::rows::group_shape(4, row_bytes).unwrap();
        let encoder = Encoder::new(Kernel::detect(), shape, &rows).unwrap();
        let coverage = Coverage::Several(MessageGroup { count: 4, source_symbols: 4 });
        for i in 0..missing.len() as u32 {
            let mut symbol = vec![0; row_bytes];
            encoder.write_symbol(4 + i, &mut symbol).unwrap();
            world.push(2_000, 500, Message { esi: 4 + i, coverage, ..one(0, 1, 0) }, &symbol).unwrap();
        }
        let mut messages: Vec<_> = std::iter::from_fn(|| world.read()).map(|it| (it.id, it.bytes)).collect();
        messages.sort();
        let expected: Vec<_> = (0..4).map(|id| (id, vec![id as u8; 10 + id as usize])).collect();
        assert_eq!(messages, expected, "without {missing:?}");
    }
}

#[test]
fn reports_name_what_has_come_three_times_with_its_proof() {
    let mut world = World::new();
    world.push(0, 0, one(0, 1, 5), &payload(0, 5, 0xA)).unwrap();
    world.push(0, 0, one(2, 1, 5), &payload(2, 5, 0xB0)).unwrap();
    let large = one(3, 2, 20);
    world.push(0, 0, Message { esi: 1, ..large }, &payload(9, 10, 0xC00)).unwrap();
    for telling in 0..4 {
        let mut buffer = [0; 400];
        let mut writer = ReportWriter::new(&mut buffer, &Report::default()).unwrap();
        world.recv.write_record(&mut writer, 300);
        let length = writer.finish();
        let (_, records) = feedback::decode(&buffer[..length]).unwrap();
        let told = records.into_iter().find_map(|record| match record {
            Record::Messages(state, runs) => Some((state, runs.collect::<Vec<_>>())),
            _ => None,
        });
        let Some((state, runs)) = told.filter(|_| telling < 3) else {
            assert_eq!(telling, 3);
            assert!(!world.recv.owes_news());
            continue;
        };
        assert_eq!((state.first_id, state.proof), (0, 0xCBA));
        let [MessageRun::Complete(1), MessageRun::Empty(1), MessageRun::Complete(1), MessageRun::Partial(symbols)] =
            runs[..]
        else {
            panic!("{runs:?}")
        };
        assert_eq!(symbols.iter().collect::<Vec<_>>(), [1]);
    }
}

/// Attack by an authenticated peer: incomplete messages must stay within the memory limits.
#[test]
fn messages_which_nobody_finishes_take_no_more_than_is_permitted() {
    let mut world = World::new();
    let k = 200;
    let length_bytes = 200 * 1_300;
    for id in 0..2_000 {
        let segment = Message { lifetime_us: u32::MAX - 1, ..one(id, k, length_bytes) };
        world.push(1_000, 0, segment, &payload(1, 1_300, 0)).unwrap();
        world.charged();
    }
    assert!((4..16).contains(&world.recv.store.partial.len()), "{}", world.recv.store.partial.len());
    for id in 0..4_000_u32 {
        let coverage = Coverage::Several(MessageGroup { count: 250, source_symbols: 250 });
        let segment = Message { esi: 300, coverage, lifetime_us: u32::MAX - 1, ..one(250 * id, 1, 0) };
        let _dropped_or_not = world.push(1_000, 0, segment, &[1; 1_408]);
        assert!(world.charged() > 0 && world.recv.store.groups.len() < 16);
    }
}

#[test]
fn small_messages_and_groups_which_nobody_finishes_are_kept_up_to_a_number() {
    let mut world = World::new();
    for id in 0..5_000 {
        world.push(1_000, 0, Message { lifetime_us: u32::MAX - 1, ..one(id, 2, 2) }, &payload(1, 1, 0)).unwrap();
        world.charged();
    }
    assert_eq!(world.recv.store.partial.len(), MESSAGES_PARTIAL_MAX);
    let coverage = Coverage::Several(MessageGroup { count: 2, source_symbols: 2 });
    let mut world = World::new();
    for at in 0..5_000 {
        let segment = Message { esi: 5, coverage, lifetime_us: u32::MAX - 1, ..one(2 * at, 1, 0) };
        world.push(1_000, 0, segment, &[1; 16]).unwrap();
        world.charged();
    }
    assert_eq!(world.recv.store.groups.len(), MESSAGE_GROUPS_HELD_MAX);
}

#[test]
fn a_message_is_of_one_group_only() {
    let mut world = World::new();
    let mut group = |first, count, bytes: usize| {
        let coverage = Coverage::Several(MessageGroup { count, source_symbols: count });
        world.push(0, 0, Message { esi: 300, coverage, ..one(first, 1, 0) }, &vec![1; bytes])
    };
    group(100, 4, 20).unwrap();
    group(100, 4, 20).unwrap();
    for (first, count, bytes) in [(100, 4, 21), (100, 3, 20), (97, 4, 20), (103, 2, 20), (50, 200, 20), (101, 2, 20)] {
        assert!(group(first, count, bytes).is_err(), "{first}, {count}, {bytes}");
    }
    group(98, 2, 20).unwrap();
    group(104, 2, 20).unwrap();
}

/// All stored rows are of expired messages, or of ids that are too old. They are freed, whatever their lifetimes.
#[test]
fn known_messages_go_with_their_time_and_with_the_window() {
    for (lifetime_us, later_us, later_id) in [(u32::MAX - 1, 2_000, 40_000), (100_000, 300_000, 5_001)] {
        let mut world = World::new();
        for id in 0..5_000 {
            world.push(1_000, 0, Message { lifetime_us, ..one(id, 1, 40) }, &payload(1, 40, 0)).unwrap();
        }
        assert_eq!(world.ids().len(), 4_096);
        let filled = world.recv.store.held_bytes();
        assert!((5_000 * 56..5_000 * 60).contains(&filled), "{filled}");
        world.push(later_us, 0, one(later_id, 1, 0), &[0; 4]).unwrap();
        assert!(world.recv.store.held_bytes() < 3 * MESSAGE_PAGE_BYTES, "{}", world.recv.store.held_bytes());
        world.charged();
    }
    let mut world = World::new();
    world.push(0, 0, one(0, 1, 0), &[0; 4]).unwrap();
    world.recv.forget(Time::from_s(2), &mut world.memory);
    assert_eq!(world.recv.store.held_bytes(), 0, "also when nothing comes any more");
}

/// Also in plaintext, where an empty message has no byte at all.
#[test]
fn empty_messages_are_charged() {
    for proofs in [true, false] {
        let mut world = World::new();
        world.recv = RecvMessages::new(Kernel::detect(), proofs, SYMBOL_SIZE);
        for id in 0..16_384 {
            let segment = Message { lifetime_us: u32::MAX - 1, ..one(id, 1, 0) };
            world.push(1_000, 0, segment, &[0; 4][..if proofs { 4 } else { 0 }]).unwrap();
        }
        let unread = world.charged();
        assert_eq!(world.ids().len(), MESSAGES_UNREAD_MAX);
        let row = if proofs { 16 } else { 12 };
        assert!(unread > world.charged() + 4_096 * 48);
        assert!((16_384 * row..16_384 * row + 20_000).contains(&world.charged()), "{}", world.charged());
    }
}

/// Other sessions hold all memory of the endpoint.
#[test]
fn without_memory_messages_come_one_by_one() {
    let budget = MemoryBudget::new(1 << 20);
    let mut others = MemoryReservation::open(&budget, 0).unwrap();
    while others.take(1 << 10) {}
    let mut more = MemoryReservation::open(&budget, 0).unwrap();
    while more.take(1) {}
    let mut world = World::new();
    // Use up the budget, until the share of a new reservation is zero.
    let mut rest = [0; 8].map(|_| MemoryReservation::open(&budget, 0).unwrap());
    rest.iter_mut().for_each(|rest| while rest.take(1) {});
    world.memory.charge_to(MemoryReservation::open(&budget, 0).unwrap());
    for id in 0..1_000 {
        world.push(1_000, 0, one(id, 1, 1_300), &payload(1, 1_300, 0)).unwrap();
        assert_eq!(world.push(1_000, 0, one(id + 1, 1, 0), &[0; 4]), Err(Dropped::NoMemory), "two wait");
        assert_eq!(world.push(1_000, 0, one(id + 1, 2, 20), &[0; 14]), Err(Dropped::NoMemory));
        assert_eq!((world.ids(), world.charged()), (vec![id], 0));
    }
    drop(rest);
    drop((others, more));
    world.push(1_000, 0, one(1_001, 2, 20), &[0; 14]).unwrap();
    world.push(1_000, 0, Message { esi: 1, ..one(1_001, 2, 20) }, &[0; 14]).unwrap();
    assert_eq!(world.ids(), [1_001]);
}

/// The first symbol of message 0 was lost. The sender repairs it within its window (\[message-8\]), and the receiver
/// must still know the id.
#[test]
fn without_memory_what_is_reliable_is_taken_behind_thousands_of_younger_ones() {
    let budget = MemoryBudget::new(0);
    let mut world = World::new();
    world.memory.charge_to(MemoryReservation::open(&budget, 0).unwrap());
    let reliable = |id| Message { lifetime_us: Message::LIFETIME_UNLIMITED, ..one(id, 1, 20) };
    for id in 1..MESSAGE_IDS_MAX as u32 {
        world.push(1_000, 0, reliable(id), &payload(1, 20, id)).unwrap();
        assert_eq!((world.ids(), world.charged()), (vec![id], 0));
        if id % 1_000 == 300 {
            world.push(1_000, 0, reliable(id / 2), &payload(1, 20, id / 2)).unwrap();
            assert_eq!(world.ids(), [0; 0], "{} came twice", id / 2);
        }
    }
    world.push(2_000, 0, reliable(0), &payload(0, 20, 5)).unwrap();
    world.push(3_000, 0, reliable(0), &payload(0, 20, 5)).unwrap();
    assert_eq!((world.ids(), world.recv.stats().lost), (vec![0], 0));
    assert!(world.recv.owes_news());
}

#[test]
fn ids_far_ahead_and_long_ago_are_dropped() {
    let mut world = World::new();
    world.number = 100;
    assert!(world.push(0, 0, one(101, 1, 0), &[0; 4]).is_err(), "no 102 datagrams were sent");
    world.number = 1 << 31;
    for id in [0, 1 << 20, (1 << 20) - MESSAGE_IDS_MAX as u32 + 1] {
        world.push(0, 0, one(id, 1, 0), &[0; 4]).unwrap();
    }
    assert!(world.push(0, 0, one((1 << 20) - MESSAGE_IDS_MAX as u32, 1, 0), &[0; 4]).is_err());
    assert!(world.push(0, 0, one(0, 1, 0), &[0; 4]).is_err(), "it might be delivered twice");
    assert_eq!(world.ids().len(), 3);
}

#[test]
fn segments_which_are_not_what_they_say_are_dropped() {
    let mut world = World::new();
    for (segment, bytes) in [
        (one(0, 1, 5), 8),
        (one(0, 1, 5), 10),
        (one(0, 1, 1_409), 1_413),
        (one(0, 2, 20), 13),
        (
            Message {
                coverage: Coverage::Several(MessageGroup { count: 2, source_symbols: 4 }),
                esi: 4,
                ..one(0, 1, 0)
            },
            40,
        ),
        (
            Message {
                coverage: Coverage::Several(MessageGroup { count: 2, source_symbols: 2 }),
                esi: 4,
                ..one(0, 1, 0)
            },
            3,
        ),
    ] {
        assert!(world.push(0, 0, segment, &vec![0; bytes]).is_err(), "{segment:?}, {bytes}");
    }
    world.push(0, 0, one(0, 2, 20), &[0; 14]).unwrap();
    assert!(world.push(0, 0, one(0, 4, 20), &[0; 9]).is_err(), "another K");
    assert_eq!((world.ids().len(), world.recv.stats().in_time), (0, 0));
}

#[test]
fn an_application_that_does_not_read_keeps_the_newest() {
    let mut world = World::new();
    let count = MESSAGES_UNREAD_MAX as u32 + 10;
    (0..count).for_each(|id| world.push(0, 0, one(id, 1, 0), &[0; 4]).unwrap());
    let ids = world.ids();
    assert_eq!((ids.len(), ids[0]), (MESSAGES_UNREAD_MAX, 10));
    assert_eq!((world.recv.stats().unread, world.recv.stats().lost), (10, 0));
}

#[test]
fn what_comes_late_of_a_message_that_is_given_up_is_no_harm() {
    let mut world = World::new();
    world.push(0, 0, one(0, 2, 20), &[0; 14]).unwrap();
    // Message 0 has expired, and its symbol was discarded.
    world.push(1_000_000, 999_000, Message { lifetime_us: u32::MAX - 1, ..one(1, 1, 0) }, &[0; 4]).unwrap();
    assert_eq!((world.charged() > 0, world.recv.store.partial.len()), (true, 0));
    world.push(1_000_000, 0, Message { esi: 1, ..one(0, 2, 20) }, &[0; 14]).unwrap();
    assert_eq!(world.ids(), [1]);
}

/// Generates arbitrary well-formed segments, mostly of few messages, with the length of their payload.
fn any_segment() -> impl proptest::strategy::Strategy<Value = (Message, usize)> {
    use proptest::prelude::*;
    let coverage = prop_oneof![
        (1_u16..6, prop_oneof![0_u32..40, Just(262_144)])
            .prop_map(|(k, length_bytes)| Coverage::One(MessageInfo { k, length_bytes })),
        (2_u16..9, 0_u16..3)
            .prop_map(|(count, more)| { Coverage::Several(MessageGroup { count, source_symbols: count + more / 2 }) }),
    ];
    let id = prop_oneof![8 => 0_u32..30, 1 => any::<u32>()];
    let times = (any::<u32>(), 0_u32..300_000, prop_oneof![0_u32..300_000, Just(u32::MAX), any::<u32>()]);
    (id, 0_u32..20, coverage, times, prop_oneof![0_usize..40, Just(1_400)]).prop_map(
        |(id, esi, coverage, (clock_us, age_us, lifetime_us), free_bytes)| {
            let segment = Message { id, esi, coverage, clock_us, age_us, lifetime_us };
            let bytes = match coverage {
                // Mostly use the payload length that the segment states.
                Coverage::One(MessageInfo { k, length_bytes }) if free_bytes % 4 > 0 => {
                    length_bytes.div_ceil(k.into()) as usize + 4
                }
                _ => free_bytes,
            };
            (segment, bytes)
        },
    )
}

proptest::proptest! {
    /// An authenticated peer may send any segment. No message is delivered twice, no message exceeds 262 144 bytes, and
    /// memory stays within the limits and is charged.
    #[test]
    fn whatever_a_peer_sends_each_message_comes_once_and_memory_is_paid_for(
        steps in proptest::collection::vec((any_segment(), 0_u64..20_000, proptest::bool::weighted(0.1)), 1..120),
    ) {
        let (mut world, mut seen, mut now_us) = (World::new(), std::collections::BTreeSet::new(), 0);
        let (mut read, mut refused) = (0, 0);
        for ((segment, bytes), pause_us, reads) in steps {
            now_us += pause_us;
            if segment.check().is_err() {
                continue;
            }
            world.number += 1;
            let pushed =
                world.recv.push(Time::from_us(now_us), world.number, &segment, &vec![7; bytes], &mut world.memory);
            refused += u32::from(pushed.is_err());
            world.charged();
            while reads && let Some(message) = world.read() {
                proptest::prop_assert!(seen.insert(message.id), "{} came twice", message.id);
                proptest::prop_assert!(message.bytes.len() <= 262_144);
                read += 1;
            }
        }
        let stats = world.recv.stats();
        proptest::prop_assert!(stats.in_time >= read, "{stats:?}, {read} read, {refused} refused");
    }
}
