//! Every bound on what a caller, a capture or a peer can ask for.

use std::time::Duration;

/// Shortest interval between test packets: 60 bytes each are then 480 kbit/s, which is no negligible load any more.
pub const INTERVAL_MIN: Duration = Duration::from_millis(1);

/// Longest interval between test packets. Three quarters of the busy periods of web traffic end within a second (thesis 5.3).
pub const INTERVAL_MAX: Duration = Duration::from_secs(10);

/// Shortest threshold. Zero would take every instant for busy.
pub const THRESHOLD_MIN: Duration = Duration::from_micros(1);

/// Longest threshold, and the longest gap: more queueing than any network offers.
pub const THRESHOLD_MAX: Duration = Duration::from_secs(60);

/// Clocks may differ by this much, in millionths, before drift is taken for a queue. Crystals differ by up to 100.
pub const DRIFT_PPM_MAX: u64 = 200;

/// Longest time that one model holds, whatever the threshold would permit.
pub const MODEL_MAX: Duration = Duration::from_secs(60);

/// A model holds for at least this many intervals, or small thresholds would leave nothing of it.
pub const MODEL_INTERVALS_MIN: u32 = 20;

/// Greatest step back in time from one observation to the next: captures of several receive queues are not sorted to the last
/// microsecond. Such a packet counts as one of the latest time.
pub const BACKWARDS_MAX: Duration = Duration::from_millis(10);

/// Clients to which a server sends test packets at once unless told otherwise: 0.3 Mbit/s at the default interval, and 3 Mbit/s at the
/// shortest.
pub const CLIENTS_DEFAULT: usize = 64;

/// The shortest interval that a server permits unless told otherwise: 48 kbit/s for each client.
pub const SERVER_INTERVAL_MIN: Duration = Duration::from_millis(10);

/// The longest one, which is what the estimator can use.
pub const SERVER_INTERVAL_MAX: Duration = INTERVAL_MAX;

/// Length of a cookie's time step; it holds in the next one too. As in the protocol's handshakes.
pub const COOKIE_STEP: Duration = Duration::from_secs(15);

/// Time for which a client gets test packets after a request (`spec/estimation.md` \[estimate-7\]).
pub const LEASE: Duration = Duration::from_secs(10);

/// Interval of its requests: four may be lost in a row.
pub const RENEWAL: Duration = Duration::from_secs(2);

/// Calls of a client before it gives up; the first wait is [`CALL_FIRST`], and each later one twice as long.
pub const CALLS_MAX: u32 = 5;

/// A client's first wait for an answer.
pub const CALL_FIRST: Duration = Duration::from_millis(500);

/// Time that a client waits for test packets before it gives up: their longest delay in a queue, and a lease beyond.
pub const SILENCE_MAX: Duration = Duration::from_secs(30);
