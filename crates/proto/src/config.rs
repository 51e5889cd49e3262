//! Settings of a connection, as far as a caller may choose them.

#[cfg(feature = "classic")]
mod classic_settings;
mod path_hint;
mod setters;

use std::time::Duration;

use dfcp_secure::{PreSharedKey, StaticKey};
pub use dfcp_wire::Profile;
use dfcp_wire::StreamLimits;
use dfcp_wire::handshake::Offer;

#[cfg(feature = "classic")]
pub use self::classic_settings::ClassicSettings;
pub use self::path_hint::PathHint;
use crate::codec::{Codec, RandomLinear};
use crate::dscp::Dscp;
use crate::error::ConfigError;
use crate::key_log::KeyLog;
use crate::limits;
use crate::observe::Observer;
use crate::proof::symbol_size_max;
pub use crate::schedule::Schedule;
use crate::security::{Credentials, PeerKey, Security};

/// The rate at which a sender may send.
///
/// ```
/// # use dfcp_proto as dfcp;
/// use dfcp::{Config, Rate};
///
/// let config = Config::modern().with_rate(Rate::Fixed { rate_bps: 20_000_000 });
/// assert!(config.validate().is_ok());
/// assert!(config.with_rate(Rate::Fixed { rate_bps: 20 }).validate().is_err(), "20 bit/s are not meant");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Rate {
    /// As fast as the interface takes and the peer's system has room for, whatever happens to the path: what the documents
    /// do (`spec/protocol.md` \[rate-2\]). Never use it on a path which other people share unless its queues are fair.
    Line,
    /// At most this many bits of IP packets per second, paced datagram by datagram; 10⁶ bits are a megabit.
    Fixed {
        /// Bits per second, IP headers included.
        rate_bps: u64,
    },
    /// The rate that the path has room for, found and followed while it is used (`spec/protocol.md`, "Automatic rate"). Modern only.
    Auto {
        /// The share that it takes of a path which others use, too.
        policy: Policy,
        /// Never more than this, bits of IP packets per second; `None` is no limit.
        max_bps: Option<u64>,
        /// Never less than this by its own estimate, bits of IP packets per second; `None` is no such floor. The peer's cap and the
        /// circuit breaker stand above it.
        min_bps: Option<u64>,
    },
}

/// Share of a path that an automatic rate takes beside others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Policy {
    /// It grows as one flow of TCP does among others. What that comes to: `docs/rate.md`.
    #[default]
    Fair,
    /// It grows as two of them do.
    High,
    /// It takes what others leave.
    Low,
}

/// The kind of the application's data; may be changed while the connection runs.
///
/// ```
/// # use dfcp_proto as dfcp;
/// use dfcp::{Config, Traffic};
///
/// let prompt = Config::modern().with_traffic(Traffic::LowLatency); // a terminal, a game, calls of procedures
/// assert_eq!(Config::modern().traffic, Traffic::Bulk);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Traffic {
    /// Much data, least waste: repair symbols are sent when a report shows that they are needed.
    Bulk,
    /// Little data, least delay: repair symbols go with every block, so that no round trip is waited for.
    LowLatency,
}

/// Lead of the application's writing over sending; may be changed while the connection runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendBuffering {
    /// Up to [`UNSENT_BYTES_MAX`](crate::limits::UNSENT_BYTES_MAX): for an application which may take a while to write more, as
    /// it runs elsewhere.
    Deep,
    /// A block, or as much as may be sent at once up to [`UNSENT_SHALLOW_BYTES_MAX`](crate::limits::UNSENT_SHALLOW_BYTES_MAX): for
    /// an application which runs whenever the connection does not, on the same thread. What is written is then sent while
    /// the processor's caches have it.
    Shallow,
}

