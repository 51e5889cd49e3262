//! Tests of the commands in the README and `docs/guide`: each must parse, and marked blocks are run.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test which cannot go on has failed")]

mod pages;
#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use std::collections::BTreeSet;
use std::env;
use std::path::Path;
use std::process::Command;

use clap::error::ErrorKind;
use clap::{CommandFactory, Error, Parser};
use dfcp_cli::cli::Cli;
use dfcp_lab_cli::cli::Cli as LabCli;

use self::pages::{Block, commands, pages, spans};
use self::support::{Running, Said, Site, own_loopback};

#[test]
fn every_command_can_be_given() {
    let pages = pages();
    let wrong: Vec<_> = pages.iter().flat_map(|(name, page)| wrong_commands(name, page)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let count = pages.iter().flat_map(|(_, page)| shown(page)).count();
    assert!(count > 40, "only {count} commands were found");
}

#[test]
fn every_option_in_a_sentence_exists() {
    let wrong: Vec<_> = pages().iter().flat_map(|(name, page)| wrong_spans(name, page)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_cannot_be_given_is_found() {
    for (line, count) in [
        ("there:  dfcp receive --outptu incoming", 1),
        ("tar c photos | dfcp send - there.example --nam photos.tar", 1),
        ("DFCP_LOG=debug dfcp send film.mkv   # no receiver", 1),
        ("sudo dfcp emulat --loss 1% -- true; dfcp relay --listen 1", 2),
        ("cargo run --release -- demo --sizes 8MB > table.txt", 1),
        ("dfcp receive --output in \\\n    --onec", 1),
        ("dfcp send film.mkv there.example --exclude '*.o # --no-option' # --no-option", 0),
        ("dfcp emulate --loss 1% -- curl --no-option", 0),
        ("curl --no-option", 0),
    ] {
        let page = format!("```sh\n{line}\n```\n");
        assert_eq!(wrong_commands("page", &page).len(), count, "{line}");
    }
    for (sentence, count) in [
        ("`--outptu` names a directory", 1),
        ("`--retry 10min` and `--code=-`", 0),
        ("`dfcp lab krenel build`", 1),
        ("`dfcp send --chekcsum`", 1),
        ("`dfcp decrypt` and `dfcp generate`", 0),
    ] {
        assert_eq!(wrong_spans("page", sentence).len(), count, "{sentence}");
    }
}

#[test]
fn marked_blocks_can_be_run() {
    let mut count = 0;
    for (name, page) in pages() {
        for block in Block::all(&page).iter().filter(|block| block.is_run) {
            run(&name, block);
            count += 1;
        }
    }
    assert!(count > 3, "only {count} blocks were run");
}

/// Returns the commands in the blocks of a page, with line numbers.
fn shown(page: &str) -> Vec<(usize, Vec<String>)> {
    let lines = Block::all(page).into_iter().flat_map(|block| block.lines);
    lines.flat_map(|(at, line)| commands(&line).into_iter().map(move |command| (at, command))).collect()
}

/// Parses a command with the parser of its program.
fn parse(words: &[String]) -> Result<(), Error> {
    if words.get(1).is_some_and(|word| word == "lab" || word == "demo") {
        return LabCli::try_parse_from(words).map(|_| ());
    }
    Cli::try_parse_from(words).and_then(Cli::checked).map(|_| ())
}

/// Returns the commands of a page that the program refuses, with reasons.
fn wrong_commands(name: &str, page: &str) -> Vec<String> {
    let refused = |(at, words): (usize, Vec<String>)| {
        let error = parse(&words).err()?;
        Some(format!("{name}:{at}: {}: {error}", words.join(" ")))
    };
    shown(page).into_iter().filter_map(refused).collect()
}

/// Returns inline code of a page that names an unknown command or option. A command in a sentence may be incomplete.
fn wrong_spans(name: &str, page: &str) -> Vec<String> {
    const INCOMPLETE: [ErrorKind; 3] = [
        ErrorKind::MissingRequiredArgument,
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
        ErrorKind::DisplayHelp,
    ];
    let mut options = BTreeSet::new();
    for mut program in [Cli::command(), LabCli::command()] {
        program.build();
        collect_options(&program, &mut options);
    }
    let is_wrong = |&(_, span): &(usize, &str)| {
        if let Some(option) = span.strip_prefix("--") {
            return !options.contains(option.split([' ', '=']).next().unwrap());
        }
        let refused = |words: &Vec<String>| match parse(words) {
            Ok(()) => false,
            Err(error) => !INCOMPLETE.contains(&error.kind()),
        };
        commands(span).iter().any(refused)
    };
    let wrong = spans(page).into_iter().filter(is_wrong);
    wrong.map(|(at, span)| format!("{name}:{at}: {span}: there is no such command or option")).collect()
}

/// Collects the long option names of `command` and its subcommands.
fn collect_options(command: &clap::Command, options: &mut BTreeSet<String>) {
    options.extend(command.get_arguments().filter_map(clap::Arg::get_long).map(str::to_owned));
    for inner in command.get_subcommands() {
        collect_options(inner, options);
    }
}

/// Runs the lines of a block in sequence, in a directory with the files that the pages mention. A line that ends in `&`
/// runs in the background; the next line starts when it listens. With `--once`, it must succeed.
fn run(name: &str, block: &Block) {
    let site = Site::new();
    site.write("film.mkv", &"film".repeat(100_000));
    site.write("photos/otter.jpg", "otter");
    let here = own_loopback(1);
    let here = here.strip_suffix(":1").unwrap();
    let mut beside = Vec::new();
    for (at, line) in &block.lines {
        let line = line.replace("127.0.0.1", here);
        match line.strip_suffix('&') {
            Some(line) => {
                let running = Running::start(shell(&site, &format!("exec {line}")));
                beside.push((*at, line.contains("--once"), running));
            }
            None => {
                let said = Said::of(shell(&site, &line).output().unwrap());
                assert_eq!(said.code, Some(0), "{name}:{at}: {line}: {said:?}");
            }
        }
    }
    for (at, ends, mut running) in beside {
        if ends {
            let (code, said) = running.ended();
            assert_eq!(code, Some(0), "{name}:{at}: {said}");
        }
    }
}

/// Builds a shell command in which `dfcp` is the program under test.
fn shell(site: &Site, line: &str) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_dfcp")).parent().unwrap().to_path_buf();
    let before = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([program].into_iter().chain(env::split_paths(&before))).unwrap();
    let mut command = Command::new("bash");
    command.args(["-e", "-o", "pipefail", "-c", line]).current_dir(site.path("")).env("PATH", path);
    command.env("DFCP_CONFIG_DIR", site.config()).env_remove("CARGO").stdin(std::process::Stdio::null());
    command
}
