//! Names of files in frames: relative byte strings with components joined by `/`, checked to be safe on every system.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Component, Path};

use crate::folding::{folded, is_short_name_of};
use crate::limits::{COMPONENT_BYTES_MAX, DEPTH_MAX, NAME_BYTES_MAX};

/// Prefix of the names of unfinished files at the receiver.
pub const TEMPORARY_PREFIX: &str = ".dfcp-";
/// Suffix of the names of unfinished files at the receiver.
pub const TEMPORARY_SUFFIX: &str = ".part";

/// Reason why a name is refused. The sentence is for the user at the end that sent the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name or a component (as in `a//b`, `/a` or `a/`) is empty.
    #[error("the name is absolute or has an empty component")]
    Empty,
    /// A component is `.` or `..`, or is not a single directory entry on this system.
    #[error("the name has a component which leaves its directory")]
    Escapes,
    /// The name is not UTF-8, on a system whose names are Unicode text.
    #[error("the name is not UTF-8, and this system stores no other")]
    NotUtf8,
    /// The name contains a NUL byte, which no file system accepts.
    #[error("the name contains a NUL byte")]
    Nul,
    /// The name has more than [`NAME_BYTES_MAX`] bytes, or a component has more than [`COMPONENT_BYTES_MAX`].
    #[error("the name is longer than {NAME_BYTES_MAX} bytes or has a component longer than {COMPONENT_BYTES_MAX}")]
    TooLong,
    /// The name has more than [`DEPTH_MAX`] components.
    #[error("the name is more than {DEPTH_MAX} directories deep")]
    TooDeep,
    /// A component is reserved for unfinished files, or may reach an unfinished file on some file system.
    #[error(
        "the name is one of those reserved for unfinished files ({TEMPORARY_PREFIX}*{TEMPORARY_SUFFIX}), or may be taken for one by a file \
         system"
    )]
    Reserved,
}

/// A relative name whose components are all ordinary directory entries. Joined to a directory, it stays inside that
/// directory unless a directory on the path is a symbolic link, so code that opens the file must refuse symbolic links.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RelativeName(OsString);

impl RelativeName {
    /// Checks a name from a peer.
    ///
    /// # Errors
    /// Fails with the first rule that is violated.
    pub fn parse(bytes: &[u8]) -> Result<Self, NameError> {
        if bytes.len() > NAME_BYTES_MAX {
            return Err(NameError::TooLong);
        }
        for (depth, component) in bytes.split(|byte| *byte == b'/').enumerate() {
            if depth >= DEPTH_MAX {
                return Err(NameError::TooDeep);
            }
            check_component(component)?;
        }
        Ok(Self(os_str(bytes)?.to_owned()))
    }

    /// Makes the name of a local file from its `components` in the file tree.
    ///
    /// # Errors
    /// Fails like [`RelativeName::parse`].
    pub fn from_components<'a>(components: impl IntoIterator<Item = &'a OsStr>) -> Result<Self, NameError> {
        let mut bytes = Vec::new();
        for component in components {
            if !bytes.is_empty() {
                bytes.push(b'/');
            }
            // On systems whose names are not bytes, components are converted to UTF-8; a name that is not Unicode is
            // refused.
            bytes.extend_from_slice(component.as_encoded_bytes());
        }
        Self::parse(&bytes)
    }

    /// Returns the name as bytes, with components joined by `/`.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_encoded_bytes()
    }

    /// Returns the components of the name, at least one.
    pub fn components(&self) -> impl Iterator<Item = &OsStr> {
        self.path().iter()
    }

    /// Returns true if this name is below `directory`.
    pub fn is_below(&self, directory: &Self) -> bool {
        self.as_bytes().strip_prefix(directory.as_bytes()).is_some_and(|rest| rest.starts_with(b"/"))
    }

    /// Returns the name as a relative path.
    pub fn path(&self) -> &Path {
        Path::new(&self.0)
    }
}

impl fmt::Display for RelativeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::printable_bytes(self.as_bytes()))
    }
}

