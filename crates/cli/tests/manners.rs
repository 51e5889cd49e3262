//! Tests of the program's command-line behaviour: unsolicited output, exit, and printed addresses.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test which cannot go on has failed")]

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use self::support::{Running, Said, Site, own_loopback};

#[test]
fn a_listener_that_nobody_has_called_ends_well_and_says_nothing_more() {
    let site = Site::new();
    let file = site.write("f", "x");
    for arguments in [
        &["receive", "--listen", "127.0.0.1:0", "--output", "o", "--allow-any"][..],
        &["perf", "server", "--listen", "127.0.0.1:0", "--allow-any"],
        &["send", &file, "--listen", "127.0.0.1:0", "--allow-any", "--keep"],
        &["pipe", "serve", "--listen", "127.0.0.1:0", "--out", "127.0.0.1:9", "--allow-any"],
        &["estimate", "server", "--listen", "127.0.0.1:0"],
    ] {
        let mut command = site.command(arguments);
        command.current_dir(site.path(""));
        let mut running = Running::start(command);
        running.signal("-INT");
        let (code, said) = running.ended();
        assert_eq!(code, Some(0), "{arguments:?}: {said}");
        for internal in ["stats", "interrupted", "error"] {
            assert!(!said.contains(internal), "{arguments:?}: {said}");
        }
    }
}

#[test]
fn one_that_waits_for_a_single_peer_says_that_it_was_interrupted() {
    let site = Site::new();
    let file = site.write("f", "x");
    for (arguments, sentence) in [
        (&["receive", "--listen", "127.0.0.1:0", "--output", "o", "--allow-any", "--once"][..], "before a sender came"),
        (&["receive", "--listen", "127.0.0.1:0", "--output", "-", "--allow-any"], "before a sender came"),
        (&["perf", "server", "--listen", "127.0.0.1:0", "--allow-any", "--once"], "before a client came"),
        (&["send", &file, "--listen", "127.0.0.1:0", "--allow-any"], "before a receiver came"),
    ] {
        let mut command = site.command(arguments);
        command.current_dir(site.path(""));
        let mut running = Running::start(command);
        running.signal("-TERM");
        let (code, said) = running.ended();
        assert_eq!(code, Some(130), "{arguments:?}: {said}");
        assert!(said.contains(&format!("dfcp: interrupted {sentence}")), "{arguments:?}: {said}");
    }
}

#[test]
fn quiet_is_silent_of_all_but_warnings_and_errors() {
    let (here, there) = (Site::new(), Site::new());
    let address = own_loopback(20_711);
    let output = there.path("output");
    let mut receiver = there.command(&["receive", "--listen", &address, "--output", output.to_str().unwrap()]);
    let receiver = receiver.args(["--allow-any", "--once", "--quiet"]).stderr(Stdio::piped()).spawn().unwrap();
    // `--quiet` suppresses the listening line: an early sender fails with one line, and is retried.
    let sent = loop {
        let sent = here.send(&address, &["-q"]);
        if sent.code == Some(0) {
            break sent;
        }
        assert!(sent.err.starts_with("dfcp: nothing ") && sent.err.lines().count() == 1, "{sent:?}");
    };
    assert_eq!((sent.out.as_str(), sent.err.as_str()), ("", ""));
    let said = Said::of(receiver.wait_with_output().unwrap()).ok();
    let lines: Vec<_> = said.err.lines().collect();
    assert!(matches!(lines[..], [warning] if warning.starts_with("warning: everyone")), "{lines:?}");
    assert_eq!(there.received().as_deref(), Some("small"));
    let missing = here.run(&["-q", "send", "no-such-file", &address]);
    assert!(missing.code == Some(1) && missing.err.contains("check the path"), "{missing:?}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let site = Site::new();
    for arguments in [&["generate", "completions", "zsh"][..], &["--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = site.command(arguments).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let said = Said::of(ended.wait_with_output().unwrap()).ok();
        assert_eq!(said.err, "", "{arguments:?}");
    }
}

#[test]
fn programs_are_told_every_address_at_which_a_listener_is_reached() {
    let site = Site::new();
    let file = site.write("f", "x");
    for arguments in [
        &["receive", "--listen", "0", "--output", "o", "--allow-any", "--json"][..],
        &["send", &file, "--listen", "0", "--allow-any", "--json"],
    ] {
        let mut command = site.command(arguments);
        let mut listener =
            command.current_dir(site.path("")).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(listener.stdout.take().unwrap()).read_line(&mut line).unwrap();
        listener.kill().unwrap();
        listener.wait().unwrap();
        let said: serde_json::Value = serde_json::from_str(&line).unwrap();
        let port = said["address"].as_str().unwrap().rsplit_once(':').unwrap().1.to_owned();
        let addresses = said["addresses"].as_array().unwrap();
        assert!(!addresses.is_empty(), "{line}");
        for address in addresses {
            let (host, its_port) = address.as_str().unwrap().rsplit_once(':').unwrap();
            assert!(its_port == port && host != "[::]" && host != "0.0.0.0", "{line}");
        }
    }
}
