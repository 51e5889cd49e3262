//! Tests of lost connections with the real program over loopback. Call times and retryable causes are tested in `src/retry/`, places of
//! peers in `src/serving/`.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{PATIENCE, Said, Site, own_loopback};

/// Size of the interrupted file: 4.5 s at 30 Mbit/s, so that a part is journalled before the interruption.
const LEN: usize = 16 << 20;

fn content() -> Vec<u8> {
    (0..LEN as u32 / 4).flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes()).collect()
}

/// Site with a file that takes seconds to send.
fn with_file() -> Site {
    let site = Site::new();
    fs::write(site.path("large"), content()).unwrap();
    site
}

fn start(mut command: Command, site: &Site) -> Child {
    command.current_dir(site.path("")).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn sender(site: &Site, to: &str, more: &[&str]) -> Child {
    let arguments = ["send", "large", to, "--json", "--rate", "30mbit"];
    let trust: &[&str] = if more.contains(&"--code") { &[] } else { &["--accept-new-key"] };
    start(site.command(&[&arguments, trust, more].concat()), site)
}

/// Waits until a part of the file is in `output`.
fn until_half_way(output: &Path, child: &mut Child) {
    let started = Instant::now();
    let bytes = || {
        let names = fs::read_dir(output).ok()?.filter_map(Result::ok);
        names.filter_map(|entry| entry.metadata().ok()).filter(fs::Metadata::is_file).map(|it| it.len()).max()
    };
    while bytes().unwrap_or_default() < LEN as u64 / 3 {
        assert!(started.elapsed() < PATIENCE && child.try_wait().unwrap().is_none(), "nothing comes");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn ended(child: Child) -> Said {
    Said::of(child.wait_with_output().unwrap())
}

fn lines(said: &Said) -> Vec<Value> {
    said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Asserts that several sessions were needed, and that the last one resumed.
#[track_caller]
fn assert_went_on(said: &Said, output: &Path) {
    let lines = lines(said);
    let done = lines.last().unwrap();
    assert_eq!((&done["event"], &done["stored"], &done["failed"]), (&"done".into(), &1.into(), &0.into()), "{done}");
    assert!(done["sessions"].as_u64().unwrap() >= 2 && done["resumed_bytes"].as_u64().unwrap() > 0, "{done}");
    assert_eq!(lines.iter().filter(|line| line["event"] == "file").count(), 1, "it is told once");
    assert!(lines.iter().filter(|line| line["event"] == "connected").count() >= 2);
    assert!(fs::read(output.join("large")).unwrap() == content());
}

#[test]
fn a_receiver_that_was_killed_and_is_back_gets_the_rest() {
    let site = with_file();
    let address = own_loopback(20_611);
    let receiver = site.receive_at(&address, &["--allow-any"]);
    let mut sending = sender(&site, &address, &[]);
    until_half_way(&site.path("output"), &mut sending);
    drop(receiver);
    let _back = site.receive_at(&address, &["--allow-any"]);
    assert_went_on(&ended(sending).ok(), &site.path("output"));
}

#[test]
fn a_sender_that_is_called_was_killed_and_is_back_and_sends_the_rest() {
    let site = with_file();
    let address = own_loopback(20_612);
    let file = site.path("large");
    let listen = ["send", file.to_str().unwrap(), "--listen", &address, "--allow-any", "--keep", "--rate", "30mbit"];
    let sending = site.start(&listen);
    let output = site.path("output");
    let here = Site::new();
    let arguments = ["receive", "--from", &address, "--output", output.to_str().unwrap(), "--json", "--accept-new-key"];
    let mut receiving = start(here.command(&arguments), &here);
    until_half_way(&output, &mut receiving);
    drop(sending);
    let _back = site.start(&listen);
    assert_went_on(&ended(receiving).ok(), &output);
}

/// A single-peer server waits for its peer until everything has arrived.
#[test]
fn a_silent_session_gives_its_only_place_to_the_next_one_of_its_key() {
    let site = with_file();
    let receiver = site.receive(&["--allow-any", "--once", "--max-senders", "1"]);
    // The sender is suspended: it neither says goodbye nor returns.
    let mut stopped = sender(&site, &receiver.address, &[]);
    until_half_way(&site.path("output"), &mut stopped);
    let stop = Command::new("kill").args(["-STOP", &stopped.id().to_string()]).status().unwrap();
    assert!(stop.success());
    // Until the receiver notices the silence, it refuses other sessions as busy.
    let started = Instant::now();
    let said = loop {
        let said = ended(sender(&site, &receiver.address, &[]));
        if said.code == Some(0) || started.elapsed() > PATIENCE {
            break said;
        }
        assert!(said.out.contains("\"connected\"") && said.err.contains("as many peers as it may"), "{said:?}");
        std::thread::sleep(Duration::from_millis(300));
    };
    stopped.kill().unwrap();
    stopped.wait().unwrap();
    let done = lines(&said.ok()).pop().unwrap();
    assert!(done["resumed_bytes"].as_u64().unwrap() > 0, "{done}");
    assert!(receiver.succeeded());
}

#[test]
fn another_key_at_the_same_address_ends_it_at_once() {
    let (site, impostor) = (with_file(), Site::new());
    let address = own_loopback(20_613);
    let receiver = site.receive_at(&address, &["--allow-any"]);
    let mut sending = sender(&site, &address, &[]);
    until_half_way(&site.path("output"), &mut sending);
    // Stop the receiver in order: after a kill, the silent session might recover for half a minute.
    receiver.signal("-TERM");
    receiver.succeeded();
    let _other = impostor.receive_at(&address, &["--allow-any"]);
    let said = ended(sending);
    said.refused(&["known_hosts"]);
    assert!(!impostor.path("output/large").exists());
}

#[test]
fn without_retry_and_at_the_first_call_a_failure_is_the_end() {
    let site = with_file();
    let address = own_loopback(20_614);
    let started = Instant::now();
    ended(sender(&site, &address, &["--retry", "1h"])).refused(&["nothing listens"]);
    assert!(started.elapsed() < PATIENCE);
    let receiver = site.receive_at(&address, &["--allow-any"]);
    let mut sending = sender(&site, &address, &["--retry", "0"]);
    until_half_way(&site.path("output"), &mut sending);
    receiver.signal("-TERM");
    let said = ended(sending);
    said.refused(&["the receiver was stopped"]);
    assert!(!said.out.contains("reconnecting"), "{said:?}");
}

#[test]
fn what_cannot_be_tried_again_says_so() {
    let site = with_file();
    for (arguments, why) in [
        (&["send", "-", "--name", "x", "127.0.0.1:1", "--retry", "1h"][..], "read twice"),
        (&["send", "large", "127.0.0.1:1", "--retry", "1h", "--insecure-plaintext"], "without encryption"),
        (&["receive", "--from", "127.0.0.1:1", "--output", "-", "--retry"], "taken back"),
        (&["send", "large", "127.0.0.1:1", "--retry", "soon"], "--retry"),
    ] {
        let mut command = site.command(arguments);
        let said = Said::of(command.current_dir(site.path("")).output().unwrap());
        assert!(said.code == Some(2) && said.err.contains(why), "{said:?}");
    }
}

/// Ctrl-C also works during an outage.
#[test]
fn ctrl_c_ends_the_waiting() {
    let site = with_file();
    let address = own_loopback(20_615);
    let receiver = site.receive_at(&address, &["--allow-any"]);
    let mut command = site.command(&["send", "large", &address, "--accept-new-key", "--rate", "30mbit"]);
    let mut sending = command.current_dir(site.path("")).stderr(Stdio::piped()).spawn().unwrap();
    until_half_way(&site.path("output"), &mut sending);
    receiver.signal("-TERM");
    let mut said = std::io::BufReader::new(sending.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("calling again for up to 1 h") {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut said, &mut line).unwrap() > 0, "it ended by itself");
    }
    let sent = Command::new("kill").args(["-INT", &sending.id().to_string()]).status().unwrap();
    assert!(sent.success() && sending.wait().unwrap().code() == Some(130));
}

/// The code is used up and the receiver restarted. The receiver recognises the paired key by its file of resumable
/// transfers.
#[test]
fn a_transfer_begun_by_code_goes_on_and_admits_to_nothing_else() {
    let (there, here) = (Site::new(), with_file());
    let address = own_loopback(20_616);
    let receiver = there.receive_at(&address, &["--code"]);
    let code = receiver.code();
    let mut sending = sender(&here, &address, &["--code", &code]);
    let output = there.path("output");
    until_half_way(&output, &mut sending);
    drop(receiver);
    let back = there.receive_at(&address, &["--code"]);
    assert_went_on(&ended(sending).ok(), &output);
    // The transfer is complete, so the pair has no more rights.
    here.send(&address, &[]).refused(&["pairing code"]);
    assert!(there.received().is_none() && !there.config().join("paired_transfers").exists());
    drop(back);
}

#[test]
fn a_used_code_is_called_so_and_what_it_began_can_be_forgotten() {
    let (there, here) = (Site::new(), with_file());
    let receiver = there.receive(&["--code"]);
    let code = receiver.code();
    let mut sending = sender(&here, &receiver.address, &["--code", &code]);
    until_half_way(&there.path("output"), &mut sending);
    sending.kill().unwrap();
    sending.wait().unwrap();
    ended(sender(&here, &receiver.address, &["--code", &code])).refused(&["works only once", "leave --code out"]);
    let stranger = with_file();
    ended(sender(&stranger, &receiver.address, &["--code", &code])).refused(&["each code works once"]);
    here.send(&receiver.address, &["--json"]).refused(&["1 of 1 entries"]);
    assert!(there.received().is_none(), "another file of the pair");
    let said = there.run(&["receive", "--forget"]).ok();
    assert!(said.err.contains("forgotten: 1"), "{said:?}");
    // The running receiver has forgotten the pair as well.
    ended(sender(&here, &receiver.address, &[])).refused(&["pairing code"]);
    assert!(!there.path("output/large").exists());
}
