//! SYN and SYNACK: the two segments that open a connection.

use super::Fields;
use crate::options::Options;
use crate::{Features, Flags, Profile, StreamId, SymbolSize};

/// Requests a connection. The payload is a [handshake payload](crate::handshake::Payload).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Syn {
    /// Requested options; `None` if a mandatory option is missing.
    pub options: Option<SynOptions>,
}

/// Answers a [`Syn`]. The payload is a [handshake payload](crate::handshake::Payload).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SynAck {
    /// Datagram number of the newest received copy of the SYN; 0 in encrypted connections, where the Noise message
    /// states it.
    pub echo: u32,
    /// Accepted options; `None` in encrypted connections, or if a mandatory option is missing.
    pub options: Option<SynOptions>,
}

/// Options of a modern SYN: options 1 to 4 and 6 of `spec/wire-format.md` §4. The profile equals the profile of the
/// header. Unknown versions and codes decode, so that their senders can be answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SynOptions {
    /// Version of the protocol: [`VERSION`](crate::VERSION).
    pub version: u8,
    /// Code id: 0 classic Raptor, 1 random linear over GF(256), 2 reserved.
    pub code: u8,
    /// Maximum size of an encoding symbol, 1 to 1476 bytes.
    pub symbol_size: SymbolSize,
    /// Features that the sender offers (SYN) or has chosen (SYNACK); empty if the option is absent.
    pub features: Features,
}

impl SynOptions {
    /// Length of these options between header and payload, including padding, bytes.
    pub const BYTES: usize = 20;

    /// Returns the encoded options, including padding. The handshake's prologue also contains them (`spec/security.md`
    /// \[noise-4\]).
    #[must_use]
    pub const fn to_bytes(self) -> [u8; Self::BYTES] {
        let [size_high, size_low] = self.symbol_size.bytes().to_be_bytes();
        let [a, b, c, d] = self.features.bits().to_be_bytes();
        [1, 1, self.version, 2, 1, 1, 3, 1, self.code, 4, 2, size_high, size_low, 6, 4, a, b, c, d, 0]
    }

    fn from_options(options: &Options) -> Option<Self> {
        let Options { version, profile: Some(Profile::Modern), code, symbol_size, block_length: _, features } =
            *options
        else {
            return None;
        };
        // A peer of version 1 lacks this option, but its SYN must be decoded to be answered.
        let features = features.unwrap_or_default();
        Some(Self { version: version?, code: code?, symbol_size: SymbolSize::new(symbol_size?)?, features })
    }
}

impl Syn {
    pub(super) const fn fields(self) -> Fields {
        Fields { flags: Flags::SYN, block_id: 0, s1: 0, s2: 0, stream: StreamId::FIRST }
    }

    pub(super) fn read(options: &Options) -> Self {
        Self { options: SynOptions::from_options(options) }
    }
}

impl SynAck {
    pub(super) const FLAGS: Flags = Flags::SYN.union(Flags::ACK);

    pub(super) const fn fields(self) -> Fields {
        Fields { flags: Self::FLAGS, block_id: 0, s1: 0, s2: self.echo, stream: StreamId::FIRST }
    }

    pub(super) fn read(echo: u32, options: &Options) -> Self {
        Self { echo, options: SynOptions::from_options(options) }
    }
}
