//! Tests of `--metrics` and `--log-json` with the real program over plain sockets.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use serde_json::{Value, json};
use support::{PATIENCE, Site, own_loopback};

/// Samples at `address`, keyed by name and labels, as `curl http://ADDRESS/metrics` fetches them.
fn scrape(address: &str) -> BTreeMap<String, f64> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nAccept: */*\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, page) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    check_format(page);
    let samples = page.lines().filter(|line| !line.starts_with('#'));
    samples
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
        .collect()
}

/// Checks that every sample follows its family's help and type, and that only counters end in `_total`.
fn check_format(page: &str) {
    let (mut helped, mut family) = (String::new(), String::new());
    for line in page.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            helped = help.split_once(' ').unwrap().0.to_owned();
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert_eq!((name, kind == "counter"), (helped.as_str(), name.ends_with("_total")), "{line}");
            family = name.to_owned();
        } else {
            let name = line.split(['{', ' ']).next().unwrap();
            assert_eq!(name, family, "{line}");
            assert!(name.starts_with("dfcp_"), "{line}");
        }
    }
}

fn events(site: &Site, log: &str) -> Vec<Value> {
    let text = fs::read_to_string(site.path(log)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_receiver_counts_and_writes_down_what_its_senders_do() {
    let site = Site::new();
    let (log, metrics) = (site.path("audit.jsonl"), own_loopback(29_001));
    let more = ["--allow-any", "--metrics", &metrics, "--log-json", log.to_str().unwrap()];
    let receiver = site.receive(&more);
    let before = scrape(&metrics);
    site.send(&receiver.address, &[]).ok();
    site.send(&receiver.address, &[]).ok();
    // The page is cached briefly.
    let unchanged = "dfcp_entries_total{kind=\"file\",outcome=\"unchanged\"}";
    let pages = std::iter::repeat_with(|| scrape(&metrics));
    let began = Instant::now();
    let after = pages.take_while(|_| began.elapsed() < PATIENCE).find(|page| page[unchanged] == 1.0).unwrap();
    assert!(before.keys().eq(after.keys()), "no new time series");
    let entries = |outcome| after[&format!("dfcp_entries_total{{kind=\"file\",outcome=\"{outcome}\"}}")];
    assert_eq!((entries("stored"), entries("unchanged"), after["dfcp_stored_bytes_total"]), (1.0, 1.0, 5.0));
    assert_eq!(after["dfcp_peers_admitted_total{by=\"any\"}"], 2.0);
    assert_eq!(after["dfcp_connections_established_total"], 2.0);
    assert!(after["dfcp_received_bytes_total"] > 0.0 && after["dfcp_datagrams_sent_total"] > 0.0);
    assert!(after["dfcp_data_datagrams_received_total{use=\"useful\"}"] > 0.0);
    assert_eq!(before["dfcp_received_bytes_total"], 0.0);
    // The receiver logs the end of a session after the sender has exited.
    #[cfg(unix)]
    receiver.signal("-TERM");
    receiver.succeeded();
    let all = events(&site, "audit.jsonl");
    assert_eq!((&all[0]["event"], &all.last().unwrap()["event"]), (&json!("listening"), &json!("stopped")));
    // Sessions may overlap slightly, so select events by number.
    let of = |number| all.iter().filter(move |event| event["session"] == number).cloned();
    let events: Vec<_> = of(1).chain(of(2)).collect();
    assert_eq!(events.len() + 2, all.len());
    let told: Vec<_> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(told, ["session_start", "file", "session_end"].repeat(2));
    let key = site.id("fingerprint");
    for event in &events {
        assert!(event["peer"].as_str().unwrap().starts_with("127."), "{event}");
        assert_eq!((event["peer_key"].as_str(), event["by"].as_str()), (Some(key.as_str()), Some("any")), "{event}");
        assert!(event["time"].as_str().unwrap().ends_with('Z'), "{event}");
    }
    let hash = blake3::hash(b"small").to_hex().to_string();
    assert_eq!((events[1]["name"].as_str(), events[1]["bytes"].as_u64()), (Some("small.txt"), Some(5)));
    assert_eq!((events[1]["blake3"].as_str(), events[1]["outcome"].as_str()), (Some(hash.as_str()), Some("stored")));
    assert_eq!(events[4]["outcome"], "unchanged");
    assert_eq!((events[2]["outcome"].as_str(), events[2]["stored"].as_u64()), (Some("complete"), Some(1)));
}

#[test]
fn who_is_turned_away_is_written_down_too() {
    let site = Site::new();
    let log = site.path("audit.jsonl");
    let receiver = site.receive(&["--code", "--log-json", log.to_str().unwrap()]);
    site.send(&receiver.address, &[]).refused(&[]);
    receiver.line_with("turned away");
    #[cfg(unix)]
    receiver.signal("-TERM");
    receiver.succeeded();
    let events = events(&site, "audit.jsonl");
    assert_eq!((events[1]["event"].as_str(), events[1]["cause"].as_str()), (Some("turned_away"), Some("unknown_key")));
    assert_eq!(events[1]["peer_key"], site.id("fingerprint"));
}

#[test]
fn a_log_that_senders_could_change_or_nobody_can_write_ends_the_receiver_at_once() {
    let site = Site::new();
    let output = site.path("output");
    let start = |log: &str| {
        let listen = ["receive", "--listen", "127.0.0.1:0", "--allow-any", "--output", output.to_str().unwrap()];
        site.run(&[&listen[..], &["--log-json", log]].concat())
    };
    start(output.join("audit.jsonl").to_str().unwrap()).refused(&["choose another --output"]);
    start(site.path("none/audit.jsonl").to_str().unwrap()).refused(&["audit log", "choose another --log-json"]);
    #[cfg(target_os = "linux")]
    start("/dev/full").refused(&["audit log /dev/full", "No space left", "choose another --log-json"]);
}

#[test]
fn every_server_has_metrics() {
    let site = Site::new();
    let any = ["--allow-any", "--listen", "127.0.0.1:0"];
    let listen = ["--listen", "127.0.0.1:0"];
    for (port, expected, line) in [
        (29_011, "dfcp_sessions", [&["perf", "server"], &any[..]].concat()),
        (29_012, "dfcp_connections", [&["pipe", "serve", "--out", "127.0.0.1:9"], &any[..]].concat()),
        (29_013, "dfcp_estimate_clients", [&["estimate", "server"], &listen[..]].concat()),
        (29_014, "dfcp_relay_clients", [&["relay", "--to", "127.0.0.1:9"], &listen[..]].concat()),
    ] {
        let metrics = own_loopback(port);
        let running = site.start(&[&line[..], &["--metrics", &metrics]].concat());
        // A script waiting for this line may query the metrics at once.
        assert!(running.before.contains(&format!("metrics at http://{metrics}/")), "{}", running.before);
        let page = scrape(&metrics);
        assert_eq!(page[expected], 0.0, "{line:?}");
        let taken = site.run(&[&line[..], &["--metrics", &metrics]].concat());
        taken.refused(&["--metrics", "choose another port"]);
    }
}
