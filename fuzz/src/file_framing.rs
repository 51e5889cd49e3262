//! Frames and names of the file transfer (`spec/file-transfer.md`), as a peer could send them.

use std::path::{Component, Path};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use dfcp_cli::limits::{
    COMPONENT_BYTES_MAX, CONTROL_BYTES_MAX, DATA_BYTES_MAX, DEPTH_MAX, NAME_BYTES_MAX, SENTENCE_BYTES_MAX,
};
use dfcp_cli::perf::wire::{Count, Request};
use dfcp_cli::transfer::error::{FailureCode, ProtocolError, TransferError};
use dfcp_cli::transfer::frame::{
    HEADER_BYTES, PREAMBLE_BYTES, Service, ToReceiver, ToSender, kind, read_frame, read_preamble,
};
use dfcp_cli::transfer::names::{NameError, RelativeName, TEMPORARY_PREFIX, TEMPORARY_SUFFIX};

use crate::input::Input;

const FRAMES_MAX: usize = 64;

/// Reads the input as a stream, as one frame's body, as a name, or as a preamble; the first byte chooses.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    match input.below(4) {
        0 => stream(input.all()),
        1 => {
            let frame_kind = input.u8();
            decode(frame_kind, input.all());
        }
        2 => name(input.all()),
        _ => preamble(input.all()),
    }
}

/// Runs a future which reads from memory, and so never has to wait.
fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("reading from memory waits"),
    }
}

/// Frame after frame, until the end or the first mistake.
fn stream(data: &[u8]) {
    let mut reader = data;
    let mut body = Vec::new();
    for _ in 0..FRAMES_MAX {
        let before = reader;
        let frame_kind = match now(read_frame(&mut reader, &mut body)) {
            Ok(Some(frame_kind)) => frame_kind,
            Ok(None) => return assert!(before.is_empty(), "a stream of {} bytes ended", before.len()),
            Err(error) => return refused(before, &error),
        };
        let taken = before.len() - reader.len();
        assert_eq!(taken, HEADER_BYTES + body.len());
        assert_eq!((frame_kind, &body[..]), (before[0], &before[HEADER_BYTES..taken]));
        decode(frame_kind, &body);
    }
}

/// A frame was not read: it is cut, or longer than its kind may be.
fn refused(stream: &[u8], error: &TransferError) {
    let announced =
        stream.get(1..HEADER_BYTES).map(|length| length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)));
    let max = if stream.first() == Some(&kind::DATA) { DATA_BYTES_MAX } else { CONTROL_BYTES_MAX };
    match error {
        TransferError::PeerClosed => {
            let whole = announced.is_some_and(|length| stream.len() - HEADER_BYTES >= length);
            assert!(!whole, "a whole frame was taken for a cut one");
        }
        TransferError::Protocol(ProtocolError::TooLarge { len, max: said }) => {
            assert_eq!((Some(*len as usize), *said), (announced, max));
            assert!(*len as usize > max);
        }
        other => panic!("reading a frame from memory: {other}"),
    }
}

/// What decodes is encoded to the same bytes.
fn decode(frame_kind: u8, body: &[u8]) {
    let whole = [&[frame_kind][..], &(body.len() as u32).to_be_bytes(), body].concat();
    let mut again = Vec::new();
    let mut taken = body.to_vec();
    if let Ok(frame) = ToReceiver::decode(frame_kind, &mut taken) {
        frame.encode(&mut again);
        assert_eq!(again, whole, "{}", frame.name());
        match frame {
            ToReceiver::Directory(entry) | ToReceiver::File(entry) => name(&entry.name),
            ToReceiver::FileAbort(sentence) => assert!(sentence.len() <= SENTENCE_BYTES_MAX),
            _ => {}
        }
        return;
    }
    if let Ok(frame) = ToSender::decode(frame_kind, body) {
        frame.encode(&mut again);
        let failure = match &frame {
            ToSender::Verdict { outcome: Err(failure), .. } | ToSender::Refused(failure) => Some(failure),
            _ => None,
        };
        // A reason of a later version is taken for the most general one: then only the meaning survives.
        let code_at = HEADER_BYTES + if frame_kind == kind::VERDICT { 4 } else { 0 };
        if failure.is_some_and(|failure| failure.code == FailureCode::FileSystem) {
            again[code_at] = whole[code_at];
            assert!(FailureCode::from_wire(whole[code_at]).is_none_or(|code| code == FailureCode::FileSystem));
        }
        assert!(failure.is_none_or(|failure| failure.sentence.len() <= SENTENCE_BYTES_MAX));
        assert_eq!(again, whole, "{frame:?}");
    }
    measurement(body);
}

