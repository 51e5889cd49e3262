//! Snapshot tests of every help page and of the messages for wrong command lines: each changed word changes a snapshot.
//!
//! `INSTA_UPDATE=always cargo test -p dfcp-cli --test wording` updates the snapshots.
#![cfg(target_os = "linux")] // elsewhere commands are missing

use clap::{CommandFactory, Parser};
use dfcp_cli::cli::Cli;

/// Width of the terminal, columns.
const WIDTH: usize = 100;

/// Collects the help of a command and its subcommands, by name.
fn pages(command: &mut clap::Command, pages: &mut Vec<(String, String)>) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).replace(' ', "-");
    pages.push((name, command.render_long_help().to_string()));
    for below in command.get_subcommands_mut().filter(|below| !below.is_hide_set() && below.get_name() != "help") {
        self::pages(below, pages);
    }
}

#[test]
fn each_page_of_help_is_as_in_its_snapshot() {
    let mut found = Vec::new();
    for (command, is_of_both) in [(Cli::command(), true), (dfcp_lab_cli::cli::Cli::command(), false)] {
        let mut command = command.term_width(WIDTH);
        command.build();
        let mut of_program = Vec::new();
        pages(&mut command, &mut of_program);
        // The laboratory program has no help page of its own; its commands appear on the main page.
        found.extend(of_program.into_iter().skip(usize::from(!is_of_both)));
    }
    assert!(found.len() > 20, "{}", found.len());
    for (name, page) in found {
        let wide = page.lines().find(|line| line.chars().count() > WIDTH && !line.contains("http"));
        assert_eq!(wide, None, "a line of {name} is wider than the terminal");
        insta::assert_snapshot!(name, page);
    }
}

/// Wrong command lines, one for each common kind of mistake.
const WRONG: &[&[&str]] = &[
    &["sned", "a", "host"],
    &["send"],
    &["send", "a"],
    &["send", "a", "host:99999"],
    &["send", "a", "host", "--rate", "fast"],
    &["send", "a", "host", "--rate", "0"],
    &["send", "a", "host", "--min-rate", "20M", "--max-rate", "10M"],
    &["send", "a", "host", "--rate", "20M", "--max-rate", "10M"],
    &["send", "a", "host", "--code"],
    &["send", "a", "host", "--code", "7-otter-violon"],
    &["send", "a", "host", "--dscp", "fast"],
    &["send", "a", "host", "--exclude", "["],
    &["send", "a", "host", "--retry", "soon"],
    &["send", "a", "host", "--host-key", "abc"],
    &["send", "a", "host", "--listen", "4433", "--code", "7-otter-violin"],
    &["receive"],
    &["receive", "--output"],
    &["receive", "--output", "d", "--from"],
    &["receive", "--output", "d", "--listen", "99999"],
    &["receive", "--output", "d", "--bogus"],
    &["pipe"],
    &["pipe", "client", "host", "--deadline", "never"],
    &["perf"],
    &["perf", "client"],
    &["perf", "client", "host", "--time", "0"],
    &["relay", "--listen", "1", "--to"],
    &["relay", "--listen", "127.0.0.1:1", "--to", "127.0.0.1:2", "--loss", "2"],
    &["emulate", "--loss", "150%"],
    &["estimate"],
    &["decrypt", "a.pcap"],
    &["generate", "everything"],
    &["id", "--bogus"],
];

#[test]
fn each_sentence_about_a_wrong_command_line_is_as_in_its_snapshot() {
    let told = WRONG.iter().map(|wrong| {
        let arguments = [&["dfcp"], *wrong].concat();
        let error = Cli::try_parse_from(&arguments).and_then(Cli::checked).err();
        let text = error.map_or_else(|| "(it is right)\n".to_owned(), |error| error.render().to_string());
        // Usage and hints follow an empty line; the program omits them.
        let sentence: Vec<_> = text.lines().take_while(|line| !line.trim().is_empty()).map(str::trim).collect();
        format!("{}\n    {}\n", arguments.join(" "), sentence.join(" "))
    });
    insta::assert_snapshot!("wrong-command-lines", told.collect::<String>());
}
