//! Tests of the public interface: nothing is overwritten, deleted or followed without permission.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::permission::Permission;
use crate::receiver::Receiver;
use crate::sender::Sender;
use crate::transfer::Transfer;
use crate::transport::memory::Memory;
use crate::{Event, Target};

/// A tree at the sender, and existing files at the receiver.
struct Sides {
    here: tempfile::TempDir,
    there: tempfile::TempDir,
}

impl Sides {
    fn new() -> Self {
        let it = Self { here: tempfile::tempdir().unwrap(), there: tempfile::tempdir().unwrap() };
        for (side, names) in [(&it.here, ["t/new", "t/a", "t/b"]), (&it.there, ["t/old", "t/a", "t/b"])] {
            fs::create_dir(side.path().join("t")).unwrap();
            for name in names {
                fs::write(side.path().join(name), format!("{name} of {}", side.path().display())).unwrap();
            }
        }
        it
    }

    /// Sends the tree. Returns the sender's report and events.
    fn send(&self, sender: &Sender, options: StoreOptions) -> (Report, Vec<Event>) {
        let (near, far) = deletion::known();
        run(async {
            let (events, received) = tokio::join!(heard(sender.send(near, self.roots())), self.receive(far, options));
            received.unwrap();
            events
        })
    }

    fn roots(&self) -> Vec<Root> {
        Root::from_paths([self.here.path().join("t")]).unwrap()
    }

    async fn receive(&self, far: Memory, options: StoreOptions) -> Result<Report, TransferError> {
        Receiver::new(Arc::new(Store::open(self.there.path(), options).unwrap())).receive(far).finish().await
    }

    /// Returns true if the receiver's file of this name is unchanged.
    fn is_untouched(&self, name: &str) -> bool {
        fs::read_to_string(self.there.path().join(name)).is_ok_and(|content| content.ends_with(&self.there()))
    }

    fn there(&self) -> String {
        self.there.path().display().to_string()
    }
}

async fn heard(mut transfer: Transfer) -> (Report, Vec<Event>) {
    let mut events = Vec::new();
    while let Some(event) = transfer.next().await {
        events.push(event);
    }
    (transfer.finish().await.unwrap(), events)
}

