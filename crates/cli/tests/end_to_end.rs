//! The real program against itself, over loopback and its own relay.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const DFCP: &str = env!("CARGO_BIN_EXE_dfcp");

/// A running `dfcp` which has said where it listens.
struct Running {
    child: Child,
    address: String,
}

impl Running {
    /// Starts it and reads its standard error up to the first loopback address with a port.
    fn start(arguments: &[&str]) -> Self {
        let mut child =
            Command::new(DFCP).args(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = loop {
            let line = lines.next().expect("it ended without saying where it listens").unwrap();
            if let Some(at) = line.find("127.0.0.1:") {
                break line[at..].chars().take_while(|c| c.is_ascii_digit() || ".:".contains(*c)).collect();
            }
        };
        // The rest is read and dropped, so that the program never waits for the pipe.
        std::thread::spawn(move || lines.count());
        Self { child, address }
    }

    fn receiver(output: &Path, more: &[&str]) -> Self {
        let mut arguments = vec!["receive", "--listen", "127.0.0.1:0", "--once", "--output", output.to_str().unwrap()];
        arguments.extend(more);
        Self::start(&arguments)
    }

    fn succeeded(mut self) -> bool {
        self.child.wait().unwrap().success()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // An error means that it has ended by itself.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

fn send(what: &Path, to: &str, more: &[&str]) -> Output {
    Command::new(DFCP).arg("send").args(more).arg(what).arg(to).output().unwrap()
}

/// A directory with a large file, a small one and an empty one, in `folder`.
fn source(folder: &Path) -> std::path::PathBuf {
    let source = folder.join("source");
    fs::create_dir_all(source.join("sub")).unwrap();
    let large: Vec<u8> = (0..700_000_u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    fs::write(source.join("large.bin"), large).unwrap();
    fs::write(source.join("sub/small.txt"), "small").unwrap();
    fs::write(source.join("sub/empty"), "").unwrap();
    source
}

fn assert_same(source: &Path, copy: &Path) {
    for name in ["large.bin", "sub/small.txt", "sub/empty"] {
        assert!(fs::read(source.join(name)).unwrap() == fs::read(copy.join(name)).unwrap(), "{name} differs");
    }
}

#[test]
fn a_directory_crosses_a_path_that_loses_reorders_duplicates_and_corrupts() {
    let folder = tempfile::tempdir().unwrap();
    let (source, output) = (source(folder.path()), folder.path().join("output"));
    let receiver = Running::receiver(&output, &[]);
    let impairments = "--loss 10% --delay 5ms --jitter 2ms --reorder 2% --duplicate 2% --corrupt 1% --seed 7";
    let mut relay = vec!["relay", "--listen", "127.0.0.1:0", "--to", &receiver.address];
    relay.extend(impairments.split(' '));
    let relay = Running::start(&relay);
    let sent = send(&source, &relay.address, &[]);
    assert!(sent.status.success(), "{sent:?}");
    assert!(receiver.succeeded());
    assert_same(&source, &output.join("source"));
}

#[test]
fn the_classic_profile_crosses_when_both_sides_ask_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let (source, output) = (source(folder.path()), folder.path().join("output"));
    let receiver = Running::receiver(&output, &["--insecure-classic"]);
    let sent = send(&source, &receiver.address, &["--insecure-classic", "--rate", "20mbit"]);
    assert!(sent.status.success(), "{sent:?}");
    assert_same(&source, &output.join("source"));
}

#[test]
fn classic_is_refused_by_a_receiver_that_was_not_asked_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Running::receiver(&folder.path().join("output"), &[]);
    let sent = send(&source(folder.path()), &receiver.address, &["--insecure-classic"]);
    assert_eq!(sent.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&sent.stderr).contains("refused"), "{sent:?}");
}

#[test]
fn an_existing_file_is_not_overwritten_without_force() {
    let folder = tempfile::tempdir().unwrap();
    let (file, output) = (folder.path().join("name"), folder.path().join("output"));
    fs::write(&file, "new").unwrap();
    fs::create_dir(&output).unwrap();
    fs::write(output.join("name"), "old").unwrap();
    let receiver = Running::receiver(&output, &[]);
    let sent = send(&file, &receiver.address, &[]);
    assert_eq!(sent.status.code(), Some(1), "{sent:?}");
    assert_eq!(fs::read_to_string(output.join("name")).unwrap(), "old");
    let receiver = Running::receiver(&output, &["--force"]);
    assert!(send(&file, &receiver.address, &[]).status.success());
    assert_eq!(fs::read_to_string(output.join("name")).unwrap(), "new");
}
