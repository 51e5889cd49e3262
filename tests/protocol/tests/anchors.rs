//! Every anchor of `spec/` is defined once, and cited where the code implements it or a test checks it. Every citation refers to an
//! existing anchor. Pages without anchors, such as `spec/wire-format.md`, are not covered.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Requirements without implementing code, with the reason.
const NOT_IN_CODE: [(&str, &str); 1] =
    [("trust-4", "it states what follows from the Noise patterns; nothing enforces it")];

/// This file is excluded: its anchors are examples.
const THIS_FILE: &str = "tests/protocol/tests/anchors.rs";

/// Files that contain each anchor, by name.
type Anchors = BTreeMap<String, Vec<PathBuf>>;

fn root() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap()
}

/// Files with this extension below `directory`, in order.
fn files(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            // Build output, also `fuzz/target`, contains irrelevant copies.
            if entry.file_name() != "target" {
                found.extend(files(&path, extension));
            }
        } else if path.extension() == Some(OsStr::new(extension)) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Name of the anchor at the start of `text`, if there is one: `open-3]`, or `open-3\]` in rustdoc.
fn name_at(text: &str) -> Option<&str> {
    let name = text.split_once(']')?.0;
    let name = name.strip_suffix('\\').unwrap_or(name);
    let (word, number) = name.split_once('-')?;
    let is_name = !word.is_empty()
        && word.bytes().all(|byte| byte.is_ascii_lowercase())
        && !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit());
    is_name.then_some(name)
}

/// Names of all anchors in `text`. An index is not one: rustfmt writes `[i - 1]`.
fn cited(text: &str) -> impl Iterator<Item = &str> {
    text.split('[').skip(1).filter_map(name_at)
}

/// Names of the requirements defined in `page`: each starts a list item. In running text `**[open-3]**` is an example.
fn defined(page: &str) -> impl Iterator<Item = &str> {
    page.lines().filter_map(|line| name_at(line.strip_prefix("- **[")?))
}

fn gather<'a>(
    directories: impl IntoIterator<Item = &'a str>,
    extension: &str,
    names: impl Fn(&str) -> Vec<String>,
) -> Anchors {
    let (root, mut anchors) = (root(), Anchors::new());
    for path in directories.into_iter().flat_map(|directory| files(&root.join(directory), extension)) {
        let text = fs::read_to_string(&path).unwrap();
        let path = path.strip_prefix(&root).unwrap();
        if path == Path::new(THIS_FILE) {
            continue;
        }
        for name in names(&text) {
            anchors.entry(name).or_default().push(path.to_path_buf());
        }
    }
    anchors
}

fn definitions() -> Anchors {
    gather(["spec"], "md", |page| defined(page).map(str::to_owned).collect())
}

fn citations() -> Anchors {
    gather(["crates", "tests", "fuzz"], "rs", |text| cited(text).map(str::to_owned).collect())
}

#[test]
fn every_anchor_is_defined_once() {
    let definitions = definitions();
    assert!(definitions.contains_key("open-3") && definitions.contains_key("pair-1"), "the pages were not read");
    let again: Vec<_> = definitions.iter().filter(|(_, pages)| pages.len() > 1).collect();
    assert!(again.is_empty(), "defined more than once: {again:?}");
}

#[test]
fn every_anchor_is_cited_unless_it_is_not_in_code() {
    let (definitions, citations) = (definitions(), citations());
    let excused: BTreeSet<_> = NOT_IN_CODE.into_iter().map(|(name, _)| name).collect();
    let uncited: Vec<_> = definitions
        .iter()
        .filter(|(name, _)| !citations.contains_key(*name) && !excused.contains(name.as_str()))
        .collect();
    assert!(uncited.is_empty(), "cite these where they are fulfilled or tested: {uncited:?}");
    for (name, why) in NOT_IN_CODE {
        assert!(definitions.contains_key(name), "NOT_IN_CODE: no page of spec/ defines [{name}]");
        assert!(!citations.contains_key(name), "NOT_IN_CODE: [{name}] ({why}) is cited by {:?}", citations[name]);
    }
}

#[test]
fn every_citation_names_an_anchor() {
    let (definitions, citations) = (definitions(), citations());
    let unknown: Vec<_> = citations.iter().filter(|(name, _)| !definitions.contains_key(*name)).collect();
    assert!(unknown.is_empty(), "no page of spec/ defines these: {unknown:?}");
}

#[test]
fn anchors_are_recognised_however_they_are_written() {
    let text = r"([open-3]), \[seal-7\], [`Rate`], [a-b], [x-], [-1], [i - 1], [noise-11] of [open-39";
    assert_eq!(cited(text).collect::<Vec<_>>(), ["open-3", "seal-7", "noise-11"]);
    let page = "such as **[open-3]**\n- **[open-4]** A copy, as in [open-5].\n  **[open-6]**";
    assert_eq!(defined(page).collect::<Vec<_>>(), ["open-4"]);
}
