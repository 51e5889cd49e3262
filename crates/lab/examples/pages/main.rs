//! Generator of the pages of `docs/` on plans and results, from the plans and `lab/recorded`: `cargo run --release -p
//! dfcp-lab --example pages`. With `--check` it writes no files, and fails if a page is outdated.

mod pages;
mod records;

use std::fs;
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let is_check = std::env::args().any(|argument| argument == "--check");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let sources = dfcp_lab::reading::builtin()?;
    let mut pages = pages::of_plans(&root, &sources)?;
    pages.extend(records::of_records(&root, &sources)?);
    for (path, page) in pages {
        let path = root.join(path);
        if !is_check {
            fs::write(path, page)?;
        } else if fs::read_to_string(&path)? != page {
            return Err(format!(
                "{} is old; write it anew: cargo run --release -p dfcp-lab --example pages",
                path.display()
            )
            .into());
        }
    }
    Ok(())
}
