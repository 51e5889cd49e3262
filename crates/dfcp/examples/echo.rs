//! An echo server and its client.
//!
//! ```text
//! cargo run --example echo                               both in one process, over loopback
//! cargo run --example echo -- serve 0.0.0.0:4433
//! cargo run --example echo -- connect 192.0.2.7:4433     sends standard input, prints what comes back
//! ```

use std::net::SocketAddr;

use dfcp::{Config, Listener, Stream, Traffic};
use tokio::io::{AsyncRead, AsyncWriteExt, copy, stdin, stdout};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {
            let listener = Listener::bind("127.0.0.1:0".parse()?, config())?;
            let address = listener.local_addr()?;
            tokio::spawn(serve(listener));
            ask(address, &b"hello, fountain\n"[..]).await
        }
        ["serve", address] => serve(Listener::bind(address.parse()?, config())?).await,
        ["connect", address] => ask(address.parse()?, stdin()).await,
        _ => anyhow::bail!("usage: echo [serve ADDRESS | connect ADDRESS]"),
    }
}

/// Small messages which somebody waits for.
fn config() -> Config {
    Config { traffic: Traffic::Prompt, ..Config::modern() }
}

async fn serve(listener: Listener) -> anyhow::Result<()> {
    loop {
        let stream = listener.accept().await?;
        tokio::spawn(async move {
            let remote = stream.remote_addr();
            if let Err(error) = echo(stream).await {
                tracing::warn!(%remote, %error, "connection ended");
            }
        });
    }
}

async fn echo(stream: Stream) -> std::io::Result<()> {
    let (mut reader, mut writer) = stream.into_split();
    // Flushes whenever nothing more is there to read.
    copy(&mut reader, &mut writer).await?;
    writer.shutdown().await
}

async fn ask(address: SocketAddr, mut input: impl AsyncRead + Unpin) -> anyhow::Result<()> {
    let (mut reader, mut writer) = Stream::connect(address, config()).await?.into_split();
    let send = async {
        copy(&mut input, &mut writer).await?;
        writer.shutdown().await
    };
    let mut output = stdout();
    let receive = async {
        copy(&mut reader, &mut output).await?;
        output.flush().await
    };
    tokio::try_join!(send, receive)?;
    Ok(())
}
