//! Two real DFCP endpoints, one virtual clock, emulated links between them.
//!
//! [`Pair`] is what every protocol test drives: it has loss, reordering and blackouts from the start, checks every
//! byte that is delivered, and is a pure function of its seed.

#![forbid(unsafe_code)]

mod flow;
mod pair;
mod pattern;
pub mod random;
mod side;
pub mod table;
mod trust;

pub use flow::{Flow, FlowConfig};
pub use pair::{Outcome, Pair, PathConfig};
pub use pattern::Pattern;
pub use side::{Job, Side};
pub use trust::{Trust, sealed};
