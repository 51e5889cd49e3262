//! Tests of the command line without a connection.

use assert_cmd::Command;

fn dfcp(args: &[&str]) -> (i32, String, String) {
    let output = Command::cargo_bin("dfcp").expect("the binary is built").args(args).output().expect("it starts");
    let text = |bytes| String::from_utf8(bytes).expect("its output is UTF-8");
    (output.status.code().expect("no signal ends it"), text(output.stdout), text(output.stderr))
}

#[test]
fn every_help_has_an_example_and_exit_code_0() {
    let perf = [&["perf"][..], &["perf", "server"], &["perf", "client"], &["perf", "local"]];
    let estimate = [&["estimate"][..], &["estimate", "server"], &["estimate", "client"], &["estimate", "trace"]];
    for command in [&[][..], &["send"], &["receive"], &["relay"]].into_iter().chain(perf).chain(estimate) {
        let (code, out, err) = dfcp(&[command, &["--help"]].concat());
        assert_eq!((code, err.as_str()), (0, ""), "{command:?}");
        assert!(out.contains("Example"), "{command:?}: {out}");
    }
}

#[test]
fn wrong_arguments_are_one_sentence_and_exit_code_2() {
    for args in [
        &["send", "f", "host:1", "--rate", "fast"][..],
        &["send", "f"],
        &["send", "f", "no/where"],
        &["send", "f", "host:1", "--rate", "20"],
        &["send", "f", "host:1", "--max-rate", "20"],
        &["send", "f", "4433"],
        &["send", "f", "fe80::1"],
        &["send", "f", "host:1", "--insecure-classic", "--insecure-plaintext"],
        &["send", "f", "host:1", "--code", "seven"],
        &["send", "f", "host:1", "--code", "7-otter-violin", "--psk-file", "p"],
        &["send", "f", "host:1", "--host-key", "SHA256:short"],
        &["send", "f", "host:1", "--accept-new-key", "--code", "7-otter-violin"],
        &["send", "f", "host:1", "--accept-new-key", "--insecure-plaintext"],
        &["send", "f", "host:1", "--insecure-plaintext", "--cipher", "aes-128-gcm"],
        &["receive", "--listen", "0.0.0.0:1", "--output", "d", "--insecure-classic", "--allow-any"],
        &["receive", "--listen", "0.0.0.0:1", "--output", "d", "--code", "--no-code"],
        &["receive", "--listen", "0.0.0.0:1", "--output", "d", "--remember", "--no-code"],
        &["perf", "server", "--listen", "0.0.0.0:1", "--cipher", "rot13"],
        &["receive", "--listen", "70000", "--output", "d"],
        &["receive", "--listen", "there/example", "--output", "d"],
        &["receive"],
        &["relay", "--listen", "there.example", "--to", "127.0.0.1:1"],
        &["receive", "--listen", "0.0.0.0:1"],
        &["relay", "--listen", "1", "--to", "there.example"],
        &["receive", "--listen", "0.0.0.0:1", "--output", "d", "--max-senders", "0"],
        &["perf", "client", "host:1", "--duration", "-1"],
        &["perf", "client", "host:1", "--bytes", "many"],
        &["perf", "client", "host:1", "--bidir", "--reverse"],
        &["perf", "client", "host:1", "--bidir", "--insecure-classic"],
        &["perf", "client", "host:1", "--bidir", "--set", "coding=0"],
        &["perf", "client", "host:1", "--bidir", "--messages", "1", "--every", "4ms", "--deadline", "60ms"],
        &["perf", "client", "host:1", "--bidir", "--streams", "0"],
        &["perf", "client", "host:1", "--set", "redundancy=70000"],
        &["perf", "client", "host:1", "--insecure-classic", "--set", "redundancy"],
        &["perf", "client", "host:1", "--insecure-classic", "--set", "coding=2"],
        &["perf", "server", "--listen", "1", "--insecure-classic", "--set", "tokens=1"],
        &["perf", "server", "--listen", "1", "--insecure-plaintext", "--set", "coding=0"],
        &["perf", "local", "--duration", "0.05"],
        &["perf", "local", "--duration", "1h"],
        &["perf", "local", "--rounds", "0"],
        &["perf", "local", "--rounds", "101"],
        &["perf", "local", "--cipher", "aes-128-gcm,rot13"],
        &["perf", "local", "--cipher", ""],
        &["perf", "local", "--insecure-plaintext"],
        &["estimate", "trace"],
        &["estimate", "server", "--listen", "1", "--max-clients", "0"],
        &["estimate", "client", "no/where"],
        &["estimate", "client", "host:1", "--interval", "11s"],
        &["estimate", "client", "host:1", "--interface", "lo", "--probes-only"],
        &["estimate", "trace", "f", "--interval", "50ms"],
        &["estimate", "trace", "f", "--probes", "0"],
        &["estimate", "trace", "f", "--to", "10.0.0.0/40"],
        &["estimate", "trace", "f", "--threshold", "0ms"],
        &["frobnicate"],
    ] {
        assert_refused(args);
    }
}

