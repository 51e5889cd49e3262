//! Settings of a connection that a caller may choose.

#[cfg(feature = "classic")]
mod classic_settings;
pub(crate) mod controller;
mod path_hint;
mod setters;

use std::time::Duration;

use dfcp_secure::{PreSharedKey, StaticKey};
pub use dfcp_wire::Profile;
use dfcp_wire::StreamLimits;
use dfcp_wire::handshake::Offer;

#[cfg(feature = "classic")]
pub use self::classic_settings::ClassicSettings;
use self::controller::RateControllerFactory;
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

/// Sending rate of a connection.
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
    /// As fast as the interface accepts and the peer's system has room, whatever happens to the path, like the sender
    /// of the thesis (`spec/protocol.md` \[rate-2\]). Never use this rate on a path shared with others unless the
    /// path's queues are fair.
    Line,
    /// At most this many bits of IP packets per second, paced datagram by datagram. One megabit is 10⁶ bits.
    Fixed {
        /// Bits per second, IP headers included.
        rate_bps: u64,
    },
    /// A rate that is measured and adapted while the connection runs (`spec/protocol.md`, "Automatic rate"). Modern
    /// only.
    Auto {
        /// Share of a path that is also used by others.
        policy: Policy,
        /// Upper bound, bits of IP packets per second; `None` means no upper bound.
        max_bps: Option<u64>,
        /// Lower bound of the automatic rate, bits of IP packets per second; `None` means no lower bound. The peer's
        /// cap and the circuit breaker may still force a lower rate.
        min_bps: Option<u64>,
    },
}

/// Share of the path that an automatic rate takes beside other flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Policy {
    /// Grows like one TCP flow among others. Measured shares: `docs/rate.md`.
    #[default]
    Fair,
    /// Grows like two TCP flows.
    High,
    /// Takes the capacity that other flows leave.
    Low,
}

/// Kind of the application's data. It may be changed while the connection runs.
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
    /// Much data with little overhead: repair symbols are sent when a report shows that they are needed.
    Bulk,
    /// Little data with low delay: repair symbols are sent with every block, which saves a round trip after a loss.
    LowLatency,
}

/// Amount of written data that a connection buffers before sending. It may be changed while the connection runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendBuffering {
    /// Up to [`UNSENT_BYTES_MAX`](crate::limits::UNSENT_BYTES_MAX), for an application that runs on another thread and
    /// may take a while to write more.
    Deep,
    /// One block, or up to [`UNSENT_SHALLOW_BYTES_MAX`](crate::limits::UNSENT_SHALLOW_BYTES_MAX) if more may be sent
    /// now. For an application that runs on the same thread, whenever the connection does not. The data are then sent
    /// while they are in the processor's caches.
    Shallow,
}

