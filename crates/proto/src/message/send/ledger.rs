//! Secrets with which the peer proves the symbols it has received (`spec/protocol.md` \[message-9\]).
//!
//! A record names runs of messages, and a run may span the whole ledger. Checking a run never takes a loop over its
//! messages: otherwise a peer could choose the cost of each of its reports.

use std::collections::{BTreeSet, VecDeque};

use dfcp_wire::feedback::{MessageRun, MessageRuns, MessagesState, SymbolSet};

use crate::error::PeerMisbehaved;
use crate::limits::MESSAGE_IDS_MAX;
use crate::proof::SECRET_BYTES;

/// Secrets of the last [`MESSAGE_IDS_MAX`] messages.
#[derive(Debug)]
pub(super) struct Ledger {
    proofs: bool,
    /// Message id of the first entry.
    first: u64,
    entries: VecDeque<Entry>,
    /// XOR of the secrets of all messages begun so far.
    sum: u32,
    /// Ids of messages in `entries` that the peer has not proven to be complete.
    incomplete: BTreeSet<u64>,
    /// Number of entry look-ups, to test the cost of a record.
    #[cfg(test)]
    pub(super) looked_at: std::cell::Cell<u64>,
}

#[derive(Debug)]
struct Entry {
    /// XOR of the secrets of all messages begun before this one.
    sum_before: u32,
    /// Concatenated secrets of the source symbols. Empty for a message of one symbol, which cannot be proven in part.
    secrets: Box<[u8]>,
    /// Secrets of the repair symbols sent so far, sorted by symbol id. A peer that names other symbols is lying.
    repairs: Vec<(u32, u32)>,
    k: u16,
    symbol_bytes: u16,
    /// Number of symbols that the peer has proven to have, at most K.
    proven: u16,
}

/// Symbols and messages that a record proves for the first time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Proven {
    pub(crate) symbols: u64,
    pub(crate) symbol_bytes: u64,
    pub(crate) messages: u64,
}

impl Ledger {
    pub(super) fn new(proofs: bool) -> Self {
        Self {
            proofs,
            first: 0,
            entries: VecDeque::new(),
            sum: 0,
            incomplete: BTreeSet::new(),
            #[cfg(test)]
            looked_at: std::cell::Cell::new(0),
        }
    }

