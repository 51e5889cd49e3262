//! Options between header and payload: kind (1 byte), length of the value (1 byte), value; big endian. Kind 0 ends the
//! options, and zeros pad them to a multiple of 32 bits.

use crate::bytes::Reader;
use crate::{CLASSIC_BLOCK_BYTES, DATAGRAM_BYTES_MAX, DecodeError, Features, HEADER_BYTES, Profile};

/// Options of a segment; `None` for an absent option. The default has no options.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Options {
    /// Version of the protocol; [`crate::VERSION`] for this version. Other values decode, so that the peer can be
    /// answered.
    pub(crate) version: Option<u8>,
    /// Requested profile; always equal to the profile of the header.
    pub(crate) profile: Option<Profile>,
    /// Code id: 0 classic Raptor, 1 random linear over GF(256), 2 reserved. Other values decode.
    pub(crate) code: Option<u8>,
    /// Length of an encoding symbol, bytes; 1 to 1476.
    pub(crate) symbol_size: Option<u16>,
    /// True length of a short classic block, bytes; 1 to 63 536.
    pub(crate) block_length: Option<u32>,
    /// Feature bits, whose meaning the protocol defines.
    pub(crate) features: Option<Features>,
}

/// Highest option kind that a reader may ignore if it does not know the kind.
const IGNORABLE_KIND_MAX: u8 = 127;
const END: u8 = 0;
const VERSION: u8 = 1;
const PROFILE: u8 = 2;
const CODE: u8 = 3;
const SYMBOL_SIZE: u8 = 4;
const BLOCK_LENGTH: u8 = 5;
const FEATURES: u8 = 6;

/// Symbol size in the range of option 4: 1 to 1476 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SymbolSize(u16);

impl SymbolSize {
    /// Largest size: a datagram without its header. Integrity protection makes the limit of a connection smaller
    /// ([`payload_bytes_max`](crate::payload_bytes_max)).
    pub const MAX: Self = Self((DATAGRAM_BYTES_MAX - HEADER_BYTES) as u16);

    /// Makes a symbol size; `None` if `bytes` is out of range.
    #[must_use]
    pub const fn new(bytes: u16) -> Option<Self> {
        if bytes >= 1 && bytes <= Self::MAX.0 { Some(Self(bytes)) } else { None }
    }

    /// Returns the nearest valid size, for a caller whose own range is narrower.
    #[must_use]
    pub const fn nearest(bytes: u16) -> Self {
        match bytes {
            0 => Self(1),
            _ if bytes > Self::MAX.0 => Self::MAX,
            _ => Self(bytes),
        }
    }

    /// Returns the size in bytes.
    #[must_use]
    pub const fn bytes(self) -> u16 {
        self.0
    }
}

/// Length of [`BlockLength`] as an option, including padding, bytes.
pub(crate) const BLOCK_LENGTH_OPTION_BYTES: usize = 8;

/// True length of a classic block in bytes, 1 to 63 536.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockLength(u32);

impl BlockLength {
    /// Makes a block length; `None` if `bytes` is out of range.
    #[must_use]
    pub const fn new(bytes: u32) -> Option<Self> {
        if bytes >= 1 && bytes <= CLASSIC_BLOCK_BYTES { Some(Self(bytes)) } else { None }
    }

    /// Returns the length in bytes.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        self.0
    }

    /// Returns the encoded option, including padding.
    pub(crate) const fn to_option(self) -> [u8; BLOCK_LENGTH_OPTION_BYTES] {
        let [a, b, c, d] = self.0.to_be_bytes();
        [5, 4, a, b, c, d, 0, 0]
    }
}

impl Options {
    /// Decodes the bytes between header and payload.
    pub(crate) fn read(area: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(area);
        let mut options = Self::default();
        let mut seen = 0_u128;
        while let Some([kind]) = reader.array() {
            if kind == END {
                return match reader.rest().iter().find(|byte| **byte != 0) {
                    None => Ok(options),
                    Some(&found) => Err(DecodeError::OptionPadding { found }),
                };
            }
            let Some([length]) = reader.array() else {
                return Err(DecodeError::OptionTruncated { kind, need: 1, left: 0 });
            };
            let need = usize::from(length);
            let left = reader.left();
            let Some(value) = reader.take(need) else {
                return Err(DecodeError::OptionTruncated { kind, need, left });
            };
            if kind > IGNORABLE_KIND_MAX {
                return Err(DecodeError::CriticalOption { kind });
            }
            if seen >> kind & 1 == 1 {
                return Err(DecodeError::OptionDuplicate { kind });
            }
            seen |= 1 << kind;
            options.read_one(kind, value)?;
        }
        Ok(options)
    }

    fn read_one(&mut self, kind: u8, value: &[u8]) -> Result<(), DecodeError> {
        match kind {
            VERSION => self.version = Some(u8::from_be_bytes(exact(value, "version")?)),
            PROFILE => {
                let byte = u8::from_be_bytes(exact(value, "profile")?);
                let out_of_range = DecodeError::OptionValue { field: "profile", value: u32::from(byte) };
                self.profile = Some(Profile::from_byte(byte).ok_or(out_of_range)?);
            }
            CODE => self.code = Some(u8::from_be_bytes(exact(value, "code")?)),
            SYMBOL_SIZE => {
                let bytes = u16::from_be_bytes(exact(value, "symbol size")?);
                if SymbolSize::new(bytes).is_none() {
                    return Err(DecodeError::OptionValue { field: "symbol size", value: u32::from(bytes) });
                }
                self.symbol_size = Some(bytes);
            }
            BLOCK_LENGTH => {
                let bytes = u32::from_be_bytes(exact(value, "block length")?);
                if BlockLength::new(bytes).is_none() {
                    return Err(DecodeError::OptionValue { field: "block length", value: bytes });
                }
                self.block_length = Some(bytes);
            }
            FEATURES => self.features = Some(Features::from_bits(u32::from_be_bytes(exact(value, "features")?))),
            _ => {} // unknown kind that may be ignored
        }
        Ok(())
    }
}

fn exact<const N: usize>(value: &[u8], field: &'static str) -> Result<[u8; N], DecodeError> {
    value.try_into().map_err(|_| DecodeError::OptionLength { field, got: value.len(), expected: N })
}
