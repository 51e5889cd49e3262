//! Tests of the program `dfcp-lab` when `dfcp` starts it.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use assert_cmd::Command;

fn run(version: &str, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::cargo_bin("dfcp-lab").unwrap();
    let output = command.env("DFCP_VERSION", version).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");

#[test]
fn it_speaks_of_itself_as_the_command_that_starts_it() {
    let (code, out, err) = run(OWN_VERSION, &["lab", "--help"]);
    assert!(code == 0 && err.is_empty() && out.contains("Usage: dfcp lab "), "{out}{err}");
    let (code, out, _) = run(OWN_VERSION, &["demo", "--help"]);
    assert!(code == 0 && out.contains("Usage: dfcp demo ") && out.contains("Examples"), "{out}");
    let (code, out, err) = run(OWN_VERSION, &["lab", "list", "--no-such"]);
    assert!(code == 2 && out.is_empty() && err.starts_with("dfcp: ") && err.lines().count() == 1, "{err}");
    assert_eq!(run(OWN_VERSION, &["--quiet", "lab", "list"]).0, 0);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_dfcp-lab"));
    command.env("DFCP_VERSION", OWN_VERSION).args(["lab", "list"]).stdout(writer).stderr(std::process::Stdio::piped());
    let output = command.spawn().unwrap().wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

#[test]
fn a_program_of_another_version_does_nothing() {
    let (code, out, err) = run("0.0.0", &["lab", "list"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert_eq!(err, format!("dfcp: dfcp is 0.0.0 and dfcp-lab is {OWN_VERSION}; install both of one version\n"));
}

#[test]
fn its_commands_have_man_pages() {
    let directory = tempfile::tempdir().unwrap();
    let (code, _, err) = run(OWN_VERSION, &["man", directory.path().to_str().unwrap()]);
    assert!(code == 0 && err.contains(" pages in "), "{err}");
    let page = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
    assert!(page("dfcp-lab-run.1").contains("\\-\\-seeds") && page("dfcp-demo.1").contains("\\-\\-loss"));
    assert!(!directory.path().join("dfcp-lab-guest.1").exists() && !directory.path().join("dfcp.1").exists());
}
