//! Compared transports, and their common interface.

pub(crate) mod dfcp;
pub(crate) mod quinn;
pub(crate) mod tcp;
pub(crate) mod udp;

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::limits;
use crate::protocol::Ready;

/// A compared transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Contender {
    /// DFCP with default settings: modern profile, encrypted with the fastest cipher on this machine. Rate `line`. One thread per side.
    DfcpSealed,
    /// DFCP's modern profile without encryption. Rate `line`. One thread per side.
    DfcpUnsealed,
    /// Encrypted DFCP with a thread for the endpoint, and as many worker threads per side as cores for readers and writers.
    DfcpThreads,
    /// QUIC: the quinn crate with CUBIC, AES-128-GCM, windows of 32 MiB, and as many worker threads per side as cores.
    Quinn,
    /// quinn with one thread per side.
    #[value(name = "quinn-1")]
    #[serde(rename = "quinn-1")]
    Quinn1,
    /// quinn with default settings: AES-256-GCM, windows of 1.25 MB, small socket buffers.
    QuinnDefault,
    /// The kernel's TCP, written 1420 bytes at a time.
    Tcp,
    /// The kernel's TCP, written 128 KiB at a time.
    TcpLarge,
    /// Bare UDP with GSO and GRO, one thread per side, without feedback or retransmission.
    Udp,
    /// Bare UDP with AES-128-GCM for each datagram.
    UdpAes,
}

impl Contender {
    /// Name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::DfcpSealed => "dfcp-sealed",
            Self::DfcpUnsealed => "dfcp-unsealed",
            Self::DfcpThreads => "dfcp-threads",
            Self::Quinn => "quinn",
            Self::Quinn1 => "quinn-1",
            Self::QuinnDefault => "quinn-default",
            Self::Tcp => "tcp",
            Self::TcpLarge => "tcp-large",
            Self::Udp => "udp",
            Self::UdpAes => "udp-aes",
        }
    }

    /// True if the contender has no flow control: datagrams that the receiver cannot read in time are lost.
    pub(crate) const fn is_blaster(self) -> bool {
        matches!(self, Self::Udp | Self::UdpAes)
    }

    pub(crate) const fn is_dfcp(self) -> bool {
        matches!(self, Self::DfcpSealed | Self::DfcpUnsealed | Self::DfcpThreads)
    }

    /// Bare UDP contender with the same protection.
    pub(crate) const fn ceiling(self) -> Option<Self> {
        match self {
            Self::DfcpSealed | Self::DfcpThreads | Self::Quinn | Self::Quinn1 | Self::QuinnDefault => {
                Some(Self::UdpAes)
            }
            Self::DfcpUnsealed => Some(Self::Udp),
            Self::Tcp | Self::TcpLarge | Self::Udp | Self::UdpAes => None,
        }
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Maximum number of counters of a stream.
pub(crate) const COUNTERS_MAX: usize = 6;

/// A bidirectional stream of bytes.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Names of the stream's counters, besides bytes.
    const COUNTERS: &'static [&'static str];

    /// Values of [`COUNTERS`](Self::COUNTERS), in order.
    fn counters(&self) -> [u64; COUNTERS_MAX];

    /// Closes the connection immediately, without waiting for the peer and without lingering state.
    fn close(self);
}

/// Accepting side of a contender with connections.
pub(crate) trait Listen: Send + Sync + 'static {
    /// A connection whose handshake may be in progress.
    type Incoming: Send + 'static;
    /// An established connection.
    type Stream: Duplex;

    /// Data that a client needs to connect.
    fn ready(&self) -> anyhow::Result<Ready>;

    /// Accepts the next connection.
    fn accept(&self) -> impl Future<Output = anyhow::Result<Self::Incoming>> + Send;

    /// Waits for the end of the handshake, and for the peer's first byte.
    fn establish(incoming: Self::Incoming) -> impl Future<Output = anyhow::Result<Self::Stream>> + Send;
}

/// Opening side of a contender with connections.
pub(crate) trait Dial: Send + Sync + 'static {
    /// A connection.
    type Stream: Duplex;

    /// Opens one more connection.
    fn dial(&self) -> impl Future<Output = anyhow::Result<Self::Stream>> + Send;
}

/// UDP socket with buffers as large as the system grants, the size that DFCP's socket also requests.
pub(crate) fn udp_socket(address: SocketAddr) -> anyhow::Result<std::net::UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    // The system grants as much as it permits, without an error.
    socket.set_recv_buffer_size(limits::SOCKET_BUFFER_BYTES)?;
    socket.set_send_buffer_size(limits::SOCKET_BUFFER_BYTES)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}
