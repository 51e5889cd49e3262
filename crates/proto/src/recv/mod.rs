//! The receiving half of a connection: from symbols to the application's bytes.

pub(crate) mod budget;
pub(crate) mod classic;
pub(crate) mod collector;
pub(crate) mod modern;
pub(crate) mod reporter;

use dfcp_wire::Profile;

use crate::config::Config;

/// What a connection of this configuration needs to take any one block in: its reserve of an endpoint's memory.
pub(crate) fn reserve_bytes(config: &Config) -> u64 {
    match config.profile {
        Profile::Modern => modern::reserve_bytes(config),
        Profile::Classic => classic::reserve_bytes(config),
    }
}
