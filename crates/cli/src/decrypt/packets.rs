//! In-place decryption of the datagrams of a captured packet. The packet is untrusted.

use dfcp_wire::{DATAGRAM_BYTES_MAX, HEADER_BYTES, Outline, Profile, TAG_BYTES, Unverified};

use super::keys::{Closed, KeyRing};
use crate::capture::packet::Carried;
use crate::limits::SUPERPACKET_BYTES_MAX;

/// Marker that replaces the tag of a decrypted payload (`spec/security.md` \[keylog-4\]).
pub(super) const OPENED_MARK: [u8; TAG_BYTES] = *b"DFCP opened\0\0\0\0\0";

/// Largest gap between packet numbers of adjacent datagrams in one captured packet.
const STEP_MAX: u32 = 64;

/// Counts of datagrams by outcome, and of other packets.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub(super) struct Counts {
    /// Encrypted datagrams that this run decrypted.
    pub(super) opened: u64,
    /// Encrypted datagrams of connections missing from the key log.
    pub(super) no_key: u64,
    /// Encrypted datagrams that no key of their connection authenticates: forged, damaged, or of another connection
    /// with the same id.
    pub(super) forged: u64,
    /// Encrypted datagrams that the capture has truncated, so that they cannot be authenticated.
    pub(super) truncated: u64,
    /// Datagrams that an earlier run has decrypted.
    pub(super) opened_before: u64,
    /// Datagrams that were never encrypted, such as the first ones of a handshake.
    pub(super) plaintext: u64,
    /// Packets without a DFCP datagram.
    pub(super) others: u64,
}

impl Counts {
    /// Returns the number of encrypted datagrams.
    pub(super) fn encrypted(&self) -> u64 {
        self.opened + self.no_key + self.forged + self.truncated + self.opened_before
    }
}

/// Outcome for one datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Opened,
    NoKey,
    Forged,
    Truncated,
    OpenedBefore,
    Plaintext,
    Other,
}

/// Decrypts every possible datagram of a packet in place; leaves other bytes unchanged.
pub(super) fn open(keys: &mut KeyRing, packet: &mut [u8], carried: &Carried, counts: &mut Counts) {
    let Some(bytes) = packet.get_mut(carried.range.clone()) else { return counts.others += 1 };
    let sum_before = sum(bytes);
    let stride = stride(bytes, carried.wire_bytes).unwrap_or(carried.wire_bytes).max(1);
    let (mut is_changed, mut is_ours) = (false, false);
    let mut left = carried.wire_bytes;
    for datagram in bytes.chunks_mut(stride) {
        let fate = open_one(keys, datagram, left.min(stride));
        left = left.saturating_sub(stride);
        is_changed |= fate == Fate::Opened;
        is_ours |= fate != Fate::Other;
        match fate {
            Fate::Opened => counts.opened += 1,
            Fate::NoKey => counts.no_key += 1,
            Fate::Forged => counts.forged += 1,
            Fate::Truncated => counts.truncated += 1,
            Fate::OpenedBefore => counts.opened_before += 1,
            Fate::Plaintext => counts.plaintext += 1,
            Fate::Other => {}
        }
    }
    counts.others += u64::from(!is_ours);
    let sum_after = sum(bytes);
    if let Some(field) =
        carried.checksum_at.filter(|_| is_changed).and_then(|at| packet.get_mut(at..)?.first_chunk_mut())
    {
        change_checksum(field, sum_before, sum_after);
    }
}

