//! HTTP/1.1 over DFCP with hyper: a DFCP stream serves as its byte stream.
//!
//! ```text
//! cargo run -p dfcp --example hyper                                       both in one process, over loopback
//! cargo run -p dfcp --example hyper -- serve 0.0.0.0:4433                 prints its key
//! cargo run -p dfcp --example hyper -- get there.example:4433 KEY /hello   prints the answer
//! ```
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program's messages to its user")]

use std::convert::Infallible;
use std::net::SocketAddr;

use dfcp::{Config, Listener, PublicKey, StaticKey, Stream, Traffic};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, client, header, server};
use hyper_util::rt::TokioIo;
use tokio::net::ToSocketAddrs;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {
            for (status, body) in demo(&["/hello", "/nowhere"]).await? {
                println!("{status}: {body}");
            }
            Ok(())
        }
        ["serve", address] => {
            let key = dfcp::generate_key()?;
            eprintln!("clients need the key {}", key.public());
            serve(listen(address.parse()?, key)?).await
        }
        ["get", address, key, path] => {
            for (_, body) in get(address, key.parse()?, &[path]).await? {
                println!("{body}");
            }
            Ok(())
        }
        _ => anyhow::bail!("usage: hyper [serve ADDRESS | get HOST:PORT KEY PATH]"),
    }
}

/// Runs both ends in one process. Returns status and body for each path.
pub(crate) async fn demo(paths: &[&str]) -> anyhow::Result<Vec<(StatusCode, String)>> {
    let key = dfcp::generate_key()?;
    let public = key.public();
    let listener = listen(([127, 0, 0, 1], 0).into(), key)?;
    let address = listener.local_addr()?;
    tokio::spawn(serve(listener));
    get(address, public, paths).await
}

/// Answers are short and awaited, hence low latency.
fn listen(address: SocketAddr, key: StaticKey) -> anyhow::Result<Listener> {
    Ok(Listener::bind(address, Config::server(key).with_traffic(Traffic::LowLatency))?)
}

async fn serve(listener: Listener) -> anyhow::Result<()> {
    loop {
        let stream = listener.accept().await?;
        tokio::spawn(async move {
            let remote = stream.remote_addr();
            let connection =
                server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer));
            if let Err(error) = connection.await {
                eprintln!("{remote}: {error}");
            }
        });
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, body) = match request.uri().path() {
        "/hello" => (StatusCode::OK, "hello from the other side of a bad path"),
        _ => (StatusCode::NOT_FOUND, "there is only /hello"),
    };
    let mut response = Response::new(Full::new(Bytes::from_static(body.as_bytes())));
    *response.status_mut() = status;
    Ok(response)
}

/// Requests the paths in turn on one connection.
async fn get(server: impl ToSocketAddrs, key: PublicKey, paths: &[&str]) -> anyhow::Result<Vec<(StatusCode, String)>> {
    let stream = Stream::connect(server, Config::client(key).with_traffic(Traffic::LowLatency)).await?;
    let (mut sender, connection) = client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let mut answers = Vec::new();
    for path in paths {
        let request = Request::get(*path).header(header::HOST, "dfcp.example").body(Empty::<Bytes>::new())?;
        // HTTP/1 has one request at a time: wait until the previous one is complete.
        sender.ready().await?;
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        answers.push((status, String::from_utf8_lossy(&body).into_owned()));
    }
    drop(sender);
    // Ends the stream, and returns when the server has confirmed the end.
    connection.await??;
    Ok(answers)
}
