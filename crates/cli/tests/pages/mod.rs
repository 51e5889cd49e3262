//! User pages and the commands on them.

mod block;
mod shell;

use std::fs;
use std::path::Path;

pub(crate) use self::block::Block;
pub(crate) use self::shell::commands;

/// Tasks with a page of their own.
const TASKS: [&str; 7] = ["bad-paths", "files", "laboratory", "live-streams", "measuring", "programs", "services"];

/// Names and texts of the README and the guide.
pub(crate) fn pages() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut names: Vec<String> = fs::read_dir(root.join("docs/guide"))
        .unwrap()
        .map(|entry| format!("docs/guide/{}", entry.unwrap().file_name().to_str().unwrap()))
        .collect();
    names.sort();
    assert_eq!(names, TASKS.map(|task| format!("docs/guide/{task}.md")));
    names.push("README.md".to_owned());
    names.into_iter().map(|name| (name.clone(), fs::read_to_string(root.join(name)).unwrap())).collect()
}

/// Inline code outside blocks, with line numbers.
pub(crate) fn spans(page: &str) -> Vec<(usize, &str)> {
    let mut is_fenced = false;
    let mut spans = Vec::new();
    for (index, line) in page.lines().enumerate() {
        if line.starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced {
            spans.extend(line.split('`').skip(1).step_by(2).map(|span| (index + 1, span)));
        }
    }
    spans
}
