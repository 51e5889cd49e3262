//! Payload of modern handshake segments: parameters as type (1 byte), length of the value (2 bytes), value; big endian.
//! As options they would exceed the limit of 36 bytes, which follows from the data offset.

use crate::bytes::{Reader, Writer};
use crate::{DecodeError, EncodeError, Features, StreamLimits};

/// Parameters that each side sends when a modern connection opens. All of them are mandatory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameters {
    /// Connection id that the peer must put into segments to this side; not zero.
    pub connection_id: u32,
    /// This side's limits on receiving.
    pub offer: Offer,
}

/// A side's limits on receiving, advertised to the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    /// Receive window, blocks from the first incomplete one on.
    pub window_blocks: u32,
    /// Memory of this side for undelivered blocks, bytes.
    pub receive_memory_bytes: u64,
    /// Limit on the receive rate, bits of IP packets per second; 0 for no limit.
    pub rate_max_bps: u64,
    /// Idle timeout of this side, ms; 0 for none.
    pub idle_timeout_ms: u32,
    /// Initial limits on the peer's streams of each kind; stream 0 does not count.
    pub streams: StreamLimits,
}

/// Handshake payload, in plaintext or within a Noise message. `spec/wire-format.md` §8 and `spec/security.md` §2 define
/// the mandatory parameters of each payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Payload<'a> {
    /// Length of the padding, bytes; `None` without a padding parameter.
    pub padding_bytes: Option<usize>,
    /// Connection id that the peer must use; not zero.
    pub connection_id: Option<u32>,
    /// Receive window, blocks; see [`Offer::window_blocks`].
    pub window_blocks: Option<u32>,
    /// Receive memory, bytes; see [`Offer::receive_memory_bytes`].
    pub receive_memory_bytes: Option<u64>,
    /// Rate limit, bit/s; see [`Offer::rate_max_bps`].
    pub rate_max_bps: Option<u64>,
    /// Idle timeout, ms; see [`Offer::idle_timeout_ms`].
    pub idle_timeout_ms: Option<u32>,
    /// Limit of bidirectional streams, see [`Offer::streams`].
    pub streams_bidirectional: Option<u32>,
    /// Limit of one-way streams, see [`Offer::streams`].
    pub streams_one_way: Option<u32>,
    /// Address cookie that an acceptor requests.
    pub cookie: Option<&'a [u8]>,
    /// Cipher ids in order of preference.
    pub ciphers: Option<&'a [u8]>,
    /// Symbol size of the connection, bytes.
    pub symbol_size: Option<u16>,
    /// S3 (datagram number) of the SYN that this payload answers.
    pub echo: Option<u32>,
    /// Features chosen from the SYN's offer.
    pub features: Option<Features>,
    /// Noise pattern id and Noise message.
    pub noise: Option<(u8, &'a [u8])>,
}

/// Highest parameter type that a reader may ignore if it does not know the type.
const IGNORABLE_KIND_MAX: u8 = 127;
const PADDING: u8 = 0;
const CONNECTION_ID: u8 = 1;
const WINDOW_BLOCKS: u8 = 2;
const RECEIVE_MEMORY: u8 = 3;
const RATE_MAX: u8 = 4;
const IDLE_TIMEOUT: u8 = 5;
const COOKIE: u8 = 16;
const CIPHERS: u8 = 17;
const SYMBOL_SIZE: u8 = 18;
const ECHO: u8 = 19;
const FEATURES: u8 = 20;
const STREAMS_BIDIRECTIONAL: u8 = 21;
const STREAMS_ONE_WAY: u8 = 22;
const NOISE: u8 = 128;

/// Maximum length of a cookie, and of a list of ciphers, bytes.
const SHORT_VALUE_BYTES_MAX: usize = 64;

/// Length of a parameter without its value, bytes.
pub const PARAMETER_HEADER_BYTES: usize = 3;

/// Length of encoded [`Parameters`], bytes.
pub const PARAMETERS_BYTES: usize = 7 * PARAMETER_HEADER_BYTES + 4 + 4 + 8 + 8 + 4 + 4 + 4;

impl Parameters {
    /// Encodes the payload in ascending order of types, and returns its length, [`PARAMETERS_BYTES`].
    ///
    /// # Errors
    /// Fails with [`EncodeError::ConnectionIdZero`] or [`EncodeError::BufferTooSmall`].
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, EncodeError> {
        Payload { connection_id: Some(self.connection_id), ..Payload::default() }.with_offer(&self.offer).encode(out)
    }

