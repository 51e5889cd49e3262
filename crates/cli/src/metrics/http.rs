//! HTTP server of `--metrics`: one page, one request per connection, with limits on clients, time and bytes.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use dfcp::AddressPrefix;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use super::Page;
use super::text;
use crate::limits::{ACCEPT_PAUSE, SCRAPE_HEAD_BYTES_MAX, SCRAPE_TIME_MAX, SCRAPES_MAX};

/// Path of the page.
pub(super) const PATH: &str = "/metrics";

/// Serves forever. At the connection limit, a new connection replaces the oldest one of the address with the most
/// connections. A scrape takes milliseconds, so the client of an old connection must be stalling it. A flooding host
/// displaces only its own connections.
pub(super) async fn serve(listener: TcpListener, page: Arc<Page>) -> Infallible {
    // Dropping this future ends all connections.
    let mut connections = JoinSet::new();
    let mut places: VecDeque<(AddressPrefix, AbortHandle)> = VecDeque::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) => {
                    places.retain(|(_, place)| !place.is_finished());
                    if places.len() >= SCRAPES_MAX
                        && let Some((_, oldest)) = victim(&places).and_then(|victim| places.remove(victim))
                    {
                        oldest.abort();
                    }
                    places.push_back((from.into(), connections.spawn(answer(stream, Arc::clone(&page)))));
                }
                Err(error) => {
                    // Most likely no descriptor is free: pause, and leave the next free ones to the transfers.
                    tracing::warn!(%error, "a client of --metrics was not accepted");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_ended) = connections.join_next() => {}
        }
    }
}

/// Returns the connection to close: the oldest one of an address with the most connections.
fn victim<T>(places: &VecDeque<(AddressPrefix, T)>) -> Option<usize> {
    let held = |prefix| places.iter().filter(|(other, _)| *other == prefix).count();
    let most = places.iter().map(|&(prefix, _)| held(prefix)).max()?;
    places.iter().position(|&(prefix, _)| held(prefix) == most)
}

/// Answers one request, then closes.
pub(super) async fn answer<S: AsyncRead + AsyncWrite + Unpin + Send>(stream: S, page: Arc<Page>) {
    let service = service_fn(|request: Request<Incoming>| {
        let response = respond(&page, request.method(), request.uri().path());
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(SCRAPE_HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    if !matches!(timeout(SCRAPE_TIME_MAX, connection).await, Ok(Ok(()))) {
        tracing::debug!("a client of --metrics was too slow, or spoke no HTTP");
    }
}

fn respond(page: &Page, method: &Method, path: &str) -> Response<String> {
    let (status, body) = match (path, method) {
        (PATH, &Method::GET | &Method::HEAD) => (StatusCode::OK, page.text()),
        (PATH, _) => (StatusCode::METHOD_NOT_ALLOWED, "this page can only be read\n".to_owned()),
        _ => (StatusCode::NOT_FOUND, format!("there is nothing here; see {PATH}\n")),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let plain = if status == StatusCode::OK { text::CONTENT_TYPE } else { "text/plain; charset=utf-8" };
    if let Ok(value) = plain.parse() {
        response.headers_mut().insert(CONTENT_TYPE, value);
    }
    if status == StatusCode::METHOD_NOT_ALLOWED
        && let Ok(value) = "GET, HEAD".parse()
    {
        response.headers_mut().insert(ALLOW, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn a_host_that_connects_again_and_again_is_in_its_own_way_only() {
        let host = |number: u8| AddressPrefix::from(IpAddr::from([192, 0, 2, number]));
        let mut places: VecDeque<_> = [(host(1), 0), (host(2), 1), (host(2), 2), (host(3), 3)].into();
        assert_eq!(victim(&places), Some(1));
        places.remove(1);
        assert_eq!(victim(&places), Some(0), "among equals the oldest");
        assert_eq!(victim::<()>(&VecDeque::new()), None);
    }
}
