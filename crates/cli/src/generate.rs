//! `dfcp generate`: man pages and completions for shells, from the command line's own definition.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, CommandFactory, Subcommand};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::args::Cli;
use crate::output;

/// `dfcp generate`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dfcp generate completions bash > ~/.local/share/bash-completion/completions/dfcp
  dfcp generate completions zsh > ~/.zfunc/_dfcp
  dfcp generate man ~/.local/share/man/man1")]
pub struct GenerateArgs {
    /// Output to generate.
    #[command(subcommand)]
    pub what: What,
}

/// Outputs that can be generated.
#[derive(Debug, Subcommand)]
pub enum What {
    /// Print completions for a shell
    Completions {
        /// Shell that the completions are for
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
    /// Write a man page for each command
    Man {
        /// Directory for them; made if it is missing
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
}

/// Writes what was asked for.
///
/// # Errors
/// It cannot be written.
pub fn run(args: GenerateArgs) -> anyhow::Result<()> {
    match args.what {
        What::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "dfcp", &mut text);
            output::bytes(&text);
            Ok(())
        }
        What::Man { directory } => {
            fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
            let mut cli = Cli::command();
            // So that each page knows its whole name, and the options that all commands have.
            cli.build();
            let mut count = 0;
            pages(&cli, &directory, &mut count)?;
            output::note(&format!("{count} pages in {}", directory.display()));
            Ok(())
        }
    }
}

/// Writes the pages of a command and of all below it.
fn pages(command: &clap::Command, directory: &Path, count: &mut usize) -> anyhow::Result<()> {
    // `dfcp send` is in `dfcp-send.1`: after `build` a command's display name has hyphens.
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let path = directory.join(format!("{name}.1"));
    let mut text = Vec::new();
    Man::new(command.clone().disable_help_subcommand(true))
        .title(name)
        .render(&mut text)
        .and_then(|()| fs::write(&path, &text))
        .with_context(|| format!("cannot write {}", path.display()))?;
    *count += 1;
    let shown = |below: &&clap::Command| !below.is_hide_set() && OsStr::new(below.get_name()) != "help";
    command.get_subcommands().filter(shown).try_for_each(|below| pages(below, directory, count))
}
