//! What the real program records of its connections, if it is told to: a key log.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use std::fs;
use std::path::{Path, PathBuf};

use support::{Running, Said, Site};

/// Runs a command with this file in `DFCP_KEYLOG`.
fn run(site: &Site, keys: Option<&Path>, arguments: &[&str]) -> Said {
    let mut command = site.command(arguments);
    command.env_remove("DFCP_KEYLOG");
    if let Some(keys) = keys {
        command.env("DFCP_KEYLOG", keys);
    }
    Said::of(command.output().unwrap())
}

fn receiver(site: &Site, keys: Option<&Path>, more: &[&str]) -> Running {
    let output = site.path("output");
    let listen = ["receive", "--listen", "127.0.0.1:0", "--allow-any", "--output", output.to_str().unwrap()];
    let mut command = site.command(&[&listen[..], more].concat());
    if let Some(keys) = keys {
        command.env("DFCP_KEYLOG", keys);
    }
    Running::start(command)
}

#[test]
fn both_sides_write_the_same_line_and_only_if_flag_and_variable_ask_for_it() {
    let site = Site::new();
    let [mine, theirs, unused] = ["mine", "theirs", "unused"].map(|name| site.path(name));
    let receiver = receiver(&site, Some(&theirs), &["--key-log"]);
    let file = site.write("small.txt", "small");
    let send = ["send", &file, &receiver.address, "--accept-new-key"];
    let said = run(&site, Some(&unused), &send).ok();
    assert!(!unused.exists() && !said.err.contains("keys of every connection"), "{said:?}");
    let said = run(&site, Some(&mine), &[&send[..], &["--key-log"]].concat()).ok();
    assert!(said.err.contains("warning: the keys of every connection are written to"), "{said:?}");
    run(&site, None, &[&send[..], &["--key-log"]].concat()).refused(&["DFCP_KEYLOG", "set it"]);
    let read = |path: &PathBuf| fs::read_to_string(path).unwrap();
    let (of_sender, of_receiver) = (read(&mine), read(&theirs));
    assert_eq!((of_sender.lines().count(), of_receiver.lines().count()), (1, 2));
    assert!(of_receiver.ends_with(&of_sender) && of_sender.starts_with("DFCP2_TRAFFIC_SECRETS "));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&mine).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn what_is_not_encrypted_has_no_keys() {
    let site = Site::new();
    for flag in ["--insecure-plaintext", "--insecure-classic"] {
        let said = run(&site, Some(&site.path("keys")), &["send", "x", "127.0.0.1:9", flag, "--key-log"]);
        assert!(said.code == Some(2) && said.err.contains("--key-log"), "{said:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_key_log_that_others_could_read_or_redirect_ends_the_command_before_it_connects() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let site = Site::new();
    let file = site.write("small.txt", "small");
    let send = ["send", &file, "127.0.0.1:9", "--accept-new-key", "--key-log"];
    let open = PathBuf::from(site.write("open", ""));
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    run(&site, Some(&open), &send).refused(&["mode 0644", "chmod 600"]);
    let link = site.path("link");
    symlink(site.path("target"), &link).unwrap();
    run(&site, Some(&link), &send).refused(&["symbolic link"]);
    assert!(!site.path("target").exists());
    let inside = site.path("output/keys");
    let output = site.path("output");
    let receive =
        ["receive", "--listen", "127.0.0.1:0", "--allow-any", "--output", output.to_str().unwrap(), "--key-log"];
    run(&site, Some(&inside), &receive).refused(&["choose another --output"]);
}

#[test]
fn decrypt_opens_a_recorded_capture() {
    let site = Site::new();
    let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/wireshark/captures");
    let path = |name: &str| captures.join(name).to_str().unwrap().to_owned();
    let (out, keys) = (site.path("out.pcapng"), path("encrypted.keys"));
    let decrypt = ["decrypt", &path("encrypted.pcapng"), "--keys", &keys, "--output", out.to_str().unwrap()];
    let said = run(&site, None, &decrypt).ok();
    assert!(said.out.starts_with("opened 53 of 53 encrypted datagrams, 4 never encrypted"), "{said:?}");
    assert!(fs::read(&out).unwrap() == fs::read(path("decrypted.pcapng")).unwrap());
    let said = run(&site, None, &[&decrypt[..], &["--json"]].concat()).ok();
    let json: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((&json["datagrams"]["opened"], &json["connections"]), (&53.into(), &1.into()));
    run(&site, None, &["decrypt", &path("encrypted.pcapng"), "--keys", &path("README")]).refused(&["check the path"]);
    let other = site.write("keys", &fs::read_to_string(&keys).unwrap().replace(" 1 ", " 3 "));
    run(&site, None, &["decrypt", &path("encrypted.pcapng"), "--keys", &other]).refused(&["nothing was opened"]);
}
