use std::fs;
use std::io::{self, Write};
use std::sync::Condvar;

use dfcp::{ConnectionError, State, Stats};
use serde_json::Value;

use super::*;
use crate::limits::QLOG_BYTES_MAX;
use crate::testing::Full;

/// In-memory file.
#[derive(Clone, Debug, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Memory {
    /// Returns the records of the file, each of which must be complete.
    fn records(&self) -> Vec<Value> {
        records(&self.0.lock().unwrap())
    }
}

fn records(bytes: &[u8]) -> Vec<Value> {
    assert!(bytes.ends_with(b"\n"));
    let mut parts = bytes.split(|&byte| byte == RECORD_SEPARATOR);
    assert_eq!(parts.next(), Some(&b""[..]), "the file begins with a record");
    parts.map(|text| serde_json::from_slice(text).unwrap()).collect()
}

fn trace(out: impl Write + Send + 'static) -> Trace {
    Trace::over(Writer::begin(out, Side::Client, SystemTime::now()).unwrap(), "trace".to_owned()).unwrap()
}

fn connection(trace: &Trace, group: &str, began_ms: u64) -> Connection {
    Connection {
        group: group.into(),
        profile: Profile::Modern,
        began: Duration::from_millis(began_ms),
        sender: trace.sender.clone(),
        shared: Arc::clone(&trace.shared),
    }
}

const CHANGED: Observed<'_> = Observed::StateChanged { from: State::SynSent, to: State::Established };

#[test]
fn the_header_is_what_qlog_and_qvis_ask_for_and_records_are_in_order() {
    let memory = Memory::default();
    let trace = trace(memory.clone());
    let (mut first, mut second) = (connection(&trace, "a", 5), connection(&trace, "b", 0));
    first.on_event(Duration::from_micros(1), &CHANGED);
    second.on_event(Duration::from_millis(2), &CHANGED);
    second.on_event(Duration::from_millis(9), &Observed::Closed { error: None, stats: &Stats::default() });
    drop(trace);
    let records = memory.records();
    let header = &records[0];
    assert_eq!(header["file_schema"], "urn:ietf:params:qlog:file:sequential");
    assert_eq!(header["serialization_format"], "application/qlog+json-seq");
    assert_eq!((&header["qlog_version"], &header["qlog_format"]), (&"0.3".into(), &"JSON-SEQ".into()));
    assert_eq!(header["trace"]["vantage_point"]["type"], "client");
    assert!(header["trace"]["event_schemas"].as_array().is_some_and(|schemas| !schemas.is_empty()));
    let reference = &header["trace"]["common_fields"]["reference_time"];
    assert_eq!((&reference["clock_type"], &reference["epoch"]), (&"monotonic".into(), &"unknown".into()));
    let events: Vec<_> =
        records[1..].iter().map(|it| (it["time"].as_f64().unwrap(), it["group_id"].as_str().unwrap())).collect();
    assert_eq!(events, [(5.001, "a"), (5.001, "b"), (9.0, "b")], "time does not go back");
    assert_eq!(records[1]["name"], "dfcp:state_changed");
    assert_eq!(records[1]["data"], serde_json::json!({ "old": "SYN_SENT", "new": "ESTABLISHED" }));
    assert_eq!((&records[3]["name"], &records[3]["data"]["error"]), (&"dfcp:connection_closed".into(), &Value::Null));
}

#[test]
fn what_peers_or_errors_say_cannot_begin_or_end_a_record() {
    let memory = Memory::default();
    let trace = trace(memory.clone());
    let mut connection = connection(&trace, "\u{1e}\n\u{1b}[2J", 0);
    let error = ConnectionError::EndedByPeer { error: 7 };
    connection.on_event(Duration::ZERO, &Observed::Closed { error: Some(&error), stats: &Stats::default() });
    connection.send(Duration::ZERO, Event::Closed { error: Some("\u{1e}{}\n".to_owned()), stats: Box::default() });
    drop(trace);
    assert_eq!(memory.records().len(), 3);
    let bytes = memory.0.lock().unwrap();
    assert!(bytes.iter().all(|&byte| byte >= b' ' || byte == b'\n' || byte == RECORD_SEPARATOR));
}

#[test]
fn a_full_disk_ends_the_trace_and_nothing_else() {
    assert!(Writer::begin(Full(10), Side::Client, SystemTime::now()).is_err(), "that is known before it connects");
    let trace = trace(Full(20_000));
    let mut connection = connection(&trace, "a", 0);
    // Wait until the writer has noticed.
    while !trace.shared.is_closed.load(Ordering::Relaxed) {
        connection.on_event(Duration::ZERO, &CHANGED);
    }
    connection.on_event(Duration::ZERO, &CHANGED);
    assert!(matches!(trace.done.lock().unwrap().recv(), Ok(())));
}

