//! Tests of questions on the controlling terminal, independent of redirected streams, and of programs without one.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use support::{PATIENCE, Said, Site};

/// Runs `arguments` in a new session; `more` are options of `setsid`.
fn in_session(site: &Site, more: &[&str], arguments: &[&str]) -> Command {
    let program = site.command(arguments);
    let mut command = Command::new("setsid");
    command.arg("--wait").args(more).arg(program.get_program()).args(program.get_args());
    command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?)))).stdin(Stdio::null());
    command
}

/// Runs a command without a controlling terminal.
fn detached(site: &Site, arguments: &[&str]) -> Said {
    Said::of(in_session(site, &[], arguments).output().unwrap())
}

/// Pseudo-terminal, and the program that it controls.
struct Session {
    keyboard: File,
    /// Keeps the terminal open between the program's streams and its questions: the last close would look like a hang-up.
    _open: File,
    screen: mpsc::Receiver<Vec<u8>>,
    shown: String,
    child: std::process::Child,
}

impl Session {
    /// Starts a program with standard input on the terminal, unless the shell `redirection` changes that.
    fn start(site: &Site, arguments: &[&str], redirection: &str) -> Self {
        // `setsid --ctty` makes standard input the terminal, and the shell then redirects it.
        Self::start_by(site, arguments, &format!("exec \"$@\" {redirection}"))
    }

    /// Starts a background job with standard input on the terminal.
    fn start_in_background(site: &Site, arguments: &[&str], redirection: &str) -> Self {
        // Without job control the job would stay in the shell's foreground process group.
        Self::start_by(site, arguments, &format!("set -m; \"$@\" <&0 {redirection} & wait $!"))
    }

    fn start_by(site: &Site, arguments: &[&str], script: &str) -> Self {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let opened = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let mut command = in_session(site, &["--ctty", "sh", "-c", script, "sh"], arguments);
        let held_open = opened.try_clone().unwrap();
        let child = command.stdin(opened).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let keyboard = File::from(terminal);
        let mut reader = keyboard.try_clone().unwrap();
        let (sender, screen) = mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(bytes @ 1..) = reader.read(&mut buffer) {
                let _ = sender.send(buffer[..bytes].to_vec());
            }
        });
        Self { keyboard, _open: held_open, screen, shown: String::new(), child }
    }

    /// Waits until the terminal has shown `part`.
    #[track_caller]
    fn shows(&mut self, part: &str) {
        while !self.shown.contains(part) {
            let more = self.screen.recv_timeout(PATIENCE);
            let more = more.unwrap_or_else(|_| panic!("no {part:?} on the terminal but:\n{}", self.shown));
            self.shown += &String::from_utf8_lossy(&more);
        }
    }

    /// Returns the word on the terminal between `before` and the next blank.
    fn word_after(&self, before: &str) -> String {
        let (_, after) = self.shown.split_once(before).unwrap();
        after.split_whitespace().next().unwrap().to_owned()
    }

    fn types(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    fn end(self) -> Said {
        Said::of(self.child.wait_with_output().unwrap())
    }
}

#[test]
fn without_a_terminal_an_unknown_key_is_refused_unless_a_flag_accepts_it() {
    let (here, there) = (Site::new(), Site::new());
    let receiver = there.receive(&["--allow-any"]);
    let fingerprint = there.id("fingerprint");
    let file = here.write("small.txt", "small");
    let refused = detached(&here, &["send", &file, &receiver.address]);
    refused.refused(&["--accept-new-key", &format!("--host-key {fingerprint}"), "nothing was sent"]);
    assert!(!here.config().join("known_hosts").exists());
    assert_eq!(there.received(), None);
    detached(&here, &["send", &file, &receiver.address, "--accept-new-key"]).ok();
    assert_eq!(there.received().as_deref(), Some("small"));
}

#[test]
fn a_person_is_asked_on_the_terminal_though_standard_error_and_input_lead_elsewhere() {
    let (here, there) = (Site::new(), Site::new());
    let receiver = there.receive(&["--allow-any"]);
    let fingerprint = there.id("fingerprint");
    let file = here.write("small.txt", "small");
    for redirection in ["", "</dev/null"] {
        let mut refusing = Session::start(&here, &["send", &file, &receiver.address], redirection);
        refusing.shows(&fingerprint);
        refusing.shows("(yes/no/fingerprint)?");
        refusing.types("no\n");
        refusing.end().refused(&["was not accepted and nothing was sent"]);
        assert_eq!(there.received(), None);
    }
    let mut accepting = Session::start(&here, &["send", &file, &receiver.address], "</dev/null");
    accepting.shows("(yes/no/fingerprint)?");
    accepting.types("yes\n");
    accepting.end().ok();
    assert_eq!(there.received().as_deref(), Some("small"));
    assert!(fs::read_to_string(here.config().join("known_hosts")).unwrap().contains(&there.id("public_key")));
}