/// A connection's configuration. Start from [`Config::server`], [`Config::client`] or [`Config::pre_shared`], and change what
/// shall be different:
///
/// ```
/// # use dfcp_proto as dfcp;
/// use std::time::Duration;
///
/// use dfcp::{Config, Rate, StaticKey};
///
/// # fn main() -> Result<(), dfcp_proto::ConfigError> {
/// let key = StaticKey::from_seed(&[7; 32]); // in real use 32 unpredictable bytes, which are kept
/// let client = Config::client(key.public())
///     .with_rate(Rate::Fixed { rate_bps: 20_000_000 })
///     .with_connect_timeout(Duration::from_secs(5));
/// let server = Config::server(key);
/// client.validate()?;
/// server.validate()?;
/// # Ok(())
/// # }
/// ```
///
/// # With the feature `serde`
///
/// It can be written and read, **without `security`**: neither keys nor trusted peers ever get into such a text. What is read is sealed
/// and trusts nobody, like [`Config::modern`], until `security` is set. Durations are numbers of milliseconds (`idle_timeout_ms`, ..),
/// what is left out has the modern profile's default, and unknown names are refused. `codec` is left out, too. The classic profile
/// is called `danger_classic`, since no security set afterwards would protect it.
#[derive(Clone, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default = "Config::modern", deny_unknown_fields)
)]
pub struct Config {
    /// The profile to open, or (on the accepting side) the profile whose other settings these are.
    #[cfg_attr(feature = "serde", serde(with = "crate::serde_with::profile"))]
    pub profile: Profile,
    /// Modern only: keys and trusted peers. Default: sealed, and no peer is trusted until `peer` or `pre_shared` names one.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub security: Security,
    /// The sender's choice of what to send next. Default: `Adaptive` for modern, `Flood` for classic.
    pub schedule: Schedule,
    /// The rate at which the sender may send. Default: `Auto` by policy *fair* and without bounds for modern, `Line` for classic.
    pub rate: Rate,
    /// The circuit breaker: persistent heavy loss makes the sender test if it is the cause (`spec/protocol.md`, "Circuit breaker"). Default
    /// on; has no effect when the rate is `Line`, nor in classic.
    pub breaker: bool,
    /// The kind of data. Default: `Bulk`.
    pub traffic: Traffic,
    /// The largest symbol we send and accept, bytes; the smaller of both ends' is used. Default 1420, which makes an
    /// IPv4 packet of 1492 bytes sealed and 1476 unsealed; 1404 is as much over IPv6. It is an upper bound where
    /// `packet_size_discovery` is on. Modern only: classic segments always carry 1420.
    pub symbol_size: u16,
    /// Packet size discovery: a session begins with packets of 1280 bytes, and finds out by probes how large ones the path carries, up to
    /// `symbol_size` (`spec/protocol.md`, "Packet size"). Both ends must have it on. Default on; off, all packets are as large as
    /// `symbol_size` makes them, and a path which does not carry them carries nothing. Modern only.
    pub packet_size_discovery: bool,
    /// Blocks in the sending and receiving windows (thesis table 3.2, *Window size*). Default `None`: one for each 16 KiB of
    /// `send_buffer_bytes` or of `receive_memory_bytes`, whichever is larger, from 4096 to 16 384; classic 128.
    pub window_blocks: Option<u32>,
    /// Bytes written by the application which may wait or be unacknowledged, at most. Default 64 MiB. A modern connection begins
    /// with [`WINDOW_BYTES_START`](crate::limits::WINDOW_BYTES_START), and doubles it each time that half of it has been proven. A
    /// window of 6–8 times rate × RTT is needed to run at full rate at 50 % loss.
    pub send_buffer_bytes: u64,
    /// Bytes of received blocks which may be open or unread, at most. Default 64 MiB. A modern connection begins with the same, and
    /// doubles it each time that half of it has been read. Blocks take up to three times their bytes while they
    /// are decoded (`spec/protocol.md`, [window-2]).
    pub receive_memory_bytes: u64,
    /// The rate which this receiver permits its peer, bits of IP packets per second; 0 means no limit. The peer's sender
    /// obeys it whatever its own rate. Default 0.
    pub receive_rate_max_bps: u64,
    /// Streams of each kind which the peer may have open at once, the first stream of the session apart. Default 0: it opens
    /// none. Each costs at most [`STREAM_BYTES_MAX`](crate::limits::STREAM_BYTES_MAX) while idle. Modern only.
    #[cfg_attr(feature = "serde", serde(with = "crate::serde_with::StreamLimitsFields"))]
    pub streams: StreamLimits,
    /// Messages may be sent and received ([`Connection::messages`](crate::Connection::messages)); both ends must have it on. Default off. A
    /// receiver holds up to [`MESSAGES_HELD_BYTES_MAX`](crate::limits::MESSAGES_HELD_BYTES_MAX) for them, and as much that its application
    /// has not taken; an accepted connection reserves 144 KiB (plaintext: 80) of its endpoint's memory for their ids. Modern only.
    pub messages: bool,
    /// The part of the session's rate which messages may take beside streams, in percent, 1 to 100. Default 90.
    pub message_share_percent: u8,
    /// Datagrams are marked ECT(0), so that queues mark them instead of dropping them. Marks that come back are counted
    /// ([`Stats::ecn_reported`](crate::Stats::ecn_reported)); no rate answers them yet, so it is for measuring a path, and not for others'
    /// networks (RFC 3168 §5). Default off. Modern only.
    pub ecn: bool,
    /// The class which the IP packets of this side's datagrams belong to, as far as networks heed it. Default `None`: that of the
    /// socket, which is [`Dscp::CS0`] unless the application's own socket has another. The peer's datagrams have that of its configuration. On
    /// Linux; elsewhere another than `CS0` is refused.
    pub dscp: Option<Dscp>,
    /// Without a valid segment from the peer for so long, the connection ends with an error. Default 30 s.
    #[cfg_attr(feature = "serde", serde(rename = "idle_timeout_ms", with = "crate::serde_with::milliseconds"))]
    pub idle_timeout: Duration,
    /// Time that the side which opens a connection waits for it. Default `None`: 30 s, or the idle timeout if that is shorter; in classic
    /// 63 s. A longer time has no effect.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "connect_timeout_ms", with = "crate::serde_with::optional_milliseconds")
    )]
    pub connect_timeout: Option<Duration>,
    /// While idle, a keep-alive is sent this often. Default 10 s; `None` sends none.
    #[cfg_attr(feature = "serde", serde(rename = "keep_alive_ms", with = "crate::serde_with::optional_milliseconds"))]
    pub keep_alive: Option<Duration>,
    /// Duration of TIME_WAIT. Default 32 s for modern, whose peer repeats its FIN for 30 s; 60 s for classic.
    #[cfg_attr(feature = "serde", serde(rename = "time_wait_ms", with = "crate::serde_with::milliseconds"))]
    pub time_wait: Duration,
    /// Bytes of headers below ours which every datagram costs on its path: 28 for UDP over IPv4, 48 over IPv6, 8 less
    /// without UDP.
    pub overhead_bytes: u32,
    /// Classic only, with the feature `classic`: the parameters of thesis table 3.2.
    #[cfg(feature = "classic")]
    pub classic: ClassicSettings,
    /// Earlier findings about the path, for an automatic rate to begin with; they are verified. Default `None`: an
    /// [`Endpoint`](crate::Endpoint) which opens a connection takes what it remembers of an earlier one with the same host.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub path_hint: Option<PathHint>,
    /// The codec of blocks, the same at both ends. Default: [`RandomLinear`]. Another is for simulators alone: over sockets, the
    /// crate `dfcp` always sets this one.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub codec: &'static dyn Codec,
    /// Is told what happens to connections of this configuration. Default `None`, which costs nothing.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub observer: Option<Observer>,
    /// **With these secrets everything can be read and forged**: is given those of each connection when its keys are agreed
    /// ([`KeyLog`]). Default `None`: they never leave the connection.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub danger_key_log: Option<KeyLog>,
}