/// Configuration of a connection. Start from [`Config::server`], [`Config::client`] or [`Config::pre_shared`], then
/// change single settings:
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
/// A configuration can be serialized, **without `security`**: neither keys nor trusted peers are ever written. A
/// deserialized configuration is encrypted and trusts nobody, like [`Config::modern`], until `security` is set.
/// Durations are in milliseconds (`idle_timeout_ms`, ..). Missing fields have the default of the modern profile, and
/// unknown names are refused. `codec` is not serialized either. The classic profile is called `danger_classic`, since
/// no security set afterwards would protect it.
#[derive(Clone, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default = "Config::modern", deny_unknown_fields)
)]
pub struct Config {
    /// The profile to open. On the accepting side: the profile that the other settings apply to.
    #[cfg_attr(feature = "serde", serde(with = "crate::serde_with::profile"))]
    pub profile: Profile,
    /// Keys and trusted peers. Modern only. Default: encrypted, and no peer is trusted until `peer` or `pre_shared`
    /// names one.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub security: Security,
    /// Order in which the sender sends source and repair symbols. Default: `Adaptive` for modern, `Flood` for classic.
    pub schedule: Schedule,
    /// Sending rate. Default: `Auto` with policy *fair* and without bounds for modern, `Line` for classic.
    pub rate: Rate,
    /// Circuit breaker: after persistent heavy loss the sender tests if its own rate is the cause (`spec/protocol.md`,
    /// "Circuit breaker"). Default on. No effect with rate `Line` or in classic.
    pub breaker: bool,
    /// The kind of data. Default: `Bulk`.
    pub traffic: Traffic,
    /// Largest symbol that this side sends and accepts, bytes; the smaller value of both ends applies. The default,
    /// 1420, makes IPv4 packets of 1492 bytes encrypted and 1476 in plaintext; 1404 makes packets of the same sizes
    /// over IPv6. With `packet_size_discovery` this value is an upper bound. Modern only: classic segments always carry
    /// 1420 bytes.
    pub symbol_size: u16,
    /// Packet size discovery: a session starts with packets of 1280 bytes and probes for larger sizes that the path
    /// carries, up to `symbol_size` (`spec/protocol.md`, "Packet size"). Both ends must switch it on. Default on. When
    /// off, all packets have the size that `symbol_size` gives, and a path that is too narrow for that size carries no
    /// data. Modern only.
    pub packet_size_discovery: bool,
    /// Blocks in the sending and receiving windows (thesis table 3.2, *Window size*). Default `None`: one block per 16
    /// KiB of the larger of `send_buffer_bytes` and `receive_memory_bytes`, between 4096 and 16 384; classic 128.
    pub window_blocks: Option<u32>,
    /// Send buffer: written bytes that may be unsent or unacknowledged, at most. Default 64 MiB. A modern connection
    /// starts with [`WINDOW_BYTES_START`](crate::limits::WINDOW_BYTES_START) and doubles its buffer each time that half
    /// of it has been proven. Full rate at 50 % loss needs 6 to 8 times rate × RTT.
    pub send_buffer_bytes: u64,
    /// Receive memory: bytes of received blocks that may be incomplete or unread, at most. Default 64 MiB. A modern
    /// connection starts with [`WINDOW_BYTES_START`](crate::limits::WINDOW_BYTES_START) and doubles its memory each
    /// time that half of it has been decoded. Blocks take up to three times their bytes during decoding
    /// (`spec/protocol.md`, [window-2]).
    pub receive_memory_bytes: u64,
    /// Cap on the peer's sending rate, bits of IP packets per second; 0 means no cap. The peer obeys the cap whatever
    /// rate it has configured. Default 0.
    pub receive_rate_max_bps: u64,
    /// Streams of each kind that the peer may have open at the same time, not counting the first stream of the session.
    /// Default 0. An idle stream takes at most [`STREAM_BYTES_MAX`](crate::limits::STREAM_BYTES_MAX). Modern only.
    #[cfg_attr(feature = "serde", serde(with = "crate::serde_with::StreamLimitsFields"))]
    pub streams: StreamLimits,
    /// Permits messages ([`Connection::messages`](crate::Connection::messages)); both ends must switch them on. Default
    /// off. A receiver holds up to [`MESSAGES_HELD_BYTES_MAX`](crate::limits::MESSAGES_HELD_BYTES_MAX) for incomplete
    /// messages, and as much for messages that its application has not taken. An accepted connection reserves 144 KiB
    /// (plaintext: 80 KiB) of its endpoint's memory for message ids. Modern only.
    pub messages: bool,
    /// Share of the session's rate that messages may take beside streams, in percent, 1 to 100. Default 90.
    pub message_share_percent: u8,
    /// Marks datagrams ECT(0), so that queues mark them instead of dropping them. The peer's reports of marks are
    /// counted ([`Stats::ecn_reported`](crate::Stats::ecn_reported)), but no rate reacts to them yet. Use this setting
    /// to measure a path, not on networks of others (RFC 3168 §5). Default off. Modern only.
    pub ecn: bool,
    /// DSCP of this side's IP packets. Default `None`: the socket's value, which is [`Dscp::CS0`] unless the
    /// application's own socket has another one. The peer's packets have the DSCP of the peer's configuration. Values
    /// other than `CS0` are refused on systems other than Linux.
    pub dscp: Option<Dscp>,
    /// Time without a valid segment from the peer after which the connection ends with an error. Default 30 s.
    #[cfg_attr(feature = "serde", serde(rename = "idle_timeout_ms", with = "crate::serde_with::milliseconds"))]
    pub idle_timeout: Duration,
    /// Longest wait of the opening side for the handshake. Default `None`: 30 s, or the idle timeout if that is
    /// shorter; 63 s in classic. A longer time has no effect.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "connect_timeout_ms", with = "crate::serde_with::optional_milliseconds")
    )]
    pub connect_timeout: Option<Duration>,
    /// Interval of keep-alives while the connection is idle. Default 10 s; `None` sends none.
    #[cfg_attr(feature = "serde", serde(rename = "keep_alive_ms", with = "crate::serde_with::optional_milliseconds"))]
    pub keep_alive: Option<Duration>,
    /// Duration of TIME_WAIT. Default 32 s for modern, whose peer repeats its FIN for 30 s; 60 s for classic.
    #[cfg_attr(feature = "serde", serde(rename = "time_wait_ms", with = "crate::serde_with::milliseconds"))]
    pub time_wait: Duration,
    /// Header bytes per datagram below DFCP: 28 for UDP over IPv4, 48 over IPv6, and 8 less without UDP.
    pub overhead_bytes: u32,
    /// Parameters of thesis table 3.2. Classic only, with the feature `classic`.
    #[cfg(feature = "classic")]
    pub classic: ClassicSettings,
    /// Rate and RTT of an earlier connection on this path, for the start of an automatic rate, which verifies them.
    /// Default `None`: an [`Endpoint`](crate::Endpoint) that opens a connection uses the values remembered of an
    /// earlier connection with the same host.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub path_hint: Option<PathHint>,
    /// Codec of blocks, the same at both ends. Default: [`RandomLinear`]. Other codecs are for simulators only: over
    /// sockets, the crate `dfcp` always sets [`RandomLinear`].
    #[cfg_attr(feature = "serde", serde(skip))]
    pub codec: &'static dyn Codec,
    /// Factory of other controllers of an automatic rate, for research. Default `None`: the controller of
    /// `spec/protocol.md`, "Automatic rate".
    #[cfg_attr(feature = "serde", serde(skip))]
    pub rate_controllers: Option<&'static dyn RateControllerFactory>,
    /// Observer of the events of connections with this configuration. Default `None`, at no cost.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub observer: Option<Observer>,
    /// Receiver of the secrets of each connection, when its keys are agreed ([`KeyLog`]). **These secrets suffice to
    /// read and forge everything.** Default `None`: the secrets never leave the connection.
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
            rate_controllers: None,
            observer: None,
            danger_key_log: None,
        }
    }

    /// The modern profile for a server. It proves that it has `key`, and accepts any client;
    /// [`with_peer`](Self::with_peer) restricts the clients to certain keys.
    #[must_use]
    pub fn server(key: StaticKey) -> Self {
        Self::sealed(PeerKey::Any).with_key(key)
    }

    /// The modern profile for a client. The peer must prove to be `server`, which is a [`PublicKey`](crate::PublicKey),
    /// a [`Fingerprint`](crate::Fingerprint), a [`Verifier`](crate::Verifier) or a [`PeerKey`]. A server that admits
    /// only some clients recognizes this client by the key given to [`with_key`](Self::with_key).
    #[must_use]
    pub fn client(server: impl Into<PeerKey>) -> Self {
        Self::sealed(server.into())
    }

    /// The modern profile for either end of a connection whose ends share `key` and need no static keys.
    #[must_use]
    pub fn pre_shared(key: PreSharedKey) -> Self {
        Self::sealed(key)
    }

    /// The modern profile with any [`Credentials`], for combinations that [`server`](Self::server),
    /// [`client`](Self::client) and [`pre_shared`](Self::pre_shared) do not cover.
    #[must_use]
    pub fn sealed(credentials: impl Into<Credentials>) -> Self {
        Self { security: Security::Sealed(credentials.into()), ..Self::modern() }
    }

    /// The modern profile in plaintext, **which everybody on the path can read and falsify**. The peer must use the
    /// same setting.
    #[must_use]
    pub fn danger_unsealed() -> Self {
        Self { security: Security::Unsealed, ..Self::modern() }
    }

    /// Returns the credentials, if connections of this configuration are encrypted.
    pub(crate) fn credentials(&self) -> Option<&Credentials> {
        match &self.security {
            Security::Sealed(credentials) if self.profile == Profile::Modern => Some(credentials),
            Security::Sealed(_) | Security::Unsealed => None,
        }
    }

    /// Returns [`window_blocks`](Self::window_blocks), or its default.
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

    /// Returns the limits that this end declares for its receiving direction.
    pub(crate) fn offer(&self) -> Offer {
        Offer {
            window_blocks: self.blocks_in_window(),
            receive_memory_bytes: self.receive_memory_bytes.min(limits::WINDOW_BYTES_START),
            rate_max_bps: self.receive_rate_max_bps,
            streams: self.streams,
            idle_timeout_ms: u32::try_from(self.idle_timeout.as_millis()).unwrap_or(u32::MAX),
        }
    }

    /// Checks that all values are in their ranges and fit together.
    ///
    /// # Errors
    /// Returns the first setting that is out of its range, with the range.
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

/// Range of the rates that can be paced, bits per second.
const RATE_BPS: (u64, u64) = (1_000, 1_000_000_000_000);

impl Rate {
    /// Returns an automatic rate without bounds.
    #[must_use]
    pub fn auto(policy: Policy) -> Self {
        Self::Auto { policy, max_bps: None, min_bps: None }
    }

    /// Checks that the rate can be paced, and that `profile` supports it.
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
