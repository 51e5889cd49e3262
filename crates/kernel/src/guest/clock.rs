//! The time, which costs a call of the system here.

use std::cell::Cell;
use std::time::Instant;

thread_local! {
    /// The system clock's reading since this thread last waited.
    static INSTANT: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// The time, which stands still unless all wait: so it is read once after each wait. Every reading is a call of the system here,
/// and they were more than half of all calls of a run of DFCP.
pub(super) fn instant() -> Instant {
    INSTANT.get().unwrap_or_else(|| {
        let now = Instant::now();
        INSTANT.set(Some(now));
        now
    })
}

/// This thread has waited: time may have passed.
pub(super) fn on_waited() {
    INSTANT.set(None);
}
