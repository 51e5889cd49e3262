//! Configuration of quinn and TLS.

use std::sync::Arc;
use std::time::Duration;

use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::crypto::rustls::{NoInitialCipherSuite, QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    ClientConfig, ConnectionIdGenerator as _, EndpointConfig, MtuDiscoveryConfig, ServerConfig, TransportConfig,
    ValidationTokenConfig, VarInt,
};
use ring::{hkdf, hmac};
use rustls::crypto::{CryptoProvider, ring as ring_provider};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::time_provider::TimeProvider;

use super::identity::{SeededIds, certificate};
use super::{QuicConfig, QuicCongestion, QuicError, UDP_PAYLOAD_BYTES_MAX};
use crate::endpoint::seed32;

/// Flow-control window of a stream, bytes: larger than any path's capacity. The window of the connection is larger
/// still.
const STREAM_WINDOW_BYTES: VarInt = VarInt::from_u32(u32::MAX);

/// Fixed date at which the validity of certificates is checked, s after 1970: the beginning of 2020.
const DATE: Duration = Duration::from_secs(1_577_836_800);

/// Time source with a fixed date.
#[derive(Debug)]
struct StoppedCalendar;

impl TimeProvider for StoppedCalendar {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(DATE))
    }
}

/// Configurations from which both ends of a flow are built.
pub(super) struct Settings {
    pub(super) client: ClientConfig,
    pub(super) client_endpoint: Arc<EndpointConfig>,
    pub(super) server: Arc<ServerConfig>,
    pub(super) server_endpoint: Arc<EndpointConfig>,
}

impl Settings {
    pub(super) fn new(config: QuicConfig, seed: u64, send_window_bytes: u64) -> Result<Self, QuicError> {
        config.validate()?;
        let transport = Arc::new(transport(config, send_window_bytes));
        let provider = Arc::new(CryptoProvider {
            // Use only the cipher suite that QUIC requires, so that the choice does not depend on the machine.
            cipher_suites: vec![ring_provider::cipher_suite::TLS13_AES_128_GCM_SHA256],
            kx_groups: vec![ring_provider::kx_group::X25519],
            ..ring_provider::default_provider()
        });
        let (certificate, key) = certificate()?;
        let mut client = ClientConfig::new(Arc::new(client_tls(Arc::clone(&provider), certificate.clone())?));
        client.transport_config(Arc::clone(&transport));
        client.initial_dst_cid_provider(Arc::new(move || SeededIds::new(!seed).generate_cid()));
        let token_key = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&seed32(seed, 3));
        let tls = server_tls(provider, certificate, key.into())?;
        let mut server = ServerConfig::new(Arc::new(tls), Arc::new(token_key));
        let mut no_tokens = ValidationTokenConfig::default();
        no_tokens.sent(0);
        server.transport_config(transport).validation_token_config(no_tokens).migration(config.migration);
        Ok(Self {
            client,
            client_endpoint: Arc::new(endpoint(seed, 1)),
            server: Arc::new(server),
            server_endpoint: Arc::new(endpoint(seed, 2)),
        })
    }
}

fn transport(config: QuicConfig, send_window_bytes: u64) -> TransportConfig {
    let controller: Arc<dyn ControllerFactory + Send + Sync> = match config.congestion {
        QuicCongestion::Cubic => Arc::new(CubicConfig::default()),
        QuicCongestion::NewReno => Arc::new(NewRenoConfig::default()),
        QuicCongestion::Bbr => Arc::new(BbrConfig::default()),
    };
    let mut transport = TransportConfig::default();
    transport
        .congestion_controller_factory(controller)
        .send_window(send_window_bytes)
        .receive_window(VarInt::MAX)
        .stream_receive_window(STREAM_WINDOW_BYTES)
        // Without an idle timeout, QUIC waits for ever, like the models of TCP.
        .max_idle_timeout(None)
        .initial_mtu(config.udp_payload_bytes);
    if config.mtu_discovery {
        let mut search = MtuDiscoveryConfig::default();
        search.upper_bound(UDP_PAYLOAD_BYTES_MAX);
        transport.mtu_discovery_config(Some(search));
    } else {
        transport.min_mtu(config.udp_payload_bytes).mtu_discovery_config(None);
    }
    transport
}

fn endpoint(seed: u64, side: u8) -> EndpointConfig {
    let mut endpoint =
        EndpointConfig::new(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &seed32(seed, side.wrapping_add(3)))));
    endpoint.rng_seed(Some(seed32(seed, side)));
    let ids = seed ^ (u64::from(side) << 56);
    endpoint.cid_generator(move || Box::new(SeededIds::new(ids)));
    endpoint
}

fn client_tls(
    provider: Arc<CryptoProvider>,
    certificate: CertificateDer<'static>,
) -> Result<QuicClientConfig, QuicError> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate)?;
    let mut tls = rustls::ClientConfig::builder_with_details(provider, Arc::new(StoppedCalendar))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.resumption = rustls::client::Resumption::disabled();
    QuicClientConfig::try_from(tls).map_err(|NoInitialCipherSuite { .. }| QuicError::InitialCipherSuite)
}

fn server_tls(
    provider: Arc<CryptoProvider>,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
) -> Result<QuicServerConfig, QuicError> {
    let mut tls = rustls::ServerConfig::builder_with_details(provider, Arc::new(StoppedCalendar))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    tls.session_storage = Arc::new(NoServerSessionStorage {});
    tls.send_tls13_tickets = 0;
    QuicServerConfig::try_from(tls).map_err(|NoInitialCipherSuite { .. }| QuicError::InitialCipherSuite)
}
