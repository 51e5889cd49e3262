//! Tells the program from which commit it was built, for its records.

use std::io::Write as _;
use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

fn main() {
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_default();
    let mut out = format!("cargo::rustc-env=DFCP_COMMIT={commit}\ncargo::rerun-if-changed=build.rs\n");
    if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        out += &format!("cargo::rerun-if-changed={log}\n");
    }
    // Whoever cannot be told has no cargo to build with.
    let _ = std::io::stdout().write_all(out.as_bytes());
}
