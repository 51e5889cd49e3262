//! Tests of `dfcp id`.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::path::Path;
use std::process::{Command, Output};

fn id(directory: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dfcp")).arg("id").args(more).env("DFCP_CONFIG_DIR", directory).output().unwrap()
}

#[test]
fn the_key_is_shown_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("dfcp");
    let first = id(&directory, &[]);
    assert!(first.status.success() && String::from_utf8(first.stderr).unwrap().contains("new key"));
    let text = String::from_utf8(first.stdout).unwrap();
    let words: Vec<_> = text.lines().map(|line| line.rsplit(' ').next().unwrap()).collect();
    let second = id(&directory, &["--json"]);
    assert!(second.status.success() && second.stderr.is_empty());
    let json: serde_json::Value = serde_json::from_slice(&second.stdout).unwrap();
    assert_eq!(words, ["public_key", "fingerprint", "key_file"].map(|field| json[field].as_str().unwrap()));
    assert_eq!(json["created"], false);
    assert!(directory.join("key").is_file());
}

#[test]
fn a_damaged_key_is_one_sentence_and_exit_code_1() {
    let folder = tempfile::tempdir().unwrap();
    assert!(id(folder.path(), &[]).status.success());
    // Rewriting in place keeps the mode.
    std::fs::write(folder.path().join("key"), "nothing\n").unwrap();
    let output = id(folder.path(), &[]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.is_empty(), error.lines().count()), (Some(1), true, 1), "{error}");
    assert!(error.contains("damaged") && error.contains("backup"), "{error}");
}

#[test]
fn help_has_an_example() {
    let output = id(Path::new("unused"), &["--help"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("Example") && text.contains("authorized_keys"), "{text}");
}

/// Without the error, a script would continue with an empty file.
#[cfg(target_os = "linux")]
#[test]
fn output_that_is_lost_to_a_full_disk_is_a_failure_and_a_reader_that_has_gone_is_none() {
    let directory = tempfile::tempdir().unwrap();
    let into = |out: std::process::Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dfcp"));
        command.args(["id", "--json"]).env("DFCP_CONFIG_DIR", directory.path()).stdout(out).output().unwrap()
    };
    let full = into(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap().into());
    let said = String::from_utf8(full.stderr).unwrap();
    assert!(full.status.code() == Some(1) && said.contains("No space left"), "{:?}: {said}", full.status);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let gone = into(writer.into());
    assert!(gone.status.success() && gone.stderr.is_empty(), "{gone:?}");
}
