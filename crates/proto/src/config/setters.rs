//! Methods that change one setting of a [`Config`].

use std::time::Duration;

use dfcp_secure::StaticKey;
use dfcp_wire::StreamLimits;

use crate::codec::Codec;
use crate::config::PathHint;
use crate::config::controller::RateControllerFactory;
use crate::config::{Config, Rate, Schedule, Traffic};
use crate::dscp::Dscp;
use crate::key_log::KeyLog;
use crate::observe::Observer;
use crate::security::{Ciphers, Credentials, PeerKey, Security};

macro_rules! setters {
    ($($method:ident sets $field:ident: $type:ty;)*) => {
        $(
            #[doc = concat!("With another [`", stringify!($field), "`](Config::", stringify!($field), ").")]
            #[must_use]
            pub fn $method(mut self, $field: $type) -> Self {
                self.$field = $field;
                self
            }
        )*
    };
}

/// Builder methods: each takes a configuration and returns it changed. Values are checked by [`Config::validate`], and
/// again where the configuration is used.
impl Config {
    setters! {
        with_security sets security: Security;
        with_schedule sets schedule: Schedule;
        with_rate sets rate: Rate;
        with_breaker sets breaker: bool;
        with_traffic sets traffic: Traffic;
        with_symbol_size sets symbol_size: u16;
        with_packet_size_discovery sets packet_size_discovery: bool;
        with_send_buffer_bytes sets send_buffer_bytes: u64;
        with_receive_memory_bytes sets receive_memory_bytes: u64;
        with_streams sets streams: StreamLimits;
        with_messages sets messages: bool;
        with_message_share_percent sets message_share_percent: u8;
        with_ecn sets ecn: bool;
        with_dscp sets dscp: Option<Dscp>;
        with_receive_rate_max_bps sets receive_rate_max_bps: u64;
        with_idle_timeout sets idle_timeout: Duration;
        with_keep_alive sets keep_alive: Option<Duration>;
        with_time_wait sets time_wait: Duration;
        with_overhead_bytes sets overhead_bytes: u32;
        with_path_hint sets path_hint: Option<PathHint>;
        with_codec sets codec: &'static dyn Codec;
        with_rate_controllers sets rate_controllers: Option<&'static dyn RateControllerFactory>;
        with_observer sets observer: Option<Observer>;
        danger_with_key_log sets danger_key_log: Option<KeyLog>;
    }

    /// Sets the size of the windows, blocks; see [`window_blocks`](Self::window_blocks).
    #[must_use]
    pub fn with_window_blocks(mut self, window_blocks: u32) -> Self {
        self.window_blocks = Some(window_blocks);
        self
    }

    /// Sets the time that an opening side waits for the handshake; see [`connect_timeout`](Self::connect_timeout).
    #[must_use]
    pub fn with_connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.connect_timeout = Some(connect_timeout);
        self
    }

    /// Sets the static key of this end, which identifies it to peers. Makes a plaintext configuration sealed.
    #[must_use]
    pub fn with_key(self, key: StaticKey) -> Self {
        self.with_credentials(|credentials| credentials.key = Some(key))
    }

    /// Sets the trusted peers: the clients of a server, or the server of a client. Makes a plaintext configuration
    /// sealed.
    #[must_use]
    pub fn with_peer(self, peer: impl Into<PeerKey>) -> Self {
        self.with_credentials(|credentials| credentials.peer = peer.into())
    }

    /// Sets the permitted ciphers. Makes a plaintext configuration sealed.
    #[must_use]
    pub fn with_ciphers(self, ciphers: Ciphers) -> Self {
        self.with_credentials(|credentials| credentials.ciphers = ciphers)
    }

    /// Changes the credentials. A plaintext configuration becomes sealed, since credentials are useless without
    /// sealing.
    fn with_credentials(mut self, change: impl FnOnce(&mut Credentials)) -> Self {
        let mut credentials = match self.security {
            Security::Sealed(credentials) => credentials,
            Security::Unsealed => Credentials::default(),
        };
        change(&mut credentials);
        self.security = Security::Sealed(credentials);
        self
    }
}

#[cfg(test)]
mod tests {
    use dfcp_secure::PreSharedKey;

    use super::*;

    fn credentials(config: &Config) -> &Credentials {
        config.credentials().unwrap()
    }

    #[test]
    fn servers_and_clients_are_sealed_and_know_whom_they_trust() {
        let (server, client) = (StaticKey::from_seed(&[1; 32]), StaticKey::from_seed(&[2; 32]));
        let open = Config::server(server.clone());
        assert!(matches!(credentials(&open).peer, PeerKey::Any));
        assert_eq!(credentials(&open).key.as_ref().map(StaticKey::public), Some(server.public()));
        let closed = open.with_peer(client.public());
        assert!(matches!(credentials(&closed).peer, PeerKey::Known(key) if key == client.public()));
        assert!(credentials(&closed).key.is_some(), "the rest stays");
        let caller = Config::client(server.public().fingerprint()).with_key(client.clone());
        assert!(matches!(credentials(&caller).peer, PeerKey::Fingerprint(it) if it == server.public().fingerprint()));
        assert_eq!(credentials(&caller).key.as_ref().map(StaticKey::public), Some(client.public()));
        let shared = Config::pre_shared(PreSharedKey::from_bytes(&[3; 32]));
        assert!(credentials(&shared).pre_shared.is_some() && matches!(credentials(&shared).peer, PeerKey::Undecided));
    }

    #[test]
    fn a_key_for_an_unsealed_configuration_seals_it_and_trusts_nobody_yet() {
        let config = Config::danger_unsealed().with_key(StaticKey::from_seed(&[1; 32]));
        assert!(matches!(credentials(&config).peer, PeerKey::Undecided));
    }
}
