//! QUIC: the code of `quinn-proto`, which does no I/O either.
//!
//! The sender opens a connection and writes to one unidirectional stream, whose end the receiver acknowledges; the
//! receiver reads all. Handshake, packet protection, loss recovery, pacing and congestion control are quinn's own.
//!
//! # Determinism
//!
//! Everything that quinn draws itself comes from the flow's seed. TLS draws its keys and nonces from the operating
//! system, and quinn's BBR the place in its gain cycle where it begins; so the bytes of a packet differ from run to run,
//! but neither its size nor its time does: all of TLS's messages have a fixed length here (Ed25519 signatures, one key
//! share, no tickets), and quinn paces by window and round trip, not by the gain.
//!
//! # Left out
//!
//! Congestion marks (ECN): its packets are Not-ECT, though quinn would ask. Flow control never limits. Packets are sent one by one, as
//! without segmentation offload.

#[cfg(not(feature = "quic"))]
mod absent;
#[cfg(feature = "quic")]
mod clock;
#[cfg(feature = "quic")]
mod end;
#[cfg(feature = "quic")]
mod identity;
#[cfg(feature = "quic")]
mod settings;

#[cfg(not(feature = "quic"))]
pub use absent::QuicEnd;
#[cfg(feature = "quic")]
pub use end::QuicEnd;

/// Congestion control of a QUIC sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuicCongestion {
    /// CUBIC, quinn's default: RFC 8312, with the fast convergence of RFC 9438.
    Cubic,
    /// NewReno as in RFC 9002.
    NewReno,
    /// BBR version 1, which quinn calls experimental. It sets the window only; its pacing rate is not used.
    Bbr,
}

/// Settings for both ends of a QUIC flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuicConfig {
    /// Sets the congestion window.
    pub congestion: QuicCongestion,
    /// UDP payload of a full packet, bytes, from the start on: 1200 to 1452. The IP packet has 28 bytes more.
    pub udp_payload_bytes: u16,
    /// Probes for larger packets, up to 1452 bytes. Without it, loss is never taken for a smaller limit either.
    pub mtu_discovery: bool,
    /// The receiver accepts another address of the sender, once that is validated.
    pub migration: bool,
}

impl QuicConfig {
    /// Full-sized packets, as a path of 1500 bytes allows, without a search for that size.
    #[must_use]
    pub fn new(congestion: QuicCongestion) -> Self {
        Self { congestion, udp_payload_bytes: UDP_PAYLOAD_BYTES_MAX, mtu_discovery: false, migration: false }
    }

    /// # Errors
    ///
    /// [`QuicError`] names the setting with which a connection could not work.
    pub fn validate(&self) -> Result<(), QuicError> {
        if (UDP_PAYLOAD_BYTES_MIN..=UDP_PAYLOAD_BYTES_MAX).contains(&self.udp_payload_bytes) {
            Ok(())
        } else {
            Err(QuicError::UdpPayload(self.udp_payload_bytes))
        }
    }
}

/// A QUIC flow cannot be set up.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum QuicError {
    /// Packets of a size which QUIC or quinn does not allow.
    #[error("QUIC packets cannot have {0} bytes of UDP payload; set udp_payload_bytes from 1200 to 1452")]
    UdpPayload(u16),
    /// This crate was built without QUIC.
    #[cfg(not(feature = "quic"))]
    #[error("this program was built without QUIC; build it with the feature `quic`")]
    NotBuilt,
    /// The key pair or the certificate was refused.
    #[cfg(feature = "quic")]
    #[error("cannot make a certificate for QUIC, check the version of rcgen: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The TLS library refused its settings.
    #[cfg(feature = "quic")]
    #[error("cannot set up TLS for QUIC, check the version of rustls: {0}")]
    Tls(#[from] rustls::Error),
    /// The TLS settings lack what QUIC's first packets need.
    #[cfg(feature = "quic")]
    #[error("TLS offers no cipher suite for QUIC's first packets, check the version of quinn-proto")]
    InitialCipherSuite,
}

/// The name to which a sender connects: the receiver's certificate is for it.
#[cfg(feature = "quic")]
pub const QUIC_NAME: &str = identity::NAME;

/// Settings that make quinn's own endpoints behave over sockets as a flow does in a simulation: the sender, which opens the connection
/// and keeps up to `send_window_bytes` until they are acknowledged, and the receiver.
///
/// # Errors
/// The settings make no sense.
#[cfg(feature = "quic")]
pub fn quic_configs(
    config: QuicConfig,
    seed: u64,
    send_window_bytes: u64,
) -> Result<(quinn_proto::ClientConfig, quinn_proto::ServerConfig), QuicError> {
    let settings = settings::Settings::new(config, seed, send_window_bytes)?;
    Ok((settings.client, (*settings.server).clone()))
}

/// RFC 9000 guarantees this much on every path.
const UDP_PAYLOAD_BYTES_MIN: u16 = 1_200;
/// The most that quinn would find by itself.
const UDP_PAYLOAD_BYTES_MAX: u16 = 1_452;
/// IPv4 and UDP header.
#[cfg(feature = "quic")]
const OVERHEAD_BYTES: u32 = 28;
