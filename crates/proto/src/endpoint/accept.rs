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

/// Use of cookies. A cookie makes initiators prove their address before the endpoint keeps any state for them, at the
/// cost of one round trip.
///
/// ```
/// # use dfcp_proto as dfcp;
/// use dfcp::{Accept, Config, Cookies, StaticKey};
///
/// let mut accept = Accept::from(Config::server(StaticKey::from_seed(&[7; 32])));
/// accept.cookies = Cookies::Always; // each caller proves its address first, for one more round trip
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cookies {
    /// Cookies are required while at least [`Accept::half_open_max`] connections are half open (or a quarter of that
    /// from one address), or while many first messages could not be read.
    #[default]
    UnderLoad,
    /// Every caller must return a cookie before its handshake is processed.
    Always,
}

/// Settings of a listening endpoint: the connections that it accepts, and their limits.
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
    /// Configuration of modern connections, encrypted or plaintext. `None` refuses modern connections.
    pub modern: Option<Config>,
    /// Configuration of classic connections, which have no security at all. `None` refuses classic connections, as does
    /// a build without the feature `classic`.
    #[cfg(feature = "classic")]
    pub classic: Option<Config>,
    /// Use of cookies. Encrypted connections only.
    pub cookies: Cookies,
    /// Number of half-open connections from which on cookies are required. As many again may be half open with a
    /// cookie. Default and upper limit 256. One address ([`AddressPrefix`](crate::AddressPrefix)) gets a quarter of
    /// both.
    pub half_open_max: usize,
    /// Maximum number of connections in any state. Default and upper limit 16 384.
    pub connections_max: usize,
    /// Maximum number of connections accepted from one address ([`AddressPrefix`](crate::AddressPrefix)). Default 256.
    pub connections_per_address_max: usize,
    /// Key with which this endpoint proves, after a restart at the same port, that it has lost a session. Peers then
    /// end the session within a second, with [`PeerLostSession`](crate::ConnectionError::PeerLostSession), instead of
    /// waiting for the idle timeout. Keep the key where only its owner can read it. `None`, the default, generates a
    /// key that exists only as long as this endpoint: it covers sessions that end here without the peer's knowledge.
    ///
    /// Endpoints that serve the same port at the same time, for instance behind one load balancer, must have different
    /// keys.
    pub reset_key: Option<ResetKey>,
    /// Memory for received blocks of all accepted connections that are undecoded or unread, bytes. Counts the memory
    /// actually used, decoders included. Each connection reserves enough for one block of the largest kind (about 0.8
    /// MB modern, 5 MB classic), and 144 KiB more if messages are permitted. A connection without such a reserve is not
    /// accepted, so every accepted connection can always continue block by block.
    ///
    /// The memory beyond reserves is shared, except for a quarter that is kept for further reserves. No connection gets
    /// more of the shared memory than it leaves free. Peers that leave their blocks unfinished can use up the shared
    /// memory. The other connections then have only their reserves, which means one block per round trip.
    ///
    /// `None`, the default, is 1 GiB, or six times the largest `receive_memory_bytes` if that is more: enough for one
    /// connection to use its full receive memory. The crate `dfcp` instead takes a quarter of the memory that the
    /// process may use.
    pub memory_bytes_max: Option<u64>,
}

impl Default for Accept {
    /// Accepts no connections.
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
    /// Accepts connections of the configuration's profile, and refuses the other profile.
    fn from(config: Config) -> Self {
        #[cfg(feature = "classic")]
        if config.profile == Profile::Classic {
            return Self { classic: Some(config), ..Self::default() };
        }
        Self { modern: Some(config), ..Self::default() }
    }
}

impl Accept {
    /// Checks all values, and that they fit together.
    ///
    /// # Errors
    /// The first setting that is invalid.
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

    /// Returns the configuration for connections of one profile. `None` if that profile is refused.
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

    /// Returns the configurations of all accepted profiles, for changing them.
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

    /// Returns [`memory_bytes_max`](Self::memory_bytes_max), or its default.
    pub(super) fn memory_budget_bytes(&self) -> u64 {
        self.memory_bytes_max.unwrap_or_else(|| {
            let largest = self.configs().map(|config| config.receive_memory_bytes).max().unwrap_or_default();
            limits::ENDPOINT_MEMORY_BYTES_DEFAULT.max(largest.saturating_mul(6))
        })
    }

    /// Returns the maximum number of simultaneous connections, limited by their memory reserves.
    pub(super) fn connections_bound(&self) -> usize {
        let least = self.configs().map(reserve_bytes).min().unwrap_or(u64::MAX);
        let reserves = usize::try_from(self.memory_budget_bytes() / least).unwrap_or(usize::MAX);
        self.connections_max.min(reserves)
    }

    /// Maximum memory of accepted connections, bytes, without received blocks and written data.
    pub(super) fn fixed_bytes(&self) -> u64 {
        self.connections_bound() as u64 * limits::CONNECTION_BYTES_MAX
    }

    /// Maximum memory for written data of accepted connections, bytes: the application fills all buffers, and nothing
    /// is ever acknowledged.
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

/// Returns the memory that a connection of this configuration reserves from its endpoint, bytes: enough to receive any
/// one block, and to remember the ids of received messages.
pub(super) fn reserve_bytes(config: &Config) -> u64 {
    #[cfg(feature = "classic")]
    if config.profile == Profile::Classic {
        return classic::reserve_bytes(config);
    }
    let ids = if config.messages { message::recv::reserve_bytes(config.credentials().is_some()) } else { 0 };
    recv::slot::reserve_bytes(config) + ids as u64
}
