//! Tests with peers that do not close the connection after everything is confirmed.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::*;
use crate::limits::CLOSE_WAIT_MAX;
use crate::transport::Transport;

/// Connection whose reading half never ends, as when the peer's program exits without closing it.
#[derive(Debug)]
struct Unclosed(DuplexStream);

impl AsyncRead for Unclosed {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Unclosed {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

impl Transport for Unclosed {}

#[tokio::test(start_paused = true)]
async fn waiting_for_the_close_is_no_part_of_the_time_that_a_transfer_takes() {
    let folder = tempfile::tempdir().unwrap();
    let root = sample(folder.path());
    let store = Arc::new(Store::open(&folder.path().join("output"), StoreOptions::default()).unwrap());
    let (here, there) = duplex(1 << 16);
    let started = Instant::now();
    let (sent, received) = tokio::join!(
        send(here, roots(&[root]), SendOptions::default(), Arc::new(Log::default()) as _),
        receive(Unclosed(there), store, Arc::new(Log::default()) as _, std::future::pending())
    );
    assert!(started.elapsed() >= CLOSE_WAIT_MAX, "nothing was waited for");
    for (side, report) in [("sender", sent.unwrap()), ("receiver", received.unwrap())] {
        assert!(report.stored > 0 && report.last.elapsed < CLOSE_WAIT_MAX, "{side}: {:?}", report.last.elapsed);
    }
}
