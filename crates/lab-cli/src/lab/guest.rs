//! `dfcp lab guest`: the first process within a kernel in virtual time.

use std::thread;

use anyhow::anyhow;

use super::args::GuestArgs;

/// Runs the job, then shuts the machine down.
///
/// # Errors
/// Fails unless this is the first process of a guest.
pub(super) fn run(args: &GuestArgs) -> anyhow::Result<()> {
    // Use a separate thread: the job has its own runtime, and moves its thread between namespaces.
    let work = thread::scope(|scope| scope.spawn(|| dfcp_kernel::guest::run(&args.directory)).join());
    Ok(work.map_err(|_| anyhow!("the guest's work ended in a panic"))??)
}
