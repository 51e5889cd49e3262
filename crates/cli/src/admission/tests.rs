//! Admission over streams in memory which pose as sealed connections.

use std::sync::{Arc, Mutex};

use dfcp_secure::{Cipher, Pattern, PublicKey, StaticKey};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::codes::{CodeDesk, News};
use super::*;
use crate::pairing::{Code, pair_as_sender};
use crate::transfer::frame::{ToSender, read_frame, read_preamble};

const HASH: [u8; 32] = [9; 32];

/// A stream in memory with a seal.
#[derive(Debug)]
struct Sealed(DuplexStream, Seal);

impl Transport for Sealed {
    fn seal(&self) -> Option<Seal> {
        Some(self.1)
    }
}

macro_rules! forward {
    ($($method:ident($($arg:ident: $type:ty),*) -> $out:ty;)*) => {
        $(fn $method(mut self: std::pin::Pin<&mut Self>, cx: &mut std::task::Context<'_>, $($arg: $type),*)
            -> std::task::Poll<io::Result<$out>> {
            std::pin::Pin::new(&mut self.0).$method(cx, $($arg),*)
        })*
    };
}

impl tokio::io::AsyncRead for Sealed {
    forward! { poll_read(buf: &mut tokio::io::ReadBuf<'_>) -> (); }
}

impl tokio::io::AsyncWrite for Sealed {
    forward! {
        poll_write(buf: &[u8]) -> usize;
        poll_flush() -> ();
        poll_shutdown() -> ();
    }
}

fn key(seed: u8) -> PublicKey {
    StaticKey::from_seed(&[seed; 32]).public()
}

fn ways() -> Ways {
    let content = format!("{} a friend\n", key(1));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("authorized_keys");
    std::fs::write(&file, content).unwrap();
    Ways {
        own: StaticKey::from_seed(&[7; 32]),
        pre_shared: None,
        authorized: Arc::new(AuthorizedKeys::load(&file).unwrap()),
        any: false,
        codes: false,
    }
}

/// An admission which keeps its codes for the test.
fn admission(ways: Ways) -> (Admission, Arc<Mutex<Vec<News>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let herald: Herald = Box::new(move |news| tell.lock().unwrap().push(news));
    let desk = ways.codes.then(|| CodeDesk::open(false, herald).unwrap());
    (Admission { ways, desk, service: Service::Files, json: false }, told)
}

fn codes(told: &Mutex<Vec<News>>) -> Vec<(Code, Option<Refusal>)> {
    let of = |news: &News| match news {
        News::Code { code, before } => Some((code.clone(), *before)),
        News::Closed => None,
    };
    told.lock().unwrap().iter().filter_map(of).collect()
}

/// Another code than `code`.
fn other(code: &Code) -> Code {
    let candidates = [Code::from_bits(0), Code::from_bits(1)];
    candidates.into_iter().find(|candidate| candidate != code).unwrap()
}

fn connection(peer: Option<PublicKey>) -> (DuplexStream, Sealed) {
    let (ours, theirs) = duplex(4096);
    let pattern = if peer.is_some() { Pattern::FirstContact } else { Pattern::PreShared };
    (ours, Sealed(theirs, Seal { pattern, peer, handshake_hash: HASH, cipher: Cipher::Aes128Gcm }))
}

/// A peer with `key` which sends a preamble: by what it gets in, or what it is told.
async fn knock(admission: &Admission, key: Option<PublicKey>) -> Result<By, String> {
    let (mut ours, theirs) = connection(key);
    ours.write_all(&Service::Files.preamble()).await.unwrap();
    match admission.decide(theirs).await {
        Ok((mut opening, by)) => {
            let mut first = [0; 8];
            opening.read_exact(&mut first).await.unwrap();
            assert_eq!(first, Service::Files.preamble(), "what was looked at is still to be read");
            Ok(by)
        }
        Err(error) => {
            read_preamble(&mut ours, Service::Files).await.unwrap();
            let mut body = Vec::new();
            let kind = read_frame(&mut ours, &mut body).await.unwrap().unwrap();
            let ToSender::Refused(failure) = ToSender::decode(kind, &body).unwrap() else { panic!("{error}") };
            assert_eq!(failure.code, FailureCode::NotAdmitted);
            Err(failure.sentence)
        }
    }
}

/// A sender with `code`, and whatever key: what the receiver decides and what the sender learns.
async fn try_code(admission: &Admission, code: &Code) -> (Result<By, String>, Result<(), PairingError>) {
    let (mut ours, theirs) = connection(Some(key(2)));
    let sender = async {
        let outcome = pair_as_sender(&mut ours, code, &HASH).await;
        if outcome.is_ok() {
            ours.write_all(b"the rest").await.unwrap();
        }
        outcome
    };
    let receiver = async {
        match admission.decide(theirs).await {
            Ok((mut opening, by)) => {
                let mut rest = [0; 8];
                opening.read_exact(&mut rest).await.unwrap();
                assert_eq!(&rest, b"the rest");
                Ok(by)
            }
            Err(error) => Err(error.to_string()),
        }
    };
    tokio::join!(receiver, sender)
}

#[tokio::test]
async fn keys_secrets_and_everyone_get_in_as_they_may() {
    let (by_key, _) = admission(Ways { codes: true, ..ways() });
    assert_eq!(knock(&by_key, Some(key(1))).await, Ok(By::Key));
    let told = knock(&by_key, Some(key(2))).await.unwrap_err();
    assert!(told.contains("use --code") && told.contains(&key(2).fingerprint().to_string()), "{told}");
    let (everyone, _) = admission(Ways { any: true, ..ways() });
    assert_eq!(knock(&everyone, Some(key(1))).await, Ok(By::Key));
    assert_eq!(knock(&everyone, Some(key(2))).await, Ok(By::Any));
    let secret = PreSharedKey::from_bytes(&[1; 32]);
    let (shared, _) = admission(Ways { pre_shared: Some(secret), ..ways() });
    assert_eq!(knock(&shared, None).await, Ok(By::PreShared));
}

#[tokio::test]
async fn the_handshake_lets_strangers_pass_only_if_something_else_may_admit_them() {
    for (any, codes) in [(false, false), (true, false), (false, true)] {
        let peer_key = Ways { any, codes, ..ways() }.peer_key();
        assert_eq!(matches!(peer_key, PeerKey::Any), any || codes);
        assert_eq!(matches!(peer_key, PeerKey::Verified(_)), !any && !codes);
    }
}

#[tokio::test]
async fn a_code_admits_once_and_is_then_replaced() {
    let (admission, told) = admission(Ways { codes: true, ..ways() });
    let (code, _) = codes(&told)[0].clone();
    let (decided, learned) = try_code(&admission, &code).await;
    assert_eq!((decided, learned.is_ok()), (Ok(By::Code), true));
    assert_eq!(codes(&told)[1].1, Some(Refusal::Used));
    let (decided, learned) = try_code(&admission, &code).await;
    assert!(decided.is_err());
    assert!(matches!(learned, Err(PairingError::PeerRefused(Refusal::WrongCode))), "{learned:?}");
}

#[tokio::test]
async fn three_wrong_guesses_void_a_code_and_too_many_end_it() {
    let (admission, told) = admission(Ways { codes: true, authorized: Arc::default(), ..ways() });
    for round in 0..crate::limits::PAIRING_CODES_GUESSED_MAX as usize {
        assert!(!admission.is_closed());
        let (code, _) = codes(&told)[round].clone();
        for _ in 0..crate::limits::PAIRING_GUESSES_MAX {
            let (decided, learned) = try_code(&admission, &other(&code)).await;
            assert!(decided.is_err());
            assert!(matches!(learned, Err(PairingError::PeerRefused(Refusal::WrongCode))), "{learned:?}");
        }
    }
    assert!(admission.is_closed());
    assert_eq!(told.lock().unwrap().last(), Some(&News::Closed));
    let (last, _) = codes(&told).last().unwrap().clone();
    let (_, learned) = try_code(&admission, &last).await;
    assert!(matches!(learned, Err(PairingError::PeerRefused(Refusal::Guessed))), "{learned:?}");
}

#[tokio::test]
async fn a_code_where_none_is_in_use_is_declined() {
    let (admission, _) = admission(Ways { any: true, ..ways() });
    let (decided, learned) = try_code(&admission, &Code::from_bits(3)).await;
    assert!(decided.is_err());
    assert!(matches!(learned, Err(PairingError::PeerRefused(Refusal::NoCode))), "{learned:?}");
}

#[tokio::test(start_paused = true)]
async fn who_says_nothing_is_left() {
    let (admission, _) = admission(Ways { any: true, ..ways() });
    let (_silent, theirs) = connection(Some(key(1)));
    assert!(matches!(admission.decide(theirs).await, Err(NotAdmitted::Silent)));
    let (gone, theirs) = connection(Some(key(1)));
    drop(gone);
    assert!(matches!(admission.decide(theirs).await, Err(NotAdmitted::Silent)));
    let (mut open, theirs) = duplex(64);
    open.write_all(&Service::Files.preamble()).await.unwrap();
    assert!(matches!(admission.decide(theirs).await, Err(NotAdmitted::Unsealed)));
}
