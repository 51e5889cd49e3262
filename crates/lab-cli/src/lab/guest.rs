//! `dfcp lab guest`: what this program is inside a kernel in virtual time, which starts it.

use std::thread;

use anyhow::anyhow;

use super::args::GuestArgs;

/// Does the job, and ends the machine.
///
/// # Errors
/// This is not the first process of a guest.
pub(super) fn run(args: &GuestArgs) -> anyhow::Result<()> {
    // A thread of its own: the job has a runtime of its own, and moves its thread between namespaces.
    let work = thread::scope(|scope| scope.spawn(|| dfcp_kernel::guest::run(&args.directory)).join());
    Ok(work.map_err(|_| anyhow!("the guest's work ended in a panic"))??)
}
