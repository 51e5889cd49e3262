//! Settings of a listening endpoint.

use dfcp_secure::ResetKey;
use dfcp_wire::Profile;

#[cfg(feature = "classic")]
use crate::classic;
use crate::config::Config;
use crate::error::ConfigError;
use crate::limits;
use crate::message;
use crate::stream::recv;

/// Use of cookies, by which an initiator must prove its address before anything is kept for it, at the price of one round trip.
///
/// ```
/// # use dfcp_proto as dfcp;
/// use dfcp::{Accept, Config, Cookies, StaticKey};
///
/// let mut accept = Accept::from(Config::server(StaticKey::from_seed(&[7; 32])));
/// accept.cookies = Cookies::Always; // each caller proves its address first, for one round trip more
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cookies {
    /// While more than [`Accept::half_open_max`] others wait, or many first messages could not be read.
    #[default]
    UnderLoad,
    /// Every caller must return a cookie before its handshake is processed.
    Always,
}

/// Settings of a listening endpoint: the connections that it takes in, and their bounds.
///
/// ```
/// # use dfcp_proto as dfcp;
/// use dfcp::{Accept, Config, StaticKey};
///
/// let mut accept = Accept::from(Config::server(StaticKey::from_seed(&[7; 32])));
/// accept.connections_max = 500;
/// accept.memory_bytes_max = Some(1 << 30);
/// assert!(accept.validate().is_ok());
/// ```
#[derive(Clone, Debug)]
pub struct Accept {
    /// Configuration of modern connections, encrypted or plaintext; `None` refuses them.
    pub modern: Option<Config>,
    /// Configuration of classic connections, which have no security whatever; `None` refuses them, as does a program without the feature
    /// `classic`.
    #[cfg(feature = "classic")]
    pub classic: Option<Config>,
    /// Use of cookies. Encrypted connections only.
    pub cookies: Cookies,
    /// Half-open connections from which on cookies are asked for; as many again may be half open with one. Default
    /// and upper limit 256. One address ([`AddressPrefix`](crate::AddressPrefix)) gets a quarter of both.
    pub half_open_max: usize,
    /// Connections in any state, at most. Default and upper limit 16 384.
    pub connections_max: usize,
    /// Connections accepted from one address ([`AddressPrefix`](crate::AddressPrefix)), at most. Default 256.
    pub connections_per_address_max: usize,
    /// The key by which this endpoint proves, after a restart at the same port, that it has lost a session. Its peers then end within a
    /// second, with [`PeerLostSession`](crate::ConnectionError::PeerLostSession), and need not wait for the idle timeout. It has to be kept
    /// where only its owner can read it. `None`, the default, is a key of this endpoint's own that is gone with it: it serves sessions
    /// which end here unheard.
    ///
    /// Endpoints that run at a time at one port, on hosts behind one load balancer for instance, must have different keys.
    pub reset_key: Option<ResetKey>,
    /// Bytes which received blocks, undecoded or unread, may take over all accepted connections: what they really take,
    /// decoders included. Of that, every connection reserves what one block of the largest kind may need (about 0.8 MB
    /// modern, 5 MB classic), and 144 KiB more where messages are taken, or is not accepted, so that each can always go on, block by block. The rest is shared, except
    /// a quarter which only further reserves may take: no connection gets more of it than it leaves free. Peers which leave
    /// their blocks unfinished can use it up, and then all that is left to the others is their reserve, which means one
    /// block per round trip.
    ///
    /// `None`, the default, is 1 GiB, or six times the largest `receive_memory_bytes` if that is more: enough for one
    /// connection to use all of its own. The crate `dfcp` asks the system, and takes a quarter of what the process may use.
    pub memory_bytes_max: Option<u64>,
}

impl Default for Accept {
    /// Takes in nothing.
    fn default() -> Self {
        Self {
            modern: None,
            #[cfg(feature = "classic")]
            classic: None,
            cookies: Cookies::default(),
            half_open_max: limits::HALF_OPEN_WITHOUT_COOKIE_MAX,
            connections_max: limits::CONNECTIONS_MAX,
            connections_per_address_max: limits::CONNECTIONS_PER_ADDRESS_DEFAULT,
            reset_key: None,
            memory_bytes_max: None,
        }
    }
}

impl From<Config> for Accept {
    /// Takes in the configuration's own profile and refuses the other.
    fn from(config: Config) -> Self {
        #[cfg(feature = "classic")]
        if config.profile == Profile::Classic {
            return Self { classic: Some(config), ..Self::default() };
        }
        Self { modern: Some(config), ..Self::default() }
    }
}

