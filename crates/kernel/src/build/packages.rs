//! Debian's packages: queried, downloaded and unpacked without installation, and so without root.

use std::fs;
use std::path::{Path, PathBuf};

use super::error::BuildError;
use super::runner::{Runner, find};
use crate::console::last_lines;

/// Programs of Debian's package manager that this module runs.
const NEEDED: [&str; 3] = ["apt-cache", "apt-get", "dpkg-deb"];

/// Installed and available version of a known package.
#[derive(Debug, PartialEq, Eq)]
struct Policy {
    candidate: String,
    installed: Option<String>,
}

/// Debian's source package of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SourcePackage {
    /// Name of the package, such as `linux-source-6.12`.
    pub name: String,
    /// Version of the package, such as `6.12.117-1~deb12u1`.
    pub version: String,
    /// True if exactly this version is installed.
    pub is_installed: bool,
}

/// Checks that this machine has Debian's package manager.
pub(super) fn check(runner: &Runner<'_>) -> Result<(), BuildError> {
    let missing = NEEDED.into_iter().find(|program| find(program, &runner.path).is_none());
    missing.map_or(Ok(()), |missing| Err(BuildError::NotDebian { missing }))
}

/// Finds the source package of this version in the package lists of this machine.
pub(super) fn source(runner: &Runner<'_>, version: &str) -> Result<SourcePackage, BuildError> {
    let name = format!("linux-source-{version}");
    let output = runner.run("asking for packages", "apt-cache", |command| {
        command.args(["policy", &name]);
    })?;
    if let Some(Policy { candidate, installed }) = policy(&output) {
        let is_installed = installed.as_ref() == Some(&candidate);
        return Ok(SourcePackage { name, version: candidate, is_installed });
    }
    let names = runner.run("asking for packages", "apt-cache", |command| {
        command.args(["pkgnames", "linux-source-"]);
    })?;
    Err(BuildError::UnknownPackage { version: version.to_owned(), known: versions(&names) })
}

/// Parses the output of `apt-cache policy` for one package.
fn policy(output: &str) -> Option<Policy> {
    let value = |key: &str| {
        let value = output.lines().find_map(|line| line.trim().strip_prefix(key))?.trim();
        (value != "(none)" && !value.is_empty()).then(|| value.to_owned())
    };
    Some(Policy { candidate: value("Candidate:")?, installed: value("Installed:") })
}

/// Versions in a list of package names.
fn versions(names: &str) -> Vec<String> {
    let versions = names.lines().filter_map(|name| name.trim().strip_prefix("linux-source-"));
    let mut versions: Vec<_> = versions.filter(|version| super::is_version(version)).map(str::to_owned).collect();
    versions.sort_by_key(|version| version.split('.').map(|part| part.parse::<u32>().ok()).collect::<Vec<_>>());
    versions
}

/// Dependencies of a package whose names start with `prefix`.
pub(super) fn dependencies(runner: &Runner<'_>, package: &str, prefix: &str) -> Result<Vec<String>, BuildError> {
    let output = runner.run("asking for packages", "apt-cache", |command| {
        command.args(["depends", package]);
    })?;
    let names = output.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    Ok(names.filter(|name| name.starts_with(prefix)).map(str::to_owned).collect())
}

/// Downloads packages (`name` or `name=version`) and unpacks them into the directory `root`.
pub(super) fn unpack(runner: &Runner<'_>, packages: &[String], root: &Path) -> Result<(), BuildError> {
    let downloads = root.with_extension("downloads");
    fs::create_dir_all(&downloads).map_err(BuildError::io("make", &downloads))?;
    let outcome = runner.attempt(
        "apt-get",
        |command| {
            // Started by root, apt would switch to the user `_apt`, who may not write here.
            command.args(["-q", "-o", "APT::Sandbox::User=root", "download"]).args(packages).current_dir(&downloads);
        },
        |_| (),
    )?;
    if !outcome.is_success {
        let output = last_lines(&outcome.output);
        return match runner.successful("downloading", outcome) {
            Err(BuildError::Failed { log, .. }) => {
                Err(BuildError::Download { package: packages.join(", "), log, output })
            }
            other => other.map(|_| ()),
        };
    }
    for entry in fs::read_dir(&downloads).map_err(BuildError::io("read", &downloads))? {
        let file = entry.map_err(BuildError::io("read", &downloads))?.path();
        runner.run("unpacking a package", "dpkg-deb", |command| {
            command.arg("-x").arg(&file).arg(root);
        })?;
    }
    fs::remove_dir_all(&downloads).map_err(BuildError::io("remove", &downloads))
}

/// Path of the source archive below `root/usr/src`, directly or one directory deeper.
pub(super) fn archive(root: &Path, package: &str) -> Result<PathBuf, BuildError> {
    let sources = root.join("usr/src");
    let deeper = sources.join(package);
    let files = [sources, deeper].into_iter().filter_map(|directory| fs::read_dir(directory).ok()).flatten().flatten();
    let start = format!("{package}.tar.");
    let mut archives = files.filter(|file| file.file_name().to_string_lossy().starts_with(&start));
    let archive = archives.find(|file| file.file_type().is_ok_and(|kind| kind.is_file())).map(|file| file.path());
    archive.ok_or_else(|| BuildError::NoSource { package: package.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packages_versions_are_read() {
        let output =
            "linux-source-6.12:\n  Installed: 6.12.1-1\n  Candidate: 6.12.2-1~deb12u1\n  Version table:\n *** x\n";
        let both = policy(output).unwrap();
        assert_eq!((both.candidate.as_str(), both.installed.as_deref()), ("6.12.2-1~deb12u1", Some("6.12.1-1")));
        assert_eq!(policy("x:\n  Installed: (none)\n  Candidate: 1\n").unwrap().installed, None);
        for unknown in ["", "x:\n  Installed: (none)\n  Candidate: (none)\n", "W: something\n", "x:\n  Candidate:\n"] {
            assert_eq!(policy(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn known_versions_are_sorted_by_number() {
        let names = "linux-source-6.12\nlinux-source-6.1\nlinux-source-6.12-doc\nlinux-source-6.9\nW: x\n";
        assert_eq!(versions(names), ["6.1", "6.9", "6.12"]);
    }

    #[test]
    fn the_archive_is_found_in_either_place_and_a_directory_is_none() {
        let root = tempfile::tempdir().unwrap();
        let package = "linux-source-6.12";
        assert!(archive(root.path(), package).is_err());
        fs::create_dir_all(root.path().join("usr/src/linux-source-6.12.tar.xz")).unwrap();
        assert!(archive(root.path(), package).is_err());
        let file = root.path().join("usr/src/linux-source-6.12/linux-source-6.12.tar.bz2");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "").unwrap();
        assert_eq!(archive(root.path(), package).unwrap(), file);
    }
}
