//! Tests of the real program's recordings: trace and key log.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use support::{Running, Said, Site};

/// Runs a command with the path `keys`, if given, in `DFCP_KEYLOG`.
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

/// Records of a trace.
fn records(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.split('\u{1e}').skip(1).map(|record| serde_json::from_str(record).unwrap()).collect()
}

/// Records with this name, of one connection.
fn named<'a>(records: &'a [Value], group: &'a Value, name: &'a str) -> impl Iterator<Item = &'a Value> {
    records.iter().filter(move |it| it["group_id"] == *group && it["name"] == name).map(|it| &it["data"])
}

#[test]
fn both_sides_trace_the_same_connections() {
    let site = Site::new();
    let [mine, theirs] = ["mine.sqlog", "theirs.sqlog"].map(|name| site.path(name));
    let receiver = receiver(&site, None, &["--qlog", theirs.to_str().unwrap()]);
    for (name, content) in [("small.txt", "small"), ("other.txt", "other")] {
        let file = site.write(name, &content.repeat(10_000));
        run(&site, None, &["send", &file, &receiver.address, "--accept-new-key", "--qlog", mine.to_str().unwrap()])
            .ok();
    }
    #[cfg(unix)]
    receiver.signal("-TERM");
    receiver.succeeded();
    let (mine, theirs) = (records(&mine), records(&theirs));
    let roles = [&mine, &theirs].map(|records| records[0]["trace"]["vantage_point"]["type"].clone());
    assert_eq!(roles, ["client", "server"]);
    // The second transfer replaced the first one's trace.
    let group = &mine[1]["group_id"];
    assert!(mine[1..].iter().all(|record| record["group_id"] == *group));
    let of_server: std::collections::BTreeSet<_> = theirs[1..].iter().map(|it| it["group_id"].to_string()).collect();
    assert!(of_server.len() == 2 && of_server.contains(&group.to_string()), "{of_server:?} and {group}");
    for records in [&mine, &theirs] {
        let times: Vec<_> = records[1..].iter().map(|record| record["time"].as_f64().unwrap()).collect();
        assert!(times.is_sorted());
        assert_eq!(named(records, group, "dfcp:connection_started").count(), 1);
        assert_eq!(named(records, group, "dfcp:keys_agreed").count(), 1);
        assert!(named(records, group, "dfcp:state_changed").any(|data| data["new"] == "ESTABLISHED"));
        assert!(
            named(records, group, "recovery:metrics_updated").any(|data| data["smoothed_rtt"].as_f64() > Some(0.0))
        );
    }
    // Loopback loses nothing: each sent datagram is received with an equal header.
    let sent: Vec<_> = named(&mine, group, "dfcp:datagram_sent").filter(|data| data["kind"] == "data").collect();
    let received: Vec<_> =
        named(&theirs, group, "dfcp:datagram_received").filter(|data| data["kind"] == "data").collect();
    assert!(received.len() > 30 && received.iter().all(|data| sent.contains(data)), "{}", received.len());
}

#[cfg(unix)]
#[test]
fn a_disk_that_fills_up_ends_the_trace_with_one_line_and_not_the_transfer() {
    let site = Site::new();
    let receiver = receiver(&site, None, &[]);
    let file = site.write("small.txt", &"small".repeat(100_000));
    let trace = site.path("trace.sqlog");
    // Beyond this number of blocks, writes fail as on a full disk.
    let limited = "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\"";
    let arguments = ["send", &file, &receiver.address, "--accept-new-key", "--qlog", trace.to_str().unwrap()];
    let mut command = std::process::Command::new("sh");
    command.args(["-c", limited, env!("CARGO_BIN_EXE_dfcp")]).args(arguments);
    let said = Said::of(command.env("DFCP_CONFIG_DIR", site.config()).output().unwrap()).ok();
    let lines: Vec<_> = said.err.lines().filter(|line| line.contains("trace")).collect();
    assert_eq!(lines.len(), 1, "{said:?}");
    assert!(lines[0].starts_with("error: the trace ") && lines[0].contains("make room"), "{said:?}");
    assert_eq!(site.received().unwrap().len(), 500_000);
    assert!(fs::read(&trace).unwrap().len() <= 8 * 1024);
}

#[test]
fn a_trace_that_cannot_be_written_ends_the_command_before_it_connects() {
    let site = Site::new();
    let file = site.write("small.txt", "small");
    let send = |trace: &str| run(&site, None, &["send", &file, "127.0.0.1:9", "--accept-new-key", "--qlog", trace]);
    send(&file).refused(&["no trace", "choose another --qlog"]);
    send(site.path("none/x.sqlog").to_str().unwrap()).refused(&["choose another --qlog"]);
    #[cfg(target_os = "linux")]
    send("/dev/full").refused(&["/dev/full", "No space left", "choose another --qlog"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "small");
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
    let json: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((&json["datagrams"]["opened"], &json["connections"]), (&53.into(), &1.into()));
    run(&site, None, &["decrypt", &path("encrypted.pcapng"), "--keys", &path("README")]).refused(&["check the path"]);
    let other = site.write("keys", &fs::read_to_string(&keys).unwrap().replace(" 1 ", " 3 "));
    run(&site, None, &["decrypt", &path("encrypted.pcapng"), "--keys", &other]).refused(&["nothing was opened"]);
}
