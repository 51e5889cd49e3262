//! Starts a guest: a kernel as a program, with a program of the host as its init.

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

/// A kernel's words before it gives up.
const PANIC_MARK: &str = "Kernel panic - not syncing: ";

/// A kernel's words when the host refuses to map another of its pages (ENOMEM).
const NO_MAPPING_MARK: &str = "Error flushing stub syscalls: 12";

/// The host's file with the most mappings that a process may have.
const MAPPINGS_MAX: &str = "/proc/sys/vm/max_map_count";

/// The most mappings that a process of this host may have. Nearly every page of a guest's process is one.
pub(crate) fn mappings_max() -> Option<u64> {
    std::fs::read_to_string(MAPPINGS_MAX).ok()?.trim().parse().ok()
}

/// A guest that has not been started.
///
/// It sees the host's files with the rights of this user, read-only. Init gets neither `/proc` nor any other mount, and no
/// input; it ends the guest by switching it off (`reboot(RB_POWER_OFF)`). A guest whose init ends by itself has failed.
#[derive(Clone, Debug)]
pub struct Guest<'host> {
    /// Its kernel.
    pub kernel: &'host Kernel,
    /// The guest's init: a program or script of the host.
    pub program: &'host Path,
    /// Arguments of init. None of them may be `--`, or have a quotation mark or a control character in it.
    pub arguments: Vec<String>,
    /// Variables of init, besides `HOME=/` and `TERM=linux`. Names are upper case; values as arguments.
    pub environment: Vec<(String, String)>,
    /// Its memory, MiB. The host provides what is used of it.
    pub memory_mib: u32,
    /// Longest run, on the host's clock.
    pub limit: Duration,
    /// A callback for the lines of its console while it runs.
    pub listener: Option<Listener>,
}

/// A guest that has switched itself off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The last 64 KiB of its console.
    pub console: String,
    /// Duration of the run, on the host's clock.
    pub wall: Duration,
}

/// A guest cannot be started, or did not end well. `console` is the last 64 KiB of its console.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// The program for init is not there.
    #[error("cannot use {} as the guest's init ({error}); give the path of a program", path.display())]
    NoProgram {
        /// The program.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// A kernel's command line cannot have this in it.
    #[error(
        "{what} is {text:?}, which a kernel's command line cannot say: it must be UTF-8 without quotation marks, control \
         characters, or a lone --; rename it"
    )]
    Unspeakable {
        /// The role of the word, as `an argument of init`.
        what: &'static str,
        /// The word.
        text: String,
    },
    /// A variable's name could be taken for a parameter of the kernel.
    #[error("{name:?} cannot be a variable of init; use upper case, digits and _")]
    NoVariable {
        /// The name.
        name: String,
    },
    /// More arguments or variables than a kernel takes.
    #[error(
        "a kernel hands at most {INIT_ARGUMENTS_MAX} arguments and as many variables to init; put them into a file"
    )]
    TooManyWords,
    /// More bytes than a kernel takes.
    #[error(
        "the kernel's command line would have {bytes} bytes of at most {COMMAND_LINE_BYTES_MAX}; put arguments into a file"
    )]
    TooLong {
        /// Bytes it would have.
        bytes: usize,
    },
    /// No file system can hold the guest's memory.
    #[error(
        "no place for the {memory_mib} MiB of a guest's memory ({tried}); free some, or set TMPDIR to a directory which has room"
    )]
    NoMemory {
        /// Its memory, MiB.
        memory_mib: u32,
        /// Each place and what is wrong with it.
        tried: String,
    },
    /// The host cannot start it or wait for it.
    #[error("cannot run the kernel {} ({error}); check the machine's limits of processes and memory", kernel.display())]
    Start {
        /// Its program.
        kernel: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// It took too long, and was killed.
    #[error(
        "the guest was killed after {:.1} s, which is all it may take; a busy loop stops its time, else allow more{}",
        wall.as_secs_f64(),
        last_words(console)
    )]
    TimedOut {
        /// Duration of the run, on the host's clock.
        wall: Duration,
        /// Its console.
        console: String,
    },
    /// The caller stopped it.
    #[error("the guest was stopped after {:.1} s, as asked for", wall.as_secs_f64())]
    Stopped {
        /// Duration of the run, on the host's clock.
        wall: Duration,
        /// Its console.
        console: String,
    },
    /// Its kernel gave up, most often because init has ended.
    #[error(
        "the guest's kernel panicked: {line}; init must switch the guest off, its last words say why it did not{}",
        last_words(console)
    )]
    Panicked {
        /// The kernel's reason.
        line: String,
        /// Its console.
        console: String,
    },
    /// A process in it uses more pages than a process of the host can map.
    #[error(
        "the host lets no process have more than {limit} mappings, and this guest needs more; as root, \
         sysctl -w vm.max_map_count=1048576"
    )]
    TooFewMappings {
        /// The host's `vm.max_map_count`.
        limit: u64,
    },
    /// Its program failed before or after the kernel ran.
    #[error(
        "the guest failed ({status}); user-mode Linux needs ptrace and a writable, executable TMPDIR{}",
        last_words(console)
    )]
    Failed {
        /// The program's exit status.
        status: ExitStatus,
        /// Its console.
        console: String,
    },
}

impl Guest<'_> {
    /// Starts it, and waits until it has ended with all its processes. They are killed if this program ends before, even by
    /// SIGKILL.
    ///
    /// # Errors
    /// It cannot be started, takes longer than its limit, or ends in another way than by switching itself off.
    pub fn run(&self) -> Result<Ended, GuestError> {
        self.run_unless(&AtomicBool::new(false))
    }

    /// As [`run`](Self::run), and kills the guest soon after `stop` was set.
    ///
    /// # Errors
    /// As those of [`run`](Self::run), or it was stopped.
    pub fn run_unless(&self, stop: &AtomicBool) -> Result<Ended, GuestError> {
        let words = command_line::words(self)?;
        let scratch = memory::scratch(self.memory_mib, stop)?;
        let failed = |error| GuestError::Start { kernel: self.kernel.path().to_owned(), error };
        let start = Instant::now();
        let set = |command: &mut std::process::Command| {
            // Nothing else of the host's environment says anything to a guest. Its control files are in HOME/.uml.
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

/// The reason that a panicking kernel printed.
fn panic_line(console: &str) -> Option<&str> {
    let (_, after) = console.split_once(PANIC_MARK)?;
    after.lines().next().map(str::trim)
}

/// The end of a console for an error; of a panic, what came before the kernel's stack.
fn last_words(console: &str) -> String {
    match last_lines(&console[..console.find(PANIC_MARK).unwrap_or(console.len())]) {
        lines if lines.is_empty() => "; it has printed nothing".to_owned(),
        lines => format!("; its console ends:\n{lines}"),
    }
}
