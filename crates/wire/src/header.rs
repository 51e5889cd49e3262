//! The 24-byte header (thesis §3.5, figure 3.3), with the use of its reserved bits by the two profiles.

use crate::options::Options;
use crate::sizes::{MESSAGE_GROUP_BYTES, MESSAGE_WORDS_BYTES};
use crate::{DATAGRAM_BYTES_MAX, DecodeError, Flags, HEADER_BYTES, Profile, STREAM_ID_BYTES, StreamId};

/// Fixed header of a segment. It lacks the data offset and the checksum, which follow from the rest of the datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    /// Port of the sending application; after the modern handshake, the upper half of the connection id.
    pub(crate) source_port: u16,
    /// Port of the receiving application; after the modern handshake, the lower half of the connection id.
    pub(crate) destination_port: u16,
    /// Id of the segment's block.
    pub(crate) block_id: u32,
    /// In classic: generator state. In modern data segments: encoding symbol id.
    pub(crate) s1: u32,
    /// Control flags, including the reserved bit of message segments.
    pub(crate) flags: Flags,
    /// Profile, from the reserved bits.
    pub(crate) profile: Profile,
    /// Key epoch, 0 to 3, in the two lowest reserved bits; zero in the classic profile.
    pub(crate) epoch: u8,
    /// In classic: generator state. In modern data segments: [`crate::BlockInfo`].
    pub(crate) s2: u32,
    /// In classic: generator state. In modern: lower 32 bits of the datagram's number in its direction.
    pub(crate) s3: u32,
}

/// Most significant reserved bit: set in modern segments.
const MODERN_BIT: u8 = 0b10_0000;
/// Reserved bit that corresponds to [`Flags::MESSAGE`].
const MESSAGE_BIT: u8 = 0b01_0000;
const EPOCH_BITS: u8 = 0b00_0011;
pub(crate) const CHECKSUM_FIELD: core::ops::Range<usize> = 14..16;
const DATA_OFFSET_WORDS_MIN: u8 = (HEADER_BYTES / 4) as u8;

/// Flags that the classic profile lacks.
const MODERN_FLAGS: Flags = Flags::FBK.union(Flags::SEC);

impl Header {
    /// Returns the header of a modern segment with these flags; all other fields are zero.
    pub(crate) const fn modern(flags: Flags) -> Self {
        Self {
            source_port: 0,
            destination_port: 0,
            block_id: 0,
            s1: 0,
            flags,
            profile: Profile::Modern,
            epoch: 0,
            s2: 0,
            s3: 0,
        }
    }

    /// Returns the modern connection id: both port fields together, big endian (source port in the upper half).
    pub(crate) const fn connection_id(&self) -> u32 {
        (self.source_port as u32) << 16 | self.destination_port as u32
    }

    /// Sets the two port fields to a connection id.
    pub(crate) const fn set_connection_id(&mut self, connection_id: u32) {
        self.source_port = (connection_id >> 16) as u16;
        self.destination_port = connection_id as u16;
    }

    /// Returns the header with a connection id in its two port fields.
    pub(crate) const fn with_connection_id(mut self, connection_id: u32) -> Self {
        self.set_connection_id(connection_id);
        self
    }

    /// Encodes the header with a zero checksum field.
    pub(crate) fn to_bytes(self, data_offset_words: u8) -> [u8; HEADER_BYTES] {
        let reserved = match self.profile {
            Profile::Classic => 0,
            Profile::Modern => MODERN_BIT | self.epoch & EPOCH_BITS,
        };
        let control = u16::from(data_offset_words) << 12 | u16::from(reserved) << 6 | self.flags.to_control();
        let words = [
            self.connection_id(),
            self.block_id,
            self.s1,
            u32::from(control) << 16, // lower half: checksum field
            self.s2,
            self.s3,
        ];
        let mut bytes = [0; HEADER_BYTES];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }
}

/// A received header, before any integrity check.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawHeader {
    pub(crate) header: Header,
    /// Offset of the payload from the datagram's begin, bytes.
    pub(crate) data_offset_bytes: usize,
    /// Value of the checksum field.
    pub(crate) checksum: u16,
    /// Word after the header if the data offset leaves room for exactly one word, else 0. It is a stream id in modern
    /// segments other than SYN and SYNACK.
    seventh_word: u32,
}

/// Payload offset of a segment with a stream id.
const BEHIND_STREAM_ID: usize = HEADER_BYTES + STREAM_ID_BYTES;
/// Payload offset of a segment of one message.
const BEHIND_MESSAGE: usize = HEADER_BYTES + MESSAGE_WORDS_BYTES;
/// Payload offset of a segment of several messages.
const BEHIND_MESSAGE_GROUP: usize = BEHIND_MESSAGE + MESSAGE_GROUP_BYTES;

/// Content of the words between header and payload, after the handshake.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Extension {
    /// Stream id; [`StreamId::FIRST`] without such words.
    Stream(StreamId),
    /// Three or four words of a message segment.
    Message,
}

impl RawHeader {
    /// Reads the header of a received datagram, which must not exceed the maximum length.
    #[inline]
    pub(crate) fn of_datagram(datagram: &[u8]) -> Result<Self, DecodeError> {
        if datagram.len() > DATAGRAM_BYTES_MAX {
            return Err(DecodeError::TooLong { bytes: datagram.len() });
        }
        Self::read(datagram)
    }

