//! Memory that an endpoint keeps for a connection from its beginning.

#[cfg(feature = "classic")]
use crate::classic;
use crate::config::Config;
use crate::message;
use crate::stream::recv;

/// Memory that a connection of this configuration needs to receive any one block, and to know of messages which of them have come: what it
/// reserves of its endpoint's.
pub(super) fn reserve_bytes(config: &Config) -> u64 {
    #[cfg(feature = "classic")]
    if config.profile == dfcp_wire::Profile::Classic {
        return classic::reserve_bytes(config);
    }
    let ids = if config.messages { message::recv::reserve_bytes(config.credentials().is_some()) } else { 0 };
    recv::slot::reserve_bytes(config) + ids as u64
}
