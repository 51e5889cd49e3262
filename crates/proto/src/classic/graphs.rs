//! Cache of the neighbour graphs of received segments. Each graph is drawn, and charged to memory, once.

use std::collections::BTreeMap;
use std::sync::Arc;

use dfcp_fountain::raptor::{SegmentGraph, State};

use crate::limits;
use crate::shared::memory::MemoryReservation;

/// Memory of a graph, with its place in the cache, bytes.
pub(super) const GRAPH_MEMORY_BYTES: u64 = 24 << 10;

/// All graphs that were drawn and charged. Graphs in use by blocks always stay; in all, up to
/// [`limits::CLASSIC_GRAPHS_MAX`] are kept for later segments, since an honest peer reuses its states and drawing a
/// graph is expensive. A graph that a block pays for from the reserve belongs to that block only, and is not cached.
#[derive(Debug, Default)]
pub(super) struct Graphs {
    entries: BTreeMap<State, Entry>,
    /// Counter of [`get`](Self::get) calls, which orders entries by last use.
    clock: u64,
    /// Blocks have released graphs since the last search for unused entries.
    were_released: bool,
}

#[derive(Debug)]
struct Entry {
    graph: Arc<SegmentGraph>,
    used: u64,
}

impl Graphs {
    /// Returns the graph of `state`, and draws it if necessary. `None` if `reservation` cannot pay for a new graph.
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

    /// Records that a block has released its graphs.
    pub(super) fn on_released(&mut self) {
        self.were_released = true;
    }

    /// Removes unused graphs, least recently used first, until `kept` graphs are left or no unused one is left.
    /// Searches only after graphs were released, so refusing a segment stays cheap.
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

    /// Returns a reservation that can pay for `graphs` graphs. A single reservation gets half of the budget.
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
