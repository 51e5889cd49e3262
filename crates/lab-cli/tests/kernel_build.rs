//! Tests of `dfcp lab kernel` that build no kernel.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

use std::path::Path;

use assert_cmd::Command;

/// Runs `dfcp lab kernel` with this cache directory, and returns exit code, standard output and standard error.
fn kernel(cache: &Path, args: &[&str]) -> (i32, String, String) {
    let mut command = Command::cargo_bin("dfcp-lab").unwrap();
    let output = command.env("XDG_CACHE_HOME", cache).args(["lab", "kernel"]).args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn every_help_has_an_example() {
    for args in [&["--help"][..], &["build", "--help"], &["list", "--help"]] {
        let (code, out, err) = kernel(Path::new("/nonexistent"), args);
        assert_eq!((code, err.as_str()), (0, ""), "{args:?}");
        assert!(out.contains("Example"), "{args:?}: {out}");
    }
}

#[test]
fn a_list_without_a_kernel_says_how_to_get_one_and_what_is_broken() {
    let cache = tempfile::tempdir().unwrap();
    let (code, out, err) = kernel(cache.path(), &["list"]);
    assert_eq!((code, out.as_str()), (0, ""));
    assert!(err.contains("no kernel is in") && err.ends_with("run: dfcp lab kernel build\n"), "{err}");
    std::fs::create_dir_all(cache.path().join("dfcp/kernel/6.12.1-0123/linux")).unwrap();
    let (code, out, err) = kernel(cache.path(), &["list", "--json"]);
    assert_eq!((code, out.as_str()), (0, ""));
    assert!(err.contains("not usable: ") && err.contains("6.12.1-0123/linux is no regular file"), "{err}");
}

#[test]
fn what_cannot_be_built_is_one_sentence() {
    let cache = tempfile::tempdir().unwrap();
    for (args, sentence) in [
        (&["build", "../6.12"][..], "dfcp: \"../6.12\" is no version of a kernel; write one like 6.12\n"),
        (&["build", "--jobs", "1", ""], "dfcp: \"\" is no version of a kernel; write one like 6.12\n"),
    ] {
        assert_eq!(kernel(cache.path(), args), (1, String::new(), sentence.to_owned()));
    }
    let (code, _, err) = kernel(&cache.path().join("a space"), &["build"]);
    assert!(code == 1 && err.contains("space or colon") && err.lines().count() == 1, "{err}");
    assert_eq!(std::fs::read_dir(cache.path()).unwrap().count(), 0);
}
