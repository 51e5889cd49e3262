//! Export of connection secrets, to decrypt recordings of one's own traffic.

use std::fmt;
use std::sync::Arc;

use dfcp_secure::{Cipher, Established};

/// Callback that receives the traffic secrets of each connection of a [`Config`](crate::Config), once, when its keys
/// are agreed. **With these secrets, all data that both ends send can be read and forged, from the first datagram to
/// the last**. A key log is for debugging one's own connections (`spec/security.md` \[keylog-1\]). It exists only after
/// a call of [`danger_with_key_log`](crate::Config::danger_with_key_log).
///
/// The callback runs on the driver of the connection, which waits meanwhile.
///
/// ```
/// # use dfcp_proto as dfcp;
/// use dfcp::{Config, KeyLog, PeerKey};
///
/// let log = KeyLog::new(|secrets| eprintln!("keys of {:08x} were given away", secrets.initiator_id));
/// let config = Config::client(PeerKey::Any).danger_with_key_log(Some(log));
/// # drop(config);
/// ```
#[derive(Clone)]
pub struct KeyLog(Arc<dyn Fn(&ConnectionSecrets<'_>) + Send + Sync>);

/// Secrets that decrypt the datagrams of a connection, in both directions and all epochs. They are borrowed: the
/// connection wipes them when the call returns.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct ConnectionSecrets<'a> {
    /// Connection id in datagrams to the initiator.
    pub initiator_id: u32,
    /// Connection id in datagrams to the responder.
    pub responder_id: u32,
    /// Hash of the handshake, equal at both ends and unique to this connection. Not secret.
    pub handshake_hash: [u8; 32],
    /// Cipher that encrypts datagrams.
    pub cipher: Cipher,
    /// Traffic secret of the direction from the initiator (`spec/security.md` \[noise-9\]).
    pub from_initiator: &'a [u8; 32],
    /// Traffic secret of the direction from the responder.
    pub from_responder: &'a [u8; 32],
}

impl KeyLog {
    /// Calls `take` with the secrets of each connection.
    pub fn new(take: impl Fn(&ConnectionSecrets<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }

    /// Passes the secrets of a connection to the callback. `initiator_id` and `responder_id` are its connection ids.
    pub(crate) fn give(&self, (initiator_id, responder_id): (u32, u32), established: &Established, cipher: Cipher) {
        let [from_initiator, from_responder] = established.danger_traffic_secrets();
        let handshake_hash = established.handshake_hash();
        (self.0)(&ConnectionSecrets {
            initiator_id,
            responder_id,
            handshake_hash,
            cipher,
            from_initiator,
            from_responder,
        });
    }
}

impl fmt::Debug for KeyLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyLog(..)")
    }
}

impl fmt::Debug for ConnectionSecrets<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { initiator_id, responder_id, cipher, .. } = self;
        f.debug_struct("ConnectionSecrets")
            .field("initiator_id", initiator_id)
            .field("responder_id", responder_id)
            .field("cipher", cipher)
            .finish_non_exhaustive()
    }
}