impl Config {
    /// The default configuration of the modern profile.
    #[must_use]
    pub fn modern() -> Self {
        Self {
            profile: Profile::Modern,
            security: Security::Sealed(Credentials::default()),
            schedule: Schedule::Adaptive,
            rate: Rate::auto(Policy::Fair),
            breaker: true,
            traffic: Traffic::Bulk,
            symbol_size: 1420,
            packet_size_discovery: true,
            window_blocks: None,
            send_buffer_bytes: limits::MEMORY_BYTES_DEFAULT,
            receive_memory_bytes: limits::MEMORY_BYTES_DEFAULT,
            receive_rate_max_bps: 0,
            streams: StreamLimits { bidirectional: 0, one_way: 0 },
            messages: false,
            message_share_percent: 90,
            ecn: false,
            dscp: None,
            idle_timeout: Duration::from_secs(30),
            connect_timeout: None,
            keep_alive: Some(Duration::from_secs(10)),
            time_wait: Duration::from_secs(32),
            overhead_bytes: 28,
            #[cfg(feature = "classic")]
            classic: ClassicSettings::default(),
            path_hint: None,
            codec: &RandomLinear,
            observer: None,
            danger_key_log: None,
        }
    }

    /// The modern profile for a server: it proves that it has `key`, and accepts any client.
    /// [`with_peer`](Self::with_peer) names the keys that clients must prove to have.
    #[must_use]
    pub fn server(key: StaticKey) -> Self {
        Self::sealed(PeerKey::Any).with_key(key)
    }

