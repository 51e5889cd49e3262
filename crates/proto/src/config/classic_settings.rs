//! Settings of classic connections.

use dfcp_fountain::raptor::REDUNDANCY_DEFAULT_BYTES;

/// Initial values of the settable parameters of table 3.2, for a classic connection. *Window size* is
/// [`Config::window_blocks`](crate::Config::window_blocks).
///
/// ```
/// # mod dfcp { pub use dfcp_proto::*; pub use dfcp_proto as classic; }
/// use dfcp::Config;
/// use dfcp::classic::ClassicSettings;
///
/// // A token bucket of 2 segments, filled by one in each tick.
/// let bucket = ClassicSettings { maxtokens: 2_840, inctokens: 1_420, ..ClassicSettings::default() };
/// let config = Config::danger_classic().with_classic(bucket);
/// assert!(config.validate().is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct ClassicSettings {
    /// *Redundancy*: encoded bytes received of a block before the receiver tries to decode it. Default 66 740, 5 % more
    /// than a block.
    pub redundancy_bytes: u32,
    /// *Coding*: `true` encodes every block. `false` repeats the encoding of the first block (*offline encoding*,
    /// thesis §3.12.1), and so delivers the first block's bytes again and again: for measurements without the cost of
    /// the codec.
    pub coding: bool,
    /// *Decoding*: `true` decodes blocks. `false` only counts their bytes and delivers zeros (thesis §3.12.1).
    pub decoding: bool,
    /// *Maxtokens*: capacity of the token bucket, encoded bytes. 0, the default, disables the bucket.
    pub maxtokens: u32,
    /// *Numtokens*: initial tokens in the bucket, bytes. Default 0.
    pub numtokens: u32,
    /// *Inctokens*: tokens added per interval, bytes. 0, the default, disables the bucket.
    /// [`inctokens`](crate::inctokens) computes it for a rate.
    pub inctokens: u32,
    /// *Inttokens*: ticks of 4 ms per interval. Default 1.
    pub inttokens: u32,
    /// Keeps flooding a silent peer, as the documents' sender does, instead of sending one segment per 100 ms
    /// (`spec/protocol.md` \[classic-7\]). For experiments only, since it harms other flows on the path. Default off.
    pub endless: bool,
}

impl Default for ClassicSettings {
    fn default() -> Self {
        Self {
            redundancy_bytes: REDUNDANCY_DEFAULT_BYTES as u32,
            coding: true,
            decoding: true,
            maxtokens: 0,
            numtokens: 0,
            inctokens: 0,
            inttokens: 1,
            endless: false,
        }
    }
}
