//! Tests with senders that probe the content of files that other senders stored.
//!
//! Each script runs against files that differ in the secret property. All answers must be equal, byte for byte.

use std::fs;
use std::path::Path;

use super::resume_tests::{Session, alice, keeping};
use super::*;
use crate::beneath::set_sender;
use crate::store::{READ_BYTES, StoreOptions};

const MTIME_S: i64 = 5;

fn bob() -> Owner {
    Owner::from_fingerprint("SHA256:bob")
}

/// Returns content long enough for chunking and for a partial file.
fn long() -> Vec<u8> {
    let mut bytes = vec![0; 400_000];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    bytes
}

fn entry(index: u32, len: usize) -> Entry {
    Entry {
        index,
        directories: 0,
        mode: 0o644,
        mtime_s: MTIME_S,
        mtime_ns: 0,
        size_hint_bytes: len as u64,
        len: Some(len as u64),
        name: b"f".to_vec(),
    }
}

fn file(index: u32, len: usize) -> ToReceiver {
    ToReceiver::File(entry(index, len))
}

fn end(claimed: &[u8]) -> ToReceiver {
    ToReceiver::FileEnd { len: claimed.len() as u64, hash: *blake3::hash(claimed).as_bytes() }
}

fn offer(entry: Entry, hash: Option<&[u8]>, asks_only: bool, takes_basis: bool) -> ToReceiver {
    let hash = hash.map(|content| *blake3::hash(content).as_bytes());
    ToReceiver::Offer { hash, asks_only, takes_basis, entry }
}

/// Returns scripts of frames by which a sender tries whether the receiver's file has the content `guess`.
fn scripts(guess: &[u8]) -> Vec<(&'static str, Vec<ToReceiver>)> {
    let len = guess.len();
    let data = || ToReceiver::Data(guess.to_vec());
    let wrong = || ToReceiver::Data(vec![b'x'; len]);
    let abort = || ToReceiver::FileAbort(String::new());
    vec![
        ("the whole file", vec![file(0, len), data(), end(guess)]),
        ("another content under its hash", vec![file(0, len), wrong(), end(guess)]),
        ("its hash alone", vec![file(0, len), end(guess)]),
        ("nothing", vec![file(0, 0), end(b"")]),
        ("a long one that is given up", vec![file(0, 100_000_000), data(), abort()]),
        ("a beginning that is given up", vec![file(0, len), ToReceiver::Data(guess[..2].to_vec()), abort()]),
        (
            "more than it has announced",
            vec![file(0, 1), ToReceiver::Data(vec![7; 200_000]), ToReceiver::Data(vec![7; 200_000]), end(guess)],
        ),
        ("an offer", vec![offer(entry(0, len), None, false, false), abort_of(0, len)]),
        ("an offer with its hash", vec![offer(entry(0, len), Some(guess), false, false)]),
        ("a question", vec![offer(entry(0, len), None, true, false)]),
        ("a question with its hash", vec![offer(entry(0, len), Some(guess), true, false)]),
        ("an offer of changes", vec![offer(entry(0, len), None, false, true)]),
        ("an offer of changes of another time", vec![offer(Entry { mtime_s: 99, ..entry(0, len) }, None, false, true)]),
        (
            "an offer, and the file",
            vec![offer(entry(0, len), Some(guess), false, true), file(0, len), data(), end(guess)],
        ),
        ("the rest", vec![ToReceiver::Resume { offset: 1 << 16, entry: entry(0, len.max(300_000)) }, abort()]),
        ("a directory", vec![ToReceiver::Directory(entry(0, 0))]),
    ]
}

/// Returns an offer of another file. Such a frame is valid whatever the answer to the first offer was.
fn abort_of(_index: u32, len: usize) -> ToReceiver {
    offer(Entry { name: b"g".to_vec(), ..entry(1, len) }, None, false, false)
}

