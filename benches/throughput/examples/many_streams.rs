//! Many concurrent streams in one session, DFCP compared with quinn over loopback: each carries four bytes in both directions, and all are
//! open before the first ends. `cargo run --release -p dfcp-throughput --example many_streams -- 100 1000 10000`.

#![expect(clippy::print_stdout, reason = "a program that measures prints what it finds")]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use dfcp::{Config, Listener, Session, StreamLimits};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Connection, Endpoint, ServerConfig, TransportConfig};
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

/// Bytes sent on each stream in each direction.
const MESSAGE_BYTES: usize = 4;
/// Concurrent streams that a peer may open: DFCP's limit per kind.
const STREAMS_MAX: u32 = 16_384;
const ROUNDS: usize = 3;

fn local() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

async fn dfcp_sessions() -> anyhow::Result<(Session, Session)> {
    let limits = StreamLimits { bidirectional: STREAMS_MAX, one_way: 0 };
    let key = dfcp::generate_key()?;
    let client = Config::client(key.public()).with_streams(limits);
    let listener = Listener::bind(local(), Config::server(key).with_streams(limits))?;
    let address = listener.local_addr()?;
    let (client, server) = tokio::join!(Session::connect(address, client), listener.accept_session());
    Ok((client?, server?))
}

/// Opens `count` streams and writes to each, then finishes each and reads the answer.
async fn dfcp(count: usize) -> anyhow::Result<Duration> {
    let (client, server) = dfcp_sessions().await?;
    tokio::spawn(async move {
        while let Some(mut stream) = server.accept_stream().await {
            tokio::spawn(async move {
                let mut received = Vec::new();
                stream.read_to_end(&mut received).await?;
                stream.write_all(&received).await?;
                stream.shutdown().await
            });
        }
    });
    let began = now();
    let (mut streams, mut answers) = (Vec::new(), JoinSet::new());
    for index in 0..count as u32 {
        let mut stream = client.open_stream().await?;
        stream.write_all(&index.to_be_bytes()).await?;
        stream.flush().await?;
        streams.push((index, stream));
    }
    for (index, mut stream) in streams {
        answers.spawn(async move {
            stream.shutdown().await?;
            let mut received = Vec::new();
            stream.read_to_end(&mut received).await?;
            ensure!(received == index.to_be_bytes(), "stream {index} got {received:?}");
            Ok(())
        });
    }
    answers.join_all().await.into_iter().collect::<anyhow::Result<()>>()?;
    let took = now() - began;
    client.abort();
    Ok(took)
}

async fn quic_connections() -> anyhow::Result<(Connection, Connection, [Endpoint; 2])> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let certificate = made.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key.into())?;
    let mut transport = TransportConfig::default();
    transport.max_concurrent_bidi_streams(STREAMS_MAX.into());
    let mut server_config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    server_config.transport_config(Arc::new(transport));
    let server = Endpoint::server(server_config, local())?;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate)?;
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let client = Endpoint::client(local())?;
    let client_config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    let calling = client.connect_with(client_config, server.local_addr()?, "localhost")?;
    let accepting = async { Ok::<_, anyhow::Error>(server.accept().await.context("the endpoint is closed")?.await?) };
    let (calling, accepted) = tokio::join!(calling, accepting);
    Ok((calling?, accepted?, [client, server]))
}

async fn quic(count: usize) -> anyhow::Result<Duration> {
    let (client, server, _endpoints) = quic_connections().await?;
    tokio::spawn(async move {
        while let Ok((mut send, mut receive)) = server.accept_bi().await {
            tokio::spawn(async move {
                let received = receive.read_to_end(MESSAGE_BYTES).await?;
                send.write_all(&received).await?;
                send.finish()?;
                anyhow::Ok(())
            });
        }
    });
    let began = now();
    let (mut streams, mut answers) = (Vec::new(), JoinSet::new());
    for index in 0..count as u32 {
        let (mut send, receive) = client.open_bi().await?;
        send.write_all(&index.to_be_bytes()).await?;
        streams.push((index, send, receive));
    }
    for (index, mut send, mut receive) in streams {
        answers.spawn(async move {
            send.finish()?;
            let received = receive.read_to_end(MESSAGE_BYTES).await?;
            ensure!(received == index.to_be_bytes(), "stream {index} got {received:?}");
            Ok(())
        });
    }
    answers.join_all().await.into_iter().collect::<anyhow::Result<()>>()?;
    let took = now() - began;
    client.close(0_u8.into(), b"");
    Ok(took)
}

fn now() -> Instant {
    Instant::now()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let counts: Vec<usize> = std::env::args().skip(1).map(|count| count.parse()).collect::<Result<_, _>>()?;
    let counts = if counts.is_empty() { vec![100, 1_000, 3_000, 10_000, 16_000] } else { counts };
    println!("| streams | dfcp, ms | quinn, ms | dfcp, µs a stream | quinn, µs a stream |\n|---|---|---|---|---|");
    for count in counts {
        let mut least = [Duration::MAX; 2];
        // Rounds alternate, and the shortest counts, because other programs use the machine, too.
        for _ in 0..ROUNDS {
            least[0] = least[0].min(dfcp(count).await?);
            least[1] = least[1].min(quic(count).await?);
        }
        let [ms, us] = [1e3, 1e6].map(|unit| least.map(|it| it.as_secs_f64() * unit));
        let each = us.map(|us| us / count as f64);
        println!("| {count} | {:.1} | {:.1} | {:.0} | {:.0} |", ms[0], ms[1], each[0], each[1]);
    }
    Ok(())
}
