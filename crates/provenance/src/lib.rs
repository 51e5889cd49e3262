//! Library for build scripts: passes the program its commit, and a hash of the source files that determine its results. Records of
//! measurements name both.
//!
//! Both are environment variables of the compilation, read by `env!`; cargo reruns the script when they may have changed.

#![forbid(unsafe_code)]

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// File that cargo writes into each package built from a repository.
const PACKAGED_FROM: &str = ".cargo_vcs_info.json";

/// Digits of a commit, as printed by `git rev-parse --short=12`.
const COMMIT_DIGITS: usize = 12;

/// Sets `variable` to the commit of the package: the commit recorded in the package, else the commit of the surrounding
/// repository, else the empty string. Called by a build script.
pub fn commit(variable: &str) {
    let packaged = fs::read_to_string(PACKAGED_FROM).ok();
    let commit = packaged
        .as_deref()
        .and_then(packaged_commit)
        .or_else(|| git(&["rev-parse", "--short=12", "HEAD"]))
        .unwrap_or_default();
    let mut out = format!("cargo::rustc-env={variable}={commit}\ncargo::rerun-if-changed=build.rs\n");
    if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        out += &format!("cargo::rerun-if-changed={log}\n");
    }
    tell(&out);
}

/// Sets `variable` to a hash of the package's version and of all files at and below `sources`: their names, as given here, and contents.
/// Called by a build script; `sources` are relative to the package.
///
/// Missing sources are skipped: a published package lacks the sources of other crates, whose versions represent them.
pub fn source_hash(variable: &str, sources: &[&str]) {
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let mut out = format!("cargo::rustc-env={variable}={}\n", hash(&version, Path::new(""), sources));
    for path in sources.iter().filter(|path| Path::new(path).exists()).chain(&["build.rs"]) {
        out += &format!("cargo::rerun-if-changed={path}\n");
    }
    tell(&out);
}

fn tell(out: &str) {
    // A failed write means that cargo has ended, and the build with it.
    let _ = std::io::stdout().write_all(out.as_bytes());
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

/// Value of `"sha1"` in cargo's file. Parsed by hand, to avoid compiling a JSON parser for this alone.
fn packaged_commit(json: &str) -> Option<String> {
    let value = json.split_once("\"sha1\"")?.1.split('"').nth(1)?;
    let is_hash = value.len() >= COMMIT_DIGITS && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then(|| value[..COMMIT_DIGITS].to_owned())
}

fn hash(version: &str, root: &Path, sources: &[&str]) -> String {
    let mut hasher = DefaultHasher::new();
    version.hash(&mut hasher);
    let mut found = Vec::new();
    sources.iter().for_each(|path| files(root, Path::new(path), &mut found));
    for path in found {
        (path.to_string_lossy(), fs::read(root.join(&path)).unwrap_or_default()).hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

/// All files at and below `path` in `root`, always in the same order.
fn files(root: &Path, path: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(root.join(path)) else {
        found.extend(root.join(path).is_file().then(|| path.to_owned()));
        return;
    };
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    names.iter().for_each(|name| files(root, &path.join(name), found));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_knows_its_commit() {
        let written = "{\n  \"git\": {\n    \"sha1\": \"0123456789abcdef0123456789abcdef01234567\"\n  },\n  \
                       \"path_in_vcs\": \"crates/lab\"\n}";
        assert_eq!(packaged_commit(written).as_deref(), Some("0123456789ab"));
        for damaged in ["", "{\"git\": {}}", "{\"sha1\": \"abc\"}", "{\"sha1\": \"not hexadecimal!\"}", "{\"sha1\""] {
            assert_eq!(packaged_commit(damaged), None, "{damaged}");
        }
    }

    #[test]
    fn the_hash_is_of_names_contents_and_version() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let write = |name: &str, text: &str| {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), text).unwrap();
        };
        write("src/a/b.rs", "1");
        write("src/c.rs", "2");
        write("other.rs", "3");
        let sources = ["src", "other.rs", "absent"];
        let first = hash("0.1.0", root, &sources);
        assert_eq!(first, hash("0.1.0", root, &sources));
        assert_eq!(first, hash("0.1.0", root, &["src", "other.rs"]), "what is absent is passed over");
        assert_ne!(first, hash("0.1.1", root, &sources));
        assert_ne!(first, hash("0.1.0", root, &["src"]));
        write("unrelated.rs", "4");
        assert_eq!(first, hash("0.1.0", root, &sources));
        write("src/a/b.rs", "changed");
        let second = hash("0.1.0", root, &sources);
        assert_ne!(first, second);
        fs::rename(root.join("src/c.rs"), root.join("src/d.rs")).unwrap();
        assert_ne!(second, hash("0.1.0", root, &sources));
    }
}
