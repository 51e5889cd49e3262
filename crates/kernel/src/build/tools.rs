//! Tools of a kernel's build. Missing ones are fetched from Debian's packages, for this build only.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use super::error::BuildError;
use super::packages;
use super::runner::{Runner, find};

/// Programs that must be installed: too large to fetch for each build.
const INSTALLED: [&str; 2] = ["gcc", "make"];

/// Other programs of a build, and their packages. Without modules and signatures neither libelf nor libssl is needed.
const FETCHED: [(&str, &str); 5] =
    [("bc", "bc"), ("bison", "bison"), ("flex", "flex"), ("m4", "m4"), ("xz", "xz-utils")];

/// Test program that needs the headers of the C library, including those used by user-mode Linux.
const PROBE: &str = "#include <stdio.h>\n#include <sys/ptrace.h>\nint main(void) { return puts(\"\") < 0; }\n";

/// Checks the compiler by a trial compilation; returns its name and version.
///
/// # Errors
/// Fails if no compiler works, or `make` is missing.
pub(super) fn compiler(runner: &Runner<'_>, scratch: &Path) -> Result<String, BuildError> {
    let missing: Vec<_> = INSTALLED.into_iter().filter(|program| find(program, &runner.path).is_none()).collect();
    if !missing.is_empty() {
        return Err(BuildError::NoCompiler { why: format!("no {}", missing.join(" and no ")) });
    }
    let source = scratch.join("probe.c");
    fs::write(&source, PROBE).map_err(BuildError::io("write", &source))?;
    let outcome = runner.attempt(
        "gcc",
        |command| {
            command.arg("-o").arg(scratch.join("probe")).arg(&source);
        },
        |_| (),
    )?;
    if !outcome.is_success {
        let why = outcome.output.lines().find(|line| line.contains("error")).unwrap_or("gcc fails");
        return Err(BuildError::NoCompiler { why: why.trim().to_owned() });
    }
    let version = runner.run("asking for the compiler's version", "gcc", |command| {
        command.arg("--version");
    })?;
    Ok(version.lines().next().unwrap_or_default().trim().to_owned())
}

/// Fetches the tools that are not on the path, and adds them to it.
///
/// # Errors
/// Fails if a tool cannot be fetched.
pub(super) fn fetch(runner: &mut Runner<'_>, scratch: &Path) -> Result<(), BuildError> {
    let missing = FETCHED.into_iter().filter(|(program, _)| find(program, &runner.path).is_none());
    let mut wanted: Vec<String> = missing.map(|(_, package)| package.to_owned()).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    if wanted.iter().any(|package| package == "bc") {
        // Of the tools' libraries only this one may be missing on a small system.
        wanted.extend(packages::dependencies(runner, "bc", "libreadline")?);
    }
    let root = scratch.join("tools");
    packages::unpack(runner, &wanted, &root)?;
    let bin = root.join("usr/bin");
    let directories = [bin.clone(), root.join("bin")].into_iter().chain(std::env::split_paths(&runner.path));
    let joined = std::env::join_paths(directories);
    runner.path = joined.map_err(|_| BuildError::Path { path: scratch.to_owned() })?;
    runner.variables.push(("LD_LIBRARY_PATH", libraries(&root)));
    // Both programs contain the paths of their own package's directories.
    if wanted.iter().any(|package| package == "bison") {
        runner.variables.push(("BISON_PKGDATADIR", root.join("usr/share/bison").into()));
    }
    if wanted.iter().any(|package| package == "m4") {
        runner.variables.push(("M4", bin.join("m4").into()));
    }
    Ok(())
}

/// Directories of the unpacked libraries, as a search path.
fn libraries(root: &Path) -> OsString {
    let places = ["lib", "usr/lib"].map(|place| root.join(place));
    let subdirectories = places.iter().filter_map(|place| fs::read_dir(place).ok()).flatten().flatten();
    let directories = subdirectories.map(|entry| entry.path()).filter(|path| path.is_dir());
    std::env::join_paths(directories).unwrap_or_default()
}