    /// Returns the id of the next message.
    pub(super) fn next_id(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Adds the next message, and forgets the oldest one if the ledger is full.
    pub(super) fn begin(&mut self, secrets: impl Iterator<Item = u32>, k: usize, symbol_bytes: usize) {
        if self.entries.len() == MESSAGE_IDS_MAX {
            self.entries.pop_front();
            self.incomplete.remove(&self.first);
            self.first += 1;
        }
        self.incomplete.insert(self.next_id());
        let sum_before = self.sum;
        let mut all = Vec::new();
        for secret in secrets.filter(|_| self.proofs) {
            self.sum ^= secret;
            if k > 1 {
                all.extend(secret.to_be_bytes());
            }
        }
        let secrets = all.into_boxed_slice();
        let (k, symbol_bytes, repairs) = (k as u16, symbol_bytes as u16, Vec::new());
        self.entries.push_back(Entry { sum_before, secrets, repairs, k, symbol_bytes, proven: 0 });
    }

    /// Records the secret at the end of a repair symbol that is being sent.
    pub(super) fn on_repair(&mut self, id: u32, esi: u32, secret: u32) {
        let at = u64::from(id).checked_sub(self.first).filter(|_| self.proofs);
        let Some(entry) = at.and_then(|at| self.entries.get_mut(at as usize)).filter(|entry| entry.k > 1) else {
            return;
        };
        if let Err(place) = entry.repairs.binary_search_by_key(&esi, |&(esi, _)| esi) {
            entry.repairs.insert(place, (esi, secret));
        }
    }

    /// Takes in a report's record. Calls `on_complete` for each message that is newly proven to be complete.
    ///
    /// # Errors
    /// The record names messages that were not begun, or its proof is wrong.
    pub(super) fn take(
        &mut self,
        state: MessagesState,
        runs: &MessageRuns<'_>,
        mut on_complete: impl FnMut(u32),
    ) -> Result<Proven, PeerMisbehaved> {
        let (mut proof, mut at) = (0, u64::from(state.first_id));
        let (mut is_remembered, mut are_sent) = (true, true);
        for run in runs.clone() {
            match run {
                MessageRun::Empty(count) => at += u64::from(count),
                MessageRun::Complete(count) => {
                    let end = at + u64::from(count);
                    match (self.sum_before(at), self.sum_before(end)) {
                        (Some(before), Some(with)) => proof ^= before ^ with,
                        _ => is_remembered = false,
                    }
                    at = end;
                }
                MessageRun::Partial(symbols) => {
                    match self.entry(at) {
                        Some(entry) => match entry.partial_proof(symbols) {
                            Some(of_partial) => proof ^= of_partial,
                            None => are_sent = false,
                        },
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
            // The record cannot be checked any more. It does not matter either: its messages are older than all in
            // flight.
            return Ok(Proven::default());
        }
        if self.proofs && (proof != state.proof || !are_sent) {
            return Err(PeerMisbehaved::WrongMessageProof { message_id: state.first_id });
        }
        Ok(self.believe(state.first_id, runs, &mut on_complete))
    }

    /// Counts the newly proven symbols of a record whose proof has been checked.
    fn believe(&mut self, first_id: u32, runs: &MessageRuns<'_>, on_complete: &mut impl FnMut(u32)) -> Proven {
        let (mut proven, mut at) = (Proven::default(), u64::from(first_id));
        for run in runs.clone() {
            match run {
                MessageRun::Empty(count) => at += u64::from(count),
                MessageRun::Complete(count) => {
                    let end = at + u64::from(count);
                    while let Some(&id) = self.incomplete.range(at..end).next() {
                        self.incomplete.remove(&id);
                        if self.raise(id, usize::MAX, &mut proven) {
                            on_complete(id as u32);
                        }
                    }
                    at = end;
                }
                MessageRun::Partial(symbols) => {
                    // At most K − 1 symbols count: only a complete run proves a whole message.
                    self.raise(at, symbols.iter().count(), &mut proven);
                    at += 1;
                }
            }
        }
        proven
    }

    /// Raises the number of proven symbols of a message to `symbols`; `usize::MAX` stands for the complete message.
    /// Returns true if the message is newly complete.
    fn raise(&mut self, id: u64, symbols: usize, proven: &mut Proven) -> bool {
        self.look();
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
        self.look();
        self.entries.get(id.checked_sub(self.first)? as usize)
    }

    /// Returns the XOR of the secrets of all messages before `id`. `None` if `id` is neither in the ledger nor the next
    /// id.
    fn sum_before(&self, id: u64) -> Option<u32> {
        if id == self.next_id() { Some(self.sum) } else { self.entry(id).map(|entry| entry.sum_before) }
    }

    fn look(&self) {
        #[cfg(test)]
        self.looked_at.set(self.looked_at.get() + 1);
    }
}

impl Entry {
    /// Returns the XOR of the secrets of these symbols; `None` if one of them was not sent.
    fn partial_proof(&self, symbols: SymbolSet<'_>) -> Option<u32> {
        let sources = self.secrets.as_chunks::<SECRET_BYTES>().0;
        let secret = |esi: u32| match sources.get(esi as usize) {
            Some(secret) => Some(u32::from_be_bytes(*secret)),
            None => {
                let place = self.repairs.binary_search_by_key(&esi, |&(esi, _)| esi).ok()?;
                self.repairs.get(place).map(|&(_, secret)| secret)
            }
        };
        symbols.iter().try_fold(0, |proof, esi| Some(proof ^ secret(esi)?))
    }
}