    /// Decodes the payload of a plaintext SYN or SYNACK. Unknown types below 128 are skipped.
    ///
    /// # Errors
    /// Fails for a truncated, repeated, missing, ill-sized or unknown critical parameter, for connection id 0, and for
    /// a Noise message, which shows that the sender requires encryption.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let payload = Payload::decode(payload)?;
        if payload.noise.is_some() {
            return Err(DecodeError::CriticalParameter { kind: NOISE });
        }
        Ok(Self { connection_id: payload.connection_id()?, offer: payload.offer()? })
    }
}

impl<'a> Payload<'a> {
    /// Adds the parameters of an offer to the payload.
    #[must_use]
    pub fn with_offer(self, offer: &Offer) -> Self {
        Self {
            window_blocks: Some(offer.window_blocks),
            receive_memory_bytes: Some(offer.receive_memory_bytes),
            rate_max_bps: Some(offer.rate_max_bps),
            idle_timeout_ms: Some(offer.idle_timeout_ms),
            streams_bidirectional: Some(offer.streams.bidirectional),
            streams_one_way: Some(offer.streams.one_way),
            ..self
        }
    }

    /// Returns the offer in the payload.
    ///
    /// # Errors
    /// Fails with [`DecodeError::ParameterMissing`] if the offer is incomplete.
    pub fn offer(&self) -> Result<Offer, DecodeError> {
        let missing = |field| DecodeError::ParameterMissing { field };
        Ok(Offer {
            window_blocks: self.window_blocks.ok_or_else(|| missing("window"))?,
            receive_memory_bytes: self.receive_memory_bytes.ok_or_else(|| missing("receive memory"))?,
            rate_max_bps: self.rate_max_bps.ok_or_else(|| missing("rate cap"))?,
            idle_timeout_ms: self.idle_timeout_ms.ok_or_else(|| missing("idle timeout"))?,
            streams: StreamLimits {
                bidirectional: self.streams_bidirectional.ok_or_else(|| missing("bidirectional streams"))?,
                one_way: self.streams_one_way.ok_or_else(|| missing("one-way streams"))?,
            },
        })
    }

    /// Returns the connection id in the payload.
    ///
    /// # Errors
    /// Fails with [`DecodeError::ParameterMissing`] if there is no connection id.
    pub fn connection_id(&self) -> Result<u32, DecodeError> {
        self.connection_id.ok_or(DecodeError::ParameterMissing { field: "connection id" })
    }

    /// Encodes the payload in ascending order of types, and returns its length.
    ///
    /// # Errors
    /// Fails with [`EncodeError::ConnectionIdZero`], [`EncodeError::ParameterTooLong`] or
    /// [`EncodeError::BufferTooSmall`].
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, EncodeError> {
        if self.connection_id == Some(0) {
            return Err(EncodeError::ConnectionIdZero);
        }
        let mut writer = Writer::new(out);
        if let Some(bytes) = self.padding_bytes {
            put_header(&mut writer, PADDING, bytes)?;
            for _ in 0..bytes {
                writer.put(&[0])?;
            }
        }
        put(&mut writer, CONNECTION_ID, self.connection_id.map(u32::to_be_bytes))?;
        put(&mut writer, WINDOW_BLOCKS, self.window_blocks.map(u32::to_be_bytes))?;
        put(&mut writer, RECEIVE_MEMORY, self.receive_memory_bytes.map(u64::to_be_bytes))?;
        put(&mut writer, RATE_MAX, self.rate_max_bps.map(u64::to_be_bytes))?;
        put(&mut writer, IDLE_TIMEOUT, self.idle_timeout_ms.map(u32::to_be_bytes))?;
        put(&mut writer, COOKIE, self.cookie)?;
        put(&mut writer, CIPHERS, self.ciphers)?;
        put(&mut writer, SYMBOL_SIZE, self.symbol_size.map(u16::to_be_bytes))?;
        put(&mut writer, ECHO, self.echo.map(u32::to_be_bytes))?;
        put(&mut writer, FEATURES, self.features.map(|features| features.bits().to_be_bytes()))?;
        put(&mut writer, STREAMS_BIDIRECTIONAL, self.streams_bidirectional.map(u32::to_be_bytes))?;
        put(&mut writer, STREAMS_ONE_WAY, self.streams_one_way.map(u32::to_be_bytes))?;
        if let Some((pattern, message)) = self.noise {
            put_header(&mut writer, NOISE, 1 + message.len())?;
            writer.put(&[pattern])?;
            writer.put(message)?;
        }
        Ok(writer.len())
    }

