//! Admission tests over in-memory streams that pose as encrypted connections.

use std::sync::{Arc, Mutex};

use dfcp_files::reading::{read_frame, read_preamble};
use dfcp_framing::files::ToSender;
use dfcp_secure::{Cipher, Pattern, PublicKey, StaticKey};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::codes::{CodeDesk, News};
use super::*;
use crate::identity::AuthorizedKeys;
use crate::limits::{PAIRING_GUESSES_MAX, PAIRING_WRONG_MAX};
use crate::pairing::exchange::SenderPairing;
use crate::pairing::{Code, pair_as_sender};

pub(crate) const HASH: [u8; 32] = [9; 32];

/// In-memory stream that poses as an encrypted connection.
#[derive(Debug)]
pub(crate) struct Sealed(pub(crate) DuplexStream, pub(crate) Seal);

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

pub(crate) fn key(seed: u8) -> PublicKey {
    StaticKey::from_seed(&[seed; 32]).public()
}

pub(crate) fn ways() -> Ways {
    let content = format!("{} a friend\n", key(1));
    let folder = tempfile::tempdir().unwrap();
    // The directory is created with mode 0700 under any umask.
    let directory = ConfigDir::at(&folder.path().join("dfcp")).unwrap();
    directory.create().unwrap();
    let mut file = tempfile::NamedTempFile::new_in(directory.path()).unwrap();
    io::Write::write_all(&mut file, content.as_bytes()).unwrap();
    Ways {
        remember: Remember::Never,
        own: StaticKey::from_seed(&[7; 32]),
        reset_key: None,
        pre_shared: None,
        authorized: Arc::new(AuthorizedList::fixed(AuthorizedKeys::load(file.path()).unwrap())),
        any: false,
        codes: false,
        pairs: None,
    }
}

/// Admission whose code events are collected for the test.
pub(crate) fn admission(ways: Ways) -> (Admission, Arc<Mutex<Vec<News>>>) {
    admission_to(Service::Files, ways)
}

/// Admission of a listener for `service`, with its collected code events.
pub(crate) fn admission_to(service: Service, ways: Ways) -> (Admission, Arc<Mutex<Vec<News>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let herald: Herald = Box::new(move |news| tell.lock().unwrap().push(news));
    let desk = ways.codes.then(|| CodeDesk::open(false, herald).unwrap());
    let memory = Memory::new(Arc::clone(&ways.authorized), ways.remember);
    (Admission { ways, desk, memory, service, json: false }, told)
}

pub(crate) fn codes(told: &Mutex<Vec<News>>) -> Vec<(Code, Option<Refusal>)> {
    let of = |news: &News| match news {
        News::Code { code, before } => Some((code.clone(), *before)),
        News::Closed => None,
    };
    told.lock().unwrap().iter().filter_map(of).collect()
}

/// Any code that differs from `code`.
pub(crate) fn other(code: &Code) -> Code {
    let candidates = [Code::from_bits(0), Code::from_bits(1)];
    candidates.into_iter().find(|candidate| candidate != code).unwrap()
}

pub(crate) fn connection(peer: Option<PublicKey>) -> (DuplexStream, Sealed) {
    let (ours, theirs) = duplex(4096);
    let pattern = if peer.is_some() { Pattern::FirstContact } else { Pattern::PreShared };
    (ours, Sealed(theirs, Seal { pattern, peer, pre_shared: None, handshake_hash: HASH, cipher: Cipher::Aes128Gcm }))
}

