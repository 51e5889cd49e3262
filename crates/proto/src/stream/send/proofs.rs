//! The sender's side of proofs of decoding (`spec/protocol.md` §6.1): secrets, and checks of reports.

use std::collections::VecDeque;
use std::fmt;

use dfcp_wire::feedback::{Run, StreamState};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

use crate::error::PeerMisbehaved;
use crate::proof::Layout;
use crate::random::SeekableRng;

/// Generator of the secrets for all blocks and streams of a session. No secret is drawn twice, or one decoded stream
/// would prove others.
pub(crate) struct Secrets(SeekableRng<ChaCha8Rng>);

impl Secrets {
    /// Creates a generator from a secret `seed` that no other session uses (\[proof-4\]).
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        Self(SeekableRng::new(seed))
    }

    /// Draws the next secret.
    pub(crate) fn draw(&mut self) -> u32 {
        self.0.with(|secrets| secrets.next_u32())
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

/// Proofs of a stream's blocks, each kept until all blocks before it are acknowledged, too: 4 bytes per block of the
/// window, and one XOR over everything before the window. Without proofs nothing is stored, and every check succeeds.
pub(crate) struct Proofs {
    are_on: bool,
    /// XOR of the proofs of the blocks before the window.
    acknowledged: u32,
    /// Proofs of the blocks in the window, oldest first.
    window: VecDeque<u32>,
}

impl Proofs {
    pub(crate) const fn new(are_on: bool) -> Self {
        Self { are_on, acknowledged: 0, window: VecDeque::new() }
    }

    pub(crate) const fn are_on(&self) -> bool {
        self.are_on
    }

    /// Writes secrets into the `rows` of the block that is cut next.
    pub(crate) fn seal(&mut self, secrets: Option<&mut Secrets>, layout: Layout, rows: &mut [u8]) {
        if let Some(Secrets(secrets)) = secrets {
            let proof = secrets.with(|secrets| layout.fill(rows, || secrets.next_u32()));
            self.window.push_back(proof);
        }
    }

    /// Moves the oldest block of the window out of it.
    pub(crate) fn advance(&mut self) {
        self.acknowledged ^= self.window.pop_front().unwrap_or_default();
    }

    /// Checks that a stream's record proves the decoding of the first `blocks` blocks of the window, which starts at
    /// `first_id`, and of the complete blocks in the list behind them.
    ///
    /// # Errors
    /// [`PeerMisbehaved::WrongProof`] if a proof is wrong.
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
        // `end` is one past the last named block, and may lie outside the window.
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

    /// Checks that `proof` proves the decoding of every block before `end`, which is one past the last block of the
    /// window (\[proof-6\]).
    ///
    /// # Errors
    /// [`PeerMisbehaved::WrongProof`] if the proof is wrong.
    pub(crate) fn check_end(&self, end: u32, proof: u32) -> Result<(), PeerMisbehaved> {
        let right = !self.are_on() || proof == self.acknowledged ^ self.xor(0, self.window.len());
        if right { Ok(()) } else { Err(PeerMisbehaved::WrongProof { block_id: end.saturating_sub(1) }) }
    }

    /// Returns the XOR of the proofs of `count` blocks of the window. Blocks that were never sent have no proof.
    fn xor(&self, from: usize, count: usize) -> u32 {
        self.window.iter().skip(from).take(count).fold(0, |xor, proof| xor ^ proof)
    }
}

impl fmt::Debug for Proofs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Omits the generator and the proofs, which are as confidential as secrets.
        f.debug_struct("Proofs").field("on", &self.are_on()).field("blocks", &self.window.len()).finish_non_exhaustive()
    }
}
