//! Tests of `dfcp send --listen` and `dfcp receive --from` with the real program over loopback. Attacks of strangers are tested in
//! `send/listen/tests.rs`, terminal questions in `terminal.rs`.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use std::fs::{self, File};
use std::process::Stdio;

use serde_json::Value;
use support::{Running, Said, Site, own_loopback};

const SECRET: &str = "0123456789abcdef0123456789abcdef\n";

/// Listening sender of a small file, and the receiver's machine.
fn two() -> (Site, Site) {
    (Site::new(), Site::new())
}

fn sender(site: &Site, more: &[&str]) -> Running {
    sender_at(site, "127.0.0.1:0", more)
}

fn sender_at(site: &Site, address: &str, more: &[&str]) -> Running {
    let file = site.write("small.txt", "small");
    site.start(&[&["send", &file, "--listen", address], more].concat())
}

/// Runs `receive --from` for `address`. Unless `more` selects the trust, a new key is accepted.
fn fetch(site: &Site, address: &str, more: &[&str]) -> Said {
    const TRUST: [&str; 5] = ["--code", "--host-key", "--psk-file", "--insecure-plaintext", "--insecure-classic"];
    let trust = if more.iter().any(|flag| TRUST.contains(flag)) { &[][..] } else { &["--accept-new-key"] };
    let output = site.path("output");
    site.run(&[&["receive", "--from", address, "--output", output.to_str().unwrap()], trust, more].concat())
}

#[test]
fn a_code_pairs_a_receiver_that_calls_once_and_wrong_ones_do_not() {
    let (there, here) = two();
    let sender = sender(&there, &["--code"]);
    let code = sender.code();
    let command = sender.line_with("dfcp receive");
    assert!(command.ends_with(&format!("dfcp receive --output DIR --from {} --code -", sender.address)), "{command}");
    fetch(&Site::new(), &sender.address, &[]).refused(&["pairing code", "--code", "SHA256:"]);
    let wrong = if code == "1-acorn-acorn" { "2-acorn-acorn" } else { "1-acorn-acorn" };
    fetch(&Site::new(), &sender.address, &["--code", wrong]).refused(&["same pairing code"]);
    assert_eq!(here.received(), None);
    let typed = here.write("typed", &format!("{code}\n"));
    let output = here.path("output");
    let mut command =
        here.command(&["receive", "--from", &sender.address, "--output", output.to_str().unwrap(), "--code", "-"]);
    Said::of(command.stdin(File::open(typed).unwrap()).output().unwrap()).ok();
    assert_eq!(here.received().as_deref(), Some("small"));
    let known = fs::read_to_string(here.config().join("known_hosts")).unwrap();
    assert!(known.contains(&there.id("public_key")), "{known}");
    assert!(sender.succeeded(), "wrong guesses end nothing, and one receiver is enough");
}

#[test]
fn three_wrong_guesses_make_the_code_of_a_sender_void() {
    let (there, here) = two();
    let sender = sender(&there, &["--code"]);
    let code = sender.code();
    let wrong = if code == "1-acorn-acorn" { "2-acorn-acorn" } else { "1-acorn-acorn" };
    for _ in 0..3 {
        fetch(&here, &sender.address, &["--code", wrong]).refused(&["same pairing code"]);
    }
    let next = sender.code();
    fetch(&here, &sender.address, &["--code", &code]).refused(&["same pairing code"]);
    fetch(&here, &sender.address, &["--code", &next]).ok();
    assert!(sender.succeeded());
}

#[test]
fn only_authorized_receivers_get_in_and_the_audit_log_says_what_went_to_whom() {
    let (there, here) = two();
    let list = there.write("list", &here.id("public_key"));
    let log = there.path("sent.jsonl");
    let sender = sender(&there, &["--authorized-keys", &list, "--log-json", log.to_str().unwrap()]);
    let stranger = Site::new();
    let own = stranger.id("fingerprint");
    fetch(&stranger, &sender.address, &[]).refused(&["does not admit", &own, "authorized_keys"]);
    // The stranger now knows the sender's key, so the handshake has another pattern.
    fetch(&stranger, &sender.address, &[]).refused(&["does not admit", &own]);
    assert_eq!(stranger.received(), None);
    let fetched = fetch(&here, &sender.address, &["--json"]).ok();
    assert!(sender.succeeded());
    let connected: Value = serde_json::from_str(fetched.out.lines().next().unwrap()).unwrap();
    assert_eq!((&connected["event"], &connected["peer_key"]), (&"connected".into(), &there.id("fingerprint").into()));
    let lines = fs::read_to_string(log).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let file = lines.iter().find(|line| line["event"] == "file").unwrap();
    let hash = blake3::hash(b"small").to_hex().to_string();
    assert_eq!((&file["name"], &file["blake3"]), (&"small.txt".into(), &hash.into()));
    assert_eq!((&file["peer_key"], &file["outcome"]), (&here.id("fingerprint").into(), &"stored".into()));
}

