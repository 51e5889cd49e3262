//! Start of a guest: a kernel as a program, with a program of the host as init.

mod command_line;
mod cpu;
mod memory;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use self::cpu::Seat;
use crate::console::{Listener, last_lines, readable};
use crate::kernel::Kernel;
use crate::limits::{COMMAND_LINE_BYTES_MAX, INIT_ARGUMENTS_MAX};
use crate::process::{Ending, Supervised};

/// Text that a kernel prints before it panics.
const PANIC_MARK: &str = "Kernel panic - not syncing: ";

/// Text that a kernel prints when the host refuses another memory mapping (ENOMEM).
const NO_MAPPING_MARK: &str = "Error flushing stub syscalls: 12";

/// File of the host with the greatest number of mappings per process.
const MAPPINGS_MAX: &str = "/proc/sys/vm/max_map_count";

/// Greatest number of mappings per process on this host. Nearly every page of a guest's process is one mapping.
pub(crate) fn mappings_max() -> Option<u64> {
    std::fs::read_to_string(MAPPINGS_MAX).ok()?.trim().parse().ok()
}

/// Settings of a guest to be started.
///
/// A guest has read-only access to the host's files with the rights of this user. Init gets neither `/proc` nor any other mount, and no
/// input; it ends the guest by powering off (`reboot(RB_POWER_OFF)`). A guest whose init exits has failed.
#[derive(Clone, Debug)]
pub struct Guest<'host> {
    /// Kernel of the guest.
    pub kernel: &'host Kernel,
    /// Init: a program or script of the host.
    pub program: &'host Path,
    /// Arguments of init. None may be `--`, or contain a quotation mark or a control character.
    pub arguments: Vec<String>,
    /// Variables of init, in addition to `HOME=/` and `TERM=linux`. Names are in upper case; values are restricted like arguments.
    pub environment: Vec<(String, String)>,
    /// Memory of the guest, MiB. The host provides only the used part.
    pub memory_mib: u32,
    /// Longest run, by the host's clock.
    pub limit: Duration,
    /// Callback for the lines of the console during the run.
    pub listener: Option<Listener>,
}

/// Result of a guest that has powered off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Last 64 KiB of the console.
    pub console: String,
    /// Duration of the run, by the host's clock.
    pub wall: Duration,
}

/// Reason for which a guest cannot be started, or failed. `console` is the last 64 KiB of its console.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// The program for init is missing.
    #[error("cannot use {} as the guest's init ({error}); give the path of a program", path.display())]
    NoProgram {
        /// Path of the program.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// A word that a kernel's command line cannot contain.
    #[error(
        "{what} is {text:?}, which a kernel's command line cannot say: it must be UTF-8 without quotation marks, control \
         characters, or a lone --; rename it"
    )]
    Unspeakable {
        /// Role of the word, such as `an argument of init`.
        what: &'static str,
        /// Text of the word.
        text: String,
    },
    /// A name of a variable that could be a parameter of the kernel.
    #[error("{name:?} cannot be a variable of init; use upper case, digits and _")]
    NoVariable {
        /// Name of the variable.
        name: String,
    },
    /// More arguments or variables than a kernel accepts.
    #[error(
        "a kernel hands at most {INIT_ARGUMENTS_MAX} arguments and as many variables to init; put them into a file"
    )]
    TooManyWords,
    /// A longer command line than a kernel accepts.
    #[error(
        "the kernel's command line would have {bytes} bytes of at most {COMMAND_LINE_BYTES_MAX}; put arguments into a file"
    )]
    TooLong {
        /// Bytes of the command line.
        bytes: usize,
    },
    /// No file system has space for the guest's memory.
    #[error(
        "no place for the {memory_mib} MiB of a guest's memory ({tried}); free some, or set TMPDIR to a directory which has room"
    )]
    NoMemory {
        /// Memory of the guest, MiB.
        memory_mib: u32,
        /// Directories tried, each with its fault.
        tried: String,
    },
    /// The host cannot start the kernel or wait for it.
    #[error("cannot run the kernel {} ({error}); check the machine's limits of processes and memory", kernel.display())]
    Start {
        /// Path of the kernel.
        kernel: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// The guest exceeded its time limit, and was killed.
    #[error(
        "the guest was killed after {:.1} s, which is all it may take; a busy loop stops its time, else allow more{}",
        wall.as_secs_f64(),
        last_words(console)
    )]
    TimedOut {
        /// Duration of the run, by the host's clock.
        wall: Duration,
        /// Console output.
        console: String,
    },
    /// The guest was stopped by the caller.
    #[error("the guest was stopped after {:.1} s, as asked for", wall.as_secs_f64())]
    Stopped {
        /// Duration of the run, by the host's clock.
        wall: Duration,
        /// Console output.
        console: String,
    },
    /// The kernel panicked, in most cases because init exited.
    #[error(
        "the guest's kernel panicked: {line}; init must switch the guest off, its last words say why it did not{}",
        last_words(console)
    )]
    Panicked {
        /// Reason printed by the kernel.
        line: String,
        /// Console output.
        console: String,
    },
    /// A process in the guest uses more pages than a host process can map.
    #[error(
        "the host lets no process have more than {limit} mappings, and this guest needs more; as root, \
         sysctl -w vm.max_map_count=1048576"
    )]
    TooFewMappings {
        /// `vm.max_map_count` of the host.
        limit: u64,
    },
    /// The kernel's program failed before or after the kernel ran.
    #[error(
        "the guest failed ({status}); user-mode Linux needs ptrace and a writable, executable TMPDIR{}",
        last_words(console)
    )]
    Failed {
        /// Exit status of the program.
        status: ExitStatus,
        /// Console output.
        console: String,
    },
}

