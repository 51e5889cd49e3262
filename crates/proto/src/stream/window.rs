//! Windows that tune themselves.

use crate::limits::WINDOW_BYTES_START;

/// Limit on the bytes that the streams of a session may hold at one end, received or written. The window is small at
/// first and doubles, up to a cap, each time that half of its bytes has been read or proven.
///
/// Linux measures a round trip for this purpose (*dynamic right-sizing*). A receiver of DFCP does not know the RTT, and
/// at 50 % loss a window spans six to eight round trips, so only a fifth of it may be read in one. Bytes that were only
/// promised, or have only arrived, do not count, so a peer cannot make this end hold more than it has delivered before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrowingWindow {
    bytes: u64,
    bytes_max: u64,
    /// Bytes read or proven since the window last grew.
    carried_bytes: u64,
}

impl GrowingWindow {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { bytes: bytes_max.min(WINDOW_BYTES_START), bytes_max, carried_bytes: 0 }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Records that `bytes` more were read by the application (receiver), or proven to be decoded (sender).
    pub(crate) fn on_carried(&mut self, bytes: u64) {
        self.carried_bytes = self.carried_bytes.saturating_add(bytes);
        if self.carried_bytes >= self.bytes / 2 {
            self.carried_bytes = 0;
            self.bytes = self.bytes.saturating_mul(2).min(self.bytes_max);
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
        /// half of the growth was carried.
        #[test]
        fn it_grows_by_no_more_than_twice_what_was_carried(max in 0_u64..1 << 40, pieces in prop::collection::vec(0_u64..1 << 34, 0..100)) {
            let (mut window, mut carried) = (GrowingWindow::new(max), 0_u64);
            let start = window.bytes();
            prop_assert_eq!(start, max.min(WINDOW_BYTES_START));
            for piece in pieces {
                let before = window.bytes();
                window.on_carried(piece);
                carried += piece;
                prop_assert!(window.bytes() >= before && window.bytes() <= max);
                prop_assert!(window.bytes() - start <= 2 * carried);
            }
        }
    }
}