#[test]
fn without_options_nothing_is_overwritten_or_deleted() {
    let sides = Sides::new();
    let (report, events) = sides.send(&Sender::new(), StoreOptions::default());
    assert_eq!((report.stored, report.failed), (2, 2), "the directory and what is new");
    assert!(["t/a", "t/b", "t/old"].iter().all(|name| sides.is_untouched(name)));
    let failed: BTreeSet<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Entry(entry) if entry.failure.is_some() => Some(entry.name.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(failed, BTreeSet::from(["t/a", "t/b"]));
    assert!(events.iter().any(|event| matches!(event, Event::Progress(_))), "{events:?}");
}

#[test]
fn a_question_is_asked_about_each_conflict_and_no_other_name() {
    let sides = Sides::new();
    let asked = Arc::new(Mutex::new(BTreeSet::new()));
    let noted = Arc::clone(&asked);
    let replace = Permission::ask(move |name| {
        noted.lock().unwrap().insert(name.to_owned());
        name.ends_with("a")
    });
    let (report, _) = sides.send(&Sender::new(), StoreOptions { replace, ..StoreOptions::default() });
    assert_eq!((report.stored, report.failed), (3, 1));
    assert!(!sides.is_untouched("t/a") && sides.is_untouched("t/b") && sides.is_untouched("t/old"));
    assert_eq!(*asked.lock().unwrap(), BTreeSet::from(["t/a", "t/b"].map(PathBuf::from)));
}

#[test]
fn a_question_is_asked_about_each_deletion() {
    let sides = Sides::new();
    fs::create_dir(sides.there.path().join("t/gone")).unwrap();
    fs::write(sides.there.path().join("t/gone/file"), b"").unwrap();
    let allow_delete = Permission::ask(|name| name.starts_with("t/gone"));
    let options = StoreOptions { allow_delete, replace: true.into(), ..StoreOptions::default() };
    let (report, _) = sides.send(&Sender::new().delete(true), options);
    assert_eq!((report.deleted, report.failed), (2, 1), "{report:?}");
    assert!(sides.is_untouched("t/old") && !sides.there.path().join("t/gone").exists());
}

#[cfg(unix)]
#[test]
fn a_link_is_followed_where_that_is_permitted_and_not_round_in_circles() {
    use std::os::unix::fs::symlink;
    let sides = Sides::new();
    let outside = tempfile::tempdir().unwrap();
    fs::create_dir(outside.path().join("inner")).unwrap();
    fs::write(outside.path().join("inner/deep"), b"deep").unwrap();
    fs::write(outside.path().join("file"), b"content").unwrap();
    let at = |name: &str| sides.here.path().join("t").join(name);
    symlink(outside.path().join("file"), at("to-file")).unwrap();
    symlink(outside.path(), at("to-directory")).unwrap();
    symlink(sides.here.path(), at("loop")).unwrap();
    symlink("..", outside.path().join("inner/up")).unwrap();
    symlink(outside.path().join("file"), at("unasked")).unwrap();
    let skipped = |events: &[Event]| {
        let of = |event: &Event| match event {
            Event::Skipped { what, .. } => Some(*what),
            _ => None,
        };
        events.iter().filter_map(of).collect::<Vec<_>>()
    };
    let (_, events) = sides.send(&Sender::new(), StoreOptions::default());
    assert_eq!(skipped(&events), [Skipped::Link; 4]);
    assert!(!sides.there.path().join("t/to-file").exists());

    let follow = Permission::ask(|link| !link.ends_with("unasked"));
    let (_, events) = sides.send(&Sender::new().follow(follow), StoreOptions::default());
    let there = sides.there.path().join("t");
    assert_eq!(fs::read(there.join("to-file")).unwrap(), b"content");
    assert_eq!(fs::read(there.join("to-directory/inner/deep")).unwrap(), b"deep");
    // Two loops are skipped: the root appears again behind `loop`, and the directory of `to-directory` behind `up`.
    assert_eq!(skipped(&events).iter().filter(|what| **what == Skipped::Loop).count(), 2, "{events:?}");
    assert!(skipped(&events).contains(&Skipped::Link) && !there.join("unasked").exists());
    assert!(matches!(Root::from_paths([at("to-directory")]), Err(RootError::Link(_))));
}

#[test]
fn either_side_can_cancel_and_another_session_goes_on() {
    for sender_cancels in [true, false] {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let root = sample(here.path());
        let options = StoreOptions { keep_unfinished: true, ..StoreOptions::default() };
        let store = Arc::new(Store::open(there.path(), options).unwrap());
        let (receiver, sender) = (Receiver::new(store), Sender::new());
        let (near, far) = deletion::known();
        let (sending, receiving) = (sender.send(near, roots(std::slice::from_ref(&root))), receiver.receive(far));
        if sender_cancels { sending.canceller() } else { receiving.canceller() }.cancel();
        let (sent, received) = run(async { tokio::join!(sending.finish(), receiving.finish()) });
        let (sent, received) = (sent.unwrap_err(), received.unwrap_err());
        if sender_cancels {
            assert!(matches!(sent, TransferError::Cancelled), "{sent}");
        } else {
            assert!(matches!(received, TransferError::Stopped) && sent.may_be_resumed(), "{received} {sent}");
        }
        let (near, far) = deletion::known();
        let (sent, _) =
            run(async { tokio::join!(sender.send(near, roots(&[root])).finish(), receiver.receive(far).finish()) });
        assert!(sent.unwrap().is_complete());
    }
}

#[test]
fn an_observer_hears_before_the_events_and_without_them() {
    struct Counter(AtomicU32);
    impl Observer for Counter {
        fn entry(&self, _outcome: &EntryOutcome) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        fn skipped(&self, _name: &str, _what: Skipped) {}
        fn progress(&self, _snapshot: &Snapshot) {}
    }
    let here = tempfile::tempdir().unwrap();
    fs::write(here.path().join("one"), b"1").unwrap();
    let counter = Arc::new(Counter(AtomicU32::new(0)));
    let sender = Sender::new().observer(Arc::clone(&counter) as _);
    let (near, far) = duplex(1000);
    let sending = sender.send(near, roots(&[here.path().join("one")])).finish();
    let receiving = heard(Receiver::new(Target::stream(std::io::sink(), None)).receive(far));
    let (sent, (received, events)) = run(async { tokio::join!(sending, receiving) });
    assert_eq!((sent.unwrap().stored, received.stored, counter.0.load(Ordering::Relaxed)), (1, 1, 1));
    assert!(events.iter().any(|event| matches!(event, Event::Entry(entry) if entry.name == "one")));
}
