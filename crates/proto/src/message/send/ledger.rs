//! Secrets that the peer must know to prove which symbols it has (`spec/protocol.md` \[message-9\]).
//!
//! A record names runs of messages, each of which may be as long as the ledger. Neither its proof nor its news are looked for message by message:
//! a peer would otherwise choose what each of its reports costs.

use std::collections::{BTreeSet, VecDeque};

use dfcp_wire::feedback::{MessageRun, MessageRuns, MessagesState, SymbolSet};

use crate::error::PeerMisbehaved;
use crate::limits::MESSAGE_IDS_MAX;
use crate::proof::SECRET_BYTES;

/// The messages begun lately.
#[derive(Debug)]
pub(super) struct Ledger {
    proofs: bool,
    /// The id of the first entry.
    first: u64,
    entries: VecDeque<Entry>,
    /// XOR of the secrets of all messages begun.
    sum: u32,
    /// Ids of entries which are not proven to be complete.
    incomplete: BTreeSet<u64>,
    /// Entries that were looked at.
    #[cfg(test)]
    pub(super) looked_at: std::cell::Cell<u64>,
}

#[derive(Debug)]
struct Entry {
    /// XOR of the secrets of all messages begun before.
    sum_before: u32,
    /// Those of its source symbols, one behind the other, if there are several: parts of these can be proven.
    secrets: Box<[u8]>,
    /// Those of its repair symbols that were sent, by their ids: a peer that names others cannot have them.
    repairs: Vec<(u32, u32)>,
    k: u16,
    symbol_bytes: u16,
    /// Symbols which the peer has proven to have, K at most.
    proven: u16,
}

/// Newly proven symbols and messages of a record.
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

    /// The id of the next message.
    pub(super) fn next_id(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// The next message is begun.
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

    /// A repair symbol of a message leaves which ends with this secret.
    pub(super) fn on_repair(&mut self, id: u32, esi: u32, secret: u32) {
        let at = u64::from(id).checked_sub(self.first).filter(|_| self.proofs);
        let Some(entry) = at.and_then(|at| self.entries.get_mut(at as usize)).filter(|entry| entry.k > 1) else {
            return;
        };
        if let Err(place) = entry.repairs.binary_search_by_key(&esi, |&(esi, _)| esi) {
            entry.repairs.insert(place, (esi, secret));
        }
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
            // Nothing of it can be checked, nor matters: it is older than all that is under way.
            return Ok(Proven::default());
        }
        if self.proofs && (proof != state.proof || !are_sent) {
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
                    // One fewer than it takes: a record that means more says so.
                    self.raise(at, symbols.iter().count(), &mut proven);
                    at += 1;
                }
            }
        }
        proven
    }

    /// Raises the number of symbols which the peer has of a message to `symbols`; `usize::MAX` stands for the complete message. Returns true
    /// if that completes the message.
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

    /// XOR of the secrets of all messages before this one, if it is remembered or the next.
    fn sum_before(&self, id: u64) -> Option<u32> {
        if id == self.next_id() { Some(self.sum) } else { self.entry(id).map(|entry| entry.sum_before) }
    }

    fn look(&self) {
        #[cfg(test)]
        self.looked_at.set(self.looked_at.get() + 1);
    }
}

impl Entry {
    /// XOR of the secrets that end these symbols; `None` if one was not sent.
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