impl Guest<'_> {
    /// Starts the guest, and waits until it has ended with all its processes. They are killed if this program ends first, even by SIGKILL.
    ///
    /// # Errors
    /// Fails if the guest cannot be started, exceeds its time limit, or ends in another way than by powering off.
    pub fn run(&self) -> Result<Ended, GuestError> {
        self.run_unless(&AtomicBool::new(false))
    }

    /// [`run`](Self::run) with a stop flag: the guest is killed soon after `stop` is set.
    ///
    /// # Errors
    /// Fails like [`run`](Self::run), or if the guest was stopped.
    pub fn run_unless(&self, stop: &AtomicBool) -> Result<Ended, GuestError> {
        let words = command_line::words(self)?;
        let scratch = memory::scratch(self.memory_mib, stop)?;
        let failed = |error| GuestError::Start { kernel: self.kernel.path().to_owned(), error };
        let start = Instant::now();
        let set = |command: &mut std::process::Command| {
            // A guest uses nothing else of the host's environment. Its control files are in HOME/.uml.
            let at = scratch.path();
            command
                .args(words)
                .env_clear()
                .env("HOME", at)
                .env("TMPDIR", at)
                .env("PATH", "/bin:/usr/bin")
                .current_dir(at);
        };
        let seat = Seat::take().map_err(failed)?;
        let mut hear = self.listener.clone().map(Listener::hear_pieces);
        let tell = move |bytes: &[u8]| hear.iter_mut().for_each(|hear| hear(bytes));
        let start_it = || Supervised::start(self.kernel.path(), set, Some(scratch.path()), tell);
        let mut process = seat.start(start_it).map_err(failed)?;
        let ending = process.wait(Some(self.limit), stop).map_err(failed)?;
        let (wall, console) = (start.elapsed(), readable(&process.output()));
        match ending {
            Ending::Exited(status) if status.success() => Ok(Ended { console, wall }),
            Ending::Exited(_) if console.contains(NO_MAPPING_MARK) => {
                Err(GuestError::TooFewMappings { limit: mappings_max().unwrap_or_default() })
            }
            Ending::Exited(status) => Err(match panic_line(&console) {
                Some(line) => GuestError::Panicked { line: line.to_owned(), console },
                None => GuestError::Failed { status, console },
            }),
            Ending::TimedOut => Err(GuestError::TimedOut { wall, console }),
            Ending::Stopped => Err(GuestError::Stopped { wall, console }),
        }
    }
}

/// Reason printed by a panicking kernel.
fn panic_line(console: &str) -> Option<&str> {
    let (_, after) = console.split_once(PANIC_MARK)?;
    after.lines().next().map(str::trim)
}

/// Last lines of a console for an error; for a panic, those before the kernel's stack trace.
fn last_words(console: &str) -> String {
    match last_lines(&console[..console.find(PANIC_MARK).unwrap_or(console.len())]) {
        lines if lines.is_empty() => "; it has printed nothing".to_owned(),
        lines => format!("; its console ends:\n{lines}"),
    }
}
