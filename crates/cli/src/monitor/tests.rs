//! Tests: peer names that try to inject lines, labels or lists.

use super::*;
use crate::admission::tests::key;
use crate::audit::tests::Disk;

const EVIL: &str = "x\"}\n{\"event\":\"session_start\"}\r\u{0}\u{1b}[2J\u{7f}\u{2028}\u{202e}";

fn page(monitor: &Monitor) -> String {
    let mut text = Text::default();
    monitor.write(&mut text);
    text.finish()
}

fn file(name: &str, failure: Option<&str>) -> EntryOutcome {
    EntryOutcome {
        name: name.to_owned(),
        bytes: if failure.is_some() { 0 } else { 5 },
        hash: failure.is_none().then(|| blake3::hash(b"small")),
        failure: failure.map(str::to_owned),
        ..EntryOutcome::default()
    }
}

#[test]
fn each_line_says_who_what_how_much_and_what_came_of_it() {
    let disk = Disk::with_room(1 << 20);
    let monitor = Monitor::new(Service::Files, Some(disk.log()));
    let session = monitor.begin("192.0.2.7:4433".to_owned(), Some(key(1)), Some(By::Key)).unwrap();
    session.entry(&file("a/small", None));
    session.entry(&file(EVIL, Some(EVIL)));
    session.entry(&EntryOutcome { is_deleted: true, bytes: 0, hash: None, ..file("old", None) });
    session.end(Outcome::Incomplete, json!({ "stored": 1 }));
    session.end(Outcome::Complete, Value::Null);
    drop(session);
    drop(monitor.begin(EVIL.to_owned(), None, None));
    monitor.turned_away(EVIL, Some(key(2)), Cause::UnknownKey, EVIL);
    monitor.turned_away("192.0.2.9:1", None, Cause::Silent, "");
    let lines: Vec<Value> = disk.lines().into_iter().map(Option::unwrap).collect();
    let events: Vec<_> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(
        events,
        ["session_start", "file", "file", "file", "session_end", "session_start", "session_end", "turned_away"],
        "a session ends once, and silence is counted only"
    );
    let fingerprint = key(1).fingerprint().to_string();
    for line in &lines[..5] {
        assert_eq!(
            (&line["session"], &line["peer"], &line["by"]),
            (&json!(1), &json!("192.0.2.7:4433"), &json!("authorized key"))
        );
        assert_eq!(line["peer_key"], fingerprint);
    }
    let hash = blake3::hash(b"small").to_hex().to_string();
    assert_eq!(
        (&lines[1]["name"], &lines[1]["bytes"], &lines[1]["blake3"]),
        (&json!("a/small"), &json!(5), &json!(hash))
    );
    assert_eq!((&lines[3]["name"], &lines[3]["outcome"]), (&json!("old"), &json!("deleted")));
    assert_eq!((&lines[1]["outcome"], &lines[2]["outcome"]), (&json!("stored"), &json!("failed")));
    assert_eq!((&lines[4]["outcome"], &lines[4]["stored"]), (&json!("incomplete"), &json!(1)));
    assert_eq!((&lines[6]["outcome"], &lines[6]["by"]), (&json!("interrupted"), &json!("not encrypted")));
    for text in [&lines[2]["name"], &lines[2]["message"], &lines[5]["peer"], &lines[7]["peer"], &lines[7]["message"]] {
        assert_eq!(text, &json!(printable(EVIL)), "fit for a terminal");
    }
}

/// Peers cannot add time series.
#[test]
fn nothing_of_a_peer_is_in_the_metrics() {
    let monitor = Monitor::new(Service::Files, None);
    let before = page(&monitor);
    for i in 0..100_u8 {
        let session = monitor.begin(format!("{EVIL}{i}"), Some(key(i)), Some(By::Any)).unwrap();
        session.entry(&file(&format!("{EVIL}{i}"), None));
        monitor.turned_away(&format!("{EVIL}{i}"), Some(key(i)), Cause::UnknownKey, EVIL);
    }
    let after = page(&monitor);
    assert_eq!(before.lines().count(), after.lines().count());
    let names = |page: &str| page.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(names(&before), names(&after));
    for expected in [
        "dfcp_sessions 0",
        "dfcp_peers_admitted_total{by=\"any\"} 100",
        "dfcp_peers_refused_total{cause=\"unknown_key\"} 100",
        "dfcp_sessions_ended_total{outcome=\"interrupted\"} 100",
        "dfcp_entries_total{kind=\"file\",outcome=\"stored\"} 100",
        "dfcp_stored_bytes_total 500",
    ] {
        assert!(after.lines().any(|line| line == expected), "{expected} in {after}");
    }
}

#[test]
fn a_session_whose_line_is_lost_knows_it_although_the_next_one_is_written() {
    let disk = Disk::with_room(1 << 20);
    let monitor = Monitor::new(Service::Files, Some(disk.log()));
    let begin = || monitor.begin("it".to_owned(), None, Some(By::Any));
    let session = begin().unwrap();
    disk.set_room(0);
    session.entry(&file("lost", None));
    assert!(begin().is_none(), "nobody is let in");
    assert!(page(&monitor).contains("dfcp_audit_log_writable 0\n"));
    disk.set_room(1 << 20);
    let next = begin().unwrap();
    next.entry(&file("kept", None));
    assert!(next.is_recorded() && !session.is_recorded());
    assert!(page(&monitor).contains("dfcp_audit_log_writable 1\n"));
    assert!(page(&monitor).contains("dfcp_peers_refused_total{cause=\"audit_log\"} 1\n"));
}