    /// The modern profile for a client: the peer must prove to be `server`, a [`PublicKey`](crate::PublicKey), a
    /// [`Fingerprint`](crate::Fingerprint), a [`Verifier`](crate::Verifier) or a [`PeerKey`]. A server that admits only some clients
    /// knows this one by the key of [`with_key`](Self::with_key).
    #[must_use]
    pub fn client(server: impl Into<PeerKey>) -> Self {
        Self::sealed(server.into())
    }

    /// The modern profile for either end, both of which have `key`, and need no other.
    #[must_use]
    pub fn pre_shared(key: PreSharedKey) -> Self {
        Self::sealed(key)
    }

    /// The modern profile with any [`Credentials`]: for what [`server`](Self::server), [`client`](Self::client) and
    /// [`pre_shared`](Self::pre_shared) do not cover.
    #[must_use]
    pub fn sealed(credentials: impl Into<Credentials>) -> Self {
        Self { security: Security::Sealed(credentials.into()), ..Self::modern() }
    }

    /// The modern profile without any protection, **which everybody on the path can read and falsify**. The peer must
    /// have chosen the same.
    #[must_use]
    pub fn danger_unsealed() -> Self {
        Self { security: Security::Unsealed, ..Self::modern() }
    }

    /// The credentials, if connections of this configuration are sealed.
    pub(crate) fn credentials(&self) -> Option<&Credentials> {
        match &self.security {
            Security::Sealed(credentials) if self.profile == Profile::Modern => Some(credentials),
            Security::Sealed(_) | Security::Unsealed => None,
        }
    }

    /// [`window_blocks`](Self::window_blocks), or what it is by default.
    #[must_use]
    pub fn blocks_in_window(&self) -> u32 {
        self.window_blocks.unwrap_or_else(|| match self.profile {
            Profile::Modern => {
                let of_memory = self.send_buffer_bytes.max(self.receive_memory_bytes) / limits::MEMORY_BYTES_PER_BLOCK;
                u32::try_from(of_memory)
                    .unwrap_or(u32::MAX)
                    .clamp(limits::WINDOW_BLOCKS_DEFAULT_MIN, limits::WINDOW_BLOCKS_MAX)
            }
            Profile::Classic => limits::CLASSIC_WINDOW_BLOCKS_DEFAULT,
        })
    }

    /// The limits that this end declares for its receiving.
    pub(crate) fn offer(&self) -> Offer {
        Offer {
            window_blocks: self.blocks_in_window(),
            receive_memory_bytes: self.receive_memory_bytes.min(limits::WINDOW_BYTES_START),
            rate_max_bps: self.receive_rate_max_bps,
            streams: self.streams,
            idle_timeout_ms: u32::try_from(self.idle_timeout.as_millis()).unwrap_or(u32::MAX),
        }
    }

