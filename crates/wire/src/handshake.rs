//! The payload of modern SYN and SYNACK segments: parameters as type (1 byte), length of the value (2 bytes), value;
//! big endian. They do not fit among the options, which the data offset limits to 36 bytes.

use crate::bytes::{Reader, Writer};
use crate::{DecodeError, EncodeError};

/// What a side tells its peer when a modern connection opens. All five are mandatory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameters {
    /// The connection id which the peer must put into segments to this side; not zero.
    pub connection_id: u32,
    /// Blocks, from the next one needed, which this side will accept.
    pub window_blocks: u32,
    /// Bytes which this side will hold for blocks not yet delivered.
    pub receive_memory_bytes: u64,
    /// The most which this side wants to receive, in IP bits per second; 0 for no cap.
    pub rate_max_bps: u64,
    /// Silence after which this side gives the connection up; 0 for never.
    pub idle_timeout_ms: u32,
}

/// Types up to this one may be ignored by those who do not know them.
const IGNORABLE_KIND_MAX: u8 = 127;
const CONNECTION_ID: u8 = 1;
const WINDOW_BLOCKS: u8 = 2;
const RECEIVE_MEMORY: u8 = 3;
const RATE_MAX: u8 = 4;
const IDLE_TIMEOUT: u8 = 5;

/// Bytes of an encoded [`Parameters`].
pub const PARAMETERS_BYTES: usize = 5 * 3 + 4 + 4 + 8 + 8 + 4;

impl Parameters {
    /// Writes the payload in ascending order of types; returns [`PARAMETERS_BYTES`].
    ///
    /// # Errors
    /// [`EncodeError::ConnectionIdZero`], or [`EncodeError::BufferTooSmall`].
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, EncodeError> {
        if self.connection_id == 0 {
            return Err(EncodeError::ConnectionIdZero);
        }
        let mut writer = Writer::new(out);
        put(&mut writer, CONNECTION_ID, self.connection_id.to_be_bytes())?;
        put(&mut writer, WINDOW_BLOCKS, self.window_blocks.to_be_bytes())?;
        put(&mut writer, RECEIVE_MEMORY, self.receive_memory_bytes.to_be_bytes())?;
        put(&mut writer, RATE_MAX, self.rate_max_bps.to_be_bytes())?;
        put(&mut writer, IDLE_TIMEOUT, self.idle_timeout_ms.to_be_bytes())?;
        Ok(writer.len())
    }

    /// Reads the payload. Unknown types below 128 are skipped.
    ///
    /// # Errors
    /// [`DecodeError`] for a truncated, repeated, missing, ill-sized or unknown critical parameter, or connection id 0.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(payload);
        let mut found = Found::default();
        let mut seen = 0_u128;
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
            if kind > IGNORABLE_KIND_MAX {
                return Err(DecodeError::CriticalParameter { kind });
            }
            if seen >> kind & 1 == 1 {
                return Err(DecodeError::ParameterDuplicate { kind });
            }
            seen |= 1 << kind;
            found.read_one(kind, value)?;
        }
        found.complete()
    }
}

/// The parameters met so far.
#[derive(Default)]
struct Found {
    connection_id: Option<u32>,
    window_blocks: Option<u32>,
    receive_memory_bytes: Option<u64>,
    rate_max_bps: Option<u64>,
    idle_timeout_ms: Option<u32>,
}

impl Found {
    fn read_one(&mut self, kind: u8, value: &[u8]) -> Result<(), DecodeError> {
        match kind {
            CONNECTION_ID => self.connection_id = Some(u32::from_be_bytes(exact(value, "connection id")?)),
            WINDOW_BLOCKS => self.window_blocks = Some(u32::from_be_bytes(exact(value, "window")?)),
            RECEIVE_MEMORY => self.receive_memory_bytes = Some(u64::from_be_bytes(exact(value, "receive memory")?)),
            RATE_MAX => self.rate_max_bps = Some(u64::from_be_bytes(exact(value, "rate cap")?)),
            IDLE_TIMEOUT => self.idle_timeout_ms = Some(u32::from_be_bytes(exact(value, "idle timeout")?)),
            _ => {} // unknown and ignorable
        }
        Ok(())
    }

    fn complete(self) -> Result<Parameters, DecodeError> {
        let missing = |field| DecodeError::ParameterMissing { field };
        let connection_id = self.connection_id.ok_or_else(|| missing("connection id"))?;
        if connection_id == 0 {
            return Err(DecodeError::ConnectionIdZero);
        }
        Ok(Parameters {
            connection_id,
            window_blocks: self.window_blocks.ok_or_else(|| missing("window"))?,
            receive_memory_bytes: self.receive_memory_bytes.ok_or_else(|| missing("receive memory"))?,
            rate_max_bps: self.rate_max_bps.ok_or_else(|| missing("rate cap"))?,
            idle_timeout_ms: self.idle_timeout_ms.ok_or_else(|| missing("idle timeout"))?,
        })
    }
}

fn put<const N: usize>(writer: &mut Writer<'_>, kind: u8, value: [u8; N]) -> Result<(), EncodeError> {
    writer.put(&[kind, 0, N as u8])?;
    writer.put(&value)
}

fn exact<const N: usize>(value: &[u8], field: &'static str) -> Result<[u8; N], DecodeError> {
    value.try_into().map_err(|_| DecodeError::ParameterLength { field, got: value.len(), expected: N })
}
