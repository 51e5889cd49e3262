//! Targets of symbolic links, and the check that they stay inside the transferred tree.
//!
//! A target is resolved from the directory of its link. That directory is real, since no component of a name may be a
//! link, so leading `..` components ascend the name of the link itself. Later `..` components could ascend from the
//! target of another link, so they are refused. Then each link of a tree leads inside the tree, and so does any chain
//! of links.

use crate::limits::{DEPTH_MAX, LINK_TARGET_BYTES_MAX};
use crate::names::{NameError, RelativeName, check_component};

/// Reason why a target is refused. The sentence is for the user at the end that sent the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LinkTargetError {
    /// The target is empty.
    #[error("its target is empty")]
    Empty,
    /// The target has more than [`LINK_TARGET_BYTES_MAX`] bytes.
    #[error("its target is longer than {LINK_TARGET_BYTES_MAX} bytes")]
    TooLong,
    /// The target is an absolute path.
    #[error("its target is absolute")]
    Absolute,
    /// The target ascends above the transferred tree.
    #[error("its target leads out of what is sent")]
    Outside,
    /// The target has `..` after a component that may be a link.
    #[error("its target has .. behind another component")]
    ParentInside,
    /// The target has more than [`DEPTH_MAX`] components.
    #[error("its target is more than {DEPTH_MAX} directories deep")]
    TooDeep,
    /// A component of the target is not a valid name.
    #[error("its target: {0}")]
    Component(NameError),
}

/// Checks the target of the symbolic link `name`. The name of the tree's root has `root_components` components; 0
/// counts as 1, the number that a receiver assumes.
///
/// # Errors
/// Fails with the first rule that is violated.
pub fn check_link_target(name: &RelativeName, target: &[u8], root_components: usize) -> Result<(), LinkTargetError> {
    if target.is_empty() {
        return Err(LinkTargetError::Empty);
    }
    if target.len() > LINK_TARGET_BYTES_MAX {
        return Err(LinkTargetError::TooLong);
    }
    if target.starts_with(b"/") {
        return Err(LinkTargetError::Absolute);
    }
    // Number of directories of the tree around the link. A link that replaces the tree itself is in no directory of the
    // tree, and has no valid target.
    let around = name.components().count().checked_sub(1 + root_components.max(1)).ok_or(LinkTargetError::Outside)?;
    let (mut up, mut down) = (0, 0);
    for component in target.split(|byte| *byte == b'/') {
        match component {
            // Systems ignore empty components and `.`.
            b"" | b"." => {}
            b".." if down > 0 => return Err(LinkTargetError::ParentInside),
            b".." => up += 1,
            component => {
                check_component(component).map_err(LinkTargetError::Component)?;
                down += 1;
            }
        }
    }
    if up > around {
        return Err(LinkTargetError::Outside);
    }
    if root_components.max(1) + around - up + down > DEPTH_MAX {
        return Err(LinkTargetError::TooDeep);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(name: &str, target: &str) -> Result<(), LinkTargetError> {
        check_link_target(&RelativeName::parse(name.as_bytes()).unwrap(), target.as_bytes(), 1)
    }

    #[test]
    fn hostile_targets_are_refused_with_their_reason() {
        let long = "x".repeat(LINK_TARGET_BYTES_MAX + 1);
        for (name, target, reason) in [
            ("t/l", "", LinkTargetError::Empty),
            ("t/l", "/etc/passwd", LinkTargetError::Absolute),
            ("t/l", "//x", LinkTargetError::Absolute),
            ("t/l", "..", LinkTargetError::Outside),
            ("t/l", "../t/x", LinkTargetError::Outside),
            ("t/l", "./.././x", LinkTargetError::Outside),
            ("t/a/l", "../../x", LinkTargetError::Outside),
            ("t/a/l", "..//..//", LinkTargetError::Outside),
            ("t/l", "l1/../x", LinkTargetError::ParentInside),
            ("t/a/b/l", "../x/..", LinkTargetError::ParentInside),
            ("t/l", "a\0b", LinkTargetError::Component(NameError::Nul)),
            ("t/l", "a/.dfcp-0123456789abcdef.part", LinkTargetError::Component(NameError::Reserved)),
            ("t/l", ".DFCP-x.part.", LinkTargetError::Component(NameError::Reserved)),
            ("t/l", &long, LinkTargetError::TooLong),
            ("t/l", &"x".repeat(256), LinkTargetError::Component(NameError::TooLong)),
            ("t/l", &["d"; DEPTH_MAX].join("/"), LinkTargetError::TooDeep),
            // A link that replaces the tree itself cannot point into the tree.
            ("l", "x", LinkTargetError::Outside),
            ("l", ".", LinkTargetError::Outside),
        ] {
            assert_eq!(check(name, target), Err(reason), "{name} -> {target:?}");
        }
    }

    #[test]
    fn targets_inside_pass() {
        for (name, target) in [
            ("t/l", "x"),
            ("t/l1", "."),
            ("t/l", "./x"),
            ("t/l", "a/b/c"),
            ("t/l", "a/./b//c/"),
            ("t/a/l", ".."),
            ("t/a/l", "../x"),
            ("t/a/b/l", "../../x/y"),
            ("t/l", "..."),
            ("t/l", "a\nb\u{1b}[0m"),
            ("t/l", "-rf"),
        ] {
            assert_eq!(check(name, target), Ok(()), "{name} -> {target:?}");
        }
    }

    /// The sender knows the root of its tree, whose parent directories others may share.
    #[test]
    fn a_deeper_root_is_not_left() {
        let name = RelativeName::parse(b"a/t/b/l").unwrap();
        assert_eq!(check_link_target(&name, b"..", 2), Ok(()));
        assert_eq!(check_link_target(&name, b"../..", 2), Err(LinkTargetError::Outside));
        assert_eq!(check_link_target(&name, b"../..", 1), Ok(()));
    }

    proptest! {
        /// Independent check: walking along the components never leaves the tree, even if any component is a link that
        /// passed the check.
        #[test]
        fn whatever_passes_stays_inside(
            depth in 1_usize..5,
            target in proptest::collection::vec(prop_oneof![Just(".."), Just("."), Just(""), Just("a")], 0..8),
        ) {
            let name = RelativeName::parse(vec!["d"; depth].join("/").as_bytes()).unwrap();
            let target = target.join("/");
            let Ok(()) = check_link_target(&name, target.as_bytes(), 1) else { return Ok(()) };
            let mut inside = depth as i64 - 2;
            for component in target.split('/') {
                // Worst case: every component is a link to the root.
                inside = match component {
                    ".." => inside - 1,
                    "a" => 0,
                    _ => inside,
                };
                prop_assert!(inside >= 0, "{depth}: {target}");
            }
        }
    }
}
