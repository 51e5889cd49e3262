//! Tests: lines that must not be lost, and lines that must not be forged.

use std::fs::OpenOptions;
use std::net::IpAddr;
use std::sync::Arc;

use super::*;

/// Writer that fails like a full disk after a fixed number of bytes.
#[derive(Clone, Default)]
pub(crate) struct Disk(Arc<Mutex<(Vec<u8>, usize)>>);

impl Disk {
    pub(crate) fn with_room(bytes: usize) -> Self {
        Self(Arc::new(Mutex::new((Vec::new(), bytes))))
    }

    pub(crate) fn log(&self) -> AuditLog {
        AuditLog::over(Box::new(self.clone()), "the log".to_owned(), false)
    }

    pub(crate) fn set_room(&self, bytes: usize) {
        self.0.lock().unwrap().1 = bytes;
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().0.clone()).unwrap()
    }

    /// Returns the written lines without their times; `None` for a truncated line.
    pub(crate) fn lines(&self) -> Vec<Option<Value>> {
        let parse = |line: &str| {
            let mut value: Value = serde_json::from_str(line).ok()?;
            value.as_object_mut()?.remove("time")?;
            Some(value)
        };
        self.text().lines().map(parse).collect()
    }
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (held, room) = &mut *self.0.lock().unwrap();
        let count = bytes.len().min(*room);
        if count == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        *room -= count;
        held.extend(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn no_name_ends_a_line_or_begins_another() {
    let disk = Disk::with_room(1 << 20);
    let evil = "a\"}\n{\"event\":\"admitted\",\"peer\":\"root\"}\r\u{0}\u{1b}[2J\u{7f}\u{85}\u{2028}\\";
    assert!(disk.log().record(json!({ "event": "file", "name": evil })));
    let text = disk.text();
    assert_eq!(text.matches('\n').count(), 2, "the line, and the last one: {text:?}");
    assert!(!text.bytes().any(|byte| byte < b' ' && byte != b'\n'), "{text:?}");
    assert_eq!(disk.lines()[0].as_ref().unwrap()["name"], evil);
}

#[test]
fn a_full_disk_loses_nothing_silently_and_lets_nobody_in_until_there_is_room() {
    let disk = Disk::with_room(200);
    let log = disk.log();
    assert!(log.permits(json!({ "event": "one" })) && log.is_writable());
    disk.set_room(7);
    assert!(!log.record(json!({ "event": "two" })));
    assert!(!log.is_writable());
    assert!(!log.permits(json!({ "event": "three" })));
    assert!(!log.record(json!({ "event": "four" })));
    disk.set_room(1000);
    assert!(log.permits(json!({ "event": "five" })) && log.is_writable());
    drop(log);
    let lines = disk.lines();
    let event = |event: &str| Some(json!({ "event": event }));
    let lost = Some(json!({ "event": "lines_lost", "count": 2 }));
    assert_eq!(lines, [event("one"), None, lost, event("five"), event("stopped")], "{}", disk.text());
}

#[tokio::test(start_paused = true)]
async fn strangers_do_not_fill_the_disk() {
    let disk = Disk::with_room(10 << 20);
    let log = disk.log();
    let stranger = || log.record_stranger(json!({ "event": "turned_away" }), None);
    (0..10_000).for_each(|_| stranger());
    assert_eq!(disk.lines().len(), STRANGERS_LOGGED_MAX as usize);
    tokio::time::advance(STRANGERS_LOGGED_SPAN).await;
    stranger();
    let lines = disk.lines();
    let omitted = 10_000 - u64::from(STRANGERS_LOGGED_MAX);
    assert_eq!(lines[lines.len() - 2], Some(json!({ "event": "turned_away_unlogged", "count": omitted })));
    assert_eq!(lines.last().unwrap(), &Some(json!({ "event": "turned_away" })));
}

#[tokio::test(start_paused = true)]
async fn nobody_hides_what_others_try_behind_attempts_from_one_address() {
    let disk = Disk::with_room(10 << 20);
    let log = disk.log();
    let stranger = |host: u8| {
        log.record_stranger(
            json!({ "event": "turned_away", "host": host }),
            Some(IpAddr::from([192, 0, 2, host]).into()),
        );
    };
    let lines = |host: u8| disk.lines().iter().flatten().filter(|line| line["host"] == host).count();
    (0..10_000).for_each(|_| stranger(66));
    (0..5).for_each(|_| stranger(7));
    assert_eq!((lines(66), lines(7)), (STRANGER_LOGGED_MAX as usize, 5));
    (0..=255).for_each(&stranger);
    assert_eq!(disk.lines().len(), STRANGERS_LOGGED_MAX as usize);
    tokio::time::advance(STRANGERS_LOGGED_SPAN).await;
    stranger(66);
    assert_eq!(lines(66), STRANGER_LOGGED_MAX as usize + 1);
}

#[test]
fn a_file_is_appended_to_and_a_line_that_was_cut_off_ends_before_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    drop(AuditLog::open(&path, json!({ "event": "listening" })).unwrap());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"{\"event\":\"fi").unwrap();
    drop(AuditLog::open(&path, json!({ "event": "again" })).unwrap());
    let text = std::fs::read_to_string(&path).unwrap();
    let events: Vec<_> = text
        .lines()
        .map(|line| serde_json::from_str(line).map_or(Value::Null, |value: Value| value["event"].clone()))
        .collect();
    assert_eq!(events, [json!("listening"), json!("stopped"), Value::Null, json!("again"), json!("stopped")]);
}

#[cfg(unix)]
#[test]
fn what_others_can_use_or_have_put_there_is_not_written_to() {
    private_file::tests::refuses_what_others_can_use("{}\n", |path| {
        AuditLog::open(path, json!({ "event": "listening" })).err().map(|error| format!("{error:#}"))
    });
}

#[cfg(target_os = "linux")]
#[test]
fn what_cannot_be_written_is_an_error_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    for path in [Path::new("/dev/full"), folder.path(), &folder.path().join("none/log"), &pipe] {
        let error = AuditLog::open(path, json!({})).unwrap_err();
        assert!(error.to_string().contains("choose another --log-json"), "{error}");
    }
}