/// Returns files that the sender must not distinguish, each with the kind of difference.
fn situations(guess: &[u8]) -> Vec<(&'static str, Vec<u8>, i64, u32)> {
    let other: Vec<_> = guess.iter().map(|byte| byte ^ 1).collect();
    vec![
        ("the same", guess.to_vec(), MTIME_S, 0o644),
        ("another content", other, MTIME_S, 0o644),
        ("a shorter one", guess[1..].to_vec(), MTIME_S, 0o644),
        ("a longer one", [guess, b"x"].concat(), MTIME_S, 0o644),
        ("an empty one", Vec::new(), MTIME_S, 0o644),
        ("a much longer one", vec![0; 5_000_000], MTIME_S, 0o644),
        ("another time", guess.to_vec(), 77, 0o644),
        ("another mode", guess.to_vec(), MTIME_S, 0o600),
    ]
}

/// Returns all encoded answers of a session, followed by the number of bytes that the receiver read for them.
fn played(output: &Path, owner: &Owner, options: StoreOptions, script: &[ToReceiver]) -> Vec<u8> {
    let mut session = Session::open(output, owner, options);
    let mut said = Vec::new();
    READ_BYTES.set(0);
    for answer in session.greeted() {
        answer.encode(&mut said);
    }
    for frame in script {
        match session.say(frame) {
            Ok(answers) => answers.iter().for_each(|answer| answer.encode(&mut said)),
            Err(error) => {
                said.extend(error.to_string().bytes());
                break;
            }
        }
    }
    // Wait for worker threads, on which further answers depend.
    while session.assembler.cutting().count() > 0 {
        session.await_ready();
    }
    session.assembler.publish().unwrap();
    session.assembler.take_answers().iter().for_each(|answer| answer.encode(&mut said));
    // The response time reveals as much as an answer, so include the number of bytes read.
    said.extend(READ_BYTES.get().to_be_bytes());
    said
}

/// Scripts that are run after each script: its traces must not reveal anything either.
const AFTERWARDS: [&str; 4] = ["a question", "a question with its hash", "an offer of changes", "the whole file"];

/// Returns the answers that `bob` gets to the script and to the later questions.
fn told(
    situation: &(&str, Vec<u8>, i64, u32),
    options: StoreOptions,
    guess: &[u8],
    script: &[ToReceiver],
) -> (Vec<u8>, Vec<Vec<u8>>) {
    let (_, content, mtime_s, mode) = situation;
    let output = tempfile::tempdir().unwrap();
    let path = output.path().join("f");
    fs::write(&path, content).unwrap();
    let stored = fs::File::options().write(true).open(&path).unwrap();
    crate::beneath::set_metadata(&stored, *mode, filetime::FileTime::from_unix_time(*mtime_s, 0)).unwrap();
    set_sender(&stored, Some(alice().as_str())).unwrap();
    let first = played(output.path(), &bob(), options.clone(), script);
    let later = scripts(guess).into_iter().filter(|(what, _)| AFTERWARDS.contains(what));
    let later = later.map(|(_, script)| played(output.path(), &bob(), options.clone(), &script)).collect();
    (first, later)
}

/// Returns the scripts and situations whose answers differ from those of the first situation.
fn differences(options: StoreOptions) -> Vec<String> {
    let mut found = Vec::new();
    for guess in [b"4711".to_vec(), long()] {
        for (what, script) in scripts(&guess) {
            let situations = situations(&guess);
            let expected = told(&situations[0], options.clone(), &guess, &script);
            for situation in &situations[1..] {
                let (first, later) = told(situation, options.clone(), &guess, &script);
                for (is_same, when) in [(first == expected.0, "at once"), (later == expected.1, "afterwards")] {
                    if !is_same {
                        found.push(format!("{} bytes, {what}, {}: {when}", guess.len(), situation.0));
                    }
                }
            }
        }
    }
    found
}

#[test]
fn no_answer_about_the_file_of_another_sender_depends_on_what_is_in_it() {
    for replace in [false, true] {
        let options = StoreOptions { replace: replace.into(), ..keeping() };
        let found = differences(options);
        assert!(found.is_empty(), "replace {replace}: {} of them, {found:#?}", found.len());
    }
}

/// Negative control: if every sender may ask, the answers must differ. It proves that the test above can fail.
#[test]
fn where_every_sender_may_ask_the_answers_tell() {
    assert!(!differences(StoreOptions { allow_update: true, ..keeping() }).is_empty());
}