/// Connects a peer with `key` that sends a preamble; returns the reason it was admitted for, or the message it received.
async fn knock(admission: &Admission, key: Option<PublicKey>) -> Result<By, String> {
    let (mut ours, theirs) = connection(key);
    ours.write_all(&Service::Files.preamble()).await.unwrap();
    match admission.decide(theirs, || ()).await {
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

/// Pairs a sender that has `code` and a random key; returns the receiver's decision and the sender's result.
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
        match admission.decide(theirs, || ()).await {
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
async fn a_list_which_names_nobody_now_may_name_somebody_later() {
    let (admission, _) = admission(Ways { authorized: Arc::default(), ..ways() });
    assert!(!admission.is_closed());
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
    for round in 0..(PAIRING_WRONG_MAX / u32::from(PAIRING_GUESSES_MAX)) as usize {
        assert!(!admission.is_closed());
        let (code, _) = codes(&told)[round].clone();
        for _ in 0..PAIRING_GUESSES_MAX {
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

#[tokio::test(start_paused = true)]
async fn wrong_guesses_count_over_codes_which_were_used_or_have_expired() {
    let (admission, told) = admission(Ways { codes: true, authorized: Arc::default(), ..ways() });
    // Each code gets one wrong guess fewer than its limit, so it does not become void.
    for wrong in 1..=PAIRING_WRONG_MAX {
        assert!(!admission.is_closed(), "after {} wrong guesses", wrong - 1);
        let (code, _) = codes(&told).last().unwrap().clone();
        let (_, learned) = try_code(&admission, &other(&code)).await;
        assert!(matches!(learned, Err(PairingError::PeerRefused(Refusal::WrongCode))), "{learned:?}");
        if wrong % u32::from(PAIRING_GUESSES_MAX - 1) != 0 || wrong == PAIRING_WRONG_MAX {
            continue;
        }
        let expires = wrong % 4 == 0;
        if expires {
            tokio::time::advance(PAIRING_CODE_AGE_MAX).await;
        }
        assert_eq!(try_code(&admission, &code).await.1.is_err(), expires);
        let why = if expires { Refusal::Expired } else { Refusal::Used };
        assert_eq!(codes(&told).last().unwrap().1, Some(why));
    }
    assert!(admission.is_closed());
    assert_eq!(told.lock().unwrap().last(), Some(&News::Closed));
    let (last, _) = codes(&told).last().unwrap().clone();
    assert!(try_code(&admission, &last).await.0.is_err(), "the right code comes too late");
}

#[tokio::test]
async fn a_code_pairs_over_any_handshake_and_over_no_other_connection() {
    for pattern in [Pattern::FirstContact, Pattern::Pinned, Pattern::PreShared] {
        for (theirs, right) in [(HASH, true), ([8; 32], false)] {
            let pre_shared = Some(PreSharedKey::from_bytes(&[1; 32]));
            let (admission, told) = admission(Ways { codes: true, pre_shared, ..ways() });
            let (code, _) = codes(&told)[0].clone();
            let (mut ours, Sealed(stream, seal)) = connection((pattern != Pattern::PreShared).then(|| key(2)));
            let sealed = Sealed(stream, Seal { pattern, ..seal });
            let sender = pair_as_sender(&mut ours, &code, &theirs);
            let (paired, decided) = tokio::join!(sender, admission.decide(sealed, || ()));
            assert_eq!((paired.is_ok(), decided.is_ok()), (right, right), "{pattern:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_which_is_dropped_leaves_no_void_code_behind() {
    let (admission, told) = admission(Ways { codes: true, ..ways() });
    let (code, _) = codes(&told)[0].clone();
    // The buffer is smaller than a frame, and the sender does not read the receiver's confirmation.
    let (mut ours, theirs) = duplex(39);
    let sealed = Sealed(theirs, connection(Some(key(2))).1.1);
    let sender = async {
        let (pairing, element) = SenderPairing::start(&code, &HASH, &[5; 32]);
        ours.write_all(&[b"DFCPK\x01\x01\x00", &element[..]].concat()).await.unwrap();
        let mut answer = [0; 40];
        ours.read_exact(&mut answer).await.unwrap();
        let (_, confirmation) = pairing.finish(answer.last_chunk().unwrap()).unwrap();
        ours.write_all(&[b"DFCPK\x01\x02\x00", &confirmation[..]].concat()).await.unwrap();
        std::future::pending::<()>().await;
    };
    let both = async { tokio::join!(sender, admission.decide(sealed, || ())) };
    assert!(timeout(CLOSE_WAIT_MAX, both).await.is_err(), "it is stuck, and dropped");
    assert_eq!(codes(&told).get(1).map(|(_, before)| *before), Some(Some(Refusal::Used)));
}

#[tokio::test]
async fn a_peer_that_has_paired_is_remembered_if_that_was_asked_for() {
    for remember in [Remember::Always, Remember::Never] {
        let folder = tempfile::tempdir().unwrap();
        let directory = ConfigDir::at(&folder.path().join("dfcp")).unwrap();
        let list = Arc::new(AuthorizedList::open(&directory.authorized_keys(), false).unwrap());
        let (admission, told) = admission(Ways { codes: true, authorized: list, remember, ..ways() });
        assert!(knock(&admission, Some(key(2))).await.is_err());
        let (code, _) = codes(&told)[0].clone();
        let (mut ours, theirs) = connection(Some(key(2)));
        let both =
            async { tokio::join!(pair_as_sender(&mut ours, &code, &HASH), admission.admit(theirs, "it", || ())) };
        let (paired, opening) = both.await;
        assert!(paired.is_ok() && opening.is_ok());
        let again = knock(&admission, Some(key(2))).await;
        assert_eq!(again.ok(), (remember == Remember::Always).then_some(By::Key));
        assert!(knock(&admission, Some(key(3))).await.is_err());
    }
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
    assert!(matches!(admission.decide(theirs, || ()).await, Err(NotAdmitted::Silent)));
    let (gone, theirs) = connection(Some(key(1)));
    drop(gone);
    assert!(matches!(admission.decide(theirs, || ()).await, Err(NotAdmitted::Silent)));
    let (mut open, theirs) = duplex(64);
    open.write_all(&Service::Files.preamble()).await.unwrap();
    assert!(matches!(admission.decide(theirs, || ()).await, Err(NotAdmitted::Unsealed)));
}