#[test]
fn a_code_is_asked_for_on_the_terminal() {
    let (here, there) = (Site::new(), Site::new());
    let receiver = there.receive(&["--code", "--once"]);
    let file = here.write("small.txt", "small");
    let mut sender = Session::start(&here, &["send", &file, &receiver.address, "--code", "-"], "");
    sender.shows("The code that the other side shows:");
    sender.types(&format!("{}\n", receiver.code()));
    sender.end().ok();
    assert!(receiver.succeeded());
}

#[test]
fn a_receiver_on_a_terminal_asks_whether_to_let_a_sender_in_without_a_code_next_time() {
    let (here, there) = (Site::new(), Site::new());
    let output = there.path("output");
    let receive = ["receive", "--listen", "127.0.0.1:0", "--output", output.to_str().unwrap(), "--once"];
    for (answer, remembered) in [("no", false), ("yes", true)] {
        let mut receiver = Session::start(&there, &receive, "2>&0");
        receiver.shows("--code -");
        let code = receiver.word_after("code: ");
        let address = receiver.word_after("dfcp send FILE.. ");
        here.send(&address, &["--code", &code]).ok();
        receiver.shows(&here.id("fingerprint"));
        receiver.shows("(yes/no)?");
        receiver.types(&format!("{answer}\n"));
        receiver.end().ok();
        let list = fs::read_to_string(there.config().join("authorized_keys")).unwrap_or_default();
        assert_eq!(list.contains(&here.id("public_key")), remembered, "{list}");
        fs::remove_file(there.path("output/small.txt")).unwrap();
    }
    let receiver = there.receive(&["--once"]);
    here.send(&receiver.address, &[]).ok();
    assert!(receiver.succeeded());
}

/// A background read would stop the whole program, and the user could not answer a question there.
#[test]
fn a_receiver_in_the_background_asks_nothing_and_goes_on() {
    let (here, there) = (Site::new(), Site::new());
    let output = there.path("output");
    let receive = ["receive", "--listen", "127.0.0.1:0", "--output", output.to_str().unwrap(), "--once"];
    let mut receiver = Session::start_in_background(&there, &receive, "2>&0");
    receiver.shows("--code -");
    let (code, address) = (receiver.word_after("code: "), receiver.word_after("dfcp send FILE.. "));
    // This input is meant for the shell.
    receiver.types("\n");
    here.send(&address, &["--code", &code]).ok();
    receiver.shows(&format!("add its key {} to authorized_keys", here.id("public_key")));
    assert!(!receiver.shown.contains("(yes/no)?"), "{}", receiver.shown);
    receiver.end().ok();
}

#[test]
fn a_sender_in_the_background_asks_nothing() {
    let (here, there) = (Site::new(), Site::new());
    let receiver = there.receive(&["--allow-any"]);
    let file = here.write("small.txt", "small");
    let mut sender = Session::start_in_background(&here, &["send", &file, &receiver.address], "");
    sender.types("\n");
    sender.end().refused(&["in the background", "--accept-new-key", "nothing was sent"]);
    assert_eq!(there.received(), None);
}

#[test]
fn a_receiver_that_calls_asks_about_an_unknown_sender_and_refuses_it_without_a_terminal() {
    let (here, there) = (Site::new(), Site::new());
    let file = there.write("small.txt", "small");
    let sender = there.start(&["send", &file, "--listen", "127.0.0.1:0", "--allow-any"]);
    let fingerprint = there.id("fingerprint");
    let output = here.path("output");
    let receive = ["receive", "--from", &sender.address, "--output", output.to_str().unwrap()];
    detached(&here, &receive).refused(&["--accept-new-key", &format!("--host-key {fingerprint}")]);
    let mut refusing = Session::start(&here, &receive, "");
    refusing.shows(&fingerprint);
    refusing.shows("(yes/no/fingerprint)?");
    refusing.types("no\n");
    refusing.end().refused(&["was not accepted"]);
    assert!(here.received().is_none() && !here.config().join("known_hosts").exists());
    let mut accepting = Session::start(&here, &receive, "");
    accepting.shows("(yes/no/fingerprint)?");
    accepting.types("yes\n");
    accepting.end().ok();
    assert_eq!(here.received().as_deref(), Some("small"));
    assert!(fs::read_to_string(here.config().join("known_hosts")).unwrap().contains(&there.id("public_key")));
    assert!(sender.succeeded());
}

#[test]
fn a_sender_that_listens_on_a_terminal_prints_a_code_and_asks_whether_to_remember() {
    let (here, there) = (Site::new(), Site::new());
    let file = there.write("small.txt", "small");
    let mut sender = Session::start(&there, &["send", &file, "--listen", "127.0.0.1:0"], "2>&0");
    sender.shows("--code -");
    let code = sender.word_after("code: ");
    let address = sender.word_after("--from ");
    let output = here.path("output");
    here.run(&["receive", "--from", &address, "--output", output.to_str().unwrap(), "--code", &code]).ok();
    sender.shows(&here.id("fingerprint"));
    sender.shows("(yes/no)?");
    sender.types("yes\n");
    sender.end().ok();
    let list = fs::read_to_string(there.config().join("authorized_keys")).unwrap();
    assert!(list.contains(&here.id("public_key")), "{list}");
}
