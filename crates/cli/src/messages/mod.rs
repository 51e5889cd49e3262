//! Messages with deadlines on a connection, and the account which both ends keep of them: what `perf --messages` and `pipe` share.
//! Specified in `spec/file-transfer.md` §6.3.

pub mod account;
pub mod exchange;
pub mod figures;
#[cfg(test)]
pub(crate) mod loopback;

pub use account::{Incoming, Outgoing};
pub use exchange::{Exchange, Talk};
pub use figures::Figures;
