//! Tests: transfers that are killed and restarted, and incremental updates of trees.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{PATIENCE, Running, Said, Site};

/// Size of the interrupted file: 1.3 s at 50 Mbit/s.
const LEN: usize = 8 << 20;

const SECRET: &str = "0123456789abcdef0123456789abcdef\n";

fn content() -> Vec<u8> {
    (0..LEN as u32 / 4).flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes()).collect()
}

fn receiver(site: &Site, more: &[&str]) -> Running {
    site.receive(&[&["--allow-any"], more].concat())
}

fn sender(site: &Site, files: &[&str], to: &str, more: &[&str]) -> std::process::Command {
    let mut command = site.command(&[&["send", "--accept-new-key", "--json"], files, &[to], more].concat());
    command.current_dir(site.path(""));
    command
}

fn send(site: &Site, files: &[&str], to: &str, more: &[&str]) -> Said {
    Said::of(sender(site, files, to, more).output().unwrap())
}

fn lines(said: &Said) -> Vec<Value> {
    said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn done(said: &Said) -> Value {
    lines(said).pop().unwrap()
}

/// Unfinished file in the output directory.
fn unfinished(site: &Site) -> Option<PathBuf> {
    let names = fs::read_dir(site.path("output")).ok()?.map(|entry| entry.unwrap().path());
    names.filter(|path| path.is_file() && path.extension().is_some_and(|extension| extension == "part")).max()
}

fn unfinished_bytes(site: &Site) -> u64 {
    unfinished(site).and_then(|path| path.metadata().ok()).map_or(0, |metadata| metadata.len())
}

/// Running sender, with a part of its file at the receiver.
fn half_way(site: &Site, address: &str) -> Child {
    until_half_way(site, &mut sender(site, &["large"], address, &["--rate", "50mbit"]))
}

fn until_half_way(site: &Site, command: &mut std::process::Command) -> Child {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until_half_way(site, &mut child);
    child
}

fn wait_until_half_way(site: &Site, child: &mut Child) {
    let started = Instant::now();
    while unfinished_bytes(site) < LEN as u64 / 2 {
        assert!(started.elapsed() < PATIENCE && child.try_wait().unwrap().is_none(), "nothing comes");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Asserts that the whole file arrived, and that of the `before` bytes already there at most two leaves of 64 KiB were sent again.
#[track_caller]
fn assert_went_on(site: &Site, before: u64, said: &Said) {
    let resumed_bytes = done(said)["resumed_bytes"].as_u64().unwrap();
    assert!(resumed_bytes + 2 * 65_536 > before, "{resumed_bytes} of {before}");
    assert!(fs::read(site.path("output/large")).unwrap() == content());
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_sender_that_was_killed_goes_on_at_once_where_it_was() {
    let site = Site::new();
    fs::write(site.path("large"), content()).unwrap();
    let receiver = receiver(&site, &[]);
    kill(half_way(&site, &receiver.address));
    // The receiver has not noticed the loss yet.
    let before = unfinished_bytes(&site);
    let said = send(&site, &["large"], &receiver.address, &[]).ok();
    assert_went_on(&site, before, &said);
    assert_eq!(fs::read_dir(site.path("output")).unwrap().count(), 1, "nothing else is left");
}

/// The sender has moved to another network.
#[test]
fn a_sender_at_another_address_goes_on_where_it_was() {
    if std::net::UdpSocket::bind("[::1]:0").is_err() {
        println!("this machine has no IPv6, so there is only one address");
        return;
    }
    let site = Site::new();
    fs::write(site.path("large"), content()).unwrap();
    let receiver = site.receive_at("[::]:0", &["--allow-any"]);
    let port = receiver.address.rsplit(':').next().unwrap();
    kill(half_way(&site, &format!("127.0.0.1:{port}")));
    let before = unfinished_bytes(&site);
    let said = send(&site, &["large"], &format!("[::1]:{port}"), &[]).ok();
    assert_went_on(&site, before, &said);
}

/// All holders of the secret count as one sender; others do not.
#[test]
fn a_sender_with_a_pre_shared_key_goes_on_where_it_was() {
    let site = Site::new();
    fs::write(site.path("large"), content()).unwrap();
    let secret = site.write("psk", SECRET);
    let by_secret = ["--psk-file", &secret];
    let receiver = site.receive(&by_secret);
    let mut command = site.command(&["send", "large", &receiver.address, "--rate", "50mbit", "--psk-file", &secret]);
    kill(until_half_way(&site, command.current_dir(site.path(""))));
    let before = unfinished_bytes(&site);
    let mut command = site.command(&["send", "--json", "large", &receiver.address, "--psk-file", &secret]);
    let said = Said::of(command.current_dir(site.path("")).output().unwrap()).ok();
    assert_went_on(&site, before, &said);
}

/// The sender learns of the restart from a reset: after an idle timeout, its message would differ.
#[test]
fn a_sender_hears_from_a_receiver_that_was_started_again_that_its_session_is_gone() {
    let site = Site::new();
    fs::write(site.path("large"), content()).unwrap();
    let killed = receiver(&site, &[]);
    let address = killed.address.clone();
    let mut command = sender(&site, &["large"], &address, &["--rate", "50mbit", "--retry", "0"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until_half_way(&site, &mut child);
    drop(killed);
    let _again = site.receive_at(&address, &["--allow-any"]);
    let said = Said::of(child.wait_with_output().unwrap());
    assert!(said.err.contains("no longer knows this session"), "{}", said.err);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let key = site.path("config").join("reset_key");
        assert_eq!(key.metadata().unwrap().permissions().mode() & 0o7777, 0o600);
    }
}

#[test]
fn a_receiver_that_was_killed_goes_on_with_what_it_has_written_down() {
    let site = Site::new();
    fs::write(site.path("large"), content()).unwrap();
    let killed = receiver(&site, &[]);
    let broken = half_way(&site, &killed.address);
    let list = |more: &[&str]| {
        let output = site.path("output");
        let arguments = [&["receive", "--partials", "--output", output.to_str().unwrap()], more].concat();
        Said::of(site.command(&arguments).output().unwrap()).ok()
    };
    // A slow disk may delay durability.
    let started = Instant::now();
    while list(&["--json"]).out.is_empty() {
        assert!(started.elapsed() < PATIENCE, "nothing is written down");
    }
    drop(killed);
    kill(broken);
    let listed: Value = serde_json::from_str(list(&["--json"]).out.trim()).unwrap();
    assert_eq!((&listed["name"], &listed["total_bytes"]), (&"large".into(), &LEN.into()), "{listed}");
    assert!(list(&[]).err.contains("large  "), "people see it too");

    let again = receiver(&site, &["--once"]);
    let said = send(&site, &["large"], &again.address, &[]).ok();
    assert_eq!(done(&said)["resumed_bytes"], listed["bytes"]);
    assert!(again.succeeded());
    assert!(fs::read(site.path("output/large")).unwrap() == content());
    assert!(list(&[]).err.contains("no unfinished files"));
}

/// A sender with another key counts as another sender.
#[test]
fn what_one_sender_left_another_one_does_not_go_on_with() {
    let site = Site::new();
    fs::write(site.path("large"), content()).unwrap();
    let receiver = receiver(&site, &[]);
    kill(half_way(&site, &receiver.address));
    let other = tempfile::tempdir().unwrap();
    let mut command = sender(&site, &["large"], &receiver.address, &[]);
    let said = Said::of(command.env("DFCP_CONFIG_DIR", other.path()).output().unwrap()).ok();
    assert_eq!(done(&said)["resumed_bytes"], 0);
    assert!(fs::read(site.path("output/large")).unwrap() == content());
    assert!(unfinished_bytes(&site) > 0, "that of the first one stays");
}

fn tree(site: &Site, root: &str) -> Vec<String> {
    let root = site.path(root);
    let mut names: Vec<_> = walk(&root).into_iter().map(|path| path.strip_prefix(&root).unwrap().to_owned()).collect();
    names.sort();
    names.iter().map(|name| name.to_string_lossy().into_owned()).collect()
}

fn walk(directory: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() && !path.is_symlink() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn of_a_changed_file_only_what_has_changed_travels() {
    let site = Site::new();
    let mut content = content();
    fs::write(site.path("large"), &content).unwrap();
    let receiver = receiver(&site, &["--force"]);
    send(&site, &["large"], &receiver.address, &[]).ok();
    content[3_000_000] ^= 1;
    content.splice(5_000_000..5_000_000, *b"inserted");
    fs::write(site.path("large"), &content).unwrap();
    let said = send(&site, &["large"], &receiver.address, &["--delta"]).ok();
    assert!(fs::read(site.path("output/large")).unwrap() == content);
    let done = done(&said);
    let travelled = done["path"]["bytes_acknowledged"].as_u64().unwrap();
    assert!(travelled < LEN as u64 / 8, "{travelled}");
    assert_eq!(done["copied"], 1);
    let copied_bytes = done["copied_bytes"].as_u64().unwrap();
    assert!(copied_bytes > LEN as u64 * 7 / 8 && copied_bytes < LEN as u64, "{copied_bytes}");
}

#[test]
fn what_is_excluded_stays_behind() {
    let site = Site::new();
    for name in ["t/a.rs", "t/a.o", "t/build/x", "t/deep/build", "t/deep/b.o", "t/keep"] {
        site.write(name, name);
    }
    let receiver = receiver(&site, &["--once"]);
    let said = send(&site, &["t"], &receiver.address, &["--exclude", "*.o", "--exclude", "build/"]).ok();
    assert_eq!(done(&said)["skipped"], 3);
    assert_eq!(tree(&site, "output/t"), ["a.rs", "deep/build", "keep"]);
    send(&site, &["t"], "127.0.0.1:9", &["--exclude", "[a"]).refused(&["--exclude", "give another pattern"]);
}

#[test]
fn a_dry_run_tells_and_changes_nothing() {
    let site = Site::new();
    for name in ["t/a", "t/b", "t/d/c"] {
        site.write(name, name);
    }
    let log = site.path("audit.jsonl");
    let receiver = receiver(&site, &["--allow-delete", "--force", "--log-json", log.to_str().unwrap()]);
    let dry = |more: &[&str]| send(&site, &["t"], &receiver.address, &[&["--dry-run"], more].concat()).ok();
    // The output directory is empty.
    let said = done(&dry(&[]));
    assert_eq!((&said["would_send"], &said["would_send_bytes"], &said["bytes"]), (&3.into(), &11.into(), &0.into()));
    assert_eq!(tree(&site, "output"), Vec::<String>::new());
    send(&site, &["t"], &receiver.address, &[]).ok();
    // The tree now has a changed, a new and a removed file.
    site.write("t/b", "changed");
    site.write("t/new", "new");
    fs::remove_file(site.path("t/d/c")).unwrap();
    let before = tree(&site, "output");
    let said = dry(&["--delete"]);
    let names = |what: &str| -> Vec<String> {
        let lines = lines(&said);
        let mut names: Vec<_> = lines.iter().filter(|line| line[what] == true && line["event"] == "file").collect();
        names.sort_by_key(|line| line["name"].as_str().unwrap().to_owned());
        names.into_iter().map(|line| line["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(
        (names("would_send"), names("unchanged"), names("deleted")),
        (vec!["t/b".to_owned(), "t/new".to_owned()], vec!["t/a".to_owned()], vec!["t/d/c".to_owned()],)
    );
    assert_eq!(tree(&site, "output"), before);
    assert_eq!(fs::read_to_string(site.path("output/t/b")).unwrap(), "t/b");
    let deletions = || fs::read_to_string(&log).unwrap().matches("\"outcome\":\"deleted\"").count();
    assert_eq!(deletions(), 0, "what only would be deleted is not written down");
    send(&site, &["t"], &receiver.address, &["--delete"]).ok();
    assert_eq!(deletions(), 1);
}

#[test]
fn what_the_sender_does_not_have_is_deleted_where_both_sides_say_so() {
    let site = Site::new();
    for name in ["t/a", "t/d/b", "t/skip.o", "outside"] {
        site.write(name, name);
    }
    for name in ["t/old", "t/gone/deep/x", "t/d/old", "t/skip.o", "outside", "u/stays"] {
        site.write(&format!("output/{name}"), name);
    }
    // Deletion removes links without following them, and spares partial files.
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("kept"), "kept").unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), site.path("output/t/link")).unwrap();
    site.write("output/t/.dfcp-0123456789abcdef.part", "under way");

    let careful = receiver(&site, &[]);
    let refused = send(&site, &["t"], &careful.address, &["--delete"]);
    refused.refused(&["--allow-delete"]);
    assert!(site.path("output/t/old").exists() && !site.path("output/t/a").exists(), "nothing was done");
    drop(careful);

    let receiver = receiver(&site, &["--once", "--allow-delete"]);
    let said = send(&site, &["t"], &receiver.address, &["--delete", "--exclude", "*.o"]).ok();
    assert_eq!((&done(&said)["deleted"], &done(&said)["failed"]), (&6.into(), &0.into()), "{said:?}");
    assert!(receiver.succeeded());
    assert_eq!(
        tree(&site, "output"),
        ["outside", "t/.dfcp-0123456789abcdef.part", "t/a", "t/d/b", "t/skip.o", "u/stays"]
    );
    assert!(elsewhere.path().join("kept").exists());
}
