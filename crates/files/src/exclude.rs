//! Exclude patterns in the syntax of rsync. With `--delete`, they also protect files at the receiver.
//!
//! A receiver matches patterns that come from its peer. Limits on their length bound memory and matching time
//! (`automaton.rs`).

mod automaton;

use std::path::Path;

use dfcp_framing::limits::PATTERN_BYTES_MAX;

use crate::limits::{PATTERNS_BYTES_MAX, PATTERNS_MAX};

use self::automaton::Automaton;

/// Exclude patterns of a command or a session.
#[derive(Debug, Default)]
pub struct Exclude {
    patterns: Vec<Pattern>,
    /// Total length of the patterns' texts, bytes.
    bytes: usize,
}

#[derive(Debug)]
struct Pattern {
    text: Vec<u8>,
    automaton: Automaton,
    /// True for a pattern without `/` and `**`, which is compared with the last component of a name.
    is_last_component: bool,
    is_for_directories: bool,
    /// True for a pattern that ends in `***`. A slash is then appended to the names of directories, so `t/***` covers
    /// `t` and its content.
    is_with_contents: bool,
}

/// Step of a parsed pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Byte(u8),
    /// One byte except `/`, within these ranges (or outside them, if negated).
    Class {
        is_negated: bool,
        ranges: Vec<(u8, u8)>,
    },
    /// Any number of bytes except `/`.
    Star,
    /// Any number of bytes.
    DoubleStar,
    /// Start of `**/`: either skips the following [`Step::Inside`], so that `**/` matches nothing, or continues with
    /// it.
    Directories,
    /// Any bytes up to and including a slash; always follows [`Step::Directories`].
    Inside,
}

impl Step {
    /// Returns true if this byte completes the step.
    fn ends_with(&self, byte: u8) -> bool {
        let is_slash = byte == b'/';
        match self {
            Self::Byte(expected) => *expected == byte,
            Self::Class { is_negated, ranges } => {
                let is_in = ranges.iter().any(|(low, high)| (low..=high).contains(&&byte));
                !is_slash && is_in != *is_negated
            }
            Self::Inside => is_slash,
            Self::Star | Self::DoubleStar | Self::Directories => false,
        }
    }

    /// Returns true if the step can consume this byte and continue.
    fn goes_on_with(&self, byte: u8) -> bool {
        match self {
            Self::Star => byte != b'/',
            Self::DoubleStar | Self::Inside => true,
            Self::Byte(_) | Self::Class { .. } | Self::Directories => false,
        }
    }
}

impl Exclude {
    /// Parses patterns. `*` and `?` match anything except `/`, `**` matches `/` as well, and `[..]` matches one of
    /// several bytes. A trailing slash restricts a pattern to directories; a trailing `/***` covers a directory and its
    /// content. A pattern with a leading slash is compared with whole names, as stored at the receiver. A pattern
    /// without another slash and without `**` is compared with the last component of names. Any other pattern is
    /// compared with the end of names, from any component on.
    ///
    /// # Errors
    /// Returns a sentence about the first pattern that is invalid or exceeds a limit.
    pub fn new(patterns: &[String]) -> Result<Self, String> {
        let mut all = Self::default();
        for text in patterns {
            all.add(text.as_bytes())?;
        }
        Ok(all)
    }

    /// Adds one pattern.
    ///
    /// # Errors
    /// Fails as [`Exclude::new`] does.
    pub fn add(&mut self, text: &[u8]) -> Result<(), String> {
        self.bytes = self.bytes.saturating_add(text.len());
        if self.patterns.len() >= PATTERNS_MAX || self.bytes > PATTERNS_BYTES_MAX {
            return Err(format!("there are more than {PATTERNS_MAX} patterns, or {PATTERNS_BYTES_MAX} bytes of them"));
        }
        self.patterns.push(Pattern::parse(text)?);
        Ok(())
    }

