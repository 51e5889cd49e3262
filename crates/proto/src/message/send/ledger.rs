//! What the peer must know to prove which symbols it has (`spec/protocol.md` \[message-9\]).

use std::collections::VecDeque;

use dfcp_fountain::kernel::Kernel;
use dfcp_fountain::random_linear::{BlockShape, Encoder};
use dfcp_wire::feedback::{MessageRun, MessageRuns, MessagesState, SymbolSet};

use crate::error::PeerMisbehaved;
use crate::limits::MESSAGE_IDS_MAX;
use crate::proof::SECRET_BYTES;

/// The messages begun lately.
#[derive(Debug)]
pub(super) struct Ledger {
    kernel: Kernel,
    proofs: bool,
    /// The id of the first entry.
    first: u64,
    entries: VecDeque<Entry>,
}

#[derive(Debug)]
struct Entry {
    /// Those of its source symbols, one behind the other; a single one needs no memory of its own.
    secrets: Secrets,
    k: u16,
    symbol_bytes: u16,
    /// Symbols which the peer has proven to have, K at most.
    proven: u16,
}

#[derive(Debug)]
enum Secrets {
    One(u32),
    Many(Box<[u8]>),
}

/// What a record newly proves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Proven {
    pub(crate) symbols: u64,
    pub(crate) symbol_bytes: u64,
    pub(crate) messages: u64,
}

impl Ledger {
    pub(super) fn new(kernel: Kernel, proofs: bool) -> Self {
        Self { kernel, proofs, first: 0, entries: VecDeque::new() }
    }

    /// The id of the next message.
    pub(super) fn next_id(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// The next message is begun.
    pub(super) fn begin(&mut self, secrets: impl Iterator<Item = u32>, k: usize, symbol_bytes: usize) {
        if self.entries.len() == MESSAGE_IDS_MAX {
            self.entries.pop_front();
            self.first += 1;
        }
        let mut secrets = secrets;
        let secrets = if k > 1 && self.proofs {
            Secrets::Many(secrets.flat_map(u32::to_be_bytes).collect())
        } else {
            Secrets::One(secrets.next().unwrap_or_default())
        };
        self.entries.push_back(Entry { secrets, k: k as u16, symbol_bytes: symbol_bytes as u16, proven: 0 });
    }

    /// Takes in a report's record; `on_complete` is told of each message that is newly proven to be complete.
    ///
    /// # Errors
    /// It names messages which were not begun, or its proof is wrong.
    pub(super) fn take(
        &mut self,
        state: MessagesState,
        runs: &MessageRuns<'_>,
        mut on_complete: impl FnMut(u32),
    ) -> Result<Proven, PeerMisbehaved> {
        let (mut proof, mut at) = (0, u64::from(state.first_id));
        let mut is_remembered = true;
        for run in runs.clone() {
            match run {
                MessageRun::Empty(count) => at += u64::from(count),
                MessageRun::Complete(count) => {
                    for id in at..at + u64::from(count) {
                        match self.entry(id) {
                            Some(entry) => proof ^= entry.complete_proof(),
                            None => is_remembered = false,
                        }
                    }
                    at += u64::from(count);
                }
                MessageRun::Partial(symbols) => {
                    match self.entry(at) {
                        Some(entry) => proof ^= entry.partial_proof(self.kernel, symbols),
                        None => is_remembered = false,
                    }
                    at += 1;
                }
            }
        }
        if at > self.next_id() {
            return Err(PeerMisbehaved::ReportOfUnsentMessages { claimed: at - 1, sent: self.next_id() });
        }
        if !is_remembered {
            // Nothing of it can be checked, nor matters: it is older than all that is under way.
            return Ok(Proven::default());
        }
        if self.proofs && proof != state.proof {
            return Err(PeerMisbehaved::WrongMessageProof { message_id: state.first_id });
        }
        Ok(self.believe(state.first_id, runs, &mut on_complete))
    }

    fn believe(&mut self, first_id: u32, runs: &MessageRuns<'_>, on_complete: &mut impl FnMut(u32)) -> Proven {
        let (mut proven, mut at) = (Proven::default(), u64::from(first_id));
        for run in runs.clone() {
            match run {
                MessageRun::Empty(count) => at += u64::from(count),
                MessageRun::Complete(count) => {
                    for id in at..at + u64::from(count) {
                        if self.raise(id, usize::MAX, &mut proven) {
                            on_complete(id as u32);
                        }
                    }
                    at += u64::from(count);
                }
                MessageRun::Partial(symbols) => {
                    // One fewer than it takes: a record that means more says so.
                    self.raise(at, symbols.iter().count(), &mut proven);
                    at += 1;
                }
            }
        }
        proven
    }

    /// The peer has as many symbols of a message. Returns whether it is complete now, and was not before.
    fn raise(&mut self, id: u64, symbols: usize, proven: &mut Proven) -> bool {
        let Some(entry) = id.checked_sub(self.first).and_then(|at| self.entries.get_mut(at as usize)) else {
            return false;
        };
        let is_complete = symbols == usize::MAX;
        let most = if is_complete { entry.k } else { entry.k - 1 };
        let symbols = symbols.min(most.into()) as u16;
        let more = symbols.saturating_sub(entry.proven);
        entry.proven += more;
        proven.symbols += u64::from(more);
        proven.symbol_bytes += u64::from(more) * u64::from(entry.symbol_bytes);
        let is_news = is_complete && more > 0;
        proven.messages += u64::from(is_news);
        is_news
    }

    fn entry(&self, id: u64) -> Option<&Entry> {
        self.entries.get(id.checked_sub(self.first)? as usize)
    }
}

impl Entry {
    /// XOR of all its secrets.
    fn complete_proof(&self) -> u32 {
        match &self.secrets {
            Secrets::One(secret) => *secret,
            Secrets::Many(all) => {
                let secrets = all.as_chunks::<SECRET_BYTES>().0.iter();
                secrets.fold(0, |proof, secret| proof ^ u32::from_be_bytes(*secret))
            }
        }
    }

    /// XOR of the secrets that end these symbols.
    fn partial_proof(&self, kernel: Kernel, symbols: SymbolSet<'_>) -> u32 {
        let Secrets::Many(all) = &self.secrets else { return 0 };
        let shape = BlockShape::new(self.k.into(), all.len());
        let Some(encoder) = shape.ok().and_then(|shape| Encoder::new(kernel, shape, all).ok()) else { return 0 };
        let mut secret = [0; SECRET_BYTES];
        symbols.iter().fold(0, |proof, esi| match encoder.write_symbol(esi, &mut secret) {
            Ok(()) => proof ^ u32::from_be_bytes(secret),
            Err(_) => proof,
        })
    }
}