    /// Checks that the values make sense together.
    ///
    /// # Errors
    /// The first setting which is out of its range, with the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        #[cfg(feature = "classic")]
        self.validate_classic()?;
        #[cfg(not(feature = "classic"))]
        if self.profile == Profile::Classic {
            return Err(ConfigError::ClassicLeftOut);
        }
        if !self.codec.carries_bytes() && self.credentials().is_some() {
            return Err(ConfigError::NothingToSeal);
        }
        self.rate.validate_in(self.profile)?;
        let symbol_size_max = symbol_size_max(self.credentials().is_some());
        in_range("symbol_size", self.symbol_size.into(), limits::SYMBOL_SIZE_MIN.into(), symbol_size_max.into())?;
        let blocks_max = match self.profile {
            Profile::Modern => limits::WINDOW_BLOCKS_MAX,
            Profile::Classic => limits::CLASSIC_WINDOW_BLOCKS_MAX,
        };
        in_range("window_blocks", self.blocks_in_window().into(), 1, blocks_max.into())?;
        let memory = (limits::RECEIVE_MEMORY_BYTES_MIN, limits::RECEIVE_MEMORY_BYTES_MAX);
        in_range("send_buffer_bytes", self.send_buffer_bytes, 1, limits::RECEIVE_MEMORY_BYTES_MAX)?;
        in_range("receive_memory_bytes", self.receive_memory_bytes, memory.0, memory.1)?;
        for (name, streams) in
            [("streams.bidirectional", self.streams.bidirectional), ("streams.one_way", self.streams.one_way)]
        {
            in_range(name, streams.into(), 0, limits::STREAMS_MAX.into())?;
        }
        in_range("message_share_percent", self.message_share_percent.into(), 1, 100)?;
        let idle_ms = u64::try_from(self.idle_timeout.as_millis()).unwrap_or(u64::MAX);
        in_range("idle_timeout in ms", idle_ms, 100, 86_400_000)?;
        if let Some(connect_timeout) = self.connect_timeout {
            let connect_ms = u64::try_from(connect_timeout.as_millis()).unwrap_or(u64::MAX);
            in_range("connect_timeout in ms", connect_ms, limits::CONNECT_TIMEOUT_MIN.as_millis() as u64, 86_400_000)?;
        }
        if let Some(keep_alive) = self.keep_alive {
            let keep_alive_ms = u64::try_from(keep_alive.as_millis()).unwrap_or(u64::MAX);
            in_range("keep_alive in ms", keep_alive_ms, 10, 86_400_000)?;
        }
        in_range("overhead_bytes", self.overhead_bytes.into(), 0, 1_024)
    }
}

/// The rates that can be paced, bits per second.
const RATE_BPS: (u64, u64) = (1_000, 1_000_000_000_000);

impl Rate {
    /// An automatic rate without bounds of its own.
    #[must_use]
    pub fn auto(policy: Policy) -> Self {
        Self::Auto { policy, max_bps: None, min_bps: None }
    }

    /// Checks that the rate is one that can be paced, and that `profile` has it.
    pub(crate) fn validate_in(self, profile: Profile) -> Result<(), ConfigError> {
        match self {
            Self::Auto { .. } if profile == Profile::Classic => Err(ConfigError::AutomaticRateOfClassic),
            Self::Line => Ok(()),
            Self::Fixed { rate_bps } => in_range("rate_bps", rate_bps, RATE_BPS.0, RATE_BPS.1),
            Self::Auto { max_bps, min_bps, .. } => {
                if let Some(max_bps) = max_bps {
                    in_range("max_bps", max_bps, RATE_BPS.0, RATE_BPS.1)?;
                }
                min_bps.map_or(Ok(()), |it| in_range("min_bps", it, RATE_BPS.0, max_bps.unwrap_or(RATE_BPS.1)))
            }
        }
    }
}

pub(crate) fn in_range(name: &'static str, value: u64, min: u64, max: u64) -> Result<(), ConfigError> {
    if (min..=max).contains(&value) { Ok(()) } else { Err(ConfigError::OutOfRange { name, value, min, max }) }
}
