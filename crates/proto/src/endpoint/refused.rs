//! Decisions about sealed SYNs. Remembers refused first messages, so that copies are refused again without computation
//! (`spec/protocol.md`, [open-39]).

use dfcp_wire::segment::ResetReason;

use crate::limits;

/// The decision about a SYN.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The answer of this length, bytes, has been written.
    Answer(usize),
    /// The SYN is refused by an RST with this reason.
    Refuse(ResetReason),
    /// The SYN is dropped: there is no room, or it deserves no answer.
    Drop,
}

/// The RST for copies of a refused message. `None` drops them.
type Reason = Option<ResetReason>;

/// A table of fixed size, indexed by hashes that outsiders cannot predict. A newer message overwrites the older one in
/// its place. The next copy of the older message then costs another computation, which is harmless.
#[derive(Debug)]
pub(super) struct RefusedMessages {
    /// Hash 0 marks an empty place.
    places: Box<[(u64, Reason)]>,
}

impl RefusedMessages {
    /// Memory of the table, bytes. Allocated from the start.
    pub(super) const BYTES: usize = limits::REFUSED_MESSAGES_MAX * size_of::<(u64, Reason)>();

    fn place(hash: u64) -> usize {
        (hash % limits::REFUSED_MESSAGES_MAX as u64) as usize
    }

    /// Returns the refusal of the message with this hash, if it is known.
    pub(super) fn verdict(&self, hash: u64) -> Option<Verdict> {
        let (_, reason) = self.places.get(Self::place(hash)).filter(|(known, _)| *known == hash)?;
        Some(reason.map_or(Verdict::Drop, Verdict::Refuse))
    }

    /// Records that the message with this hash was refused. The hash must not be 0.
    pub(super) fn insert(&mut self, hash: u64, verdict: &Verdict) {
        let reason = if let Verdict::Refuse(reason) = verdict { Some(*reason) } else { None };
        if let Some(place) = self.places.get_mut(Self::place(hash)) {
            *place = (hash, reason);
        }
    }
}

impl Default for RefusedMessages {
    fn default() -> Self {
        Self { places: vec![(0, None); limits::REFUSED_MESSAGES_MAX].into_boxed_slice() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_keeps_its_size_and_the_newest_message_of_each_place() {
        let mut refused = RefusedMessages::default();
        let places = limits::REFUSED_MESSAGES_MAX as u64;
        for hash in 1..=3 * places {
            refused.insert(hash, &Verdict::Refuse(ResetReason::CannotRead));
        }
        assert_eq!(size_of_val(&*refused.places), RefusedMessages::BYTES);
        let known = (1..=3 * places).filter(|&hash| refused.verdict(hash).is_some()).collect::<Vec<_>>();
        assert_eq!(known, (2 * places + 1..=3 * places).collect::<Vec<_>>());
        refused.insert(7, &Verdict::Drop);
        assert_eq!((refused.verdict(7), refused.verdict(2 * places + 7)), (Some(Verdict::Drop), None));
    }
}