    /// Returns the original texts of the patterns.
    pub fn texts(&self) -> Vec<Vec<u8>> {
        self.patterns.iter().map(|pattern| pattern.text.clone()).collect()
    }

    /// Returns true if this file or directory is excluded. The content of an excluded directory is excluded with it.
    pub fn matches(&self, name: &Path, is_directory: bool) -> bool {
        let (whole, last) = (name.as_os_str(), name.file_name().unwrap_or_default());
        self.patterns.iter().filter(|pattern| is_directory || !pattern.is_for_directories).any(|pattern| {
            let name = if pattern.is_last_component { last } else { whole }.as_encoded_bytes();
            if pattern.is_with_contents && is_directory {
                return pattern.automaton.matches(&[name, b"/"].concat());
            }
            pattern.automaton.matches(name)
        })
    }
}

impl Pattern {
    fn parse(text: &[u8]) -> Result<Self, String> {
        let (pattern, is_for_directories) = match text.strip_suffix(b"/") {
            Some(pattern) => (pattern, true),
            None => (text, false),
        };
        if pattern.is_empty() || text.len() > PATTERN_BYTES_MAX {
            return Err(format!("a pattern has 1 to {PATTERN_BYTES_MAX} bytes"));
        }
        let is_last_component = !pattern.contains(&b'/') && !pattern.windows(2).any(|two| two == b"**");
        let is_with_contents = pattern.ends_with(b"***");
        let mut steps = Vec::new();
        let rest = match pattern.strip_prefix(b"/") {
            Some(anchored) => anchored,
            None if is_last_component => pattern,
            None => {
                add_directories(&mut steps);
                pattern
            }
        };
        parse_steps(rest, &mut steps)?;
        let automaton = Automaton::new(&steps);
        Ok(Self { text: text.to_vec(), automaton, is_last_component, is_for_directories, is_with_contents })
    }
}

fn parse_steps(mut rest: &[u8], steps: &mut Vec<Step>) -> Result<(), String> {
    let mut begins_component = true;
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        let begins = std::mem::replace(&mut begins_component, *first == b'/');
        match first {
            b'*' if rest.first() == Some(&b'*') => {
                while let Some(more) = rest.strip_prefix(b"*") {
                    rest = more;
                }
                match rest.strip_prefix(b"/").filter(|_| begins) {
                    Some(more) => {
                        (rest, begins_component) = (more, true);
                        add_directories(steps);
                    }
                    None => steps.push(Step::DoubleStar),
                }
            }
            b'*' => steps.push(Step::Star),
            b'?' => steps.push(Step::Class { is_negated: true, ranges: Vec::new() }),
            b'[' => steps.push(parse_class(&mut rest)?),
            b'\\' => {
                let (escaped, behind) = rest.split_first().ok_or("it is no pattern: nothing follows its last \\")?;
                rest = behind;
                steps.push(Step::Byte(*escaped));
            }
            byte => steps.push(Step::Byte(*byte)),
        }
    }
    Ok(())
}

/// Parses a class, from the byte after `[` to its `]`.
fn parse_class(rest: &mut &[u8]) -> Result<Step, String> {
    let unclosed = || "it is no pattern: a [ has no ]".to_owned();
    let is_negated = matches!(rest.first(), Some(b'!' | b'^'));
    if is_negated {
        *rest = &rest[1..];
    }
    let next = |rest: &mut &[u8]| {
        let (byte, behind) = rest.split_first().ok_or_else(unclosed)?;
        *rest = behind;
        if *byte != b'\\' {
            return Ok::<u8, String>(*byte);
        }
        let (escaped, behind) = rest.split_first().ok_or_else(unclosed)?;
        *rest = behind;
        Ok(*escaped)
    };
    let mut ranges = Vec::new();
    // A `]` right after the opening is a literal byte.
    while ranges.is_empty() || rest.first() != Some(&b']') {
        let low = next(rest)?;
        let is_range = rest.first() == Some(&b'-') && rest.get(1).is_some_and(|end| *end != b']');
        let high = if is_range {
            *rest = &rest[1..];
            next(rest)?
        } else {
            low
        };
        if low > high {
            return Err("it is no pattern: a range ends before it begins".to_owned());
        }
        ranges.push((low, high));
    }
    *rest = &rest[1..];
    Ok(Step::Class { is_negated, ranges })
}

