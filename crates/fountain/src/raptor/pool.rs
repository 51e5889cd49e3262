//! Choice of segment states by the sender.

use super::derived::{Purpose, derived};
use super::state::State;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Number of reusable states of a sender. The first 1024 segments of a block, 22 times the block's size, have no
/// repetition.
pub const POOL_STATES: usize = 1024;

/// Number of consecutive blocks that start at the same state. The blocks of a window thus share few graphs, which then
/// stay in the processor's cache and suit [`write_segments`](super::EncoderGroup::write_segments).
const BLOCKS_PER_OFFSET: u32 = 32;

/// Distance between the starts of neighbouring groups of blocks. It is odd, so that all starts occur, and exceeds the
/// about 50 segments of a block on a good path.
const OFFSET_STEP: u32 = 389;

/// States that a sender writes into its segments' headers, drawn from a fixed set so that both endpoints can cache graphs.
///
/// The thesis's sender instead draws all states from one running generator. A receiver cannot distinguish the two,
/// since each header carries the whole state.
#[derive(Debug, Clone)]
pub struct StatePool {
    states: Vec<State>,
}

impl StatePool {
    /// Makes the pool of a connection from the initial state of its generator: [`POOL_STATES`] states, each of which
    /// draws another graph.
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

    /// Returns the state of the block's segment number `index`, from 0. Within a block, states repeat only after all
    /// have been used, and then in the same order.
    #[must_use]
    pub fn state(&self, index: u32, block_id: u32) -> State {
        let offset = (block_id / BLOCKS_PER_OFFSET).wrapping_mul(OFFSET_STEP);
        // The pool's size divides 2³², so wrapping preserves the remainder.
        self.states[offset.wrapping_add(index) as usize % POOL_STATES]
    }
}
