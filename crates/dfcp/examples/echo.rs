//! An echo server and its client.
//!
//! ```text
//! cargo run -p dfcp --example echo                                     both in one process, over loopback
//! cargo run -p dfcp --example echo -- serve 0.0.0.0:4433               prints its key
//! cargo run -p dfcp --example echo -- connect there.example:4433 KEY   sends standard input, prints what comes back
//! ```
#![expect(clippy::print_stderr, reason = "a program's message to its user")]

use std::net::SocketAddr;
use std::time::Duration;

use dfcp::{Config, Listener, PublicKey, StaticKey, Stream, Traffic};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, stdin, stdout};
use tokio::net::ToSocketAddrs;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => demo(&b"hello, fountain\n"[..], stdout()).await,
        ["serve", address] => {
            let key = dfcp::generate_key()?;
            eprintln!("clients need the key {}", key.public());
            serve(listen(address.parse()?, key)?).await
        }
        ["connect", address, key] => ask(address, key.parse()?, stdin(), stdout()).await,
        _ => anyhow::bail!("usage: echo [serve ADDRESS | connect HOST:PORT KEY]"),
    }
}

/// Runs both ends in one process.
pub(crate) async fn demo(input: impl AsyncRead + Unpin, output: impl AsyncWrite + Unpin) -> anyhow::Result<()> {
    let key = dfcp::generate_key()?;
    let public = key.public();
    let listener = listen(([127, 0, 0, 1], 0).into(), key)?;
    let address = listener.local_addr()?;
    tokio::spawn(serve(listener));
    ask(address, public, input, output).await
}

/// Accepts any client; clients verify the server's key. Answers are small and awaited, hence low latency.
fn listen(address: SocketAddr, key: StaticKey) -> anyhow::Result<Listener> {
    Ok(Listener::bind(address, Config::server(key).with_traffic(Traffic::LowLatency))?)
}

async fn serve(listener: Listener) -> anyhow::Result<()> {
    loop {
        let stream = listener.accept().await?;
        tokio::spawn(async move {
            let remote = stream.remote_addr();
            if let Err(error) = echo(stream).await {
                eprintln!("{remote}: {error}");
            }
        });
    }
}

async fn echo(stream: Stream) -> std::io::Result<()> {
    let (mut reader, mut writer) = stream.into_split();
    // `copy` flushes whenever there is nothing more to read.
    copy(&mut reader, &mut writer).await?;
    writer.shutdown().await
}

async fn ask(
    server: impl ToSocketAddrs,
    key: PublicKey,
    mut input: impl AsyncRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
) -> anyhow::Result<()> {
    let config = Config::client(key).with_traffic(Traffic::LowLatency).with_connect_timeout(Duration::from_secs(5));
    let (mut reader, mut writer) = Stream::connect(server, config).await?.into_split();
    let send = async {
        copy(&mut input, &mut writer).await?;
        writer.shutdown().await
    };
    let receive = async {
        copy(&mut reader, &mut output).await?;
        output.flush().await
    };
    tokio::try_join!(send, receive)?;
    Ok(())
}
