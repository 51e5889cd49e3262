//! The sender's side of proofs of decoding (`spec/protocol.md` §6.1): the secrets, and what reports must say.

use std::collections::VecDeque;
use std::fmt;

use dfcp_wire::feedback::{Run, StreamState};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

use crate::error::PeerMisbehaved;
use crate::proof::Layout;
use crate::random::SeekableRng;

/// Generator of the secrets of all blocks of a session, of every stream: none is drawn twice, or one decoded stream would
/// prove others.
pub(crate) struct Secrets(SeekableRng<ChaCha8Rng>);

impl Secrets {
    /// From a `seed` which nobody else must know and no other session use (\[proof-4\]).
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        Self(SeekableRng::new(seed))
    }

    /// The next one.
    pub(crate) fn draw(&mut self) -> u32 {
        self.0.with(|secrets| secrets.next_u32())
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

/// Remembers the proof of each of a stream's blocks until all before it are acknowledged, too: 4 bytes per block of the
/// window, and one XOR over everything before it. Without proofs it remembers nothing and believes all.
pub(crate) struct Proofs {
    are_on: bool,
    /// XOR of the proofs of the blocks before the window.
    acknowledged: u32,
    /// Those of the blocks in the window, oldest first.
    window: VecDeque<u32>,
}

impl Proofs {
    pub(crate) const fn new(are_on: bool) -> Self {
        Self { are_on, acknowledged: 0, window: VecDeque::new() }
    }

    pub(crate) const fn are_on(&self) -> bool {
        self.are_on
    }

    /// Puts secrets into the `rows` of the block which is cut next.
    pub(crate) fn seal(&mut self, secrets: Option<&mut Secrets>, layout: Layout, rows: &mut [u8]) {
        if let Some(Secrets(secrets)) = secrets {
            let proof = secrets.with(|secrets| layout.fill(rows, || secrets.next_u32()));
            self.window.push_back(proof);
        }
    }

    /// The oldest block of the window has left it.
    pub(crate) fn advance(&mut self) {
        self.acknowledged ^= self.window.pop_front().unwrap_or_default();
    }

    /// Checks that a stream's record proves that `blocks` of the window, from its `first_id` on, and the complete ones in the
    /// list behind them have been decoded.
    ///
    /// # Errors
    /// [`PeerMisbehaved::WrongProof`] if it does not.
    pub(crate) fn check_report(
        &self,
        first_id: u32,
        blocks: usize,
        state: &StreamState,
        runs: impl Iterator<Item = Run>,
    ) -> Result<(), PeerMisbehaved> {
        if !self.are_on() {
            return Ok(());
        }
        // A count names one past the last block, and what is named may lie outside the window.
        let wrong = |end: usize| {
            let last = (first_id as usize).saturating_add(end).saturating_sub(1);
            PeerMisbehaved::WrongProof { block_id: u32::try_from(last).unwrap_or(u32::MAX) }
        };
        if state.proof_cumulative != self.acknowledged ^ self.xor(0, blocks) {
            return Err(wrong(blocks));
        }
        let (mut listed, mut named, mut at) = (0, blocks, blocks);
        for run in runs {
            at += match run {
                Run::Complete(count) => {
                    let count = count as usize;
                    listed ^= self.xor(at, count);
                    named = at + count;
                    count
                }
                Run::Empty(count) => count as usize,
                Run::Open { .. } => 1,
            };
        }
        if state.proof_listed == listed { Ok(()) } else { Err(wrong(named)) }
    }

    /// Checks that `proof` proves that every block before `end`, one past the last of the window, has been decoded
    /// (\[proof-6\]).
    ///
    /// # Errors
    /// [`PeerMisbehaved::WrongProof`] if it does not.
    pub(crate) fn check_end(&self, end: u32, proof: u32) -> Result<(), PeerMisbehaved> {
        let right = !self.are_on() || proof == self.acknowledged ^ self.xor(0, self.window.len());
        if right { Ok(()) } else { Err(PeerMisbehaved::WrongProof { block_id: end.saturating_sub(1) }) }
    }

    /// XOR of the proofs of `count` blocks of the window; those which were never sent have none.
    fn xor(&self, from: usize, count: usize) -> u32 {
        self.window.iter().skip(from).take(count).fold(0, |xor, proof| xor ^ proof)
    }
}

impl fmt::Debug for Proofs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Neither the generator nor the proofs, which are as good as secrets.
        f.debug_struct("Proofs").field("on", &self.are_on()).field("blocks", &self.window.len()).finish_non_exhaustive()
    }
}
