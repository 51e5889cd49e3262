//! Check that the output directory is separate from the files that define this user's trust.
//!
//! An admitted sender chooses names in the output directory. If a trusted file lay there, or were reached by a link there, the sender could
//! choose which keys this user trusts.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, ensure};
use dfcp_framing::printable_path;

use crate::args::{AdmissionArgs, AuditArgs};
use crate::identity::{ConfigDir, lock_path};
use crate::limits::PATH_LINKS_MAX;

/// Paths that the output directory must be separate from.
#[derive(Debug, Default)]
pub(super) struct Trusted {
    /// Configuration directory; `None` without a home directory.
    pub config: Option<PathBuf>,
    /// Other files that are trusted for reading or writing.
    pub files: Vec<PathBuf>,
}

impl Trusted {
    /// Collects the files of this user, and the files that the arguments name.
    pub(super) fn of(args: &AdmissionArgs, audit: &AuditArgs, recorded: Vec<PathBuf>) -> Self {
        // Without a home directory there are no keys, and only keyless connections work.
        let config = ConfigDir::of_user().ok();
        let mut files: Vec<PathBuf> = config.iter().flat_map(|own| [own.key_file(), own.known_hosts()]).collect();
        let list = args.authorized_keys.clone().or_else(|| config.as_ref().map(ConfigDir::authorized_keys));
        files.extend(list.iter().map(|list| lock_path(list)));
        files.extend(list.into_iter().chain(args.psk_file.clone()).chain(audit.log_json.clone()).chain(recorded));
        Self { config: config.map(|config| config.path().to_owned()), files }
    }

    /// Checks that no file stored in `output` can be a trusted file, lie beside one, or be a component of its path. The
    /// paths need not exist.
    ///
    /// # Errors
    /// Fails if such a file is possible, or if a path cannot be resolved.
    pub(super) fn check_apart(&self, output: &Path) -> anyhow::Result<()> {
        let follow = |path: &Path| {
            Walk::along(path).with_context(|| format!("cannot find {}, check the path", printable_path(path)))
        };
        let real = follow(output)?.end;
        let is_among_keys = |config: &PathBuf| follow(config).map(|config| real.starts_with(config.end));
        let among_keys = self.config.as_ref().map(is_among_keys).transpose()?.unwrap_or_default();
        for path in self.config.iter().chain(&self.files) {
            ensure!(
                !among_keys && !follow(path)?.depends_on(&real),
                "senders could change {}, which must be trusted, if they wrote to {}; choose another --output",
                printable_path(path),
                printable_path(&real)
            );
        }
        Ok(())
    }
}

/// Names that the system looks up for a path.
struct Walk {
    /// Every name that is looked up, including links, each in a directory without links.
    names: Vec<PathBuf>,
    /// The path without links and `..`.
    end: PathBuf,
}

impl Walk {
    /// Resolves `path`; components that do not exist are taken literally.
    fn along(path: &Path) -> io::Result<Self> {
        let parts =
            |path: &Path| path.components().map(|part| part.as_os_str().to_owned()).collect::<VecDeque<OsString>>();
        let (mut walk, mut links) = (Self { names: Vec::new(), end: PathBuf::new() }, 0);
        let mut left = parts(&std::path::absolute(path)?);
        while let Some(part) = left.pop_front() {
            match Path::new(&part).components().next() {
                Some(Component::Normal(_)) => {}
                Some(Component::ParentDir) => {
                    walk.end.pop();
                    continue;
                }
                Some(Component::CurDir) | None => continue,
                // A link may lead back to the root.
                Some(Component::RootDir | Component::Prefix(_)) => {
                    walk.end.push(&part);
                    continue;
                }
            }
            let name = walk.end.join(&part);
            walk.names.push(name.clone());
            // A name that is no link, is missing or cannot be read is taken literally.
            match fs::read_link(&name) {
                Ok(_) if links == PATH_LINKS_MAX => return Err(io::Error::other("too many symbolic links")),
                Ok(target) => {
                    links += 1;
                    let mut onward = parts(&target);
                    onward.append(&mut left);
                    left = onward;
                }
                Err(_) => walk.end = name,
            }
        }
        Ok(walk)
    }

