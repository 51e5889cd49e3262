//! DFCP as a transport of the demonstration.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path as FilePath;

use anyhow::Context;
use dfcp::{Config, Listener, PeerKey, Policy, Rate, Stream};
use tokio::io::AsyncWriteExt;

use super::path::Path;
use super::result::Transport;
use super::transfer::{Peer, Sink, feed};
use super::waste::Waste;

/// Buffer size in bandwidth-delay products. Full rate at heavy loss needs this much.
const BUFFER_BDPS: u64 = 8;

/// DFCP's modern profile, as implemented in this workspace.
#[derive(Clone, Copy, Debug)]
pub(super) enum Dfcp {
    /// Fixed rate, equal to the path's rate.
    Told,
    /// Automatic rate.
    Auto,
}

fn config(rate: Rate, path: &Path) -> Config {
    // Accepts any key: both endpoints are in this process. QUIC's certificate is not verified against an authority
    // either.
    let mut config = Config::client(PeerKey::Any).with_rate(rate);
    let buffer_bytes = BUFFER_BDPS * path.bdp_bytes();
    config.send_buffer_bytes = config.send_buffer_bytes.max(buffer_bytes);
    config.receive_memory_bytes = config.receive_memory_bytes.max(buffer_bytes);
    config
}

impl Dfcp {
    fn rate(self, path: &Path) -> Rate {
        match self {
            Self::Told => Rate::Fixed { rate_bps: path.rate_bps },
            Self::Auto => Rate::auto(Policy::Fair),
        }
    }
}

impl Peer for Dfcp {
    type Server = Listener;
    type Receiver = (Listener, Stream);
    type Sender = Stream;

    fn transport(&self) -> Transport {
        match self {
            Self::Told => Transport::Dfcp,
            Self::Auto => Transport::DfcpAuto,
        }
    }

    fn listen(&self, path: &Path) -> anyhow::Result<(SocketAddr, Listener)> {
        let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into(), config(self.rate(path), path))
            .context("cannot listen on 127.0.0.1 for DFCP, check that UDP is allowed there")?;
        let addr = listener.local_addr().context("cannot tell where DFCP listens")?;
        Ok((addr, listener))
    }

    async fn receive(listener: Listener, sink: Sink) -> anyhow::Result<Self::Receiver> {
        let mut stream = listener.accept().await.context("cannot accept over DFCP")?;
        sink.fill(&mut stream).await?;
        Ok((listener, stream))
    }

    async fn send(&self, to: SocketAddr, path: &Path, file: &FilePath) -> anyhow::Result<Stream> {
        let mut stream =
            Stream::connect(to, config(self.rate(path), path)).await.context("cannot connect over DFCP")?;
        feed(file, &mut stream).await?;
        stream.shutdown().await.context("cannot confirm over DFCP")?;
        Ok(stream)
    }

    fn waste(sender: &Stream) -> Option<Waste> {
        Waste::of(&sender.stats())
    }

    fn remark(sender: &Stream) -> Option<String> {
        match sender.stats().breaker_tests {
            0 => None,
            1 => Some("halved its rate for 1 s once, to test whether the loss was its own congestion".to_owned()),
            tests => Some(format!("halved its rate {tests} times, to test whether the loss was its own congestion")),
        }
    }
}
