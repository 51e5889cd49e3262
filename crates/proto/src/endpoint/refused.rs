//! Decisions about sealed SYNs, and the first messages which were refused, so that a copy of one is refused again without computing
//! (`spec/protocol.md`, [open-39]).

use dfcp_wire::segment::ResetReason;

use crate::limits;

/// The decision about a SYN.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The answer has been written; its length.
    Answer(usize),
    /// It is to be refused for this reason.
    Refuse(ResetReason),
    /// There is no room, or it is not worth an answer.
    Drop,
}

/// The answer to a copy: the reason for the refusal, or nothing.
type Reason = Option<ResetReason>;

/// A table of fixed size, by hashes which an outsider cannot predict. A newer message overwrites the older one in its place;
/// the older one's next copy then costs a computation again, and no more than that.
#[derive(Debug)]
pub(super) struct RefusedMessages {
    /// Hash 0 is an empty place.
    places: Box<[(u64, Reason)]>,
}

impl RefusedMessages {
    /// Bytes which the table takes from the start.
    pub(super) const BYTES: usize = limits::REFUSED_MESSAGES_MAX * size_of::<(u64, Reason)>();

    fn place(hash: u64) -> usize {
        (hash % limits::REFUSED_MESSAGES_MAX as u64) as usize
    }

    /// The refusal of the message with this hash, if it is known.
    pub(super) fn verdict(&self, hash: u64) -> Option<Verdict> {
        let (_, reason) = self.places.get(Self::place(hash)).filter(|(known, _)| *known == hash)?;
        Some(reason.map_or(Verdict::Drop, Verdict::Refuse))
    }

    /// The message with this hash, which is not 0, has been refused so.
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