impl Accept {
    /// Checks that the values make sense together.
    ///
    /// # Errors
    /// The first setting that does not.
    pub fn validate(&self) -> Result<(), ConfigError> {
        for config in self.configs() {
            config.validate()?;
            if let Some(credentials) = config.credentials() {
                credentials.check_acceptor()?;
            }
        }
        let range = |name, value: usize, max: usize| {
            let (value, max) = (value as u64, max as u64);
            if (1..=max).contains(&value) { Ok(()) } else { Err(ConfigError::OutOfRange { name, value, min: 1, max }) }
        };
        range("half_open_max", self.half_open_max, limits::HALF_OPEN_WITHOUT_COOKIE_MAX)?;
        range("connections_max", self.connections_max, limits::CONNECTIONS_MAX)?;
        range("connections_per_address_max", self.connections_per_address_max, limits::CONNECTIONS_MAX)?;
        let (value, min) = (self.memory_budget_bytes(), self.configs().map(reserve_bytes).max().unwrap_or_default());
        if value < min {
            return Err(ConfigError::OutOfRange { name: "memory_bytes_max", value, min, max: u64::MAX });
        }
        Ok(())
    }

    /// Configuration of the connections of one profile that it takes in.
    #[must_use]
    pub fn of_profile(&self, profile: Profile) -> Option<&Config> {
        match profile {
            Profile::Modern => self.modern.as_ref(),
            #[cfg(feature = "classic")]
            Profile::Classic => self.classic.as_ref(),
            #[cfg(not(feature = "classic"))]
            Profile::Classic => None,
        }
    }

    /// The configurations of all profiles that it takes in, to be changed.
    pub fn configs_mut(&mut self) -> impl Iterator<Item = &mut Config> {
        #[cfg(feature = "classic")]
        let configs = [&mut self.modern, &mut self.classic];
        #[cfg(not(feature = "classic"))]
        let configs = [&mut self.modern];
        configs.into_iter().flatten()
    }

    fn configs(&self) -> impl Iterator<Item = &Config> {
        [Profile::Modern, Profile::Classic].into_iter().filter_map(|profile| self.of_profile(profile))
    }

    /// [`memory_bytes_max`](Self::memory_bytes_max), or its default.
    pub(super) fn memory_budget_bytes(&self) -> u64 {
        self.memory_bytes_max.unwrap_or_else(|| {
            let largest = self.configs().map(|config| config.receive_memory_bytes).max().unwrap_or_default();
            limits::ENDPOINT_MEMORY_BYTES_DEFAULT.max(largest.saturating_mul(6))
        })
    }

    /// Connections that there can be at once: each has its reserve.
    pub(super) fn connections_bound(&self) -> usize {
        let least = self.configs().map(reserve_bytes).min().unwrap_or(u64::MAX);
        let reserves = usize::try_from(self.memory_budget_bytes() / least).unwrap_or(usize::MAX);
        self.connections_max.min(reserves)
    }

    /// Bytes which accepted connections take at the most besides received blocks and what is written to them.
    pub(super) fn fixed_bytes(&self) -> u64 {
        self.connections_bound() as u64 * limits::CONNECTION_BYTES_MAX
    }

    /// Bytes which accepted connections take at the most if the application fills all of their buffers, and
    /// nothing is ever acknowledged.
    pub(super) fn send_memory_bytes(&self) -> u64 {
        let one = |config: &Config| {
            let fixed = match config.profile {
                Profile::Modern => {
                    limits::SEND_BYTES_PER_BLOCK_MAX * u64::from(config.blocks_in_window())
                        + limits::IN_FLIGHT_BYTES_MAX
                        + limits::REPAIRS_BYTES_MAX
                }
                Profile::Classic => {
                    limits::CLASSIC_SEND_BYTES_PER_BLOCK_MAX * u64::from(config.blocks_in_window())
                        + limits::CLASSIC_GRAPHS_BYTES_MAX
                }
            };
            config.send_buffer_bytes.saturating_mul(2).saturating_add(fixed)
        };
        let largest = self.configs().map(one).max().unwrap_or_default();
        largest.saturating_mul(self.connections_bound() as u64)
    }
}

/// Memory that a connection of this configuration needs to receive any one block, and to know of messages which of them have come: what it
/// reserves of its endpoint's.
pub(super) fn reserve_bytes(config: &Config) -> u64 {
    #[cfg(feature = "classic")]
    if config.profile == Profile::Classic {
        return classic::reserve_bytes(config);
    }
    let ids = if config.messages { message::recv::reserve_bytes(config.credentials().is_some()) } else { 0 };
    recv::slot::reserve_bytes(config) + ids as u64
}
