//! Tells the program a hash of the code which decides what a run gives on this platform, for its records.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// What DFCP consists of, the emulated links, and what runs flows over them.
const TESTBED: [&str; 14] = [
    "../time/src",
    "../fountain/src",
    "../wire/src",
    "../secure/src",
    "../proto/src",
    "../dfcp/src",
    "../netem/src",
    "../emu/src",
    "../flows/src",
    "../lab/src/scenario",
    "../lab/src/course.rs",
    "../lab/src/plan/carrier.rs",
    "../sim/src/topology.rs",
    "src",
];

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

fn main() {
    let mut hasher = DefaultHasher::new();
    std::env::var("CARGO_PKG_VERSION").unwrap_or_default().hash(&mut hasher);
    let mut found = Vec::new();
    TESTBED.iter().for_each(|path| files(Path::new(path), &mut found));
    for path in found {
        (path.to_string_lossy(), fs::read(&path).unwrap_or_default()).hash(&mut hasher);
    }
    let mut out = format!("cargo::rustc-env=DFCP_TESTBED={:016x}\n", hasher.finish());
    for path in TESTBED.iter().filter(|path| Path::new(path).exists()).chain(&["build.rs"]) {
        out += &format!("cargo::rerun-if-changed={path}\n");
    }
    // Without a reader there is no cargo, and no build.
    let _ = std::io::stdout().write_all(out.as_bytes());
}
