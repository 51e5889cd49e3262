//! Datagrams made from header fields, for tests that send invalid ones. Written only from `spec/wire-format.md` §1 to §7, so it shares no
//! code with the tested implementation.

use dfcp_wire::{CRC_BYTES, Flags, HEADER_BYTES, Profile};

/// Bits of the control word: profile, key epoch, flags.
const MODERN_BIT: u16 = 0x0800;
const MESSAGE_BIT: u16 = 0x0400;
const EPOCH_SHIFT: u32 = 6;
const FLAGS_MASK: u16 = 0x003F;
/// Offset of the checksum field.
const CHECKSUM: usize = 14;

/// A header. Its data offset and checksum are computed from the rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Sending application's port, or the upper half of the connection id.
    pub source_port: u16,
    /// Receiving application's port, or the lower half of the connection id.
    pub destination_port: u16,
    /// Block id.
    pub block_id: u32,
    /// Field S1.
    pub s1: u32,
    /// Control flags.
    pub flags: Flags,
    /// Profile, classic or modern.
    pub profile: Profile,
    /// True for a message segment.
    pub is_message: bool,
    /// Lower two bits of the key epoch.
    pub epoch: u8,
    /// Field S2.
    pub s2: u32,
    /// Field S3.
    pub s3: u32,
}

/// A parsed datagram, unverified.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a> {
    /// Header of the datagram.
    pub header: Header,
    /// Raw options, including padding.
    pub options: &'a [u8],
    /// Payload, without the CRC of an unencrypted modern datagram but with the tag of an encrypted one.
    pub payload: &'a [u8],
}

impl Header {
    /// Makes a modern header with these flags and this connection id; all other fields are zero.
    #[must_use]
    pub fn modern(flags: Flags, connection_id: u32) -> Self {
        let (source_port, destination_port) = ((connection_id >> 16) as u16, connection_id as u16);
        let profile = Profile::Modern;
        Self {
            source_port,
            destination_port,
            block_id: 0,
            s1: 0,
            flags,
            profile,
            is_message: false,
            epoch: 0,
            s2: 0,
            s3: 0,
        }
    }

    /// Connection id, from both port fields.
    #[must_use]
    pub fn connection_id(&self) -> u32 {
        u32::from(self.source_port) << 16 | u32::from(self.destination_port)
    }

    /// True if the segment, if modern, has a tag.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.flags.contains(Flags::SEC)
    }

    fn has_crc(&self) -> bool {
        self.profile == Profile::Modern && !self.is_sealed()
    }

    fn to_bytes(self, data_offset_bytes: usize) -> [u8; HEADER_BYTES] {
        let reserved = match self.profile {
            Profile::Classic => 0,
            Profile::Modern => MODERN_BIT | u16::from(self.epoch & 3) << EPOCH_SHIFT,
        };
        let reserved = if self.is_message { reserved | MESSAGE_BIT } else { reserved };
        let control = (data_offset_bytes as u16 / 4) << 12 | reserved | u16::from(self.flags.bits());
        let words = [self.connection_id(), self.block_id, self.s1, u32::from(control) << 16, self.s2, self.s3];
        let mut bytes = [0; HEADER_BYTES];
        for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *place = word.to_be_bytes();
        }
        bytes
    }
}

/// Parses a datagram; `None` without a complete header, or with an invalid data offset.
#[must_use]
pub fn read(datagram: &[u8]) -> Option<Raw<'_>> {
    let mut words = [0; HEADER_BYTES / 4];
    for (word, bytes) in words.iter_mut().zip(datagram.get(..HEADER_BYTES)?.as_chunks().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    let [ports, block_id, s1, control_and_checksum, s2, s3] = words;
    let control = (control_and_checksum >> 16) as u16;
    let header = Header {
        source_port: (ports >> 16) as u16,
        destination_port: ports as u16,
        block_id,
        s1,
        flags: Flags::from_bits((control & FLAGS_MASK) as u8)?,
        profile: if control & MODERN_BIT == 0 { Profile::Classic } else { Profile::Modern },
        is_message: control & MESSAGE_BIT != 0,
        epoch: (control >> EPOCH_SHIFT) as u8 & 3,
        s2,
        s3,
    };
    let start = usize::from(control >> 12) * 4;
    let end = datagram.len().checked_sub(if header.has_crc() { CRC_BYTES } else { 0 })?;
    Some(Raw { header, options: datagram.get(HEADER_BYTES..start)?, payload: datagram.get(start..end)? })
}

/// Writes a datagram with the checksum or CRC for its header. An encrypted one gets neither: its payload ends with a tag. The options must
/// be padded.
#[must_use]
pub fn write(header: &Header, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let start = HEADER_BYTES + options.len();
    let mut datagram = [&header.to_bytes(start)[..], options, payload].concat();
    if header.has_crc() {
        datagram.extend([0; CRC_BYTES]);
    }
    renew(&mut datagram);
    datagram
}

/// Corrects the checksum or CRC of a changed datagram, if it can be parsed.
pub fn renew(datagram: &mut [u8]) {
    let Some(header) = read(datagram).map(|raw| raw.header) else { return };
    datagram[CHECKSUM..CHECKSUM + 2].fill(0);
    if header.has_crc() {
        if let Some((covered, crc)) = datagram.split_last_chunk_mut() {
            *crc = crc_fast::crc32_iscsi(covered).to_be_bytes();
        }
    } else if header.profile == Profile::Classic {
        let sum = checksum(datagram);
        datagram[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Checksum of RFC 1071, with 0xFFFF instead of zero.
fn checksum(segment: &[u8]) -> u16 {
    let words = segment.chunks(2).map(|pair| match *pair {
        [high, low] => u32::from(u16::from_be_bytes([high, low])),
        _ => u32::from(pair[0]) << 8,
    });
    let mut sum: u32 = words.sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    match !(sum as u16) {
        0 => 0xFFFF,
        sum => sum,
    }
}

#[cfg(test)]
mod tests {
    use dfcp_wire::Unverified;

    use super::*;

    #[test]
    fn what_is_written_is_taken_by_the_code_under_test_and_read_again() {
        for (flags, profile) in
            [(Flags::ACK, Profile::Modern), (Flags::FIN, Profile::Classic), (Flags::NONE, Profile::Classic)]
        {
            let header = Header { profile, block_id: 5, s2: 7, s3: 8, ..Header::modern(flags, 0x0102_0304) };
            let datagram = write(&header, &[], &[1, 2, 3]);
            let verified = match Unverified::read(&datagram).unwrap() {
                Unverified::Classic(header) => header.verify(&datagram).map(|it| it.payload.len()),
                Unverified::Clear(header) => header.verify(&datagram).map(|it| it.payload.len()),
                Unverified::Sealed(_) => panic!("it is in the clear"),
            };
            assert_eq!(verified, Ok(3));
            let raw = read(&datagram).unwrap();
            assert_eq!((raw.header, raw.options, raw.payload), (header, &[][..], &[1, 2, 3][..]));
        }
        let sealed = Header { epoch: 2, s3: 77, ..Header::modern(Flags::SEC, 9) };
        let datagram = write(&sealed, &[], &[7; 16]);
        let Ok(Unverified::Sealed(header)) = Unverified::read(&datagram) else { panic!("it is sealed") };
        assert_eq!((header.connection_id(), header.number()), (9, 77));
        assert_eq!(read(&datagram).unwrap().header, sealed);
    }
}
