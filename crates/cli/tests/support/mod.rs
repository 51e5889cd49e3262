//! Harness for the real program, with a separate configuration directory per side.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

const DFCP: &str = env!("CARGO_BIN_EXE_dfcp");

/// Timeout that turns a hung program into a failed test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Loopback address that no other program uses. On Linux, which has all of 127.0.0.0/8, it depends on the process id.
/// Each test needs its own ports; ports below 32768 are outside the ephemeral range.
pub(crate) fn own_loopback(port: u16) -> String {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let own = if cfg!(target_os = "linux") { [127, 64 | (high & 63), middle, low] } else { [127, 0, 0, 1] };
    std::net::SocketAddr::from((own, port)).to_string()
}

/// Machine with one user: files and a configuration.
pub(crate) struct Site {
    folder: tempfile::TempDir,
}

impl Site {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// Path of a file on this machine.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.path("config")
    }

    /// Writes a file with mode 0600.
    pub(crate) fn write(&self, name: &str, content: &str) -> String {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            // Under any umask, other users must not be able to replace it.
            fs::set_permissions(path.parent().unwrap(), fs::Permissions::from_mode(0o700)).unwrap();
        }
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(DFCP);
        command.args(arguments).env("DFCP_CONFIG_DIR", self.config()).stdin(Stdio::null());
        // With this variable the program would let cargo build `dfcp-lab`.
        command.env_remove("CARGO");
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Said {
        Said::of(self.command(arguments).output().unwrap())
    }

    /// Returns the fingerprint or public key of this user.
    pub(crate) fn id(&self, field: &str) -> String {
        let json: serde_json::Value = serde_json::from_str(&self.run(&["id", "--json"]).out).unwrap();
        json[field].as_str().unwrap().to_owned()
    }

    /// Sends a small file to `address`. Unless `more` selects the trust, a new key is accepted.
    pub(crate) fn send(&self, address: &str, more: &[&str]) -> Said {
        const TRUST: [&str; 5] = ["--code", "--host-key", "--psk-file", "--insecure-plaintext", "--insecure-classic"];
        let file = self.write("small.txt", "small");
        let trust = if more.iter().any(|flag| TRUST.contains(flag)) { &[][..] } else { &["--accept-new-key"] };
        self.run(&[&["send", &file, address], trust, more].concat())
    }

    /// Starts a receiver into `output` and waits until it listens.
    pub(crate) fn receive(&self, more: &[&str]) -> Running {
        self.receive_at("127.0.0.1:0", more)
    }

    pub(crate) fn receive_at(&self, address: &str, more: &[&str]) -> Running {
        let output = self.path("output");
        let arguments = ["receive", "--listen", address, "--output", output.to_str().unwrap()];
        self.start(&[&arguments, more].concat())
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        Running::start(self.command(arguments))
    }

    /// Returns the content of the file that [`Site::send`] sent, if it arrived.
    pub(crate) fn received(&self) -> Option<String> {
        fs::read_to_string(self.path("output/small.txt")).ok()
    }
}

/// Exit code and output of a finished program.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Asserts success.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }

    /// Asserts failure, with all of `parts` in the message.
    #[track_caller]
    pub(crate) fn refused(&self, parts: &[&str]) {
        assert_eq!(self.code, Some(1), "{self:?}");
        for part in parts {
            assert!(self.err.contains(part), "no {part:?} in {self:?}");
        }
    }
}

/// Running `dfcp` that has printed its listening address.
pub(crate) struct Running {
    child: Child,
    pub(crate) address: String,
    /// Lines printed before the one with the address.
    pub(crate) before: String,
    lines: mpsc::Receiver<String>,
}

impl Running {
    /// Starts the program and reads its standard error up to the first listening address (loopback or wildcard).
    pub(crate) fn start(command: Command) -> Self {
        Self::start_into(command, Stdio::null())
    }

    /// Starts the program as [`Running::start`] does, with standard output to `out`.
    pub(crate) fn start_into(mut command: Command, out: Stdio) -> Self {
        let mut child = command.stdout(out).stderr(Stdio::piped()).spawn().unwrap();
        let printed = BufReader::new(child.stderr.take().unwrap()).lines();
        let (sender, lines) = mpsc::channel();
        // Drain the pipe, so that the program never blocks on it.
        std::thread::spawn(move || {
            for line in printed.map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let mut running = Self { child, address: String::new(), before: String::new(), lines };
        let (before, line) = running.line_with_one_of(&[" 127.", " [::]:"]);
        running.before = before;
        let at = line.find(" 127.").or_else(|| line.find(" [::]:")).unwrap() + 1;
        running.address = line[at..].chars().take_while(|c| c.is_ascii_digit() || ".:[]".contains(*c)).collect();
        running
    }

    /// Returns the next line of standard error that contains `part`.
    #[track_caller]
    pub(crate) fn line_with(&self, part: &str) -> String {
        self.line_with_one_of(&[part]).1
    }

    /// Returns the lines before the next line that contains one of `parts`, and that line.
    #[track_caller]
    fn line_with_one_of(&self, parts: &[&str]) -> (String, String) {
        let mut before = String::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if parts.iter().any(|part| line.contains(part)) => return (before, line),
                Ok(line) => before += &format!("{line}\n"),
                Err(_) => panic!("it has not said {parts:?} but:\n{before}"),
            }
        }
    }

    /// Returns the next code that the program prints.
    #[track_caller]
    pub(crate) fn code(&self) -> String {
        self.line_with("    code: ").trim().trim_start_matches("code: ").to_owned()
    }

    #[cfg(unix)]
    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for the exit; returns the exit code, and the output since the last requested line.
    pub(crate) fn ended(&mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        let mut said = String::new();
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            said += &format!("{line}\n");
        }
        (code, said)
    }

    pub(crate) fn succeeded(mut self) -> bool {
        self.child.wait().unwrap().success()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // An error means that the program has already exited.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}
