//! Frames and names of the file transfer (`spec/file-transfer.md`) as a malicious peer could send them.

use std::path::{Component, Path};

use dfcp_framing::error::{FailureCode, ProtocolError};
use dfcp_framing::files::{ToReceiver, ToSender};
use dfcp_framing::frame::{HEADER_BYTES, Header, PREAMBLE_BYTES, Service, kind};
use dfcp_framing::limits::{
    COMPONENT_BYTES_MAX, CONTROL_BYTES_MAX, DATA_BYTES_MAX, DEPTH_MAX, LINK_TARGET_BYTES_MAX, NAME_BYTES_MAX,
    SENTENCE_BYTES_MAX,
};
use dfcp_framing::link_target::check_link_target;
use dfcp_framing::messages::{self, Came, Sent, Worth};
use dfcp_framing::names::{NameError, RelativeName, TEMPORARY_PREFIX, TEMPORARY_SUFFIX};
use dfcp_framing::perf::{Count, Request};

use crate::input::Input;

const FRAMES_MAX: usize = 64;

/// Defined bits of a hello.
const ABILITIES: u8 = 7;

/// Decodes the input as a stream, a frame's body, a name, or a preamble; the first byte selects which.
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

/// Takes a frame off the front of a stream: its type and body. `None` if the stream ends within the frame.
fn take_frame<'a>(reader: &mut &'a [u8]) -> Result<Option<(u8, &'a [u8])>, ProtocolError> {
    let Some((header, rest)) = reader.split_first_chunk() else { return Ok(None) };
    let header = Header::decode(*header)?;
    let Some((body, rest)) = rest.split_at_checked(header.body_bytes) else { return Ok(None) };
    *reader = rest;
    Ok(Some((header.kind, body)))
}

/// Decodes frames until the end or the first error.
fn stream(data: &[u8]) {
    let mut reader = data;
    for _ in 0..FRAMES_MAX {
        let before = reader;
        let (frame_kind, body) = match take_frame(&mut reader) {
            Ok(Some(frame)) => frame,
            Ok(None) => return cut(before),
            Err(error) => return refused(before, error),
        };
        let taken = before.len() - reader.len();
        assert_eq!(taken, HEADER_BYTES + body.len());
        assert_eq!((frame_kind, body), (before[0], &before[HEADER_BYTES..taken]));
        assert!(body.len() <= body_bytes_max(before));
        decode(frame_kind, body);
    }
}