#[test]
fn a_receiver_refuses_an_unknown_named_or_changed_key() {
    let (there, here) = two();
    let address = own_loopback(20_441);
    let first = sender_at(&there, &address, &["--allow-any"]);
    let (right, wrong) = (there.id("fingerprint"), here.id("fingerprint"));
    fetch(&here, &address, &["--host-key", &wrong]).refused(&["--host-key", &right]);
    assert!(!here.config().join("known_hosts").exists());
    fetch(&here, &address, &["--host-key", &right]).ok();
    assert!(first.succeeded());
    fs::remove_file(there.config().join("key")).unwrap();
    fs::remove_file(here.path("output/small.txt")).unwrap();
    let second = sender_at(&there, &address, &["--allow-any", "--code"]);
    let code = second.code();
    for more in [&[][..], &["--code", &code]] {
        fetch(&here, &address, more).refused(&["HAS CHANGED", &right, &there.id("fingerprint"), "remove line 1 of"]);
    }
    assert_eq!(here.received(), None);
}

#[test]
fn a_shared_secret_and_no_encryption_work_this_way_round_too() {
    let (there, here) = two();
    let (theirs, ours) = (there.write("psk", SECRET), here.write("psk", SECRET));
    let by_secret = sender(&there, &["--psk-file", &theirs]);
    fetch(&here, &by_secret.address, &[]).refused(&["does not admit", "--psk-file"]);
    let fetched = fetch(&here, &by_secret.address, &["--psk-file", &ours]).ok();
    assert!(fetched.err.contains("pre-shared key"), "{fetched:?}");
    assert!(by_secret.succeeded());
    for flag in ["--insecure-plaintext", "--insecure-classic"] {
        fs::remove_file(here.path("output/small.txt")).unwrap();
        let insecure = sender(&there, &[flag]);
        let fetched = fetch(&here, &insecure.address, &[flag]).ok();
        assert!(fetched.err.contains("warning: neither encrypted nor authenticated"), "{fetched:?}");
        assert_eq!(here.received().as_deref(), Some("small"));
        assert!(insecure.succeeded());
    }
}

#[test]
fn a_tree_comes_over_many_streams_and_again_to_each_receiver() {
    let (there, here) = two();
    let large: String = (0..200_000_u32).map(|i| format!("{i} ")).collect();
    for (name, content) in
        [("tree/large", &large[..]), ("tree/d/one", "one"), ("tree/d/two", "two"), ("tree/empty", "")]
    {
        there.write(name, content);
    }
    let tree = there.path("tree");
    let sender = there.start(&["send", tree.to_str().unwrap(), "--listen", "127.0.0.1:0", "--allow-any", "--keep"]);
    for receiver in [&here, &Site::new()] {
        fetch(receiver, &sender.address, &[]).ok();
        assert_eq!(fs::read_to_string(receiver.path("output/tree/large")).unwrap(), large);
        assert_eq!(fs::read_to_string(receiver.path("output/tree/d/two")).unwrap(), "two");
    }
    let again = fetch(&here, &sender.address, &["--json"]).ok();
    let done: Value = serde_json::from_str(again.out.lines().last().unwrap()).unwrap();
    assert_eq!((&done["unchanged"], &done["failed"]), (&4.into(), &0.into()), "{done}");
}

