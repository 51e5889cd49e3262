use dfcp_fountain::raptor::{Encoder, StatePool};

use super::*;
use crate::shared::memory::MemoryBudget;

/// Segments of a block's first turn, from an honest peer without redundancy: rarely enough for decoding.
const FIRST_TURN_SEGMENTS: u32 = 45;

fn receiver(window_blocks: u32, budget_bytes: Option<u64>) -> (ClassicReceiver, State, Option<Arc<MemoryBudget>>) {
    let initial = State::new(5_000, 6_000, 70_000).unwrap();
    let redundancy_bytes = FIRST_TURN_SEGMENTS * SEGMENT_BYTES as u32;
    let mut config = Config::danger_classic();
    config.classic.redundancy_bytes = redundancy_bytes;
    let mut receiver = ClassicReceiver::new(&config, initial);
    receiver.set_window_blocks(window_blocks);
    let budget = budget_bytes.map(MemoryBudget::new);
    if let Some(budget) = &budget {
        receiver.charge_to(MemoryReservation::open(budget, reserve_bytes(&config)).unwrap());
    }
    (receiver, initial, budget)
}

/// Sends the blocks of a window in turns: first all segments of each block's first turn, then one segment of each
/// unacknowledged block per turn. Returns the further turns until all blocks are acknowledged, and the segments sent in
/// them.
fn turns_until_decoded(window_blocks: u32, budget_bytes: Option<u64>) -> (u32, u32) {
    let (mut receiver, initial, budget) = receiver(window_blocks, budget_bytes);
    let pool = StatePool::new(initial);
    let source: Vec<_> = (0..SOURCE_BYTES).map(|at| (at * 7 + at / 251) as u8).collect();
    let encoders: Vec<_> = (0..window_blocks).map(|id| Encoder::new(initial, id, &source).unwrap()).collect();
    let mut waiting: Vec<_> = (0..window_blocks).collect();
    let mut drawn = std::collections::BTreeMap::new();
    let mut now = Time::from_s(1);
    let mut send = |receiver: &mut ClassicReceiver, block_id: u32, index: u32| {
        let state = pool.state(index, block_id);
        let graph = drawn.entry(state).or_insert_with(|| SegmentGraph::new(state));
        let mut symbols = [0; SEGMENT_BYTES];
        encoders[block_id as usize].write_segment(graph, &mut symbols).unwrap();
        now += Duration::from_micros(120);
        let _refused_or_taken = receiver.push(now, block_id, state.words(), None, &symbols);
        if let Some(budget) = &budget {
            assert!(budget.used_bytes() <= budget.bytes_max());
        }
    };
    for &block_id in &waiting {
        (0..FIRST_TURN_SEGMENTS).for_each(|index| send(&mut receiver, block_id, index));
    }
    let (mut turns, mut sent) = (0, 0);
    while let Some(acked) = Some(std::iter::from_fn(|| receiver.next_ack()).collect::<Vec<_>>()) {
        waiting.retain(|id| !acked.contains(id));
        if waiting.is_empty() || turns == 100 {
            break;
        }
        for &block_id in &waiting {
            send(&mut receiver, block_id, FIRST_TURN_SEGMENTS + turns);
        }
        turns += 1;
        sent += waiting.len() as u32;
    }
    let mut read = vec![0; SOURCE_BYTES];
    for _ in 0..window_blocks {
        assert_eq!(receiver.read(&mut read), SOURCE_BYTES);
        assert_eq!(read, source);
    }
    (turns, sent)
}

/// Regression: with little memory, only the block needed next could be decoded, and it got one segment per turn of the
/// whole window. A path of 100 Mbit/s then delivered 0.5 Mbit/s.
#[test]
fn a_window_of_blocks_each_a_segment_short_is_decoded_in_little_memory() {
    let (turns, sent) = turns_until_decoded(100, None);
    let (with_little, sent_with_little) = turns_until_decoded(100, Some(32 << 20));
    let figures = format!("{turns} turns, {sent} segments; {with_little} and {sent_with_little} in little memory");
    assert!((1..8).contains(&turns) && sent >= 100, "{figures}: the first turns do not decode");
    assert!(with_little <= turns + 2 && sent_with_little <= 2 * sent, "{figures}");
}