#[test]
fn what_makes_no_sense_for_the_side_that_calls_or_listens_is_one_sentence_and_exit_code_2() {
    for args in [
        &["send", "host:1"][..],
        &["send", "f", "host:1", "--code"],
        &["send", "f", "host:1", "--allow-any"],
        &["send", "f", "host:1", "--authorized-keys", "k"],
        &["send", "f", "host:1", "--no-code"],
        &["send", "f", "host:1", "--keep"],
        &["send", "f", "host:1", "--metrics", "1"],
        &["send", "f", "host:1", "--log-json", "l"],
        &["send", "f", "no-such-host:1", "--listen", "1"],
        &["send", "f", "--listen", "no/where"],
        &["send", "f", "--listen", "1", "--dry-run"],
        &["send", "--listen", "1"],
        &["send", "-", "--name", "n", "--listen", "1", "--keep"],
        &["send", "f", "--listen", "1", "--code", "7-otter-violin"],
        &["send", "f", "--listen", "1", "--host-key", "SHA256:short"],
        &["send", "f", "--listen", "1", "--accept-new-key"],
        &["send", "f", "--listen", "1", "--insecure-classic", "--allow-any"],
        &["receive", "--from", "no/where", "--output", "d"],
        &["receive", "--from", "host:1"],
        &["receive", "--from", "host:1", "--listen", "1", "--output", "d"],
        &["receive", "--from", "host:1", "--output", "d", "--once"],
        &["receive", "--from", "host:1", "--output", "d", "--max-senders", "2"],
        &["receive", "--from", "host:1", "--output", "d", "--partials"],
        &["receive", "--from", "host:1", "--output", "d", "--code"],
        &["receive", "--from", "host:1", "--output", "d", "--remember"],
        &["receive", "--from", "host:1", "--output", "d", "--allow-any"],
        &["receive", "--from", "host:1", "--output", "d", "--metrics", "1"],
        &["receive", "--from", "host:1", "--output", "d", "--log-json", "l"],
        &["receive", "--listen", "1", "--output", "d", "--accept-new-key"],
        &["receive", "--listen", "1", "--output", "d", "--code", "7-otter-violin"],
    ] {
        assert_refused(args);
    }
}

#[track_caller]
fn assert_refused(args: &[&str]) {
    let (code, out, err) = dfcp(args);
    assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
    assert_eq!(err.lines().count(), 1, "{args:?}: {err}");
    assert!(err.starts_with("dfcp: ") && err.contains("--help"), "{args:?}: {err}");
}

#[test]
fn a_missing_file_is_one_sentence_and_exit_code_1() {
    let (code, out, err) = dfcp(&["send", "no-such-file", "localhost:1"]);
    assert_eq!((code, out.as_str(), err.lines().count()), (1, "", 1), "{err}");
    assert!(err.contains("no-such-file") && err.contains("check the path"), "{err}");
    let (code, out, err) = dfcp(&["estimate", "trace", "no-such-file"]);
    assert_eq!((code, out.as_str(), err.lines().count()), (1, "", 1), "{err}");
    assert!(err.contains("no-such-file") && err.contains("check the path"), "{err}");
}

#[test]
fn the_version_is_the_workspaces() {
    let (code, out, _) = dfcp(&["--version"]);
    assert_eq!((code, out.trim()), (0, concat!("dfcp ", env!("CARGO_PKG_VERSION"))));
}
