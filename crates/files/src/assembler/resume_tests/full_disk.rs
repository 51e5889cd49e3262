//! Tests with disks that are full or lose written data.

use dfcp_powercut::{Disk, PowerCut, missing};

use super::*;
use crate::limits::CHECKPOINT_INTERVAL;

/// Returns a test file system with a controllable disk. `None` if it cannot be mounted here.
fn disk() -> Option<(PowerCut, tempfile::TempDir)> {
    if let Some(reason) = missing() {
        std::io::Write::write_all(&mut std::io::stderr(), format!("skipped: {reason}\n").as_bytes()).unwrap();
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    Some((PowerCut::mount(directory.path(), Disk::new()).unwrap(), directory))
}

fn flushing() -> StoreOptions {
    StoreOptions { sync: true, ..keeping() }
}

/// Returns the offset of the partial file that is offered to a later session, bytes.
fn left(output: &Path) -> Option<u64> {
    let greeting = Session::open(output, &alice(), flushing()).greeted();
    match &greeting[..] {
        [_, ToSender::Partial(Partial { offset, .. })] => Some(*offset),
        _ => None,
    }
}

fn failure(answers: Vec<ToSender>) -> Failure {
    match &answers[..] {
        [ToSender::Verdict { outcome: Err(failure), .. }] => failure.clone(),
        _ => panic!("{answers:?}"),
    }
}

/// One case is a disk that becomes full before the first journal record, which takes space too.
#[test]
fn a_file_that_finds_the_disk_full_goes_on_when_there_is_room() {
    const FREE: usize = 500_000;
    let Some((mount, _directory)) = disk() else { return };
    for is_written_down in [true, false] {
        let mut session = Session::open(mount.path(), &alice(), flushing());
        session.greeted();
        session.say(&ToReceiver::File(entry())).unwrap();
        session.data(&content(1)[..LEFT]);
        if is_written_down {
            session.assembler.checkpoint(Instant::now() + CHECKPOINT_INTERVAL);
        }
        mount.set_free_bytes(FREE as u64);
        session.data(&content(1)[LEFT..LEFT + 400_000]);
        let failure =
            failure(session.say(&ToReceiver::Data(content(1)[LEFT + 400_000..][..200_000].to_vec())).unwrap());
        assert_eq!(failure.code, FailureCode::DiskFull);
        session.say(&ToReceiver::FileAbort("it is not taken".to_owned())).unwrap();
        drop(session);

        mount.set_free_bytes(1 << 30);
        let offset = left(mount.path()).expect("nothing was kept");
        assert!(offset + 2 * LEAF_BYTES >= (LEFT + 400_000) as u64, "{offset}");
        let mut session = Session::open(mount.path(), &alice(), flushing());
        session.greeted();
        session.say(&ToReceiver::Resume { offset, entry: entry() }).unwrap();
        session.data(&content(1)[offset as usize..]);
        assert_eq!(session.compare(&content(1), offset), Vec::<u64>::new(), "what was kept is whole");
        assert_eq!(session.end(&content(1)), Ok(Confirmed::Stored));
        assert_eq!(fs::read(mount.path().join("f")).unwrap(), content(1));
        fs::remove_file(mount.path().join("f")).unwrap();
    }
}

/// With `keep_unfinished` off, no partial file is kept.
#[test]
fn a_full_disk_keeps_nothing_of_a_sender_that_is_not_known_again() {
    let Some((mount, _directory)) = disk() else { return };
    let mut session = Session::open(mount.path(), &alice(), StoreOptions { keep_unfinished: false, ..flushing() });
    session.say(&ToReceiver::File(entry())).unwrap();
    mount.set_free_bytes(100_000);
    assert_eq!(failure(session.say(&ToReceiver::Data(vec![1; 200_000])).unwrap()).code, FailureCode::DiskFull);
    assert_eq!(fs::read_dir(mount.path()).unwrap().count(), 0);
}

/// A file above the session's limit can never be stored, unlike a file on a full disk.
#[test]
fn a_file_that_is_too_long_for_its_session_is_not_kept() {
    let output = tempfile::tempdir().unwrap();
    let options = StoreOptions { session_bytes_max: Some(300_000), ..keeping() };
    let mut session = Session::open(output.path(), &alice(), options);
    session.say(&ToReceiver::File(Entry { size_hint_bytes: 0, ..entry() })).unwrap();
    session.data(&[1; 200_000]);
    assert_eq!(failure(session.say(&ToReceiver::Data(vec![1; 200_000])).unwrap()).code, FailureCode::DiskFull);
    assert_eq!(fs::read_dir(output.path()).unwrap().count(), 0);
}
