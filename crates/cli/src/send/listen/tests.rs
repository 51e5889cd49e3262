//! Tests: attacks on a listening sender by in-memory callers, both strangers and admitted peers.

use std::fs;
use std::time::Duration;

use dfcp_files::reading::{read_frame, read_preamble};
use dfcp_files::{Receiver, Store, StoreOptions};
use dfcp_framing::files::{Hello, ToSender};
use indicatif::MultiProgress;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinHandle;

use super::*;
use crate::admission::codes::News;
use crate::admission::tests::{admission_to, codes, other, ways};
use crate::audit::tests::Disk;
use crate::identity::AuthorizedList;
use crate::limits::{PAIRING_GUESSES_MAX, PAIRING_WRONG_MAX, UNADMITTED_MAX};
use crate::serving::tests::{Street, last_code, settle};

/// Name and content of the secret file.
const SECRET: &str = "of-nobody-else";

/// Limit on the bytes that a stranger may learn: a preamble and a refusal.
const TOLD_MAX_BYTES: usize = 8 + 5 + 1 + 1024;

type Outcome = JoinHandle<anyhow::Result<()>>;
type Told = Arc<std::sync::Mutex<Vec<News>>>;

/// Listening sender that admits the key of seed 1, and other peers as `ways` permit.
struct Listening {
    street: Street,
    sender: Outcome,
    told: Told,
    disk: Disk,
    folder: tempfile::TempDir,
}

fn listening(ways: Ways) -> Listening {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(SECRET);
    fs::write(&path, SECRET).unwrap();
    let roots = Root::from_arguments(&[path], None).unwrap();
    let (admission, told) = admission_to(SERVICE, ways);
    let (street, door) = Street::new();
    let disk = Disk::with_room(1 << 20);
    let monitor = Monitor::new(SERVICE, Some(disk.log()));
    let sender = tokio::spawn(async move {
        let serving = Serving { service: SERVICE, peers_max: 1, once: true, returns_max: Duration::ZERO, json: true };
        let told = (true, Stop::never());
        run_over((door, serving), (Some(admission), Pairs::of_sender()), roots, SendOptions::default(), &monitor, told)
            .await
    });
    Listening { street, sender, told, disk, folder }
}

/// Returns all bytes that a caller reads until the sender closes.
async fn all_heard(mut caller: DuplexStream) -> Vec<u8> {
    let mut heard = Vec::new();
    // A reset counts as an end too.
    let _ = caller.read_to_end(&mut heard).await;
    heard
}

#[track_caller]
fn assert_says_nothing(heard: &[u8]) {
    assert!(!heard.windows(SECRET.len()).any(|part| part == SECRET.as_bytes()), "{}", heard.escape_ascii());
    assert!(heard.len() <= TOLD_MAX_BYTES, "{}", heard.escape_ascii());
}

async fn refusal(mut caller: DuplexStream) -> Failure {
    read_preamble(&mut caller, SERVICE).await.unwrap();
    let mut body = Vec::new();
    let kind = read_frame(&mut caller, &mut body).await.unwrap().unwrap();
    let ToSender::Refused(failure) = ToSender::decode(kind, &body).unwrap() else { panic!("not refused") };
    failure
}

