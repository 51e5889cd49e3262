//! The sender's side of proofs of decoding (`spec/protocol.md` §6.1): the secrets, and what reports must say.

use std::collections::VecDeque;
use std::fmt;

use dfcp_wire::feedback::{Report, Run};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

use crate::error::PeerMisbehaved;
use crate::proof::Layout;
use crate::random::SeekableRng;

/// SeekableRng the secrets of the blocks, and remembers each block's proof until all before it are acknowledged, too: 4 bytes
/// per block of the window, and one XOR over everything before it. Without proofs it does nothing and believes all.
pub(crate) struct Proofs {
    secrets: Option<SeekableRng<ChaCha8Rng>>,
    /// XOR of the proofs of the blocks before the window.
    acknowledged: u32,
    /// Those of the blocks in the window, oldest first.
    window: VecDeque<u32>,
}

impl Proofs {
    /// With proofs if there is a `secret`, which nobody else must know and no other connection use (\[proof-4\]).
    pub(crate) fn new(secret: Option<[u8; 32]>) -> Self {
        Self { secrets: secret.map(SeekableRng::new), acknowledged: 0, window: VecDeque::new() }
    }

    pub(crate) const fn are_on(&self) -> bool {
        self.secrets.is_some()
    }

    /// Puts secrets into the `rows` of the block which is cut next.
    pub(crate) fn seal(&mut self, layout: Layout, rows: &mut [u8]) {
        if let Some(secrets) = &mut self.secrets {
            let proof = secrets.with(|secrets| layout.fill(rows, || secrets.next_u32()));
            self.window.push_back(proof);
        }
    }

    /// The oldest block of the window has left it.
    pub(crate) fn advance(&mut self) {
        self.acknowledged ^= self.window.pop_front().unwrap_or_default();
    }

    /// Whether a report proves that `blocks` of the window, from its `first_id` on, and the complete ones in the list
    /// behind them have been decoded.
    ///
    /// # Errors
    /// [`PeerMisbehaved::WrongProof`] if it does not.
    pub(crate) fn check_report(
        &self,
        first_id: u32,
        blocks: usize,
        report: &Report,
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
        if report.proof_cumulative != self.acknowledged ^ self.xor(0, blocks) {
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
        if report.proof_listed == listed { Ok(()) } else { Err(wrong(named)) }
    }

    /// Whether `proof` proves that every block before `end`, one past the last of the window, has been decoded
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
