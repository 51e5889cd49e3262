//! Clock readings with few system calls, which are expensive in a guest.

use std::cell::Cell;
use std::time::Instant;

thread_local! {
    /// Clock reading of this thread since its last wait.
    static INSTANT: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Present time, read once after each wait: virtual time does not advance otherwise. Each reading is a system call in a guest, and readings
/// were more than half of all system calls of a DFCP run.
pub(super) fn instant() -> Instant {
    INSTANT.get().unwrap_or_else(|| {
        let now = Instant::now();
        INSTANT.set(Some(now));
        now
    })
}

/// Discards the stored reading after this thread has waited.
pub(super) fn on_waited() {
    INSTANT.set(None);
}