/// Appends the steps of `**/`. Adjacent `**/` are equivalent to a single one.
fn add_directories(steps: &mut Vec<Step>) {
    if steps.last() != Some(&Step::Inside) {
        steps.extend([Step::Directories, Step::Inside]);
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
            ("t/**/a", &["t/x/a", "t/x/y/a", "t/a"], &["t/x/b", "ta", "t/xa"]),
            ("t/**", &["t/x", "t/x/y", "s/t/x"], &["t", "tt/x"]),
            ("**/a/b", &["a/b", "x/y/a/b"], &["xa/b"]),
            ("/t**z", &["tz", "t/a/z", "taz"], &["t/a/zz/y"]),
            ("*a*a*", &["xaxax", "aa"], &["xax", "b"]),
            ("a?c", &["abc"], &["ac", "a/c", "abbc"]),
            ("[a-c]?", &["ax", "t/c1"], &["dx", "a"]),
            ("[!a-c]x", &["dx"], &["ax", "x", "t/x"]),
            ("[]x]", &["]", "x"], &["y"]),
            ("[a\\]-]", &["a", "]", "-"], &["b"]),
            ("{a,b}", &["{a,b}"], &["a", "b"]),
            ("a\\*b", &["a*b"], &["axb"]),
            ("s**f", &["sf", "s/x/f", "t/s/x/f"], &["s/x/fg", "xs/x/f"]),
            ("t/***", &["t/x", "s/t/x/y"], &["t", "s/t"]),
        ] {
            let exclude = Exclude::new(&[pattern.to_owned()]).unwrap();
            for name in matching {
                assert!(exclude.matches(Path::new(name), false), "{pattern} and {name}");
            }
            for name in others {
                assert!(!exclude.matches(Path::new(name), false), "{pattern} and {name}");
            }
            assert_eq!(exclude.texts(), [pattern.as_bytes()]);
        }
        let directories = Exclude::new(&["cache/".to_owned(), "x".to_owned()]).unwrap();
        assert!(directories.matches(Path::new("t/cache"), true) && !directories.matches(Path::new("t/cache"), false));
        let with_contents = Exclude::new(&["t/***".to_owned(), "/a/b/***".to_owned()]).unwrap();
        for (name, is_left_out) in
            [("t", true), ("s/t", true), ("a/b", true), ("a", false), ("s/a/b", false), ("tt", false)]
        {
            assert_eq!(with_contents.matches(Path::new(name), true), is_left_out, "{name}");
        }
        assert!(!Exclude::default().matches(Path::new("t"), true));
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for bad in ["", "/", "[a", "[", "[!", "a\\", "[b-a]", &"x".repeat(PATTERN_BYTES_MAX + 1)] {
            assert!(Exclude::new(&[bad.to_owned()]).is_err(), "{bad}");
        }
    }

    /// The limits matter because a peer's patterns are compared with every name that it would delete.
    #[test]
    fn patterns_are_bounded_in_number_and_in_bytes() {
        assert!(Exclude::new(&vec!["x".to_owned(); PATTERNS_MAX]).is_ok());
        assert!(Exclude::new(&vec!["x".to_owned(); PATTERNS_MAX + 1]).is_err());
        let longest = PATTERNS_BYTES_MAX / PATTERN_BYTES_MAX;
        assert!(Exclude::new(&vec!["x".repeat(PATTERN_BYTES_MAX); longest]).is_ok());
        assert!(Exclude::new(&vec!["x".repeat(PATTERN_BYTES_MAX); longest + 1]).is_err());
    }
}
