//! What the user leaves out of what is sent, by patterns as rsync has them.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

use crate::limits::PATTERN_BYTES_MAX;

/// The patterns of a command.
#[derive(Debug, Default)]
pub struct Exclude(Vec<Pattern>);

#[derive(Debug)]
struct Pattern {
    matcher: GlobMatcher,
    /// A pattern without a slash is one for last components.
    is_last_component: bool,
    is_for_directories: bool,
}

impl Exclude {
    /// From patterns: `*` and `?` stand for anything but slashes, `**` also for these, `[..]` for one of several. One that ends with a slash is for
    /// directories. One that begins with a slash is for whole names, as they are stored at the receiver; any other for the ends of
    /// names.
    ///
    /// # Errors
    /// The first that is no pattern, in a sentence.
    pub fn new(patterns: &[String]) -> Result<Self, String> {
        patterns.iter().map(|text| Pattern::parse(text)).collect::<Result<_, _>>().map(Self)
    }

    /// Whether the file or directory of this name is left out, and everything in it.
    pub fn matches(&self, name: &Path, is_directory: bool) -> bool {
        let last = name.file_name().unwrap_or_default();
        self.0.iter().filter(|pattern| is_directory || !pattern.is_for_directories).any(|pattern| {
            if pattern.is_last_component { pattern.matcher.is_match(last) } else { pattern.matcher.is_match(name) }
        })
    }
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, String> {
        let (pattern, is_for_directories) = match text.strip_suffix('/') {
            Some(pattern) => (pattern, true),
            None => (text, false),
        };
        if pattern.is_empty() || text.len() > PATTERN_BYTES_MAX {
            return Err(format!("a pattern has 1 to {PATTERN_BYTES_MAX} bytes"));
        }
        let is_last_component = !pattern.contains('/');
        let glob = match pattern.strip_prefix('/') {
            Some(anchored) => anchored.to_owned(),
            None if is_last_component => pattern.to_owned(),
            None => format!("**/{pattern}"),
        };
        let glob = GlobBuilder::new(&glob).literal_separator(true).backslash_escape(true).build();
        let matcher = glob.map_err(|error| format!("it is no pattern: {}", error.kind()))?.compile_matcher();
        Ok(Self { matcher, is_last_component, is_for_directories })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_to_rsync() {
        for (pattern, matching, others) in [
            ("*.o", &["a.o", "t/a.o", "t/d/.o"][..], &["a.oo", "t/a.o/b"][..]),
            ("core", &["core", "t/core"], &["score", "t/core.c"]),
            ("/t/a", &["t/a"], &["a", "u/t/a", "t/a/b"]),
            ("d/a", &["d/a", "t/d/a"], &["a", "t/ad/a", "t/d/b/a"]),
            ("t/*/a", &["t/x/a", "s/t/x/a"], &["t/a", "t/x/y/a"]),
            ("t/**/a", &["t/x/a", "t/x/y/a", "t/a"], &["t/x/b"]),
            ("[a-c]?", &["ax", "t/c1"], &["dx", "a"]),
            ("a\\*b", &["a*b"], &["axb"]),
        ] {
            let exclude = Exclude::new(&[pattern.to_owned()]).unwrap();
            for name in matching {
                assert!(exclude.matches(Path::new(name), false), "{pattern} and {name}");
            }
            for name in others {
                assert!(!exclude.matches(Path::new(name), false), "{pattern} and {name}");
            }
        }
        let directories = Exclude::new(&["cache/".to_owned(), "x".to_owned()]).unwrap();
        assert!(directories.matches(Path::new("t/cache"), true) && !directories.matches(Path::new("t/cache"), false));
        assert!(!Exclude::default().matches(Path::new("t"), true));
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for bad in ["", "/", "[a", &"x".repeat(PATTERN_BYTES_MAX + 1)] {
            assert!(Exclude::new(&[bad.to_owned()]).is_err(), "{bad}");
        }
    }
}