    /// Returns true if the path leads to `directory`, or to or through a name inside `directory`. Passing through the
    /// directory itself is harmless: senders cannot change the directory's own name.
    fn depends_on(&self, directory: &Path) -> bool {
        let is_in = |name: &PathBuf| name != directory && name.starts_with(directory);
        self.end == directory || self.names.iter().any(is_in)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let here = tempfile::tempdir().unwrap();
        let path = here.path().canonicalize().unwrap();
        fs::create_dir_all(path.join("home/.config/dfcp/below")).unwrap();
        fs::create_dir_all(path.join("home/incoming")).unwrap();
        (here, path)
    }

    fn check(output: &Path, config: &Path) -> anyhow::Result<()> {
        Trusted { config: Some(config.to_owned()), files: Vec::new() }.check_apart(output)
    }

    fn check_file(output: &Path, file: &Path) -> anyhow::Result<()> {
        Trusted { config: None, files: vec![file.to_owned()] }.check_apart(output)
    }

    #[test]
    fn the_output_directory_is_apart_from_the_configuration() {
        let (_held, here) = folder();
        let config = here.join("home/.config/dfcp");
        for output in
            ["home", "home/.config", "home/.config/dfcp", "home/.config/dfcp/below", "home/.config/dfcp/none/yet"]
        {
            let error = check(&here.join(output), &config).unwrap_err().to_string();
            assert!(error.contains("choose another --output"), "{output}: {error}");
        }
        check(&here.join("home/incoming"), &config).unwrap();
        // A sibling that shares a name prefix is another directory.
        check(&here.join("home/.config/dfcp-incoming"), &config).unwrap();
        // A directory that does not exist yet could be created by a sender.
        check(&here.join("home/incoming"), &here.join("home/incoming/.config/dfcp")).unwrap_err();
        check(&here.join("none/yet"), &here.join("none/yet/.config/dfcp")).unwrap_err();
    }

    #[test]
    fn a_list_and_a_secret_are_outside_of_the_output_directory() {
        let (_held, here) = folder();
        let output = here.join("home/incoming");
        for inside in ["home/incoming/list", "home/incoming/below/list", "home/x/../incoming/list", "home/incoming"] {
            check_file(&output, &here.join(inside)).unwrap_err();
        }
        for outside in ["home/list", "home/incoming.list", "home/incoming/../list"] {
            check_file(&output, &here.join(outside)).unwrap();
        }
        let args = AdmissionArgs {
            authorized_keys: Some("some/list".into()),
            psk_file: Some("some/secret".into()),
            ..AdmissionArgs::default()
        };
        let audit = AuditArgs { log_json: Some("some/log".into()) };
        let files = Trusted::of(&args, &audit, vec!["some/keys".into(), "some/trace".into()]).files;
        for named in ["some/list", "some/list.lock", "some/secret", "some/log", "some/keys", "some/trace"] {
            assert!(files.contains(&named.into()), "{named} in {files:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_lead_neither_into_the_output_directory_nor_through_it() {
        use std::os::unix::fs::symlink;
        let (_held, here) = folder();
        let output = here.join("home/incoming");
        symlink(&output, here.join("home/other")).unwrap();
        check(&output, &here.join("home/other/dfcp")).unwrap_err();
        check(&here.join("home/other/made/later"), &here.join("home/incoming/made")).unwrap_err();
        // The file is outside, but reached by a name that a sender can replace.
        fs::write(here.join("home/list"), "").unwrap();
        symlink("../list", here.join("home/incoming/link")).unwrap();
        symlink("incoming/link", here.join("home/alias")).unwrap();
        check_file(&output, &here.join("home/alias")).unwrap_err();
        symlink("./list", here.join("home/harmless")).unwrap();
        check_file(&output, &here.join("home/harmless")).unwrap();
        symlink("circle", here.join("home/circle")).unwrap();
        check_file(&output, &here.join("home/circle")).unwrap_err();
    }
}
