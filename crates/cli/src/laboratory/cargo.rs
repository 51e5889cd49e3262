//! Laboratory program in a checkout, built by cargo.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use anyhow::{Context, ensure};
use dfcp_terminal::output;

/// Files that cargo writes into its target directory: the first only if it created the directory itself, which may be
/// older, as the mount of a cache is; the second in every build.
const CARGOS_MARKS: [&str; 2] = ["CACHEDIR.TAG", ".rustc_info.json"];

/// Build of `dfcp-lab` by the cargo that started this program, with the same profile.
#[derive(Debug)]
pub(super) struct Build {
    cargo: OsString,
    /// Manifest of the workspace. Cargo selects the same default members as for this program, so features are the same.
    manifest: PathBuf,
    target_directory: PathBuf,
    /// Target triple, if one was given.
    triple: Option<OsString>,
    profile: OsString,
    /// Path of the built program.
    program: PathBuf,
}

impl Build {
    /// Returns the build to run if `cargo run` started the program at `own`. `None` if another program under cargo
    /// started it: then the package in the environment differs, or `own` lies outside cargo's directories.
    pub(super) fn of_cargo(own: &Path) -> Option<Self> {
        let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR")?);
        let workspace = package.parent()?.parent()?;
        if !workspace.join("crates/lab-cli/Cargo.toml").is_file() {
            return None;
        }
        Self::of(env::var_os("CARGO")?, workspace, own)
    }

    fn of(cargo: OsString, workspace: &Path, own: &Path) -> Option<Self> {
        let directory = own.parent()?;
        let is_cargos = |directory: &Path| CARGOS_MARKS.iter().any(|name| directory.join(name).is_file());
        let above = directory.parent()?;
        let (target_directory, triple) = match is_cargos(above) {
            true => (above, None),
            false => (above.parent().filter(|above| is_cargos(above))?, above.file_name()),
        };
        Some(Self {
            cargo,
            manifest: workspace.join("Cargo.toml"),
            target_directory: target_directory.to_path_buf(),
            triple: triple.map(Into::into),
            profile: match directory.file_name()? {
                name if name == "debug" => "dev".into(),
                name => name.into(),
            },
            program: own.with_file_name(format!("dfcp-lab{}", env::consts::EXE_SUFFIX)),
        })
    }

    fn command(&self, is_quiet: bool) -> Command {
        let mut command = Command::new(&self.cargo);
        command.args(["build", "--bin", "dfcp-lab", "--manifest-path"]).arg(&self.manifest);
        command.arg("--target-dir").arg(&self.target_directory).arg("--profile").arg(&self.profile);
        if let Some(triple) = &self.triple {
            command.arg("--target").arg(triple);
        }
        if is_quiet {
            command.arg("--quiet");
        }
        // `cargo run` describes its package in environment variables. Build scripts such as ring's have the same
        // variables for their own package. They would see a change, and everything that depends on them would be
        // compiled again.
        for name in env::vars_os().map(|(name, _)| name).filter(|name| describes_a_package(name)) {
            command.env_remove(name);
        }
        command.stdout(Stdio::null());
        command
    }

    /// Builds the program if anything has changed, and returns its path.
    ///
    /// # Errors
    /// Fails if the build fails.
    pub(super) fn run(&self, is_quiet: bool) -> anyhow::Result<PathBuf> {
        if !is_quiet && !self.program.is_file() {
            output::always("dfcp: this command is in the program dfcp-lab, which cargo builds now");
        }
        let status = self.command(is_quiet).status().context("cannot start cargo, which builds dfcp-lab")?;
        ensure!(status.success(), "cargo cannot build dfcp-lab; mend what it says above");
        Ok(self.program.clone())
    }
}

/// Returns true for variables in which cargo describes the package whose program it runs.
fn describes_a_package(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
}