#[test]
fn what_has_come_of_a_file_is_kept_for_the_sender_that_was_called() {
    let (there, here) = two();
    there.write("large", &"0123456789abcdef".repeat(1 << 17));
    let large = there.path("large");
    let listen = |more: &[&str]| {
        let address = own_loopback(20_442);
        there.start(&[&["send", large.to_str().unwrap(), "--listen", &address, "--allow-any"], more].concat())
    };
    let slow = listen(&["--rate", "4mbit"]);
    let output = here.path("output");
    let output = output.to_str().unwrap();
    let receive = ["receive", "--from", &slow.address, "--output", output];
    let mut receiver =
        here.command(&[&receive[..], &["--accept-new-key"]].concat()).stderr(Stdio::null()).spawn().unwrap();
    let partials = || here.run(&["receive", "--partials", "--output", output, "--json"]).out;
    let has_come = |line: &str| {
        let partial: Value = serde_json::from_str(line).unwrap();
        partial["bytes"].as_u64().filter(|bytes| *bytes > 0).map(|_| partial)
    };
    let began = std::time::Instant::now();
    while partials().lines().find_map(has_come).is_none() {
        assert!(began.elapsed() < support::PATIENCE && receiver.try_wait().unwrap().is_none());
    }
    receiver.kill().unwrap();
    receiver.wait().unwrap();
    let kept = partials().lines().find_map(has_come).unwrap();
    assert_eq!((&kept["name"], &kept["peer_key"]), (&"large".into(), &there.id("fingerprint").into()));
    drop(slow);
    let fast = listen(&[]);
    let done = fetch(&here, &fast.address, &["--json"]).ok();
    assert!(fast.succeeded());
    assert_eq!(fs::read(&large).unwrap(), fs::read(here.path("output/large")).unwrap());
    let last: Value = serde_json::from_str(done.out.lines().last().unwrap()).unwrap();
    assert_eq!((&last["stored"], &last["resumed"]), (&1.into(), &1.into()), "{last}");
}

#[test]
fn two_senders_or_two_receivers_say_what_is_wrong_and_end() {
    let (there, here) = two();
    for more in [&["--allow-any"][..], &["--code"]] {
        let listens = sender(&there, more);
        let code = more.contains(&"--code").then(|| listens.code());
        let trust = code.as_ref().map_or(vec![], |code| vec!["--code", code.as_str()]);
        here.send(&listens.address, &trust).refused(&["sends files, too", "dfcp receive", "--from HOST:PORT"]);
        listens.line_with("sends files, too");
        assert!(!listens.succeeded());
    }
    let listens = there.receive(&["--allow-any", "--once"]);
    fetch(&here, &listens.address, &[]).refused(&["receives files, too", "dfcp send"]);
    listens.line_with("receives files, too");
    assert!(!listens.succeeded());
    // A receiver that has not been admitted yet gets the same error.
    let listens = there.receive(&["--code"]);
    fetch(&here, &listens.address, &[]).refused(&["receives files, too", "dfcp send"]);
    assert_eq!((here.received(), there.received()), (None, None));
}

#[test]
fn the_output_of_a_receiver_that_calls_is_checked_before_it_calls() {
    let (there, here) = two();
    let secret = here.write("secrets/psk", SECRET);
    here.id("fingerprint");
    for (output, more) in [("config", &[][..]), ("config/incoming", &[]), ("secrets", &["--psk-file", &secret])] {
        let output = here.path(output);
        let call = ["receive", "--from", "127.0.0.1:9", "--output", output.to_str().unwrap()];
        here.run(&[&call[..], more].concat()).refused(&["choose another --output"]);
    }
    assert!(!here.path("config/incoming").exists());
    drop(there);
}

#[test]
fn a_file_goes_from_standard_input_to_standard_output() {
    let (there, here) = two();
    let typed = there.write("typed", "piped");
    let mut command = there.command(&["send", "-", "--name", "n", "--listen", "127.0.0.1:0", "--allow-any"]);
    command.stdin(File::open(typed).unwrap());
    let sender = Running::start(command);
    let fetched = here.run(&["receive", "--from", &sender.address, "--output", "-", "--accept-new-key"]).ok();
    assert_eq!(fetched.out, "piped");
    assert!(sender.succeeded());
}

#[test]
fn metrics_count_what_a_sender_did() {
    use std::io::{Read, Write};
    let (there, here) = two();
    let metrics = own_loopback(29_002);
    let sender = sender(&there, &["--allow-any", "--keep", "--metrics", &metrics]);
    fetch(&here, &sender.address, &[]).ok();
    let began = std::time::Instant::now();
    loop {
        let mut page = String::new();
        let mut stream = std::net::TcpStream::connect(&metrics).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        stream.read_to_string(&mut page).unwrap();
        if page.contains("dfcp_entries_total{kind=\"file\",outcome=\"stored\"} 1\n") {
            break;
        }
        assert!(began.elapsed() < support::PATIENCE, "{page}");
    }
}
