//! Key log lines (`spec/security.md` \[keylog-2\]), written and parsed. Parsed lines are untrusted.

use std::fmt::Write as _;

use dfcp::{Cipher, ConnectionSecrets};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// First field of a line.
pub const LABEL: &str = "DFCP2_TRAFFIC_SECRETS";

/// Length of a line with its newline: the fields, six spaces and LF.
const LINE_BYTES: usize = LABEL.len() + 1 + 3 * 64 + 2 * 8 + 7;

/// Keys that decrypt the datagrams of one connection. Wiped when dropped.
#[derive(PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct Line {
    /// Cipher of the connection.
    #[zeroize(skip)]
    pub cipher: Cipher,
    /// Handshake hash, which identifies the connection.
    pub handshake_hash: [u8; 32],
    /// Connection id of datagrams to the initiator.
    pub initiator_id: u32,
    /// Connection id of datagrams to the responder.
    pub responder_id: u32,
    /// Traffic secret of the initiator's datagrams.
    pub from_initiator: [u8; 32],
    /// Traffic secret of the responder's datagrams.
    pub from_responder: [u8; 32],
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line").field("initiator_id", &self.initiator_id).finish_non_exhaustive()
    }
}

/// Formats a line with its newline. The string is wiped when dropped.
#[must_use]
pub fn format(secrets: &ConnectionSecrets<'_>) -> Zeroizing<String> {
    // Allocate once: a growing string leaves copies of a secret behind.
    let mut line = Zeroizing::new(String::with_capacity(LINE_BYTES));
    // Writing to a string cannot fail.
    let _ = write!(line, "{LABEL} {} ", secrets.cipher.id());
    hex(&mut line, &secrets.handshake_hash);
    let _ = write!(line, " {:08x} {:08x} ", secrets.initiator_id, secrets.responder_id);
    hex(&mut line, secrets.from_initiator);
    line.push(' ');
    hex(&mut line, secrets.from_responder);
    line.push('\n');
    line
}

fn hex(line: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(line, "{byte:02x}");
    }
}

/// Parses a line without its newline. Empty lines, comments and other labels give `Ok(None)`; a malformed key line is an error.
///
/// # Errors
/// Returns the fault of the line.
pub fn parse(line: &[u8]) -> Result<Option<Line>, &'static str> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let mut fields = line.split(|&byte| byte == b' ');
    if fields.next() != Some(LABEL.as_bytes()) {
        return Ok(None);
    }
    let mut field = || fields.next().ok_or("it has too few fields");
    let cipher = match field()? {
        [digit @ b'1'..=b'9'] => Cipher::from_id(digit - b'0').ok_or("it names an unknown cipher")?,
        _ => return Err("it names an unknown cipher"),
    };
    let parsed = Line {
        cipher,
        handshake_hash: bytes(field()?)?,
        initiator_id: u32::from_be_bytes(bytes(field()?)?),
        responder_id: u32::from_be_bytes(bytes(field()?)?),
        from_initiator: bytes(field()?)?,
        from_responder: bytes(field()?)?,
    };
    if fields.next().is_some() { Err("it has too many fields") } else { Ok(Some(parsed)) }
}

/// Decodes exactly 2 × `N` hexadecimal digits.
fn bytes<const N: usize>(digits: &[u8]) -> Result<[u8; N], &'static str> {
    const WRONG: &str = "a field of it is not hexadecimal, or of another length";
    if digits.len() != 2 * N {
        return Err(WRONG);
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|value| value as u8).ok_or(WRONG);
    let mut out = [0; N];
    for (byte, pair) in out.iter_mut().zip(digits.as_chunks().0) {
        let [high, low] = *pair;
        *byte = digit(high)? << 4 | digit(low)?;
    }
    Ok(out)
}