    /// Returns the connection id of a modern segment other than SYN; `None` for other datagrams.
    #[inline]
    pub(crate) fn connection_id(datagram: &[u8]) -> Option<u32> {
        let &[a, b, c, d, _, _, _, _, _, _, _, _, high, low, ..] = datagram.first_chunk::<HEADER_BYTES>()?;
        let control = u16::from_be_bytes([high, low]);
        let is_modern = (control >> 6) as u8 & MODERN_BIT != 0;
        (is_modern && Flags::from_control(control) != Flags::SYN).then_some(u32::from_be_bytes([a, b, c, d]))
    }

    /// Reads the header of a datagram, and checks the fields that need no context.
    #[inline]
    pub(crate) fn read(datagram: &[u8]) -> Result<Self, DecodeError> {
        let Some(bytes) = datagram.first_chunk::<HEADER_BYTES>() else {
            return Err(DecodeError::TooShort { bytes: datagram.len() });
        };
        let mut words = [0; HEADER_BYTES / 4];
        for (word, chunk) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u32::from_be_bytes(*chunk);
        }
        let [ports, block_id, s1, control_and_checksum, s2, s3] = words;
        let control = (control_and_checksum >> 16) as u16;
        let flags = Flags::from_control(control);
        let (profile, epoch) = profile_and_epoch((control >> 6) as u8 & 0x3F)?;
        if profile == Profile::Classic && flags.intersects(MODERN_FLAGS) {
            return Err(DecodeError::FlagsOfProfile { flags });
        }
        let data_offset_words = (control >> 12) as u8;
        let data_offset_bytes = usize::from(data_offset_words) * 4;
        if data_offset_words < DATA_OFFSET_WORDS_MIN || data_offset_bytes > datagram.len() {
            return Err(DecodeError::DataOffset { words: data_offset_words, bytes: datagram.len() });
        }
        let header = Header { source_port: 0, destination_port: 0, block_id, s1, flags, profile, epoch, s2, s3 }
            .with_connection_id(ports);
        let seventh_word = match datagram.get(HEADER_BYTES..data_offset_bytes).map(<[u8; STREAM_ID_BYTES]>::try_from) {
            Some(Ok(word)) => u32::from_be_bytes(word),
            _ => 0,
        };
        Ok(Self { header, data_offset_bytes, checksum: control_and_checksum as u16, seventh_word })
    }

    /// Returns the payload of this header's datagram, up to `end`.
    #[inline]
    pub(crate) fn payload<'a>(&self, datagram: &'a [u8], end: usize) -> Result<&'a [u8], DecodeError> {
        // `end` may be below the data offset, if the offset points into the CRC.
        let words = (self.data_offset_bytes / 4) as u8;
        datagram.get(self.data_offset_bytes..end).ok_or(DecodeError::DataOffset { words, bytes: end })
    }

    /// Decodes the options of this header's datagram.
    #[inline]
    pub(crate) fn options(&self, datagram: &[u8]) -> Result<Options, DecodeError> {
        let area = datagram.get(HEADER_BYTES..self.data_offset_bytes).unwrap_or_default();
        // Almost no segment has options.
        let options = if area.is_empty() { Options::default() } else { Options::read(area)? };
        match options.profile {
            Some(option) if option != self.header.profile => {
                Err(DecodeError::ProfileMismatch { option, header: self.header.profile })
            }
            _ => Ok(options),
        }
    }

    /// Decodes the words after the header of a modern segment other than SYN or SYNACK, which cannot have options.
    #[inline]
    pub(crate) const fn extension(&self) -> Result<Extension, DecodeError> {
        match self.data_offset_bytes {
            HEADER_BYTES => Ok(Extension::Stream(StreamId::FIRST)),
            BEHIND_STREAM_ID if self.seventh_word == 0 => Err(DecodeError::StreamIdZero),
            BEHIND_STREAM_ID => Ok(Extension::Stream(StreamId::from_word(self.seventh_word))),
            bytes => longer_extension(bytes, self.header.flags),
        }
    }
}

/// Handles extensions longer than a stream id, outside of the hot path of most segments.
#[cold]
#[inline(never)]
const fn longer_extension(data_offset_bytes: usize, flags: Flags) -> Result<Extension, DecodeError> {
    match data_offset_bytes {
        BEHIND_MESSAGE | BEHIND_MESSAGE_GROUP if flags.contains(Flags::MESSAGE) => Ok(Extension::Message),
        bytes => Err(DecodeError::OptionsAfterHandshake { words: (bytes / 4) as u8 }),
    }
}

/// Decodes the six reserved bits: all zero for classic; otherwise the modern bit, the message bit, two zeros and the
/// epoch.
const fn profile_and_epoch(bits: u8) -> Result<(Profile, u8), DecodeError> {
    match bits & !(EPOCH_BITS | MESSAGE_BIT) {
        0 if bits == 0 => Ok((Profile::Classic, 0)),
        MODERN_BIT => Ok((Profile::Modern, bits & EPOCH_BITS)),
        _ => Err(DecodeError::ReservedBits { bits }),
    }
}