    /// Decodes a payload. Unknown types below 128 are skipped.
    ///
    /// # Errors
    /// Fails for a truncated, repeated, ill-sized or unknown critical parameter, or connection id 0.
    pub fn decode(payload: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(payload);
        let mut found = Self::default();
        let mut seen = [0_u128; 2];
        while let Some([kind]) = reader.array() {
            let left = reader.left();
            let Some(length) = reader.array() else {
                return Err(DecodeError::ParameterTruncated { kind, need: 2, left });
            };
            let need = usize::from(u16::from_be_bytes(length));
            let left = reader.left();
            let Some(value) = reader.take(need) else {
                return Err(DecodeError::ParameterTruncated { kind, need, left });
            };
            let (word, bit) = (&mut seen[usize::from(kind >> 7)], kind & 127);
            if *word >> bit & 1 == 1 {
                return Err(DecodeError::ParameterDuplicate { kind });
            }
            *word |= 1 << bit;
            found.read_one(kind, value)?;
        }
        Ok(found)
    }

    fn read_one(&mut self, kind: u8, value: &'a [u8]) -> Result<(), DecodeError> {
        match kind {
            PADDING => self.padding_bytes = Some(value.len()),
            CONNECTION_ID => {
                let id = u32::from_be_bytes(exact(value, "connection id")?);
                self.connection_id = Some(id).filter(|&id| id != 0).ok_or(DecodeError::ConnectionIdZero)?.into();
            }
            WINDOW_BLOCKS => self.window_blocks = Some(u32::from_be_bytes(exact(value, "window")?)),
            RECEIVE_MEMORY => self.receive_memory_bytes = Some(u64::from_be_bytes(exact(value, "receive memory")?)),
            RATE_MAX => self.rate_max_bps = Some(u64::from_be_bytes(exact(value, "rate cap")?)),
            IDLE_TIMEOUT => self.idle_timeout_ms = Some(u32::from_be_bytes(exact(value, "idle timeout")?)),
            COOKIE => self.cookie = Some(short(value, "cookie")?),
            CIPHERS => self.ciphers = Some(short(value, "cipher list")?),
            SYMBOL_SIZE => self.symbol_size = Some(u16::from_be_bytes(exact(value, "symbol size")?)),
            ECHO => self.echo = Some(u32::from_be_bytes(exact(value, "echo")?)),
            FEATURES => self.features = Some(Features::from_bits(u32::from_be_bytes(exact(value, "features")?))),
            STREAMS_BIDIRECTIONAL => {
                self.streams_bidirectional = Some(u32::from_be_bytes(exact(value, "bidirectional streams")?));
            }
            STREAMS_ONE_WAY => self.streams_one_way = Some(u32::from_be_bytes(exact(value, "one-way streams")?)),
            NOISE => {
                let length = DecodeError::ParameterLength { field: "Noise message", got: 0, expected: 1 };
                let (&pattern, message) = value.split_first().ok_or(length)?;
                self.noise = Some((pattern, message));
            }
            _ if kind <= IGNORABLE_KIND_MAX => {}
            _ => return Err(DecodeError::CriticalParameter { kind }),
        }
        Ok(())
    }
}

fn put_header(writer: &mut Writer<'_>, kind: u8, bytes: usize) -> Result<(), EncodeError> {
    let Ok(length) = u16::try_from(bytes) else { return Err(EncodeError::ParameterTooLong { bytes }) };
    writer.put(&[kind])?;
    writer.put(&length.to_be_bytes())
}

fn put(writer: &mut Writer<'_>, kind: u8, value: Option<impl AsRef<[u8]>>) -> Result<(), EncodeError> {
    let Some(value) = value else { return Ok(()) };
    put_header(writer, kind, value.as_ref().len())?;
    writer.put(value.as_ref())
}

fn exact<const N: usize>(value: &[u8], field: &'static str) -> Result<[u8; N], DecodeError> {
    value.try_into().map_err(|_| DecodeError::ParameterLength { field, got: value.len(), expected: N })
}

fn short<'a>(value: &'a [u8], field: &'static str) -> Result<&'a [u8], DecodeError> {
    let fits = (1..=SHORT_VALUE_BYTES_MAX).contains(&value.len());
    let wrong = DecodeError::ParameterLength { field, got: value.len(), expected: SHORT_VALUE_BYTES_MAX };
    fits.then_some(value).ok_or(wrong)
}
