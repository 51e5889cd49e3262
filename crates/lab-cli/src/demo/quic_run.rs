//! QUIC (the crate quinn) as a transport of the demonstration.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path as FilePath;
use std::sync::Arc;

use anyhow::Context;
use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, MtuDiscoveryConfig, RecvStream, ServerConfig, TokioRuntime,
    TransportConfig, VarInt,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::path::Path;
use super::result::Transport;
use super::transfer::{Peer, Sink, feed};

/// Host name in the certificate.
const NAME: &str = "localhost";

/// Minimum flow-control window, bytes. The window is at least [`WINDOW_BDPS`] bandwidth-delay products, too, so that it
/// never limits the rate.
const WINDOW_BYTES_MIN: u64 = 16 << 20;
const WINDOW_BDPS: u64 = 8;

/// UDP payload of a full packet, bytes: the largest size that quinn's MTU discovery finds.
const UDP_PAYLOAD_BYTES: u16 = 1452;

/// Requested socket buffers, bytes; the kernel may grant less.
const SOCKET_BUFFER_BYTES: usize = 8 << 20;

/// Congestion controller of a QUIC run.
#[derive(Clone, Copy, Debug)]
pub(super) enum Controller {
    /// CUBIC, the default of quinn.
    Cubic,
    /// BBR version 1, which quinn calls experimental.
    Bbr,
}

/// QUIC with one congestion controller, and a self-signed certificate shared by both endpoints.
#[derive(Debug)]
pub(super) struct Quic {
    controller: Controller,
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
}

impl Quic {
    /// Creates a certificate for this run only.
    pub(super) fn new(controller: Controller) -> anyhow::Result<Self> {
        let made =
            rcgen::generate_simple_self_signed([NAME.to_owned()]).context("cannot make a certificate for QUIC")?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        Ok(Self { controller, certificate: made.cert.der().clone(), key })
    }

    fn transport_config(&self, path: &Path) -> Arc<TransportConfig> {
        let window_bytes = WINDOW_BYTES_MIN.max(WINDOW_BDPS * path.bdp_bytes());
        let window = VarInt::from_u64(window_bytes).unwrap_or(VarInt::MAX);
        let factory: Arc<dyn ControllerFactory + Send + Sync> = match self.controller {
            Controller::Cubic => Arc::new(CubicConfig::default()),
            Controller::Bbr => Arc::new(BbrConfig::default()),
        };
        let mut config = TransportConfig::default();
        config
            .congestion_controller_factory(factory)
            .send_window(window_bytes)
            .receive_window(window)
            .stream_receive_window(window)
            // Fixed packet size, as for DFCP. With MTU discovery, random loss could be mistaken for a smaller MTU.
            .initial_mtu(UDP_PAYLOAD_BYTES)
            .min_mtu(UDP_PAYLOAD_BYTES)
            .mtu_discovery_config(None::<MtuDiscoveryConfig>);
        Arc::new(config)
    }

    fn server_config(&self, path: &Path) -> anyhow::Result<ServerConfig> {
        let key = PrivateKeyDer::Pkcs8(self.key.clone_key());
        let tls = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], key)?;
        let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
        config.transport_config(self.transport_config(path));
        Ok(config)
    }

    fn client_config(&self, path: &Path) -> anyhow::Result<ClientConfig> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        let tls = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
        config.transport_config(self.transport_config(path));
        Ok(config)
    }
}

/// Creates an endpoint with large socket buffers on a free port.
fn endpoint(server: Option<ServerConfig>) -> anyhow::Result<Endpoint> {
    let open = || {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let buffers = socket2::SockRef::from(&socket);
        let granted = buffers
            .set_recv_buffer_size(SOCKET_BUFFER_BYTES)
            .and_then(|()| buffers.set_send_buffer_size(SOCKET_BUFFER_BYTES));
        if let Err(error) = granted {
            tracing::debug!(%error, "socket buffers stay as they are");
        }
        Endpoint::new(EndpointConfig::default(), server, socket, Arc::new(TokioRuntime))
    };
    open().context("cannot open a socket on 127.0.0.1 for QUIC, check that UDP is allowed there")
}

impl Peer for Quic {
    type Server = Endpoint;
    type Receiver = (Endpoint, Connection, RecvStream);
    type Sender = (Endpoint, Connection);

    fn transport(&self) -> Transport {
        match self.controller {
            Controller::Cubic => Transport::QuicCubic,
            Controller::Bbr => Transport::QuicBbr,
        }
    }

    fn listen(&self, path: &Path) -> anyhow::Result<(SocketAddr, Endpoint)> {
        let config = self.server_config(path).context("cannot set up QUIC's server side")?;
        let endpoint = endpoint(Some(config))?;
        let addr = endpoint.local_addr().context("cannot tell where QUIC listens")?;
        Ok((addr, endpoint))
    }

    async fn receive(endpoint: Endpoint, sink: Sink) -> anyhow::Result<Self::Receiver> {
        let incoming = endpoint.accept().await.context("QUIC's endpoint closed")?;
        let connection = incoming.await.context("cannot accept over QUIC")?;
        let mut stream = connection.accept_uni().await.context("cannot accept over QUIC")?;
        sink.fill(&mut stream).await?;
        Ok((endpoint, connection, stream))
    }

    async fn send(&self, to: SocketAddr, path: &Path, file: &FilePath) -> anyhow::Result<Self::Sender> {
        let config = self.client_config(path).context("cannot set up QUIC's client side")?;
        let endpoint = endpoint(None)?;
        let connecting = endpoint.connect_with(config, to, NAME).context("cannot connect over QUIC")?;
        let connection = connecting.await.context("cannot connect over QUIC")?;
        let mut stream = connection.open_uni().await.context("cannot send over QUIC")?;
        feed(file, &mut stream).await?;
        stream.finish().context("cannot send over QUIC")?;
        // `stopped` returns `None` once the receiver has acknowledged all data.
        let code = stream.stopped().await.context("cannot confirm over QUIC")?;
        anyhow::ensure!(code.is_none(), "the receiver stopped the QUIC stream");
        Ok((endpoint, connection))
    }
}
