//! Writes `docs/experiments.md` from the plans: `cargo run -p dfcp-lab --example experiments_page`.

use std::fs;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let page = dfcp_lab::experiments_page(&dfcp_lab::reading::builtin()?);
    fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/experiments.md"), page)?;
    Ok(())
}