/// The bodies of the perf protocol are of the same form.
fn measurement(body: &[u8]) {
    let mut again = Vec::new();
    if let Ok(request) = Request::decode(body) {
        request.encode(&mut again);
        assert_eq!(&again[HEADER_BYTES..], body, "{request:?}");
    }
    again.clear();
    if let Ok(count) = Count::decode(body) {
        count.encode(&mut again);
        assert_eq!(&again[HEADER_BYTES..], body, "{count:?}");
    }
}

/// A name that passes stays below the directory which it is joined to, and one that does not breaks a rule.
fn name(bytes: &[u8]) {
    let name = match RelativeName::parse(bytes) {
        Ok(name) => name,
        Err(error) => return refused_name(bytes, error),
    };
    assert_eq!(name.as_bytes(), bytes);
    let root = Path::new("/srv/incoming");
    let path = root.join(name.path());
    let inside: Vec<_> = path.strip_prefix(root).expect("the path starts with the root").components().collect();
    let expected: Vec<_> = name.components().map(Component::Normal).collect();
    assert_eq!(inside, expected, "{bytes:?}");
    assert!(expected.len() <= DEPTH_MAX && bytes.len() <= NAME_BYTES_MAX);
    let rebuilt = RelativeName::from_components(path.strip_prefix(root).expect("as above").iter());
    assert_eq!(rebuilt.as_ref(), Ok(&name));
    let shown = name.to_string();
    assert!(!shown.chars().any(char::is_control), "{shown:?} could move a terminal's cursor");
}

fn refused_name(bytes: &[u8], error: NameError) {
    let components = || bytes.split(|byte| *byte == b'/');
    let any = |rule: fn(&[u8]) -> bool| components().any(rule);
    let broken = match error {
        NameError::Empty => any(<[u8]>::is_empty),
        NameError::Escapes => any(|component| component == b"." || component == b".."),
        // Names are bytes on Unix.
        NameError::NotUtf8 => cfg!(not(unix)) && std::str::from_utf8(bytes).is_err(),
        NameError::Nul => bytes.contains(&0),
        NameError::TooLong => bytes.len() > NAME_BYTES_MAX || any(|component| component.len() > COMPONENT_BYTES_MAX),
        NameError::TooDeep => components().count() > DEPTH_MAX,
        NameError::Reserved => {
            any(|c| c.starts_with(TEMPORARY_PREFIX.as_bytes()) && c.ends_with(TEMPORARY_SUFFIX.as_bytes()))
        }
    };
    assert!(broken || cfg!(windows), "{} was refused: {error}", bytes.escape_ascii());
}

fn preamble(data: &[u8]) {
    for service in [Service::Files, Service::Perf] {
        let ours = service.preamble();
        let result = now(read_preamble(&mut &data[..], service));
        let matches = data.len() >= PREAMBLE_BYTES && data[..6] == ours[..6];
        assert_eq!(result.is_ok(), matches, "{data:?}");
        let cut = matches!(result, Err(TransferError::PeerClosed));
        assert_eq!(cut, data.len() < PREAMBLE_BYTES);
    }
}