/// Returns true if the component `name` is that of an unfinished file, exactly as written by this program.
pub fn is_own_temporary(name: &OsStr) -> bool {
    is_of_temporary(name.as_encoded_bytes())
}

/// Returns true if the component `name` is that of an unfinished file, exactly or after folding (see
/// [`crate::folding`]).
pub fn is_temporary(name: &OsStr) -> bool {
    is_own_temporary(name) || is_of_temporary(&folded(name.as_encoded_bytes()))
}

/// Returns true if the component `name` may reach an unfinished file on some file system.
fn is_reserved(name: &OsStr) -> bool {
    let bytes = name.as_encoded_bytes();
    // On NTFS, text after a colon names a stream of the file.
    let file = bytes.split(|byte| *byte == b':').next().unwrap_or_default();
    let (prefix, suffix) = (&TEMPORARY_PREFIX.as_bytes()[1..], &TEMPORARY_SUFFIX.as_bytes()[1..]);
    is_temporary(name) || is_of_temporary(&folded(file)) || is_short_name_of(&folded(file), prefix, suffix)
}

fn is_of_temporary(bytes: &[u8]) -> bool {
    bytes.starts_with(TEMPORARY_PREFIX.as_bytes()) && bytes.ends_with(TEMPORARY_SUFFIX.as_bytes())
}

/// Converts bytes to a name on this system.
///
/// # Errors
/// Never fails on this system.
#[cfg(unix)]
pub fn os_str(bytes: &[u8]) -> Result<&OsStr, NameError> {
    Ok(std::os::unix::ffi::OsStrExt::from_bytes(bytes))
}

/// Converts bytes to a name on this system.
///
/// # Errors
/// Fails with [`NameError::NotUtf8`].
#[cfg(not(unix))]
pub fn os_str(bytes: &[u8]) -> Result<&OsStr, NameError> {
    std::str::from_utf8(bytes).map(OsStr::new).map_err(|_| NameError::NotUtf8)
}

