//! `dfcp pipe`: carries any UDP stream, with each datagram as a message with a deadline. Specified in
//! `spec/file-transfer.md` §7.

mod answers;
pub mod args;
mod caller;
mod carry;
mod local;
mod release;
mod server;
#[cfg(test)]
mod tests;

use self::args::{PipeArgs, PipeSide};
pub use self::release::Order;
use crate::stop::Stop;

/// Runs one end until `stop`.
///
/// # Errors
/// Fails if an address cannot be used, or the peer cannot be reached or refuses this side.
pub async fn run(args: PipeArgs, stop: Stop) -> anyhow::Result<()> {
    match args.side {
        PipeSide::Udp(args) => caller::run(args, stop).await,
        PipeSide::Serve(args) => server::run(args, stop).await,
    }
}
