//! The neighbour graphs of the segments that a classic receiver holds: each exists, and is paid for, once.

use std::collections::BTreeMap;
use std::sync::Arc;

use dfcp_fountain::raptor::{SegmentGraph, State};

use crate::limits;
use crate::shared::memory::MemoryReservation;

/// Bytes that a graph takes, with its place among the others.
pub(super) const GRAPH_MEMORY_BYTES: u64 = 24 << 10;

/// Every graph which was drawn and paid for. Blocks that use a graph keep it here; up to [`limits::CLASSIC_GRAPHS_MAX`] stay
/// for later segments, since an honest peer uses its states again and drawing a graph is dear. Graphs which a block pays for out
/// of the reserve are that block's own and do not stand here.
#[derive(Debug, Default)]
pub(super) struct Graphs {
    entries: BTreeMap<State, Entry>,
    /// Counts calls of [`get`](Self::get); orders entries by last use.
    clock: u64,
    /// Blocks have released graphs since entries were last searched for unused ones.
    were_released: bool,
}

#[derive(Debug)]
struct Entry {
    graph: Arc<SegmentGraph>,
    used: u64,
}

impl Graphs {
    /// The graph of `state`, drawn if there is none yet; `None` if `reservation` cannot pay for it.
    pub(super) fn get(&mut self, state: State, reservation: &mut MemoryReservation) -> Option<Arc<SegmentGraph>> {
        let key = state.canonical();
        self.clock += 1;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.used = self.clock;
            return Some(Arc::clone(&entry.graph));
        }
        if self.entries.len() >= limits::CLASSIC_GRAPHS_MAX {
            self.make_room(limits::CLASSIC_GRAPHS_MAX * 3 / 4, reservation);
        }
        if !reservation.take(GRAPH_MEMORY_BYTES) {
            self.make_room(0, reservation);
            if !reservation.take(GRAPH_MEMORY_BYTES) {
                return None;
            }
        }
        let graph = Arc::new(SegmentGraph::new(key));
        self.entries.insert(key, Entry { graph: Arc::clone(&graph), used: self.clock });
        Some(graph)
    }

    /// A block has let go of its graphs.
    pub(super) fn on_released(&mut self) {
        self.were_released = true;
    }

    /// Forgets those of the graphs which no block uses that are longest unused, until `kept` graphs are left if there are as
    /// many. Looks through them only if that can help, so the work of a segment that is refused stays small.
    fn make_room(&mut self, kept: usize, reservation: &mut MemoryReservation) {
        if !std::mem::take(&mut self.were_released) {
            return;
        }
        let is_unused = |(_, entry): &(&State, &Entry)| Arc::strong_count(&entry.graph) == 1;
        let mut unused: Vec<_> = self.entries.iter().filter(is_unused).map(|(&key, entry)| (entry.used, key)).collect();
        unused.sort_unstable();
        unused.truncate(self.entries.len().saturating_sub(kept));
        for (_, key) in &unused {
            self.entries.remove(key);
        }
        reservation.give_back(unused.len() as u64 * GRAPH_MEMORY_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::memory::MemoryBudget;

    fn state(n: u32) -> State {
        State::new(4_096 + n * 64, 8_192 + n * 64, 16_384 + n * 64).unwrap()
    }

    /// A reservation which can pay for that many graphs: one alone gets half of what there is.
    fn of_graphs(graphs: u64) -> MemoryReservation {
        MemoryReservation::open(&MemoryBudget::new(2 * graphs * GRAPH_MEMORY_BYTES), 0).unwrap()
    }

    #[test]
    fn a_graph_that_many_blocks_use_is_paid_for_once() {
        let (mut graphs, mut reservation) = (Graphs::default(), of_graphs(10));
        let held: Vec<_> = (0..100).map(|n| graphs.get(state(n % 10), &mut reservation).unwrap()).collect();
        assert_eq!(reservation.shared_bytes(), 10 * GRAPH_MEMORY_BYTES);
        assert!(graphs.get(state(10), &mut reservation).is_none());
        drop(held);
    }

    #[test]
    fn graphs_in_use_stay_paid_and_others_make_room() {
        let (mut graphs, mut reservation) = (Graphs::default(), of_graphs(10));
        let mut held: Vec<_> = (0..10).map(|n| graphs.get(state(n), &mut reservation).unwrap()).collect();
        held.truncate(4);
        assert!(graphs.get(state(10), &mut reservation).is_none(), "nobody said so");
        graphs.on_released();
        assert!(graphs.get(state(10), &mut reservation).is_some());
        assert_eq!(reservation.shared_bytes(), 5 * GRAPH_MEMORY_BYTES);
        let again = graphs.get(state(0), &mut reservation).unwrap();
        assert!(Arc::ptr_eq(&again, &held[0]));
    }

    #[test]
    fn what_nobody_uses_is_bounded() {
        let (mut graphs, mut reservation) = (Graphs::default(), MemoryReservation::default());
        for n in 0..limits::CLASSIC_GRAPHS_MAX as u32 + 100 {
            graphs.get(state(n), &mut reservation).unwrap();
            graphs.on_released();
            assert!(graphs.entries.len() <= limits::CLASSIC_GRAPHS_MAX);
            assert_eq!(reservation.shared_bytes(), graphs.entries.len() as u64 * GRAPH_MEMORY_BYTES);
        }
        let newest = state(limits::CLASSIC_GRAPHS_MAX as u32 + 99);
        assert!(
            graphs.entries.contains_key(&newest.canonical()) && !graphs.entries.contains_key(&state(0).canonical())
        );
    }
}
