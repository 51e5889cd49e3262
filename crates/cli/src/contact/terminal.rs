//! The terminal at which the program was started.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::time::Duration;
#[cfg(unix)]
use std::time::Instant;

/// The names under which a program finds its own terminal, to read and to write.
const NAMES: [&str; 2] = if cfg!(windows) { ["CONIN$", "CONOUT$"] } else { ["/dev/tty", "/dev/tty"] };

/// The terminal that controls this program, wherever its standard streams lead: a person sits there even if standard error
/// goes to a file.
#[derive(Debug)]
pub struct Terminal {
    input: BufReader<File>,
    output: File,
}

impl Terminal {
    /// `None` if no terminal controls this program, as under cron or a service manager.
    #[must_use]
    pub fn open() -> Option<Self> {
        let [input, output] = NAMES.map(|name| File::options().read(true).write(true).open(name));
        Some(Self { input: BufReader::new(input.ok()?), output: output.ok()? })
    }

    /// Waits until a line has been typed, at most for so long; whether there is one.
    ///
    /// # Errors
    /// The system's.
    #[cfg(unix)]
    pub fn has_line_within(&self, patience: Duration) -> io::Result<bool> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        if !self.input.buffer().is_empty() {
            return Ok(true);
        }
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut polled = [PollFd::new(self.input.get_ref(), PollFlags::IN)];
            match poll(&mut polled, Timespec::try_from(left).ok().as_ref()) {
                Ok(ready) => return Ok(ready > 0),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Elsewhere reading waits as long as it takes.
    ///
    /// # Errors
    /// None.
    #[cfg(not(unix))]
    pub fn has_line_within(&self, _patience: Duration) -> io::Result<bool> {
        Ok(true)
    }
}

impl Read for Terminal {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.input.read(buffer)
    }
}

impl BufRead for Terminal {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
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
