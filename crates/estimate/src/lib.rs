//! Rate at which the bottleneck serves one user, estimated from that user's own traffic and a few test packets, sans I/O.
//!
//! In a mobile network every user has a separate queue. A small test packet joins it every `d` (100 ms), at a negligible cost (4.8 kbit/s).
//! Its extra delay gives the queue length that it found. A non-empty queue is served at its full rate, which is the bytes that arrived
//! divided by the time. The estimate is the mean over these *busy periods* (Móczár and Molnár, PIMRC 2014; Móczár's dissertation summary,
//! thesis group 5).
//!
//! [`Estimator`] gets arrivals with their times. It never reads a clock, stores no packets, and takes constant memory. [`probing`] has the
//! two ends of a live measurement.
//!
//! ```
//! use std::time::Duration;
//! use dfcp_estimate::{Config, Estimator, Probe};
//! use dfcp_time::Time;
//!
//! let mut estimator = Estimator::new(Config::new(Duration::from_millis(100)))?;
//! // A queue that is served with 8 Mbit/s, a byte in a microsecond: 300 kB join it at 250 ms, 100 kB at 350 ms, and as many at
//! // 450 ms. The test packets 2 to 4 wait for 250 ms each, 5 for 150 ms, 6 for 50 ms.
//! let arrivals = [(100, 0), (200, 0), (550, 300_000), (650, 100_000), (750, 100_000), (750, 0), (750, 0), (800, 0)];
//! for (number, (at_ms, bytes_before)) in arrivals.into_iter().enumerate() {
//!     let at = Time::from_ms(at_ms);
//!     estimator.traffic(at, bytes_before)?;
//!     estimator.probe(Probe { number: number as u64, sent: None, at, size_bytes: 0 })?;
//! }
//! assert_eq!(estimator.summary().mean_bps(), Some(8e6));
//! assert_eq!(estimator.summary().busy_periods(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod config;
mod estimator;
pub mod limits;
pub mod probing;
mod summary;

pub use config::{Config, ConfigError, INTERVAL_DEFAULT, THRESHOLD_DEFAULT, TOLERANCE_DEFAULT};
pub use estimator::{Counts, Estimator, Probe, TimeError};
pub use summary::{BusyPeriod, Interval, Summary};
