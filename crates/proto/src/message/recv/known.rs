//! Rows of complete messages, which help to decode their neighbours (`spec/protocol.md` \[message-5\]).
//!
//! Rows are stored in pages in the order of arrival, without the zeros at their ends. Pages are charged and freed as a
//! whole: one allocation serves a few messages or some hundreds. Nothing except its row is kept for each message.

use std::collections::VecDeque;

use dfcp_time::Time;

use crate::limits::MESSAGE_PAGE_BYTES;
use crate::message::rows::{RowHead, row_bytes};
use crate::shared::room::Room;

/// Memory overhead of a page, bytes: its entry in the queue, whose capacity may be four times its length, and the
/// allocator's header.
const PAGE_OVERHEAD_BYTES: usize = 4 * size_of::<Page>() + 32;

/// Position of a message's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Page number modulo 2¹⁶. It is unambiguous for all remembered ids, because each page holds several messages and
    /// each message is stored at most once.
    page: u16,
    offset: u16,
}

impl Place {
    /// Position of a row that is not stored. No row begins there.
    pub(super) const NONE: Self = Self { page: 0, offset: u16::MAX };
}

#[derive(Debug)]
struct Page {
    rows: Vec<u8>,
    /// Expiry of its last message.
    until: Time,
    /// Highest message id in the page.
    last_id: u32,
}

impl Page {
    fn has_room(&self, bytes: usize) -> bool {
        self.rows.len() + bytes <= MESSAGE_PAGE_BYTES
    }
}

/// Rows of complete messages, in pages.
#[derive(Debug)]
pub(super) struct KnownRows {
    proofs: bool,
    pages: VecDeque<Page>,
    /// Number of the oldest page, modulo 2¹⁶.
    first: u16,
}

impl KnownRows {
    /// Memory charged per page, bytes.
    pub(super) const PAGE_COST_BYTES: usize = MESSAGE_PAGE_BYTES + PAGE_OVERHEAD_BYTES;

    pub(super) const fn new(proofs: bool) -> Self {
        Self { proofs, pages: VecDeque::new(), first: 0 }
    }

    /// Returns true if the row of a message of `length_bytes` bytes does not fit into the newest page.
    pub(super) fn needs_page(&self, length_bytes: usize) -> bool {
        !self.pages.back().is_some_and(|page| page.has_room(row_bytes(length_bytes, self.proofs)))
    }

    /// Stores a row until `until`, in a new page if necessary. Returns [`Place::NONE`] if the row exceeds a page.
    pub(super) fn push(&mut self, id: u32, head: RowHead, message: &[u8], secret: u32, until: Time) -> Place {
        let bytes = row_bytes(message.len(), self.proofs);
        if self.needs_page(message.len()) {
            let rows = Vec::with_capacity(MESSAGE_PAGE_BYTES);
            self.pages.push_back(Page { rows, until, last_id: id });
        }
        let number = self.first.wrapping_add(self.pages.len() as u16).wrapping_sub(1);
        let Some(page) = self.pages.back_mut().filter(|page| page.has_room(bytes)) else { return Place::NONE };
        let offset = page.rows.len();
        page.rows.resize(offset + bytes, 0);
        head.write(message, self.proofs.then_some(secret), &mut page.rows[offset..]);
        page.until = page.until.max(until);
        page.last_id = page.last_id.max(id);
        Place { page: number, offset: offset as u16 }
    }

    /// Returns the row at a position, without padding. `None` if its page has been freed.
    pub(super) fn get(&self, place: Place) -> Option<&[u8]> {
        let page = self.pages.get(usize::from(place.page.wrapping_sub(self.first)))?;
        let row = page.rows.get(usize::from(place.offset)..)?;
        let (head, ..) = RowHead::read(row, self.proofs)?;
        row.get(..row_bytes(head.length_bytes as usize, self.proofs))
    }

    /// Returns true if all messages of the oldest page have expired, or are older than `first_id`, the oldest
    /// remembered id.
    pub(super) fn is_first_page_over(&self, now: Time, first_id: u64) -> bool {
        self.pages.front().is_some_and(|page| page.until < now || u64::from(page.last_id) < first_id)
    }

    /// Frees the oldest page. Returns false if there is none.
    pub(super) fn pop_page(&mut self) -> bool {
        let is_gone = self.pages.pop_front().is_some();
        self.pages.give_back();
        self.first = self.first.wrapping_add(is_gone.into());
        is_gone
    }

    #[cfg(test)]
    pub(super) fn pages(&self) -> usize {
        self.pages.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(known: &mut KnownRows, id: u32, length: usize) -> Place {
        let head = RowHead { length_bytes: length as u32, created_us: id, lifetime_us: 9 };
        known.push(id, head, &vec![id as u8; length], id ^ 7, Time::from_ms(id.into()))
    }

    #[test]
    fn rows_are_found_until_their_page_is_gone_whatever_the_number_of_pages_before() {
        for proofs in [false, true] {
            let mut known = KnownRows::new(proofs);
            let mut places = Vec::new();
            for id in 0..200_000_u32 {
                places.push(push(&mut known, id, [0, 20, 1_396][id as usize % 3]));
                while known.pages() > 20 {
                    assert!(known.pop_page());
                }
            }
            let kept = places.iter().enumerate().rev().take_while(|(id, place)| {
                let row = known.get(**place);
                row.is_some_and(|row| {
                    let (head, message, secret) = RowHead::read(row, proofs).unwrap();
                    let is_that = head.created_us == *id as u32 && message.iter().all(|byte| *byte == *id as u8);
                    is_that && (!proofs || secret == *id as u32 ^ 7)
                })
            });
            assert!((18 * 5 * 3..20 * 18 * 3).contains(&kept.count()));
            assert_eq!(known.get(Place::NONE), None);
        }
    }

    #[test]
    fn a_page_is_over_with_its_last_message_or_below_the_oldest_id() {
        let mut known = KnownRows::new(true);
        assert!(!known.is_first_page_over(Time::from_s(9), 0) && !known.pop_page());
        push(&mut known, 7, 10);
        push(&mut known, 3, 10);
        let is_over = |ms, first_id| known.is_first_page_over(Time::from_ms(ms), first_id);
        assert_eq!([is_over(7, 7), is_over(8, 7), is_over(7, 8)], [false, true, true]);
    }
}
