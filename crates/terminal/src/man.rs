//! Generation of man pages from the definition of a command line.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use anyhow::Context;
use clap::Command;
use clap_mangen::Man;

/// Writes a page for `command` and each subcommand into `directory`, which is created if missing. Returns the number of
/// pages.
///
/// # Errors
/// Fails if a page cannot be written.
pub fn write(command: Command, directory: &Path) -> anyhow::Result<u32> {
    pages(&prepared(command, directory)?, directory)
}

/// Like [`write`](fn@write), for the pages of the subcommands only.
///
/// # Errors
/// Fails if a page cannot be written.
pub fn write_below(command: Command, directory: &Path) -> anyhow::Result<u32> {
    pages_below(&prepared(command, directory)?, directory)
}

fn prepared(mut command: Command, directory: &Path) -> anyhow::Result<Command> {
    fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    // Propagates full names and global options to every page.
    command.build();
    Ok(command)
}

/// Writes the pages of a command and its subcommands. Returns the number of pages.
fn pages(command: &Command, directory: &Path) -> anyhow::Result<u32> {
    // The page of `dfcp send` is `dfcp-send.1`: after `build`, a command's display name has hyphens.
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let path = directory.join(format!("{name}.1"));
    let mut text = Vec::new();
    Man::new(command.clone().disable_help_subcommand(true))
        .title(name)
        .render(&mut text)
        .and_then(|()| fs::write(&path, &text))
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(1 + pages_below(command, directory)?)
}

fn pages_below(command: &Command, directory: &Path) -> anyhow::Result<u32> {
    let is_shown = |below: &&Command| !below.is_hide_set() && OsStr::new(below.get_name()) != "help";
    command.get_subcommands().filter(is_shown).map(|below| pages(below, directory)).sum()
}