/// Checks that the receiver with the key of seed 1 gets the file.
async fn is_served(it: Listening) {
    let friend = it.street.connect(9, 1);
    let output = it.folder.path().join("output");
    let store = Arc::new(Store::open(&output, StoreOptions::default()).unwrap());
    let shown = Arc::new(crate::progress::Display::new(&MultiProgress::new(), "it", true, false));
    let receiver = Receiver::new(store).from_called().observer(shown);
    let received = receiver.receive(friend).finish().await.unwrap();
    assert_eq!((received.stored, received.failed), (1, 0));
    assert_eq!(fs::read_to_string(output.join(SECRET)).unwrap(), SECRET);
    it.sender.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_is_not_admitted_gets_no_byte_of_a_file_and_no_name() {
    let it = listening(Ways { codes: true, ..ways() });
    let mut hello = SERVICE.preamble().to_vec();
    ToSender::Hello(Hello::default()).encode(&mut hello);
    let says: [&[u8]; 6] = [
        &hello,
        &Service::Files.preamble(),
        &Service::Perf.preamble(),
        b"GET / HTTP/1.1\r\n\r\n",
        b"DFCPK\x01\x02\x00a confirmation before any element",
        b"",
    ];
    for (host, said) in (0..).zip(says) {
        // The caller's key is not authorized.
        let mut stranger = it.street.connect(host, 2);
        stranger.write_all(said).await.unwrap();
        assert_says_nothing(&all_heard(stranger).await);
    }
    let mut mute = it.street.connect(10, 2);
    mute.shutdown().await.unwrap();
    assert_says_nothing(&all_heard(mute).await);
    let (guesser, paired) = it.street.try_code(&other(&last_code(&it.told))).await;
    assert!(!paired);
    assert_says_nothing(&all_heard(guesser).await);
    is_served(it).await;
}

#[tokio::test(start_paused = true)]
async fn wrong_codes_count_and_make_the_code_void() {
    let it = listening(Ways { codes: true, authorized: Arc::new(AuthorizedList::default()), ..ways() });
    let first = last_code(&it.told);
    for _ in 0..PAIRING_GUESSES_MAX {
        let (guesser, paired) = it.street.try_code(&other(&first)).await;
        assert!(!paired);
        assert_says_nothing(&all_heard(guesser).await);
    }
    assert_eq!(codes(&it.told).len(), 2, "the first code is void");
    assert!(!it.street.try_code(&first).await.1);
    while it.told.lock().unwrap().last() != Some(&News::Closed) {
        it.street.try_code(&other(&last_code(&it.told))).await;
    }
    assert!(codes(&it.told).len() <= 1 + PAIRING_WRONG_MAX as usize / PAIRING_GUESSES_MAX as usize + 1);
    let error = it.sender.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("too many wrong codes"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn strangers_who_take_all_places_or_say_nothing_keep_nobody_from_being_served() {
    let it = listening(ways());
    let mut held: Vec<_> = (0..UNADMITTED_MAX).map(|_| it.street.connect(1, 2)).collect();
    settle().await;
    // Every second caller sends half of a preamble.
    for caller in held.iter_mut().step_by(2) {
        let _ = caller.write_all(b"DFC").await;
    }
    settle().await;
    is_served(it).await;
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_is_admitted_and_sends_too_hears_what_is_wrong_and_no_name() {
    for paired in [false, true] {
        let it = listening(Ways { codes: true, ..ways() });
        let mut caller =
            if paired { it.street.try_code(&last_code(&it.told)).await.0 } else { it.street.connect(1, 1) };
        caller.write_all(&Service::Files.preamble()).await.unwrap();
        let failure = refusal(caller).await;
        assert_eq!(failure.code, FailureCode::Unsuited);
        assert!(failure.sentence.contains("dfcp receive") && !failure.sentence.contains(SECRET), "{failure}");
        let ended = timeout(Duration::from_secs(10), it.sender).await.unwrap();
        assert!(ended.unwrap().unwrap_err().to_string().contains("not everything was sent"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_is_paired_and_then_silent_ends_the_program_in_time() {
    let it = listening(Ways { codes: true, ..ways() });
    let (caller, paired) = it.street.try_code(&last_code(&it.told)).await;
    assert!(paired);
    let ended = timeout(OPENING_MAX * 2, it.sender).await.unwrap();
    assert!(ended.unwrap().is_err());
    assert_says_nothing(&all_heard(caller).await);
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_to_whom_is_written_down() {
    let it = listening(ways());
    let disk = it.disk.clone();
    is_served(it).await;
    let lines: Vec<_> = disk.lines().into_iter().map(Option::unwrap).collect();
    let events: Vec<_> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["session_start", "file", "session_end", "stopped"]);
    assert_eq!((&lines[0]["service"], &lines[0]["by"]), (&json!("send"), &json!("authorized key")));
    let key = crate::admission::tests::key(1).fingerprint().to_string();
    assert!(lines[..3].iter().all(|line| line["peer_key"] == key && line["peer"] == "192.0.2.9"), "{lines:?}");
    let hash = blake3::hash(SECRET.as_bytes()).to_hex().to_string();
    assert_eq!((&lines[1]["name"], &lines[1]["blake3"]), (&json!(SECRET), &json!(hash)));
    assert_eq!((&lines[2]["outcome"], &lines[2]["stored"]), (&json!("complete"), &json!(1)));
}

#[tokio::test(start_paused = true)]
async fn nobody_gets_anything_while_it_cannot_be_written_down() {
    let it = listening(ways());
    it.disk.set_room(0);
    let mut friend = it.street.connect(9, 1);
    friend.write_all(&SERVICE.preamble()).await.unwrap();
    let failure = refusal(friend).await;
    assert!(failure.code == FailureCode::Busy && failure.sentence.contains("log"), "{failure}");
    it.disk.set_room(1 << 20);
    is_served(it).await;
}
