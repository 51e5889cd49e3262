//! The first and the last duties of init.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::time::Duration;

use nix::mount::{MsFlags, mount};
use nix::sys::reboot::{RebootMode, reboot};
use nix::unistd::{getpid, sync};
use rustix::rand::{GetRandomFlags, getrandom};

/// The host's directory of the job, as mounted in the guest.
pub const JOB_DIR: &str = "/run/job";

/// Wait at the start: until the kernel has passed some ticks of 10 ms, its timers are as coarse as these. Virtual time is free.
const TIMERS_START: Duration = Duration::from_millis(100);

/// Errors of init.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InitError {
    /// It runs outside the kernel platform.
    #[error(
        "this is process {0}, not 1: this command is only for the kernel platform, which starts it as its kernel's init"
    )]
    NotInit(i32),
    /// A file system could not be mounted.
    #[error("cannot mount {kind} at {at}: {error}")]
    Mount {
        /// The file system.
        kind: &'static str,
        /// The mount point.
        at: &'static str,
        /// The system's reason.
        error: io::Error,
    },
}

/// Runs `job` as init: mounts file systems, among them the host's directory `shared` at [`JOB_DIR`], read-write; and powers
/// off when `job` returns, fails or panics. An error or a panic is written to the console before.
///
/// # Errors
/// It is not process 1. Otherwise it does not return.
pub fn run<E: std::fmt::Display>(shared: &Path, job: impl FnOnce() -> Result<(), E>) -> Result<(), InitError> {
    let pid = getpid().as_raw();
    if pid != 1 {
        return Err(InitError::NotInit(pid));
    }
    // The panic hook has written the sentence. Unwinding stops here: the kernel panics when init ends by itself.
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
        mount_all(shared).map_err(|error| error.to_string())?;
        std::thread::sleep(TIMERS_START);
        gather_randomness().map_err(|error| format!("the kernel has no random numbers: {error}"))?;
        job().map_err(|error| error.to_string())
    }));
    if let Ok(Err(sentence)) = outcome {
        say(&sentence);
    }
    power_off()
}

/// Gathers randomness: until then, processes that need some are held up; on 6.1 for 2.5 s, which would be part of the run.
fn gather_randomness() -> io::Result<()> {
    getrandom(&mut [0; 1], GetRandomFlags::empty())?;
    Ok(())
}

/// Ends the machine.
fn power_off() -> Result<(), InitError> {
    sync();
    let Err(error) = reboot(RebootMode::RB_POWER_OFF);
    say(&format!("cannot power off: {error}"));
    Ok(())
}

#[expect(clippy::print_stderr, reason = "the console is all that init has")]
fn say(sentence: &str) {
    eprintln!("error: {sentence}");
}

fn mount_all(shared: &Path) -> Result<(), InitError> {
    let fs = |kind, at| mount_one(kind, at, None);
    fs("proc", "/proc")?;
    fs("sysfs", "/sys")?;
    fs("devtmpfs", "/dev")?;
    fs("tmpfs", "/run")?;
    fs("tmpfs", "/tmp")?;
    let failed = |error| InitError::Mount { kind: "hostfs", at: JOB_DIR, error };
    std::fs::create_dir(JOB_DIR).map_err(failed)?;
    mount_one("hostfs", JOB_DIR, Some(shared))
}

/// Makes a directory of the host's writable, where it is: the rest of its files is not.
///
/// # Errors
/// It cannot be mounted.
pub(super) fn mount_writable(directory: &Path) -> io::Result<()> {
    // It may be below one of the guest's own file systems.
    std::fs::create_dir_all(directory)?;
    Ok(mount(Some("none"), directory, Some("hostfs"), MsFlags::empty(), Some(directory))?)
}

/// A file system that is mounted already stays: some kernels mount devtmpfs by themselves.
fn mount_one(kind: &'static str, at: &'static str, options: Option<&Path>) -> Result<(), InitError> {
    match mount(Some("none"), at, Some(kind), MsFlags::empty(), options) {
        Ok(()) | Err(nix::errno::Errno::EBUSY) => Ok(()),
        Err(error) => Err(InitError::Mount { kind, at, error: error.into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_kernel_starts_it() {
        let error = run(Path::new("/"), || Err::<(), _>("it must not come here")).unwrap_err();
        assert!(matches!(error, InitError::NotInit(_)), "{error}");
        assert!(error.to_string().contains(&getpid().to_string()));
    }
}
