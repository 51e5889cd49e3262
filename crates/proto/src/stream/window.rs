//! Windows that tune themselves.

use crate::limits::WINDOW_BYTES_START;

/// Size to which a window grows, as a multiple of the bytes carried since its last growth. Doubling for each half
/// reaches every size after nearly the fewest bytes: only windows that grow at 0.68 of their size reach it with 6 %
/// less.
const GROWTH: u64 = 4;

/// Limit on the bytes that the streams of a session may hold at one end, received or written. The window is small at
/// first. Each time that half of its bytes has been decoded (receiver) or proven to be (sender), it becomes four times
/// these bytes, up to a cap.
///
/// Linux measures a round trip for this purpose (*dynamic right-sizing*). A receiver of DFCP does not know the RTT, and
/// at 50 % loss a window spans six to eight round trips, so only a fifth of it may be decoded in one. Bytes that were
/// only promised, or belong to an unfinished block, do not count, so a peer cannot make this end hold more than four
/// times the bytes that it has delivered before. Blocks count when they are decoded, not when they are read: reading
/// waits for the slowest of all blocks, which takes several round trips on a lossy path, and the window would follow as
/// slowly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrowingWindow {
    bytes: u64,
    bytes_max: u64,
    /// Bytes decoded or proven since the window last grew.
    carried_bytes: u64,
}

impl GrowingWindow {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { bytes: bytes_max.min(WINDOW_BYTES_START), bytes_max, carried_bytes: 0 }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Records that `bytes` more were decoded (receiver), or proven to be (sender).
    pub(crate) fn on_carried(&mut self, bytes: u64) {
        self.carried_bytes = self.carried_bytes.saturating_add(bytes);
        if self.carried_bytes >= self.bytes / 2 {
            self.bytes = self.bytes.max(self.carried_bytes.saturating_mul(GROWTH)).min(self.bytes_max);
            self.carried_bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_doubles_with_each_half_window_carried() {
        let mut window = GrowingWindow::new(5 * WINDOW_BYTES_START);
        let mut carried = 0;
        let mut steps = vec![window.bytes()];
        while window.bytes() < 5 * WINDOW_BYTES_START {
            window.on_carried(1 << 16);
            carried += 1 << 16;
            if window.bytes() > *steps.last().unwrap() {
                steps.push(window.bytes());
            }
        }
        assert_eq!(steps, [1, 2, 4, 5].map(|times| times * WINDOW_BYTES_START));
        assert_eq!(carried, WINDOW_BYTES_START * 7 / 2, "halves of 1, 2 and 4");
    }

    proptest! {
        /// For any sequence of carried bytes, the window never exceeds its cap, never shrinks, and grows only after
        /// a quarter of its size was carried.
        #[test]
        fn it_grows_to_no_more_than_four_times_what_was_carried(max in 0_u64..1 << 40, pieces in prop::collection::vec(0_u64..1 << 34, 0..100)) {
            let (mut window, mut carried) = (GrowingWindow::new(max), 0_u64);
            let start = window.bytes();
            prop_assert_eq!(start, max.min(WINDOW_BYTES_START));
            for piece in pieces {
                let before = window.bytes();
                window.on_carried(piece);
                carried += piece;
                prop_assert!(window.bytes() >= before && window.bytes() <= max);
                prop_assert!(window.bytes() == before || window.bytes() <= 4 * carried);
                carried = if window.bytes() == before { carried } else { 0 };
            }
        }
    }
}
