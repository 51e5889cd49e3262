//! Tests of admission and trust with the real program over loopback; terminal questions are in `terminal.rs`.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use std::fs;

use support::{Running, Site, own_loopback};

/// Sender and receiver that do not know each other.
fn two() -> (Site, Site) {
    (Site::new(), Site::new())
}

/// Wrong code.
fn wrong(code: &str) -> &'static str {
    if code == "1-acorn-acorn" { "2-acorn-acorn" } else { "1-acorn-acorn" }
}

fn restart_with_another_key(there: &Site, running: Running, more: &[&str]) -> Running {
    let address = running.address.clone();
    drop(running);
    fs::remove_file(there.config().join("key")).unwrap();
    there.receive_at(&address, more)
}

#[test]
fn a_first_contact_is_printed_and_kept_and_a_changed_key_is_refused() {
    let (here, there) = two();
    let receiver = there.receive_at(&own_loopback(20_433), &["--allow-any", "--force"]);
    let fingerprint = there.id("fingerprint");
    let first = here.send(&receiver.address, &[]).ok();
    assert!(first.err.contains("first contact") && first.err.contains(&fingerprint), "{first:?}");
    assert!(first.err.contains("encrypted with "), "{first:?}");
    let known = fs::read_to_string(here.config().join("known_hosts")).unwrap();
    assert!(known.contains(&receiver.address) && known.contains(&there.id("public_key")), "{known}");
    let second = here.send(&receiver.address, &["--json"]).ok();
    assert!(!second.err.contains("first contact"), "{second:?}");
    let connected: serde_json::Value = serde_json::from_str(second.out.lines().next().unwrap()).unwrap();
    assert_eq!((connected["pattern"].as_str(), connected["peer_key"].as_str()), (Some("IK"), Some(&*fingerprint)));

    let receiver = restart_with_another_key(&there, receiver, &["--allow-any", "--code", "--force"]);
    fs::remove_file(there.path("output/small.txt")).unwrap();
    let code = receiver.code();
    for more in [&[][..], &["--code", &code]] {
        let changed = here.send(&receiver.address, more);
        changed.refused(&["HAS CHANGED", &fingerprint, &there.id("fingerprint"), "remove line 1 of"]);
    }
    assert_eq!(there.received(), None);
    assert_eq!(fs::read_to_string(here.config().join("known_hosts")).unwrap(), known);
}

#[test]
fn a_named_key_is_insisted_on() {
    let (here, there) = two();
    let receiver = there.receive(&["--allow-any"]);
    let (right, wrong) = (there.id("fingerprint"), here.id("fingerprint"));
    here.send(&receiver.address, &["--host-key", &wrong]).refused(&["--host-key", &right]);
    assert_eq!(there.received(), None);
    assert!(!here.config().join("known_hosts").exists());
    here.send(&receiver.address, &["--host-key", &right]).ok();
    here.send(&receiver.address, &["--host-key", &wrong]).refused(&["known_hosts", "--host-key"]);
}

#[test]
fn only_authorized_keys_get_in() {
    let (here, there) = two();
    let list = there.write("list", &format!("{} alice\n", here.id("fingerprint")));
    let receiver = there.receive(&["--authorized-keys", &list]);
    let stranger = Site::new();
    let own = stranger.id("fingerprint");
    stranger.send(&receiver.address, &[]).refused(&["does not admit", &own, "authorized_keys"]);
    // The stranger now knows the receiver's key, so the handshake has another pattern.
    stranger.send(&receiver.address, &[]).refused(&["does not admit", &own]);
    assert_eq!(there.received(), None);
    here.send(&receiver.address, &[]).ok();
    assert_eq!(there.received().as_deref(), Some("small"));
}

#[test]
fn the_configuration_directory_may_have_the_authorized_keys() {
    let (here, there) = two();
    there.write("config/authorized_keys", &format!("{}\n", here.id("public_key")));
    let receiver = there.receive(&["--once"]);
    Site::new().send(&receiver.address, &[]).refused(&["does not admit"]);
    here.send(&receiver.address, &[]).ok();
    assert!(receiver.succeeded());
}

