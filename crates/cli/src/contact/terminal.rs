//! Controlling terminal of the process.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::time::Duration;
#[cfg(unix)]
use std::time::Instant;

/// Paths of the controlling terminal, for reading and for writing.
const NAMES: [&str; 2] = if cfg!(windows) { ["CONIN$", "CONOUT$"] } else { ["/dev/tty", "/dev/tty"] };

/// Controlling terminal, independent of redirected standard streams.
#[derive(Debug)]
pub struct Terminal {
    input: BufReader<File>,
    output: File,
}

impl Terminal {
    /// Opens the terminal; `None` without one, as under cron or a service manager.
    #[must_use]
    pub fn open() -> Option<Self> {
        let [input, output] = NAMES.map(|name| File::options().read(true).write(true).open(name));
        Some(Self { input: BufReader::new(input.ok()?), output: output.ok()? })
    }

    /// Returns true if the process is in the foreground. A background process that reads from the terminal is stopped
    /// with all its threads (SIGTTIN).
    #[must_use]
    pub fn is_in_foreground(&self) -> bool {
        #[cfg(unix)]
        {
            let foreground = rustix::termios::tcgetpgrp(self.input.get_ref());
            foreground.is_ok_and(|group| group == rustix::process::getpgrp())
        }
        #[cfg(not(unix))]
        true
    }

    /// Waits up to `patience` for a typed line; returns true if there is one.
    ///
    /// # Errors
    /// Passes on the system's error.
    #[cfg(unix)]
    pub fn has_line_within(&self, patience: Duration) -> io::Result<bool> {
        self.has_line_until(Instant::now().checked_add(patience))
    }

    /// Waits for a typed line until `deadline`, or for ever without one.
    #[cfg(unix)]
    fn has_line_until(&self, deadline: Option<Instant>) -> io::Result<bool> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        if !self.input.buffer().is_empty() {
            return Ok(true);
        }
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let mut polled = [PollFd::new(self.input.get_ref(), PollFlags::IN)];
            match poll(&mut polled, left.and_then(|left| Timespec::try_from(left).ok()).as_ref()) {
                Ok(ready) => return Ok(ready > 0),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Fails if the process is in the background. Called before each read: the user may have suspended the program
    /// since the question.
    fn must_be_in_foreground(&self) -> io::Result<()> {
        // Poll first: a blocked read would stop the process if it is continued in the background; polling does not.
        #[cfg(unix)]
        self.has_line_until(None)?;
        if self.input.buffer().is_empty() && !self.is_in_foreground() {
            return Err(io::Error::other("the program runs in the background, where nobody can answer"));
        }
        Ok(())
    }

    /// Returns true immediately: on this system, the following read blocks until a line arrives.
    ///
    /// # Errors
    /// Never fails.
    #[cfg(not(unix))]
    pub fn has_line_within(&self, _patience: Duration) -> io::Result<bool> {
        Ok(true)
    }
}

impl Read for Terminal {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.must_be_in_foreground()?;
        self.input.read(buffer)
    }
}

impl BufRead for Terminal {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.must_be_in_foreground()?;
        self.input.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        self.input.consume(bytes);
    }
}

impl Write for Terminal {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}
