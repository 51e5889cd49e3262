//! First and last duties of init.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::time::Duration;

use nix::mount::{MsFlags, mount};
use nix::sys::reboot::{RebootMode, reboot};
use nix::unistd::{getpid, sync};
use rustix::rand::{GetRandomFlags, getrandom};

/// Mount point of the host's job directory in the guest.
pub const JOB_DIR: &str = "/run/job";

/// Wait at the start, until the kernel has passed some ticks of 10 ms: its timers are coarse before. Virtual time costs nothing.
const TIMERS_START: Duration = Duration::from_millis(100);

/// Error of init.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InitError {
    /// The process is not the first one of a guest.
    #[error(
        "this is process {0}, not 1: this command is only for the kernel platform, which starts it as its kernel's init"
    )]
    NotInit(i32),
    /// A file system could not be mounted.
    #[error("cannot mount {kind} at {at}: {error}")]
    Mount {
        /// Type of the file system.
        kind: &'static str,
        /// Mount point.
        at: &'static str,
        /// Error of the system.
        error: io::Error,
    },
}

/// Runs `job` as init: mounts file systems, including the host's directory `shared` at [`JOB_DIR`] with write access, and powers off when
/// `job` returns, fails or panics. An error or panic is first printed to the console.
///
/// # Errors
/// Fails if the process is not process 1. Never returns otherwise.
pub fn run<E: std::fmt::Display>(shared: &Path, job: impl FnOnce() -> Result<(), E>) -> Result<(), InitError> {
    let pid = getpid().as_raw();
    if pid != 1 {
        return Err(InitError::NotInit(pid));
    }
    // The panic hook has printed the message. Unwinding stops here: the kernel panics if init exits.
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

/// Provides entropy to the kernel. Without it, processes that need random numbers block: 2.5 s on 6.1, part of the run's time.
fn gather_randomness() -> io::Result<()> {
    getrandom(&mut [0; 1], GetRandomFlags::empty())?;
    Ok(())
}

/// Powers off the machine.
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

/// Makes a directory of the host writable at its own path; the host's other files stay read-only.
///
/// # Errors
/// Fails if it cannot be mounted.
pub(super) fn mount_writable(directory: &Path) -> io::Result<()> {
    // The path may be below a file system of the guest.
    std::fs::create_dir_all(directory)?;
    Ok(mount(Some("none"), directory, Some("hostfs"), MsFlags::empty(), Some(directory))?)
}

/// Mounts a file system, unless it is mounted already: some kernels mount devtmpfs by themselves.
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