#[test]
fn who_has_the_secret_gets_in_without_keys() {
    let (here, there) = two();
    let secret = "0123456789abcdef0123456789abcdef\n";
    let (ours, theirs) = (here.write("psk", secret), there.write("psk", secret));
    let other = here.write("other", "another secret of at least 32 bytes\n");
    let receiver = there.receive(&["--psk-file", &theirs, "--once"]);
    here.send(&receiver.address, &["--psk-file", &other]).refused(&["--psk-file", "same file"]);
    here.send(&receiver.address, &[]).refused(&["does not admit", "--psk-file"]);
    let sent = here.send(&receiver.address, &["--psk-file", &ours]).ok();
    assert!(sent.err.contains("pre-shared key"), "{sent:?}");
    assert!(receiver.succeeded());
}

#[test]
fn a_code_pairs_two_strangers_once() {
    let (here, there) = two();
    let receiver = there.receive(&["--code", "--once"]);
    let code = receiver.code();
    let command = receiver.line_with("dfcp send");
    assert!(command.ends_with(&format!("{} --code -", receiver.address)), "{command}");
    Site::new().send(&receiver.address, &[]).refused(&["pairing code", "--code", "SHA256:"]);
    Site::new().send(&receiver.address, &["--code", wrong(&code)]).refused(&["same pairing code"]);
    assert_eq!(there.received(), None);
    here.send(&receiver.address, &["--code", &code.to_uppercase().replace('-', " ")]).ok();
    assert_eq!(there.received().as_deref(), Some("small"));
    let known = fs::read_to_string(here.config().join("known_hosts")).unwrap();
    assert!(known.contains(&there.id("public_key")), "{known}");
    assert!(receiver.succeeded(), "wrong guesses end nothing");
}

#[test]
fn a_code_is_void_after_three_wrong_guesses_and_replaced() {
    let (here, there) = two();
    let receiver = there.receive(&["--code"]);
    let code = receiver.code();
    for _ in 0..3 {
        here.send(&receiver.address, &["--code", wrong(&code)]).refused(&["same pairing code"]);
    }
    let next = receiver.code();
    here.send(&receiver.address, &["--code", &code]).refused(&["same pairing code"]);
    here.send(&receiver.address, &["--code", &next]).ok();
    assert_ne!(receiver.code(), next);
}

#[test]
fn a_sender_that_is_remembered_needs_a_code_only_once() {
    let (here, there) = two();
    let receiver = there.receive(&["--code", "--remember", "--force"]);
    let list = || fs::read_to_string(there.config().join("authorized_keys")).unwrap_or_default();
    here.send(&receiver.address, &[]).refused(&["pairing code"]);
    assert_eq!(list(), "");
    here.send(&receiver.address, &["--code", &receiver.code()]).ok();
    let next = receiver.code();
    receiver.line_with("needs no code next time");
    here.send(&receiver.address, &[]).ok();
    here.send(&receiver.address, &["--code", &next]).ok();
    assert!(list().starts_with(&here.id("public_key")) && list().lines().count() == 1, "{}", list());
    Site::new().send(&receiver.address, &[]).refused(&["pairing code"]);
    drop(receiver);
    let later = there.receive(&["--force"]);
    here.send(&later.address, &[]).ok();
}

