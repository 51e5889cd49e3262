//! Files and directories to be sent, and the names under which the receiver stores them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path, PathBuf};

use dfcp_framing::names::{NameError, RelativeName};
use dfcp_framing::printable_path;

use crate::beneath::Resolution;

/// File or directory to be sent, or standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    pub(super) path: PathBuf,
    /// Name at the receiver: the last component of the path, or the whole path if several roots have the same last
    /// component.
    pub(super) name: PathBuf,
    pub(super) resolution: Resolution,
    pub(super) is_standard_input: bool,
}

/// Path that means standard input or standard output.
pub const STANDARD_STREAM: &str = "-";

/// Reason why an argument cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// The path is missing or unreadable.
    #[error("cannot send {path}: {error}; check the path")]
    Missing {
        /// Path as given, escaped for a terminal.
        path: String,
        /// Error of the system.
        error: io::Error,
    },
    /// The path is a pipe, socket or device, which has no length and no modification time, and cannot be read twice.
    #[error("cannot send {path}: it is {kind}, not a file; send its output as standard input")]
    Special {
        /// Path as given, escaped for a terminal.
        path: String,
        /// Kind of file, as a phrase for the message.
        kind: &'static str,
        /// True if the path looks like a process substitution of the shell.
        is_command: bool,
    },
    /// The path has no last component to name it by.
    #[error("cannot send {0}: it has no name; send what is in it, such as {0}*")]
    NoName(String),
    /// The path is a symbolic link, and links are not followed.
    #[error("cannot send {0}: it is a symbolic link; give the path that it leads to")]
    Link(String),
    /// The path is a symbolic link whose target does not exist.
    #[error("cannot send {0}: it is a symbolic link, and what it leads to does not exist; check its target")]
    Dangling(String),
    /// Two roots would be stored under the same name, or one inside the other.
    #[error("two of the files would both be stored as {0}; send them one by one")]
    Twice(String),
    /// `-` was given without a name.
    #[error("standard input has no name")]
    Unnamed,
    /// `-` was given more than once.
    #[error("standard input can be sent only once: give - once")]
    InputTwice,
    /// A name for standard input was given without `-`.
    #[error("a name is given for standard input, which is not among the files")]
    NameOfNothing,
    /// The name for standard input has several components.
    #[error("the name of standard input has more than one component")]
    NameOfSeveral,
    /// The name for standard input is invalid for every receiver.
    #[error("{0}")]
    Name(NameError),
}

impl Root {
    /// Creates roots. Each is named by the last component of its path, or by its path if that component is ambiguous.
    ///
    /// # Errors
    /// Fails at the first path that is missing, is a symbolic link, is neither file nor directory, or has no name.
    pub fn from_paths<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<Vec<Self>, RootError> {
        let mut roots = Vec::new();
        for path in paths {
            let path = path.as_ref();
            let shown = || printable_path(path);
            if path.symlink_metadata().map_err(|error| RootError::Missing { path: shown(), error })?.is_symlink() {
                return Err(RootError::Link(shown()));
            }
            roots.push(Self::of(path)?);
        }
        Self::tell_apart(&mut roots)?;
        Ok(roots)
    }

    /// Creates roots from command-line arguments, before anything is sent. Symbolic links are followed. One argument
    /// may be `-`, which means standard input, sent as the file `input_name`.
    ///
    /// # Errors
    /// Fails at the first argument that cannot be sent.
    pub fn from_arguments(paths: &[PathBuf], input_name: Option<&OsStr>) -> Result<Vec<Self>, RootError> {
        let mut roots: Vec<Self> = Vec::with_capacity(paths.len());
        let resolution = Resolution::of_system();
        for path in paths {
            if path.as_os_str() == STANDARD_STREAM {
                if roots.iter().any(|root| root.is_standard_input) {
                    return Err(RootError::InputTwice);
                }
                let name = input_name.ok_or(RootError::Unnamed)?;
                if RelativeName::from_components([name]).map_err(RootError::Name)?.components().count() > 1 {
                    return Err(RootError::NameOfSeveral);
                }
                roots.push(Self { path: path.clone(), name: name.into(), resolution, is_standard_input: true });
                continue;
            }
            roots.push(Self::of(path)?);
        }
        if input_name.is_some() && !roots.iter().any(|root| root.is_standard_input) {
            return Err(RootError::NameOfNothing);
        }
        Self::tell_apart(&mut roots)?;
        Ok(roots)
    }

    /// Returns the root for a file or directory. A symbolic link is followed.
    fn of(path: &Path) -> Result<Self, RootError> {
        let shown = || printable_path(path);
        let missing = |error| RootError::Missing { path: shown(), error };
        let metadata = path.metadata().map_err(|error| match path.symlink_metadata() {
            Ok(_) if error.kind() == io::ErrorKind::NotFound => RootError::Dangling(shown()),
            _ => missing(error),
        })?;
        let name = match path.file_name() {
            Some(name) => name.to_owned(),
            // `.`, `..` and similar paths must be resolved to get a name.
            None => {
                let resolved = path.canonicalize().map_err(missing)?;
                resolved.file_name().ok_or_else(|| RootError::NoName(shown()))?.to_owned()
            }
        };
        if !metadata.is_file() && !metadata.is_dir() {
            return Err(RootError::Special {
                path: shown(),
                kind: kind(&metadata),
                is_command: path.starts_with("/dev/fd") || path.starts_with("/proc"),
            });
        }
        let resolution = Resolution::of_system();
        Ok(Self { path: path.to_owned(), name: name.into(), resolution, is_standard_input: false })
    }

    /// Replaces ambiguous names by paths, and checks that the names are distinct.
    fn tell_apart(roots: &mut [Self]) -> Result<(), RootError> {
        let mut sharing: BTreeMap<PathBuf, u64> = BTreeMap::new();
        for root in &*roots {
            *sharing.entry(root.name.clone()).or_default() += 1;
        }
        for root in &mut *roots {
            if !root.is_standard_input
                && sharing.get(&root.name).is_some_and(|count| *count > 1)
                && let Some(given) = relative(&root.path)
            {
                root.name = given;
            }
        }
        // Sort roots that share directories next to each other, so that each directory is complete before it gets its
        // time.
        roots.sort_by_cached_key(|root| {
            root.name.parent().filter(|parent| !parent.as_os_str().is_empty()).map(|_| root.name.clone())
        });
        let mut names = BTreeSet::new();
        for root in &*roots {
            if !names.insert(&root.name) {
                return Err(RootError::Twice(printable_path(&root.name)));
            }
        }
        // One root would be stored inside the other.
        let inside =
            roots.iter().find(|root| root.name.ancestors().skip(1).any(|above| names.contains(&above.to_owned())));
        inside.map_or(Ok(()), |root| Err(RootError::Twice(printable_path(&root.name))))
    }
}

/// Returns the kind of a file that is neither regular nor a directory, as a phrase.
#[cfg(unix)]
fn kind(metadata: &std::fs::Metadata) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    match metadata.file_type() {
        it if it.is_fifo() => "a pipe",
        it if it.is_socket() => "a socket",
        _ => "a device",
    }
}

#[cfg(not(unix))]
fn kind(_: &std::fs::Metadata) -> &'static str {
    "something else"
}

/// Returns `path` as a relative name, without the root and without components before `..`. `None` if nothing remains,
/// or if the path begins with a drive.
fn relative(path: &Path) -> Option<PathBuf> {
    let mut name = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Prefix(_) => return None,
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir => name.clear(),
            Component::Normal(component) => name.push(component),
        }
    }
    (!name.as_os_str().is_empty()).then_some(name)
}
