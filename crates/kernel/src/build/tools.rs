//! The tools of a kernel's build. Those which are not installed come from Debian's packages, for this build only.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use super::error::BuildError;
use super::packages;
use super::runner::{Runner, find};

/// Programs that must be installed: they are too large to fetch for each build.
const INSTALLED: [&str; 2] = ["gcc", "make"];

/// Other programs which a build runs, and their packages. Without modules and signatures neither libelf nor libssl is used.
const FETCHED: [(&str, &str); 5] =
    [("bc", "bc"), ("bison", "bison"), ("flex", "flex"), ("m4", "m4"), ("xz", "xz-utils")];

/// A program which needs the C library's headers, and those which user-mode Linux is made of.
const PROBE: &str = "#include <stdio.h>\n#include <sys/ptrace.h>\nint main(void) { return puts(\"\") < 0; }\n";

/// The compiler's name and version, after a trial compilation.
///
/// # Errors
/// No compiler works, or `make` is missing.
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

/// Fetches the tools which are not on the path, and puts them there.
///
/// # Errors
/// They cannot be had.
pub(super) fn fetch(runner: &mut Runner<'_>, scratch: &Path) -> Result<(), BuildError> {
    let missing = FETCHED.into_iter().filter(|(program, _)| find(program, &runner.path).is_none());
    let mut wanted: Vec<String> = missing.map(|(_, package)| package.to_owned()).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    if wanted.iter().any(|package| package == "bc") {
        // The one library among those of the tools which a small system may lack.
        wanted.extend(packages::dependencies(runner, "bc", "libreadline")?);
    }
    let root = scratch.join("tools");
    packages::unpack(runner, &wanted, &root)?;
    let bin = root.join("usr/bin");
    let directories = [bin.clone(), root.join("bin")].into_iter().chain(std::env::split_paths(&runner.path));
    let joined = std::env::join_paths(directories);
    runner.path = joined.map_err(|_| BuildError::Path { path: scratch.to_owned() })?;
    runner.variables.push(("LD_LIBRARY_PATH", libraries(&root)));
    // Their packages' own directories are built into both.
    if wanted.iter().any(|package| package == "bison") {
        runner.variables.push(("BISON_PKGDATADIR", root.join("usr/share/bison").into()));
    }
    if wanted.iter().any(|package| package == "m4") {
        runner.variables.push(("M4", bin.join("m4").into()));
    }
    Ok(())
}

/// The directories of libraries which were unpacked.
fn libraries(root: &Path) -> OsString {
    let places = ["lib", "usr/lib"].map(|place| root.join(place));
    let subdirectories = places.iter().filter_map(|place| fs::read_dir(place).ok()).flatten().flatten();
    let directories = subdirectories.map(|entry| entry.path()).filter(|path| path.is_dir());
    std::env::join_paths(directories).unwrap_or_default()
}