/// Length of the first body, if its header is complete. Independent of the code under test.
fn announced(stream: &[u8]) -> Option<usize> {
    let length = stream.get(1..HEADER_BYTES)?;
    Some(length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
}

fn body_bytes_max(stream: &[u8]) -> usize {
    if stream.first() == Some(&kind::DATA) { DATA_BYTES_MAX } else { CONTROL_BYTES_MAX }
}

/// Checks the result for a stream that ended within a frame.
fn cut(stream: &[u8]) {
    let Some(length) = announced(stream) else { return };
    assert!(length <= body_bytes_max(stream), "a body of {length} bytes was waited for");
    assert!(stream.len() - HEADER_BYTES < length, "a whole frame was taken for a cut one");
}

/// Checks that a refused frame is longer than its kind permits.
fn refused(stream: &[u8], error: ProtocolError) {
    let max = body_bytes_max(stream);
    let ProtocolError::TooLarge { len, max: said } = error else { panic!("a header was refused: {error}") };
    assert_eq!((Some(len as usize), said), (announced(stream), max));
    assert!(len as usize > max);
}

/// Checks that a decoded frame is encoded to the same bytes again.
fn decode(frame_kind: u8, body: &[u8]) {
    let whole = [&[frame_kind][..], &(body.len() as u32).to_be_bytes(), body].concat();
    let mut again = Vec::new();
    let mut taken = body.to_vec();
    if let Ok(frame) = ToReceiver::decode(frame_kind, &mut taken) {
        frame.encode(&mut again);
        assert_eq!(again, whole, "{}", frame.name());
        match frame {
            ToReceiver::Directory(entry)
            | ToReceiver::File(entry)
            | ToReceiver::Resume { entry, .. }
            | ToReceiver::Offer { entry, .. } => name(&entry.name),
            ToReceiver::Link(link) => target(&link.name, &link.target),
            ToReceiver::FileAbort(sentence) => assert!(sentence.len() <= SENTENCE_BYTES_MAX),
            _ => {}
        }
        return;
    }
    if let Ok(frame) = ToSender::decode(frame_kind, body) {
        frame.encode(&mut again);
        match &frame {
            // Unknown ability bits, of a later version, are ignored.
            ToSender::Hello(_) => again[HEADER_BYTES] |= whole[HEADER_BYTES] & !ABILITIES,
            ToSender::Deleted { failure: Some(FailureCode::FileSystem), .. } => {
                again[HEADER_BYTES] = whole[HEADER_BYTES]
            }
            _ => {}
        }
        let failure = match &frame {
            ToSender::Verdict { outcome: Err(failure), .. } | ToSender::Refused(failure) => Some(failure),
            _ => None,
        };
        // An unknown reason of a later version is read as the most general one, so its code is not preserved.
        let code_at = HEADER_BYTES + if frame_kind == kind::VERDICT { 4 } else { 0 };
        if failure.is_some_and(|failure| failure.code == FailureCode::FileSystem) {
            again[code_at] = whole[code_at];
            assert!(FailureCode::from_wire(whole[code_at]).is_none_or(|code| code == FailureCode::FileSystem));
        }
        assert!(failure.is_none_or(|failure| failure.sentence.len() <= SENTENCE_BYTES_MAX));
        assert_eq!(again, whole, "{frame:?}");
    }
    measurement(body);
    messages(body);
}

/// Checks that decoded bodies of the perf protocol, which have the same form, are encoded to the same bytes.
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

/// Checks the frames that accompany messages.
fn messages(body: &[u8]) {
    let mut again = Vec::new();
    if let Ok(request) = messages::Request::decode(body) {
        request.encode(&mut again);
        assert_eq!(&again[HEADER_BYTES..], body, "{request:?}");
        assert!(request.count() > 0);
    }
    again.clear();
    if let Ok(worth) = Worth::decode_pipe(body) {
        worth.encode_pipe(&mut again);
        assert_eq!(&again[HEADER_BYTES..], body, "{worth:?}");
    }
    again.clear();
    if let Ok(sent) = Sent::decode(body) {
        sent.encode(&mut again);
        assert_eq!(&again[HEADER_BYTES..], body, "{sent:?}");
    }
    again.clear();
    if let Ok(came) = Came::decode(body) {
        came.encode(&mut again);
        assert_eq!(&again[HEADER_BYTES..], body, "{came:?}");
    }
}

/// Checks that an accepted name stays below the directory that it is joined to, and that a refused name breaks a rule.
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

/// Checks that an accepted target leads into its tree, even if each of its components is a link to the top of the tree.
fn target(link: &[u8], target: &[u8]) {
    let Ok(link) = RelativeName::parse(link) else { return };
    if check_link_target(&link, target, 1).is_err() {
        return;
    }
    assert!(!target.is_empty() && target.len() <= LINK_TARGET_BYTES_MAX && target[0] != b'/');
    let mut depth = link.components().count() as i64 - 2;
    for component in target.split(|byte| *byte == b'/').filter(|component| !matches!(*component, b"" | b".")) {
        depth = if component == b".." { depth - 1 } else { 0 };
        assert!(depth >= 0, "{link} -> {} leaves the tree", target.escape_ascii());
        assert!(component == b".." || RelativeName::parse(component).is_ok());
    }
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
        NameError::Reserved => any(|component| {
            let before_colon = component.split(|byte| *byte == b':').next().unwrap_or_default();
            [component, before_colon].into_iter().any(may_be_reserved)
        }),
    };
    assert!(broken || cfg!(windows), "{} was refused: {error}", bytes.escape_ascii());
}

/// Returns true if a component is a spelling of an unfinished file's name or of its short name, or similar to one.
/// Independent of the code under test. No letter of these names is the lower case of a letter outside of ASCII.
fn may_be_reserved(component: &[u8]) -> bool {
    let ascii: String =
        component.iter().filter(|byte| byte.is_ascii()).map(|byte| byte.to_ascii_lowercase() as char).collect();
    let name = ascii.trim_end_matches(['.', ' ']);
    name.starts_with(TEMPORARY_PREFIX) && name.ends_with(TEMPORARY_SUFFIX)
        || name.starts_with("df") && name.contains('~') && name.ends_with(".par")
}

fn preamble(data: &[u8]) {
    for service in [Service::Files, Service::FilesToCaller, Service::Perf, Service::Pipe] {
        let ours = service.preamble();
        let result = data.first_chunk().map(|preamble| service.check(*preamble));
        let goes_our_way = || !service.is_files() || data[6] & 1 == ours[6];
        let matches = data.len() >= PREAMBLE_BYTES && data[..6] == ours[..6] && goes_our_way();
        assert_eq!(result == Some(Ok(())), matches, "{data:?}");
        assert_eq!(result.is_none(), data.len() < PREAMBLE_BYTES);
    }
}
