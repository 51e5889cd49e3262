//! Messages with deadlines, and the accounts that both ends keep of them: shared by `perf --messages` and `pipe`. Specified in
//! `spec/file-transfer.md` §6.3.

pub mod account;
pub mod exchange;
pub mod figures;
#[cfg(test)]
pub(crate) mod loopback;

pub use account::{Incoming, Outgoing};
pub use exchange::{Exchange, Talk};
pub use figures::Figures;
