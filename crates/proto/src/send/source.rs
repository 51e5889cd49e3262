//! What the application has written and no block has been cut from yet.

use std::collections::VecDeque;
use std::time::Duration;

use dfcp_time::Time;

/// Cuts a stream of writes into blocks: full ones at once, a partial one when it is flushed or has lingered.
#[derive(Debug)]
pub(crate) struct Source {
    ready: VecDeque<Vec<u8>>,
    filling: Vec<u8>,
    filling_since: Time,
    /// Bytes the block being filled will have when full.
    target_bytes: usize,
    /// Cut the block being filled even though it is not full.
    flushed: bool,
    shut_down: bool,
    /// Bytes in `ready` and `filling`.
    waiting_bytes: u64,
}

/// How long a partial block waits for more to be written, if nobody flushes.
const LINGER: Duration = Duration::from_millis(1);

impl Source {
    pub(crate) fn new(target_bytes: usize) -> Self {
        Self {
            ready: VecDeque::new(),
            filling: Vec::new(),
            filling_since: Time::ZERO,
            target_bytes,
            flushed: false,
            shut_down: false,
            waiting_bytes: 0,
        }
    }

    /// Takes as much of `data` as fits into `space_bytes`; blocks begun from here on hold `target_bytes`.
    pub(crate) fn write(&mut self, now: Time, data: &[u8], space_bytes: u64, target_bytes: usize) -> usize {
        let take = data.len().min(usize::try_from(space_bytes).unwrap_or(usize::MAX));
        let mut rest = &data[..take];
        while !rest.is_empty() {
            if self.filling.is_empty() {
                self.target_bytes = target_bytes;
                self.filling_since = now;
                self.filling.reserve_exact(target_bytes.min(rest.len().max(4096)));
            }
            let room = self.target_bytes.saturating_sub(self.filling.len());
            let (now_in, later) = rest.split_at(room.min(rest.len()));
            self.filling.extend_from_slice(now_in);
            rest = later;
            if self.filling.len() >= self.target_bytes {
                self.ready.push_back(std::mem::take(&mut self.filling));
            }
        }
        if take > 0 {
            self.flushed = false;
            self.waiting_bytes += take as u64;
        }
        take
    }

    /// Cuts what is waiting anew, into blocks of `target_bytes`.
    pub(crate) fn recut(&mut self, now: Time, target_bytes: usize) {
        let ready = std::mem::take(&mut self.ready);
        let filling = std::mem::take(&mut self.filling);
        let flushed = self.flushed;
        self.waiting_bytes = 0;
        for block in ready.iter().chain([&filling]) {
            self.write(now, block, u64::MAX, target_bytes);
        }
        self.flushed = flushed;
    }

    pub(crate) fn flush(&mut self) {
        self.flushed = true;
    }

    /// Nothing will be written any more.
    pub(crate) fn shut_down(&mut self) {
        self.shut_down = true;
        self.flushed = true;
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.shut_down
    }

    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// The size of the next block, were it cut now; 0 if nothing waits.
    pub(crate) fn next_bytes(&self) -> usize {
        self.ready.front().map_or(self.filling.len(), Vec::len)
    }

    /// Whether everything written is in blocks and nothing more will come.
    pub(crate) fn is_finished(&self) -> bool {
        self.shut_down && self.waiting_bytes == 0
    }

    /// The next block's size, if one can be cut at `now`.
    pub(crate) fn next_block_bytes(&self, now: Time) -> Option<usize> {
        if let Some(block) = self.ready.front() {
            return Some(block.len());
        }
        let due = self.flushed || now.since(self.filling_since) >= LINGER;
        (due && !self.filling.is_empty()).then_some(self.filling.len())
    }

    /// When a partial block will be cut by itself.
    pub(crate) fn cut_at(&self) -> Option<Time> {
        if !self.ready.is_empty() || self.filling.is_empty() {
            return None;
        }
        Some(if self.flushed { Time::ZERO } else { self.filling_since + LINGER })
    }

    /// Cuts the next block; the flag says whether the stream ends with it.
    pub(crate) fn take_block(&mut self, now: Time) -> Option<(Vec<u8>, bool)> {
        self.next_block_bytes(now)?;
        let block = self.ready.pop_front().unwrap_or_else(|| std::mem::take(&mut self.filling));
        self.waiting_bytes -= block.len() as u64;
        Some((block, self.is_finished()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_blocks_leave_at_once_and_partial_ones_linger() {
        let mut source = Source::new(10);
        assert_eq!(source.write(Time::ZERO, &[1; 25], 100, 10), 25);
        assert_eq!(source.take_block(Time::ZERO), Some((vec![1; 10], false)));
        assert_eq!(source.take_block(Time::ZERO), Some((vec![1; 10], false)));
        assert_eq!(source.take_block(Time::ZERO), None);
        assert_eq!(source.cut_at(), Some(Time::ZERO + LINGER));
        source.flush();
        assert_eq!(source.take_block(Time::ZERO), Some((vec![1; 5], false)));
        assert_eq!(source.cut_at(), None);
    }

    #[test]
    fn the_last_block_knows_that_it_is_the_last() {
        let mut source = Source::new(10);
        source.write(Time::ZERO, &[2; 10], 100, 10);
        source.shut_down();
        assert_eq!(source.take_block(Time::ZERO), Some((vec![2; 10], true)));
        assert!(source.is_finished());
    }

    #[test]
    fn no_more_is_taken_than_there_is_space() {
        let mut source = Source::new(10);
        assert_eq!(source.write(Time::ZERO, &[0; 9], 4, 10), 4);
        assert_eq!(source.waiting_bytes(), 4);
    }
}
