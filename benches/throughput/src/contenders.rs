//! The transports that are compared, and the interface that each has for it.

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

/// One of the programs compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Contender {
    /// DFCP as it is by default: modern profile, sealed with the cipher which is fastest here. Rate `line`. One thread a
    /// side.
    DfcpSealed,
    /// DFCP's modern profile without seals. Rate `line`. One thread a side.
    DfcpUnsealed,
    /// Sealed, with a thread for the endpoint, and as many worker threads a side as cores for who reads and writes.
    DfcpThreads,
    /// QUIC: the quinn crate with CUBIC, AES-128-GCM, windows of 32 MiB, and as many worker threads a side as cores.
    Quinn,
    /// quinn with one thread a side.
    #[value(name = "quinn-1")]
    #[serde(rename = "quinn-1")]
    Quinn1,
    /// quinn as it is by default: AES-256-GCM, windows of 1.25 MB, small socket buffers.
    QuinnDefault,
    /// The kernel's TCP, written 1420 bytes at a time.
    Tcp,
    /// The kernel's TCP, written 128 KiB at a time.
    TcpLarge,
    /// Bare UDP with GSO and GRO, one thread a side: no feedback, what does not arrive is lost.
    Udp,
    /// Bare UDP with AES-128-GCM around each datagram.
    UdpAes,
}

impl Contender {
    /// As on the command line.
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

    /// True if it has no flow control: datagrams that the receiver cannot take are lost.
    pub(crate) const fn is_blaster(self) -> bool {
        matches!(self, Self::Udp | Self::UdpAes)
    }

    pub(crate) const fn is_dfcp(self) -> bool {
        matches!(self, Self::DfcpSealed | Self::DfcpUnsealed | Self::DfcpThreads)
    }

    /// The blaster which protects its datagrams likewise.
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

/// Counters which a stream has at the most.
pub(crate) const COUNTERS_MAX: usize = 6;

/// A stream of bytes each way.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Names of its counters, besides bytes.
    const COUNTERS: &'static [&'static str];

    /// Values of [`COUNTERS`](Self::COUNTERS), in their order.
    fn counters(&self) -> [u64; COUNTERS_MAX];

    /// Ends the connection at once, without waiting for the peer and without a state which outlives it.
    fn close(self);
}

/// The accepting side of a contender with connections.
pub(crate) trait Listen: Send + Sync + 'static {
    /// A connection whose handshake may still be going on.
    type Incoming: Send + 'static;
    /// The established connection.
    type Stream: Duplex;

    /// The data that a client needs to connect.
    fn ready(&self) -> anyhow::Result<Ready>;

    /// The next connection.
    fn accept(&self) -> impl Future<Output = anyhow::Result<Self::Incoming>> + Send;

    /// Waits until its handshake is done, and the peer's first byte is there.
    fn establish(incoming: Self::Incoming) -> impl Future<Output = anyhow::Result<Self::Stream>> + Send;
}

/// The opening side.
pub(crate) trait Dial: Send + Sync + 'static {
    /// A connection.
    type Stream: Duplex;

    /// Opens one more connection.
    fn dial(&self) -> impl Future<Output = anyhow::Result<Self::Stream>> + Send;
}

/// A UDP socket with buffers as large as the system grants, which DFCP's socket asks for as well.
pub(crate) fn udp_socket(address: SocketAddr) -> anyhow::Result<std::net::UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    // The system takes what it grants of it, and says no to no one.
    socket.set_recv_buffer_size(limits::SOCKET_BUFFER_BYTES)?;
    socket.set_send_buffer_size(limits::SOCKET_BUFFER_BYTES)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}
