//! QUIC: the quinn crate.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use anyhow::Context;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, RecvStream, SendStream, ServerConfig, TokioRuntime,
    TransportConfig,
};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{cipher_suite, default_provider};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio::io::{self, AsyncRead, AsyncWrite, ReadBuf};

use super::{COUNTERS_MAX, Dial, Duplex, Listen, udp_socket};
use crate::limits;
use crate::protocol::Ready;

/// Name in the certificate.
const NAME: &str = "localhost";

/// The accepting side.
#[derive(Debug)]
pub(crate) struct Server {
    endpoint: Endpoint,
    certificate: CertificateDer<'static>,
}

/// Opening side: one endpoint whose socket is used by all connections.
#[derive(Debug)]
pub(crate) struct Client {
    endpoint: Endpoint,
    server: SocketAddr,
}

/// A connection with one stream.
#[derive(Debug)]
pub(crate) struct Stream {
    connection: Connection,
    send: SendStream,
    receive: RecvStream,
}

/// Settings of quinn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// Defaults: CUBIC, MTU discovery, GSO, windows for 100 ms at 100 Mbit/s, rustls's choice of a cipher (AES-256-GCM), and the system's
    /// socket buffers.
    Default,
    /// Windows too large to limit a flow, and a send buffer of this many unacknowledged bytes; only the cipher that
    /// DFCP and bare UDP also use; socket buffers as large as DFCP's.
    Tuned { send_buffer_bytes: u32 },
}

impl Setting {
    fn transport(self) -> Arc<TransportConfig> {
        let mut config = TransportConfig::default();
        if let Self::Tuned { send_buffer_bytes } = self {
            config
                .send_window(send_buffer_bytes.into())
                .receive_window(limits::WINDOW_BYTES.into())
                .stream_receive_window(limits::WINDOW_BYTES.into());
        }
        Arc::new(config)
    }

    fn provider(self) -> Arc<CryptoProvider> {
        Arc::new(match self {
            Self::Default => default_provider(),
            Self::Tuned { .. } => {
                CryptoProvider { cipher_suites: vec![cipher_suite::TLS13_AES_128_GCM_SHA256], ..default_provider() }
            }
        })
    }

    fn endpoint(self, ip: IpAddr, server: Option<ServerConfig>) -> anyhow::Result<Endpoint> {
        let address = SocketAddr::new(ip, 0);
        let socket = match self {
            Self::Default => UdpSocket::bind(address).map_err(anyhow::Error::from),
            Self::Tuned { .. } => udp_socket(address),
        };
        let socket = socket.context("cannot open a socket for QUIC")?;
        Endpoint::new(EndpointConfig::default(), server, socket, Arc::new(TokioRuntime)).context("cannot start QUIC")
    }
}

impl Server {
    /// Listens on a port chosen by the system, with a certificate made for this run. Must be called within a runtime.
    pub(crate) fn bind(ip: IpAddr, setting: Setting) -> anyhow::Result<Self> {
        let made =
            rcgen::generate_simple_self_signed([NAME.to_owned()]).context("cannot make a certificate for QUIC")?;
        let certificate = made.cert.der().clone();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let tls = rustls::ServerConfig::builder_with_provider(setting.provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key.into())?;
        let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
        config.transport_config(setting.transport());
        Ok(Self { endpoint: setting.endpoint(ip, Some(config))?, certificate })
    }
}

impl Listen for Server {
    type Incoming = quinn::Incoming;
    type Stream = Stream;

    fn ready(&self) -> anyhow::Result<Ready> {
        Ok(Ready { address: self.endpoint.local_addr()?, key: None, bytes: Some(self.certificate.to_vec()) })
    }

    async fn accept(&self) -> anyhow::Result<quinn::Incoming> {
        self.endpoint.accept().await.context("QUIC's endpoint closed")
    }

    async fn establish(incoming: quinn::Incoming) -> anyhow::Result<Stream> {
        let connection = incoming.await.context("cannot accept over QUIC")?;
        let (send, receive) = connection.accept_bi().await.context("cannot accept a stream over QUIC")?;
        Ok(Stream { connection, send, receive })
    }
}

impl Client {
    /// Makes a client that trusts the server's certificate. Must be called within a runtime.
    pub(crate) fn new(ip: IpAddr, server: &Ready, setting: Setting) -> anyhow::Result<Self> {
        let certificate = server.bytes.clone().context("the QUIC server named no certificate")?;
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from(certificate))?;
        let tls = rustls::ClientConfig::builder_with_provider(setting.provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
        config.transport_config(setting.transport());
        let mut endpoint = setting.endpoint(ip, None)?;
        endpoint.set_default_client_config(config);
        Ok(Self { endpoint, server: server.address })
    }
}

impl Dial for Client {
    type Stream = Stream;

    async fn dial(&self) -> anyhow::Result<Stream> {
        let connection = self.endpoint.connect(self.server, NAME)?.await.context("cannot connect over QUIC")?;
        let (send, receive) = connection.open_bi().await.context("cannot open a stream over QUIC")?;
        Ok(Stream { connection, send, receive })
    }
}

impl Duplex for Stream {
    const COUNTERS: &'static [&'static str] =
        &["datagrams_sent", "datagrams_received", "lost", "congestion_events", "send_calls", "receive_calls"];

    fn counters(&self) -> [u64; COUNTERS_MAX] {
        let stats = self.connection.stats();
        [
            stats.udp_tx.datagrams,
            stats.udp_rx.datagrams,
            stats.path.lost_packets,
            stats.path.congestion_events,
            stats.udp_tx.ios,
            stats.udp_rx.ios,
        ]
    }

    fn close(self) {
        self.connection.close(0_u8.into(), b"");
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        AsyncRead::poll_read(Pin::new(&mut self.receive), cx, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        AsyncWrite::poll_write(Pin::new(&mut self.send), cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_flush(Pin::new(&mut self.send), cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_shutdown(Pin::new(&mut self.send), cx)
    }
}
