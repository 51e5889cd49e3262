//! QUIC by `quinn-proto`, which is sans-I/O like DFCP's protocol crate.
//!
//! The sender opens a connection and writes to one unidirectional stream. The receiver reads the stream and
//! acknowledges its end. Handshake, packet protection, loss recovery, pacing and congestion control are quinn's own.
//!
//! # Determinism
//!
//! Quinn's own randomness comes from the flow's seed. TLS takes its keys and nonces from the operating system, and
//! quinn's BBR the start of its gain cycle. Packet bytes therefore differ between runs, but their sizes and times do
//! not. All TLS messages have a constant length here (Ed25519 signatures, one key share, no tickets), and quinn paces
//! by window and RTT, without using the gain.
//!
//! # Left out
//!
//! ECN is not modelled: packets are Not-ECT, although quinn would negotiate ECN. Flow control never limits the sender.
//! Packets are sent one by one, without GSO.

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
    /// NewReno as specified in RFC 9002.
    NewReno,
    /// BBR version 1, which quinn calls experimental. It sets only the window; its pacing rate is not used.
    Bbr,
}

/// Configuration of both ends of a QUIC flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuicConfig {
    /// Congestion controller.
    pub congestion: QuicCongestion,
    /// Initial UDP payload of a full packet, 1200 to 1452 bytes. The IP packet is 28 bytes longer.
    pub udp_payload_bytes: u16,
    /// Probe for larger packets, up to 1452 bytes of UDP payload. If false, loss is never mistaken for a smaller MTU
    /// either.
    pub mtu_discovery: bool,
    /// Let the receiver accept a new sender address after validating it.
    pub migration: bool,
}

impl QuicConfig {
    /// Returns the configuration with full-sized packets for an MTU of 1500 bytes, without MTU discovery.
    #[must_use]
    pub fn new(congestion: QuicCongestion) -> Self {
        Self { congestion, udp_payload_bytes: UDP_PAYLOAD_BYTES_MAX, mtu_discovery: false, migration: false }
    }

    /// # Errors
    ///
    /// Fails with a [`QuicError`] that names the invalid setting.
    pub fn validate(&self) -> Result<(), QuicError> {
        if (UDP_PAYLOAD_BYTES_MIN..=UDP_PAYLOAD_BYTES_MAX).contains(&self.udp_payload_bytes) {
            Ok(())
        } else {
            Err(QuicError::UdpPayload(self.udp_payload_bytes))
        }
    }
}

/// Reason why a QUIC flow cannot be set up.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum QuicError {
    /// The packet size is not supported by QUIC or quinn.
    #[error("QUIC packets cannot have {0} bytes of UDP payload; set udp_payload_bytes from 1200 to 1452")]
    UdpPayload(u16),
    /// This program was built without QUIC.
    #[cfg(not(feature = "quic"))]
    #[error("this program was built without QUIC; build it with the feature `quic`")]
    NotBuilt,
    /// The key pair or the certificate could not be created.
    #[cfg(feature = "quic")]
    #[error("cannot make a certificate for QUIC, check the version of rcgen: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The TLS library rejected its configuration.
    #[cfg(feature = "quic")]
    #[error("cannot set up TLS for QUIC, check the version of rustls: {0}")]
    Tls(#[from] rustls::Error),
    /// The TLS configuration lacks the initial cipher suite.
    #[cfg(feature = "quic")]
    #[error("TLS offers no cipher suite for QUIC's first packets, check the version of quinn-proto")]
    InitialCipherSuite,
}

/// Server name for the connection, which is also the name in the receiver's certificate.
#[cfg(feature = "quic")]
pub const QUIC_NAME: &str = identity::NAME;

/// Returns configurations for sender and receiver with which quinn's own endpoints behave over sockets as in a
/// simulation. The sender opens the connection and buffers up to `send_window_bytes` of unacknowledged data.
///
/// # Errors
/// Fails if the configuration is invalid.
#[cfg(feature = "quic")]
pub fn quic_configs(
    config: QuicConfig,
    seed: u64,
    send_window_bytes: u64,
) -> Result<(quinn_proto::ClientConfig, quinn_proto::ServerConfig), QuicError> {
    let settings = settings::Settings::new(config, seed, send_window_bytes)?;
    Ok((settings.client, (*settings.server).clone()))
}

/// Minimum UDP payload that every path must support, bytes (RFC 9000).
const UDP_PAYLOAD_BYTES_MIN: u16 = 1_200;
/// Maximum UDP payload of quinn's MTU discovery, bytes.
const UDP_PAYLOAD_BYTES_MAX: u16 = 1_452;
/// Length of the IPv4 and UDP headers, bytes.
#[cfg(feature = "quic")]
const OVERHEAD_BYTES: u32 = 28;