/// Writer that blocks until released, like a stuck disk.
#[derive(Clone)]
struct Stuck(Arc<(Mutex<bool>, Condvar)>, Memory);

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (may_go_on, changed) = &*self.0;
        drop(changed.wait_while(may_go_on.lock().unwrap(), |may_go_on| !*may_go_on).unwrap());
        self.1.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_disk_that_does_not_answer_holds_no_connection_up_and_what_is_missing_is_told() {
    let (gate, memory) = (Arc::new((Mutex::new(true), Condvar::new())), Memory::default());
    let trace = trace(Stuck(Arc::clone(&gate), memory.clone()));
    let let_go_on = |may: bool| {
        *gate.0.lock().unwrap() = may;
        gate.1.notify_all();
    };
    let_go_on(false);
    let mut connection = connection(&trace, "a", 0);
    let told = 3 * QLOG_QUEUE_MAX;
    for _ in 0..told {
        connection.on_event(Duration::ZERO, &CHANGED);
    }
    let lost = trace.shared.lost.load(Ordering::Relaxed);
    assert!(lost > 0);
    let_go_on(true);
    drop(trace);
    let records = memory.records();
    let count = |name: &str| records.iter().filter(|record| record["name"] == name).count();
    let missing: u64 = records.iter().filter_map(|record| record["data"]["count"].as_u64()).sum();
    assert!(count("dfcp:events_lost") >= 1);
    assert_eq!(count("dfcp:state_changed") as u64 + missing, told as u64);
}

#[test]
fn a_trace_has_a_longest_length_and_says_so() {
    let memory = Memory::default();
    let mut writer = Writer::begin(memory.clone(), Side::Server, SystemTime::now()).unwrap();
    writer.pretend(QLOG_BYTES_MAX - 1);
    let trace = Trace::over(writer, "trace".to_owned()).unwrap();
    let mut connection = connection(&trace, "a", 0);
    while !trace.shared.is_closed.load(Ordering::Relaxed) {
        connection.on_event(Duration::ZERO, &CHANGED);
    }
    drop(trace);
    let records = memory.records();
    assert_eq!((records.len(), &records[2]["name"]), (3, &"dfcp:trace_cut".into()));
}

#[tokio::test]
async fn a_trace_tells_of_so_many_connections_and_says_so() {
    let memory = Memory::default();
    let trace = trace(memory.clone());
    let endpoint = dfcp::Endpoint::bind(([127, 0, 0, 1], 0).into(), None).unwrap();
    let config = dfcp::Config::danger_unsealed().with_observer(Some(trace.observer()));
    for _ in 0..QLOG_CONNECTIONS_MAX + 2 {
        // A connection that starts and is dropped.
        tokio::select! {
            biased;
            outcome = endpoint.connect(endpoint.local_addr(), config.clone()) => panic!("{outcome:?}"),
            () = std::future::ready(()) => {}
        }
        tokio::task::yield_now().await;
    }
    drop(trace);
    let records = memory.records();
    let count = |name: &str| records.iter().filter(|record| record["name"] == name).count() as u64;
    assert_eq!(count("dfcp:connection_started"), QLOG_CONNECTIONS_MAX);
    assert_eq!(count("dfcp:connections_cut"), 1);
}

#[cfg(unix)]
#[test]
fn what_others_can_use_or_have_put_there_is_not_written_to() {
    private_file::tests::refuses_what_others_can_use("\u{1e}{}\n", |path| {
        Trace::begin(path, Side::Client).err().map(|error| format!("{error:#}"))
    });
}

#[test]
fn only_traces_are_replaced_and_pipes_are_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let told = |path: &Path| format!("{:#}", Trace::begin(path, Side::Client).unwrap_err());
    fs::write(path("film.mkv"), "precious").unwrap();
    assert!(told(&path("film.mkv")).contains("no trace"), "{}", told(&path("film.mkv")));
    assert_eq!(fs::read_to_string(path("film.mkv")).unwrap(), "precious");
    assert!(told(&path("none\u{1b}/x")).contains(r"none\u{1b}"), "{}", told(&path("none\u{1b}/x")));
    for _ in 0..2 {
        drop(Trace::begin(&path("x.sqlog"), Side::Server).unwrap());
        assert_eq!(records(&fs::read(path("x.sqlog")).unwrap()).len(), 1);
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(path("x.sqlog")).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(std::process::Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
        assert!(told(&path("pipe")).contains("neither a file"), "{}", told(&path("pipe")));
    }
    #[cfg(target_os = "linux")]
    assert!(told(Path::new("/dev/full")).contains("No space left"), "{}", told(Path::new("/dev/full")));
}