/// Returns a source file that is newer than the program, from cargo's dependency list; `None` for an installed program.
pub(super) fn newer_source(program: &Path) -> Option<PathBuf> {
    let list = fs::read_to_string(program.with_extension("d")).ok()?;
    let built = modified(program)?;
    let (_, sources) = list.lines().next()?.split_once(": ")?;
    // The list escapes a space by a backslash.
    let sources = sources.replace("\\ ", "\0");
    let mut paths = sources.split(' ').map(|path| PathBuf::from(path.replace('\0', " ")));
    paths.find(|path| modified(path).is_some_and(|at| at > built))
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn words(build: &Build) -> String {
        let command = build.command(false);
        command.get_args().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_build_is_that_of_this_program() {
        let here = tempfile::tempdir().unwrap();
        let root = here.path().to_str().unwrap().to_owned();
        fs::write(here.path().join("CACHEDIR.TAG"), "").unwrap();
        let of = |own: &str| Build::of("cargo".into(), Path::new("/w"), &here.path().join(own));
        let common = format!("build --bin dfcp-lab --manifest-path /w/Cargo.toml --target-dir {root}");
        assert_eq!(words(&of("release/dfcp").unwrap()), format!("{common} --profile release"));
        assert_eq!(words(&of("debug/dfcp").unwrap()), format!("{common} --profile dev"));
        assert_eq!(words(&of("x-y/profiling/dfcp").unwrap()), format!("{common} --profile profiling --target x-y"));
        assert_eq!(of("release/dfcp").unwrap().program.parent(), Some(&*here.path().join("release")));
        assert!(of("a/b/c/dfcp").is_none(), "an installed program");
    }

    #[test]
    fn a_target_directory_that_cargo_did_not_create_is_known() {
        let here = tempfile::tempdir().unwrap();
        let of = || Build::of("cargo".into(), Path::new("/w"), &here.path().join("release/dfcp"));
        assert!(of().is_none(), "an installed program");
        fs::write(here.path().join(".rustc_info.json"), "{}").unwrap();
        assert!(of().is_some());
    }

    #[test]
    fn the_build_does_not_see_the_package_of_this_program() {
        let build = Build {
            cargo: "cargo".into(),
            manifest: "Cargo.toml".into(),
            target_directory: "target".into(),
            triple: None,
            profile: "dev".into(),
            program: "dfcp-lab".into(),
        };
        let command = build.command(false);
        let removed = |wanted: &str| command.get_envs().any(|(name, value)| name == wanted && value.is_none());
        // Every test runner sets this variable, but only cargo itself sets the next ones.
        assert!(removed("CARGO_MANIFEST_DIR"));
        assert!(["CARGO_PKG_NAME", "CARGO_PKG_VERSION_PRE"].iter().all(|name| describes_a_package(OsStr::new(name))));
        let left = ["CARGO", "CARGO_HOME", "CARGO_TARGET_DIR", "CARGO_PROFILE_RELEASE_LTO", "CARGO_ENCODED_RUSTFLAGS"];
        assert!(left.iter().all(|name| !describes_a_package(OsStr::new(name))));
    }

    #[test]
    fn a_source_that_has_changed_since_is_found() {
        let here = tempfile::tempdir().unwrap();
        let at = |name: &str| here.path().join(name);
        for (name, age_s) in [("dfcp-lab", 10), ("old.rs", 20), ("a new.rs", 0)] {
            let file = fs::File::create(at(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age_s)).unwrap();
        }
        assert_eq!(newer_source(&at("dfcp-lab")), None, "an installed program has no list");
        let list = |names: &[&str]| {
            let paths = names.iter().map(|name| at(name).to_str().unwrap().replace(' ', "\\ "));
            let text = format!("{}: {}\n", at("dfcp-lab").display(), paths.collect::<Vec<_>>().join(" "));
            fs::write(at("dfcp-lab.d"), text).unwrap();
        };
        list(&["old.rs", "gone.rs"]);
        assert_eq!(newer_source(&at("dfcp-lab")), None);
        list(&["old.rs", "a new.rs"]);
        assert_eq!(newer_source(&at("dfcp-lab")), Some(at("a new.rs")));
    }
}
