//! Settings of classic connections.

use dfcp_fountain::raptor::REDUNDANCY_DEFAULT_BYTES;

/// Initial values of those parameters of table 3.2 that can be set, for a classic connection. *Window size* is
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
    /// *Redundancy*: encoded bytes of a block from which the receiver tries to decode it. Default 66 740, 5 % more than a block.
    pub redundancy_bytes: u32,
    /// *Coding*: encode every block (`true`), or repeat the first block's encoding (*offline encoding*, thesis §3.12.1), which
    /// delivers the first block's bytes over and over: for measurements without the codec's cost.
    pub coding: bool,
    /// *Decoding*: decode blocks (`true`), or only count their bytes and deliver zeros (thesis §3.12.1).
    pub decoding: bool,
    /// *Maxtokens*: capacity of the token bucket, encoded bytes; 0, the default, is no bucket.
    pub maxtokens: u32,
    /// *Numtokens*: tokens in the bucket at first. Default 0.
    pub numtokens: u32,
    /// *Inctokens*: tokens added per interval; 0, the default, is no bucket. [`inctokens`](crate::inctokens) has it for a rate.
    pub inctokens: u32,
    /// *Inttokens*: ticks of 4 ms per interval. Default 1.
    pub inttokens: u32,
    /// Goes on flooding a peer of which nothing is heard, as the documents' sender does, instead of one segment per 100 ms
    /// (`spec/protocol.md` \[classic-7\]). For experiments alone: others on the path pay for it. Default off.
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
