//! `dfcp generate`: man pages and shell completions, from the definition of the command line.

use std::path::PathBuf;

use clap::{Args, Command, Subcommand};
use clap_complete::Shell;
use dfcp_terminal::{man, output};

use crate::laboratory;

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
        /// Shell to complete for
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
    /// Write a man page for each command
    Man {
        /// Directory for the man pages; created if missing
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
}

/// Generates the requested output for `command`, the whole command line.
///
/// # Errors
/// Fails if the output cannot be written.
pub fn run(args: GenerateArgs, mut command: Command) -> anyhow::Result<()> {
    match args.what {
        What::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut command, "dfcp", &mut text);
            output::bytes(&text);
            Ok(())
        }
        What::Man { directory } => {
            let count = man::write(command, &directory)?;
            laboratory::write_manual(&directory)?;
            output::note(&format!("{count} pages in {}", directory.display()));
            Ok(())
        }
    }
}
