//! Command `dfcp lab guest`: the first process of a kernel in virtual time.

use std::thread;

use anyhow::anyhow;

use super::args::GuestArgs;

/// Runs the job, then shuts down the virtual machine.
///
/// # Errors
/// Fails unless this process is the first one of a guest.
pub(super) fn run(args: &GuestArgs) -> anyhow::Result<()> {
    // The job runs in a thread of its own, because it creates a runtime and moves its thread between network
    // namespaces.
    let work = thread::scope(|scope| scope.spawn(|| dfcp_kernel::guest::run(&args.directory)).join());
    Ok(work.map_err(|_| anyhow!("the guest's work ended in a panic"))??)
}
