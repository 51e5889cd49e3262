//! Tells the program from which commit it was built, and a hash of the code which decides what a run gives, for its records.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the code is which runs are made of.
const ENGINE: [&str; 16] = [
    "../time/src",
    "../fountain/src",
    "../wire/src",
    "../proto/src",
    "../netem/src",
    "../sim/src",
    "../estimate/src",
    "src/bound.rs",
    "src/scenario",
    "src/course.rs",
    "src/dynamics.rs",
    "src/estimation.rs",
    "src/drive.rs",
    "src/measure.rs",
    "src/plan/carrier.rs",
    "src/plan/kind.rs",
];

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

/// All files below `path`, in an order which is always the same.
fn files(path: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(path) else {
        found.extend(path.is_file().then(|| path.to_owned()));
        return;
    };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().for_each(|path| files(path, found));
}

/// A hash of the code; outside of the repository, where a published version stands for it, of that.
fn engine() -> String {
    let mut hasher = DefaultHasher::new();
    std::env::var("CARGO_PKG_VERSION").unwrap_or_default().hash(&mut hasher);
    let mut found = Vec::new();
    ENGINE.iter().for_each(|path| files(Path::new(path), &mut found));
    for path in found {
        (path.to_string_lossy(), fs::read(&path).unwrap_or_default()).hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

fn main() {
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_default();
    let mut out = format!("cargo::rustc-env=DFCP_COMMIT={commit}\ncargo::rustc-env=DFCP_ENGINE={}\n", engine());
    for path in ENGINE.iter().filter(|path| Path::new(path).exists()).chain(&["build.rs"]) {
        out += &format!("cargo::rerun-if-changed={path}\n");
    }
    if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        out += &format!("cargo::rerun-if-changed={log}\n");
    }
    // Without a reader there is no cargo, and no build.
    let _ = std::io::stdout().write_all(out.as_bytes());
}