#[cfg(unix)]
#[test]
fn a_list_of_keys_which_changes_counts_at_once_and_an_unsafe_one_admits_nobody() {
    use std::os::unix::fs::PermissionsExt;
    let (here, there) = two();
    let path = there.write("list", &format!("{}\n", there.id("public_key")));
    let receiver = there.receive(&["--authorized-keys", &path, "--force"]);
    here.send(&receiver.address, &[]).refused(&["does not admit"]);
    there.write("list", &format!("{}\n", here.id("public_key")));
    here.send(&receiver.address, &[]).ok();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    here.send(&receiver.address, &[]).refused(&["does not admit"]);
    assert!(receiver.line_with("nobody is admitted by key: ").contains("chmod go-w"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    here.send(&receiver.address, &[]).ok();
    there.write("list", "# withdrawn\n");
    here.send(&receiver.address, &[]).refused(&["does not admit"]);
}

#[test]
fn an_authorized_key_needs_no_code_and_a_code_where_none_is_made_is_said() {
    let (here, there) = two();
    let list = there.write("list", &here.id("public_key"));
    let receiver = there.receive(&["--code", "--authorized-keys", &list]);
    here.send(&receiver.address, &[]).ok();
    let open = Site::new();
    let receiver = open.receive(&["--allow-any"]);
    here.send(&receiver.address, &["--code", "7-acorn-acorn"]).refused(&["no pairing code is in use there"]);
}

#[test]
fn a_code_comes_from_standard_input_too() {
    let (here, there) = two();
    let receiver = there.receive(&["--code", "--once"]);
    let typed = here.write("typed", &format!("{}\n", receiver.code()));
    let file = here.write("small.txt", "small");
    let mut command = here.command(&["send", &file, &receiver.address, "--code", "-"]);
    assert!(command.stdin(fs::File::open(typed).unwrap()).output().unwrap().status.success());
    assert!(receiver.succeeded());
}

#[test]
fn encrypted_and_plaintext_do_not_mix() {
    let (here, there) = two();
    let sealed = there.receive(&["--allow-any"]);
    here.send(&sealed.address, &["--insecure-plaintext"]).refused(&["--insecure-plaintext", "refused"]);
    here.send(&sealed.address, &["--insecure-classic"]).refused(&["--insecure-classic", "refused"]);
    drop(sealed);
    let unsealed = there.receive(&["--insecure-plaintext", "--once"]);
    here.send(&unsealed.address, &[]).refused(&["refused the encrypted connection", "--insecure-plaintext"]);
    let sent = here.send(&unsealed.address, &["--insecure-plaintext"]).ok();
    assert!(sent.err.contains("warning: neither encrypted nor authenticated"), "{sent:?}");
    assert!(unsealed.succeeded());
}

#[test]
fn without_a_way_in_nothing_listens() {
    let there = Site::new();
    let output = there.path("output");
    let listen = ["--listen", "127.0.0.1:0"];
    let receive = [&["receive", "--output", output.to_str().unwrap()], &listen[..]].concat();
    let perf = [&["perf", "server"], &listen[..]].concat();
    for arguments in [&receive, &perf] {
        let said = there.run(arguments);
        said.refused(&["--code", "--authorized-keys", "--psk-file", "--allow-any"]);
        assert_eq!(said.err.lines().count(), 1, "{said:?}");
    }
    assert!(!output.exists(), "nothing is made");
}

#[test]
fn the_cipher_can_be_chosen_and_both_sides_say_it() {
    let (here, there) = two();
    let receiver = there.receive(&["--allow-any", "--once"]);
    let sent = here.send(&receiver.address, &["--cipher", "chacha20-poly1305"]).ok();
    assert!(sent.err.contains("encrypted with ChaCha20-Poly1305, peer SHA256:"), "{sent:?}");
    let admitted = receiver.line_with("admitted (any)");
    assert!(admitted.contains("ChaCha20-Poly1305") && admitted.contains(&here.id("fingerprint")), "{admitted}");
}

#[test]
fn measuring_needs_the_same_admission() {
    let (here, there) = two();
    let server = there.start(&["perf", "server", "--listen", "127.0.0.1:0", "--code", "--once"]);
    let code = server.code();
    assert!(server.line_with("dfcp perf client").ends_with(&format!("{} --code -", server.address)));
    let client =
        |more: &[&str]| here.run(&[&["perf", "client", &server.address, "--bytes", "100000", "--json"], more].concat());
    client(&["--accept-new-key"]).refused(&["pairing code"]);
    let measured = client(&["--code", &code]).ok();
    let summary: serde_json::Value = serde_json::from_str(&measured.out).unwrap();
    assert_eq!((summary["bytes"].as_u64(), summary["pattern"].as_str()), (Some(100_000), Some("XX")));
    assert!(summary["peer_key"] == there.id("fingerprint"));
    assert!(server.succeeded());
}

#[cfg(unix)]
#[test]
fn a_listener_tells_its_figures_on_a_signal() {
    let (here, there) = two();
    let receiver = there.receive(&["--allow-any"]);
    receiver.signal("-USR1");
    assert!(receiver.line_with("stats: ").contains("connections 0, half open 0"));
    here.send(&receiver.address, &["--insecure-plaintext"]).refused(&["refused"]);
    here.send(&receiver.address, &[]).ok();
    receiver.signal("-USR1");
    let last = receiver.line_with("stats: ");
    assert!(last.contains("cookies sent") && !last.contains("refused 0"), "{last}");
}
