//! Bounds on what a caller, a capture or a peer can request.

use std::time::Duration;

/// Shortest interval between test packets: at 60 bytes each, 480 kbit/s are no longer negligible.
pub const INTERVAL_MIN: Duration = Duration::from_millis(1);

/// Longest interval between test packets. Three quarters of the busy periods of web traffic end within a second (thesis 5.3).
pub const INTERVAL_MAX: Duration = Duration::from_secs(10);

/// Shortest threshold. With zero, every instant would count as busy.
pub const THRESHOLD_MIN: Duration = Duration::from_micros(1);

/// Longest threshold, and longest gap: more queueing delay than any network has.
pub const THRESHOLD_MAX: Duration = Duration::from_secs(60);

/// Clock difference that must not look like a queue, parts per million. Crystals differ by up to 100 ppm.
pub const DRIFT_PPM_MAX: u64 = 200;

/// Longest duration of a model, whatever the threshold permits.
pub const MODEL_MAX: Duration = Duration::from_secs(60);

/// Shortest duration of a model in intervals: with small thresholds a model would otherwise end too soon to measure.
pub const MODEL_INTERVALS_MIN: u32 = 20;

/// Largest step back in time between observations: captures of several receive queues are not sorted to the microsecond. Such a packet gets
/// the latest time.
pub const BACKWARDS_MAX: Duration = Duration::from_millis(10);

/// Default limit of a server's concurrent clients: 0.3 Mbit/s at the default interval, 3 Mbit/s at the shortest.
pub const CLIENTS_DEFAULT: usize = 64;

/// Default shortest interval that a server permits: 48 kbit/s per client.
pub const SERVER_INTERVAL_MIN: Duration = Duration::from_millis(10);

/// Default longest interval that a server permits: the estimator's limit.
pub const SERVER_INTERVAL_MAX: Duration = INTERVAL_MAX;

/// Time step of cookies, which are valid for this and the next step, as in the protocol's handshakes.
pub const COOKIE_STEP: Duration = Duration::from_secs(15);

/// Time for which a request keeps test packets coming (`spec/estimation.md` \[estimate-7\]).
pub const LEASE: Duration = Duration::from_secs(10);

/// Interval of a client's requests: four may be lost in a row.
pub const RENEWAL: Duration = Duration::from_secs(2);

/// Calls of a client before it gives up; the first wait is [`CALL_FIRST`], each later one twice as long.
pub const CALLS_MAX: u32 = 5;

/// First wait of a client for an answer.
pub const CALL_FIRST: Duration = Duration::from_millis(500);

/// Time that a client waits for test packets: their longest queueing delay, plus a lease.
pub const SILENCE_MAX: Duration = Duration::from_secs(30);
