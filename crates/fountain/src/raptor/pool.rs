//! The sender's choice of segment states.

use super::derived::{Purpose, derived};
use super::state::State;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Reusable states of a sender. A block sends its first 1024 segments, 22 times its own size, without a repetition.
pub const POOL_STATES: usize = 1024;

/// Consecutive blocks which start at the same state, so that a window of blocks shares few graphs at a time (which
/// then stay in the processor's cache, and serve [`write_segments`](super::write_segments)).
const BLOCKS_PER_OFFSET: u32 = 32;

/// Distance between the starts of neighbouring groups of blocks: odd, so that all starts occur, and more than the
/// about 50 segments that a block needs on a good path.
const OFFSET_STEP: u32 = 389;

/// The states a sender writes into its segments' headers, drawn from a fixed set so that both ends can cache graphs.
///
/// The thesis's sender keeps one generator running instead; a receiver cannot tell, since each header carries the
/// whole state.
#[derive(Debug, Clone)]
pub struct StatePool {
    states: Vec<State>,
}

impl StatePool {
    /// The pool of the connection with that initial state: [`POOL_STATES`] states, no two of which draw the same
    /// graph.
    #[must_use]
    pub fn new(initial: State) -> Self {
        let mut distinct = BTreeSet::new();
        let states = (0..=u32::MAX)
            .map(|number| derived(initial, Purpose::Segment, number))
            .filter(|state| distinct.insert(state.canonical()))
            .take(POOL_STATES)
            .collect();
        Self { states }
    }

    /// The state of the block's nth segment (`index` from 0). None repeats within a block before all are used; from
    /// there on they repeat in the same order.
    #[must_use]
    pub fn state(&self, index: u32, block_id: u32) -> State {
        let offset = (block_id / BLOCKS_PER_OFFSET).wrapping_mul(OFFSET_STEP);
        // The pool's size divides 2³², so that wrapping keeps the remainder.
        self.states[offset.wrapping_add(index) as usize % POOL_STATES]
    }
}
