//! Test that `dfcp lab` and `dfcp demo` start the program `dfcp-lab`, replaced by a script.
//!
//! This file has a single test: a process that a parallel test starts could inherit the open file of the script just
//! written, which then cannot be executed ("text file busy").

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

/// Script that prints its arguments.
const SCRIPT: &str = "#!/bin/sh\nprintf '%s|' \"$DFCP_VERSION\" \"$@\"\nexit 7\n";

fn write_script(path: &Path) {
    fs::write(path, SCRIPT).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs a copy of the command, as if installed: under cargo, it would build `dfcp-lab`.
fn installed(directory: &Path, path: &Path, arguments: &[&str]) -> Output {
    let program = directory.join("dfcp");
    if !program.exists() {
        fs::copy(env!("CARGO_BIN_EXE_dfcp"), &program).unwrap();
    }
    let mut command = Command::new(program);
    command.args(arguments).env_remove("CARGO").env("PATH", format!("{}:/usr/bin:/bin", path.display()));
    command.output().unwrap()
}

#[test]
fn the_laboratory_is_in_the_help_and_gets_all_arguments_as_they_are() {
    let (here, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let run = |arguments: &[&str]| installed(here.path(), elsewhere.path(), arguments);
    let sentence = String::from_utf8(run(&["lab", "list"]).stderr).unwrap();
    assert!(sentence.contains("cargo install dfcp-lab-cli") && sentence.lines().count() == 1, "{sentence}");
    assert_eq!(run(&["demo"]).status.code(), Some(1));
    let help = String::from_utf8(run(&["--help"]).stdout).unwrap();
    assert!(
        help.contains("\n  demo ") && help.contains("\n  lab ") && help.contains("over emulated lossy paths"),
        "{help}"
    );
    write_script(&elsewhere.path().join("dfcp-lab"));
    let said = |output: Output| (String::from_utf8(output.stdout).unwrap(), output.status.code());
    let version = env!("CARGO_PKG_VERSION");
    let line = ["lab", "run", "--help", "a b", "--", "-q", ""];
    assert_eq!(said(run(&line)), (format!("{version}|lab|run|--help|a b|--|-q||"), Some(7)), "on PATH");
    write_script(&here.path().join("dfcp-lab"));
    fs::remove_file(elsewhere.path().join("dfcp-lab")).unwrap();
    assert_eq!(said(run(&["-q", "demo", "--json"])), (format!("{version}|-q|demo|--json|"), Some(7)), "beside it");
    assert_eq!(said(run(&["help", "lab"])), (format!("{version}|help|lab|"), Some(7)));
}
