//! Cache of drawn graphs, because drawing one costs more than encoding with it.

use super::graph::SegmentGraph;
use super::state::State;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;

/// Bounded cache of segment graphs with least-recently-used eviction.
///
/// An entry takes about 20 kB, so a limit of [`POOL_STATES`](super::POOL_STATES) entries is at most 21 MB. A peer that repeats no state
/// gains nothing from the cache and costs no more memory than the limit.
#[derive(Debug)]
pub struct GraphCache {
    limit: usize,
    /// Number of calls of `get`; orders entries by last use.
    clock: u64,
    entries: BTreeMap<State, Entry>,
    /// Key of each entry, by last use.
    by_use: BTreeMap<u64, State>,
}

#[derive(Debug)]
struct Entry {
    graph: Arc<SegmentGraph>,
    used: u64,
}

impl GraphCache {
    /// Makes a cache of at most `limit` graphs; 0 caches nothing. Memory is allocated per entry.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit, clock: 0, entries: BTreeMap::new(), by_use: BTreeMap::new() }
    }

    /// Returns the graph of `state`; draws it if it is not cached.
    pub fn get(&mut self, state: State) -> Arc<SegmentGraph> {
        let key = state.canonical();
        self.clock += 1;
        if let Some(entry) = self.entries.get_mut(&key) {
            self.by_use.remove(&entry.used);
            self.by_use.insert(self.clock, key);
            entry.used = self.clock;
            return Arc::clone(&entry.graph);
        }
        let graph = Arc::new(SegmentGraph::new(key));
        if self.limit > 0 {
            self.make_room();
            self.by_use.insert(self.clock, key);
            self.entries.insert(key, Entry { graph: Arc::clone(&graph), used: self.clock });
        }
        graph
    }

    /// Returns the number of cached graphs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if no graph is cached.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn make_room(&mut self) {
        while self.entries.len() >= self.limit {
            let Some((_, oldest)) = self.by_use.pop_first() else { return };
            self.entries.remove(&oldest);
        }
    }
}