/// Checks that `component` is one ordinary component and not reserved.
pub(crate) fn check_component(component: &[u8]) -> Result<(), NameError> {
    if component.is_empty() {
        return Err(NameError::Empty);
    }
    if component.contains(&0) {
        return Err(NameError::Nul);
    }
    if component.len() > COMPONENT_BYTES_MAX {
        return Err(NameError::TooLong);
    }
    let component = os_str(component)?;
    // The system's own path parser also finds `..`, and on Windows drive letters and backslashes.
    let mut parsed = Path::new(component).components();
    let (Some(Component::Normal(only)), None) = (parsed.next(), parsed.next()) else {
        return Err(NameError::Escapes);
    };
    if only != component {
        return Err(NameError::Escapes);
    }
    if is_reserved(component) {
        return Err(NameError::Reserved);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<RelativeName, NameError> {
        RelativeName::parse(text.as_bytes())
    }

    #[test]
    fn hostile_names_are_refused_with_their_reason() {
        for (name, reason) in [
            ("", NameError::Empty),
            ("/etc/passwd", NameError::Empty),
            ("a//b", NameError::Empty),
            ("a/", NameError::Empty),
            ("..", NameError::Escapes),
            ("a/../../b", NameError::Escapes),
            (".", NameError::Escapes),
            ("a/./b", NameError::Escapes),
            ("a\0b", NameError::Nul),
            (".dfcp-abc.part", NameError::Reserved),
            ("d/.dfcp-.part", NameError::Reserved),
            (".DFCP-abc.part", NameError::Reserved),
            (".dfcp-abc.PART/x", NameError::Reserved),
            (".dfcp-abc.part.", NameError::Reserved),
            (".dfcp-abc.part. .", NameError::Reserved),
            (".df\u{200c}cp-abc.part", NameError::Reserved),
            (".dfcp-abc.part\u{feff}", NameError::Reserved),
            (".dfcp-abc.part.\u{200d}", NameError::Reserved),
            (".dfcp-abc.part:stream", NameError::Reserved),
            (".Dfcp-abc.part::$DATA", NameError::Reserved),
            ("DFCP-A~1.PAR", NameError::Reserved),
            ("d/df12ab~3.par/x", NameError::Reserved),
        ] {
            assert_eq!(parse(name), Err(reason), "{name:?}");
        }
        assert_eq!(parse(&"x".repeat(COMPONENT_BYTES_MAX + 1)), Err(NameError::TooLong));
        assert_eq!(parse(&vec!["abc"; NAME_BYTES_MAX / 3].join("/")), Err(NameError::TooLong));
        assert_eq!(parse(&vec!["d"; DEPTH_MAX + 1].join("/")), Err(NameError::TooDeep));
    }

    #[test]
    fn names_are_bytes_where_the_system_has_such_names_and_all_rules_hold_for_them() {
        let name = RelativeName::parse(b"caf\xe9/\xff");
        if cfg!(not(unix)) {
            assert_eq!(name, Err(NameError::NotUtf8));
            return;
        }
        let name = name.unwrap();
        assert_eq!((name.as_bytes(), name.to_string()), (&b"caf\xe9/\xff"[..], r"caf\xe9/\xff".to_owned()));
        assert_eq!(RelativeName::from_components(name.components()), Ok(name.clone()));
        assert!(name.is_below(&RelativeName::parse(b"caf\xe9").unwrap()));
        assert!(!name.is_below(&RelativeName::parse(b"caf").unwrap()));
        for (name, reason) in [
            (&b"\xff//b"[..], NameError::Empty),
            (b"/\xff", NameError::Empty),
            (b"\xff/../b", NameError::Escapes),
            (b"\xff/.", NameError::Escapes),
            (b"\xff\0", NameError::Nul),
            (b".dfcp-\xff.part", NameError::Reserved),
            (&[0xff; COMPONENT_BYTES_MAX + 1], NameError::TooLong),
            (&[&b"\xff/"[..]; NAME_BYTES_MAX / 2 + 1].concat(), NameError::TooLong),
            (&[&b"\xff/"[..]; DEPTH_MAX + 1].concat(), NameError::TooDeep),
        ] {
            assert_eq!(RelativeName::parse(name), Err(reason), "{name:?}");
        }
    }

    #[test]
    fn ordinary_names_pass_up_to_the_limits() {
        for name in [
            "a",
            "...",
            "..a",
            "a b/ç/日本",
            ".dfcp-x",
            "x.part",
            "a:b",
            "-rf",
            "a.",
            "a ",
            "A. .",
            "df.par",
            "dfcp~1.part",
            "x~1.par",
            "日本.part",
            ".dfcp.part",
        ] {
            assert_eq!(parse(name).unwrap().as_bytes(), name.as_bytes());
        }
        assert!(parse(&"x".repeat(COMPONENT_BYTES_MAX)).is_ok());
        assert!(parse(&vec!["d"; DEPTH_MAX].join("/")).is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn a_backslash_is_an_ordinary_character_on_unix() {
        assert_eq!(parse("..\\x").unwrap().components().count(), 1);
    }

    #[test]
    fn below_means_inside_not_same_prefix() {
        let directory = parse("a/b").unwrap();
        assert!(parse("a/b/c").unwrap().is_below(&directory));
        assert!(!parse("a/bc").unwrap().is_below(&directory));
        assert!(!parse("a/b").unwrap().is_below(&directory));
    }

    proptest! {
        #[test]
        fn whatever_is_accepted_stays_inside(bytes in proptest::collection::vec(
            prop_oneof![Just(b'/'), Just(b'.'), Just(b'\\'), Just(0u8), any::<u8>()], 0..40,
        )) {
            let Ok(name) = RelativeName::parse(&bytes) else { return Ok(()) };
            let root = Path::new("root");
            let path = root.join(name.path());
            prop_assert_eq!(name.as_bytes(), &bytes[..]);
            prop_assert!(path.components().all(|c| matches!(c, Component::Normal(_))));
            prop_assert_eq!(path.components().count(), 1 + name.components().count());
            prop_assert!(path.starts_with(root));
        }
    }
}