/// Decrypts one datagram, of `wire_bytes` on the wire, if it is encrypted.
fn open_one(keys: &mut KeyRing, datagram: &mut [u8], wire_bytes: usize) -> Fate {
    let Ok(outline) = Outline::of(datagram) else { return Fate::Other };
    if !outline.is_sealed {
        let is_intact = match Unverified::read(datagram) {
            Ok(Unverified::Clear(header)) => header.verify(datagram).is_ok(),
            Ok(Unverified::Classic(header)) => header.verify(datagram).is_ok(),
            Ok(Unverified::Sealed(_)) | Err(_) => false,
        };
        return if is_intact { Fate::Plaintext } else { Fate::Other };
    }
    // Encrypted segments have 0 in the checksum field ([seal-1]); this is another kind of segment.
    if datagram.get(14..16) != Some(&[0, 0]) {
        return Fate::Other;
    }
    if datagram.len() < wire_bytes {
        return Fate::Truncated;
    }
    if datagram.ends_with(&OPENED_MARK) {
        return Fate::OpenedBefore;
    }
    let mut plain = [0; DATAGRAM_BYTES_MAX];
    let (header, sealed) = datagram.split_at_mut(outline.payload_at);
    match keys.open(outline.address, outline.s3, (header, sealed), &mut plain) {
        Ok(length) => {
            let (payload, tag) = sealed.split_at_mut(length);
            payload.copy_from_slice(plain.get(..length).unwrap_or_default());
            tag.copy_from_slice(&OPENED_MARK);
            Fate::Opened
        }
        Err(Closed::NoKey) => Fate::NoKey,
        Err(Closed::Forged) => Fate::Forged,
    }
}

/// Returns the length of the datagrams that GSO or GRO joined into one captured packet of `wire_bytes`; `None` for a
/// single datagram, or if the second header was not captured. All datagrams except the last have the same length and
/// connection. Their packet numbers are close but may have gaps: a sender skips some numbers (`spec/protocol.md`
/// \[data-5\]), and lost datagrams are missing.
fn stride(bytes: &[u8], wire_bytes: usize) -> Option<usize> {
    if wire_bytes > SUPERPACKET_BYTES_MAX {
        return None;
    }
    let first = Outline::of(bytes.get(..bytes.len().min(DATAGRAM_BYTES_MAX))?).ok()?;
    if first.profile != Profile::Modern {
        return None;
    }
    let id = first.address.to_be_bytes();
    let last = DATAGRAM_BYTES_MAX.min(bytes.len().checked_sub(HEADER_BYTES)?);
    (HEADER_BYTES..=last).find(|&stride| {
        bytes.get(stride..).is_some_and(|rest| rest.starts_with(&id)) && is_batch(bytes, stride, wire_bytes, &first)
    })
}

/// Returns true if a header of the same connection as `first` begins at each multiple of `stride`.
fn is_batch(bytes: &[u8], stride: usize, wire_bytes: usize, first: &Outline) -> bool {
    let mut before = first.s3;
    (stride..wire_bytes).step_by(stride).all(|at| {
        let Some(header) = bytes.get(at..at + HEADER_BYTES) else {
            // The header was not captured, or the packet ends within it.
            return wire_bytes - at >= HEADER_BYTES;
        };
        let number = header.last_chunk().map_or(before, |last| u32::from_be_bytes(*last));
        let step = number.wrapping_sub(before).cast_signed().unsigned_abs();
        before = number;
        header.starts_with(&first.address.to_be_bytes()) && (1..=STEP_MAX).contains(&step)
    })
}

/// One's complement sum of 16-bit words (RFC 1071).
fn sum(bytes: &[u8]) -> u16 {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let words = pairs.iter().map(|pair| u64::from(u16::from_be_bytes(*pair)));
    fold(words.sum::<u64>() + rest.first().map_or(0, |&last| u64::from(last) << 8))
}

fn fold(mut sum: u64) -> u16 {
    while sum > u64::from(u16::MAX) {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}

/// Updates a checksum (RFC 1624): a correct one stays correct, and 0 (no checksum) stays 0.
fn change_checksum(field: &mut [u8; 2], before: u16, after: u16) {
    let old = u16::from_be_bytes(*field);
    if old != 0 {
        let new = !fold(u64::from(!old) + u64::from(!before) + u64::from(after));
        *field = if new == 0 { u16::MAX } else { new }.to_be_bytes();
    }
}

#[cfg(test)]
mod tests;
