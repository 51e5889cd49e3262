//! DFCP flows over sockets, through the public crate `dfcp`.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use dfcp::{Carrier, Endpoint, Stats, Stream};
use dfcp_lab::plan::Kind;
use dfcp_sim::DfcpConfig;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::flow::{Ends, Hosts, read, write};

pub(crate) fn start(ends: &Ends<'_, impl Hosts>, config: DfcpConfig) -> Result<(), String> {
    // Classic runs directly over IP, as in the simulator and in the thesis.
    let carrier = if ends.spec.transport.kind == Kind::Classic { Carrier::RAW_IP } else { Carrier::Udp };
    let (from, to) = (ends.sender_address(), ends.receiver_address());
    let DfcpConfig { sender, receiver, .. } = config;
    let now = ends.surroundings.now;
    let bind = |addr, accept| move || Endpoint::bind_with_clock(carrier, addr, accept, now);
    let listener = ends.at(ends.receiver, "DFCP", bind(to, Some(receiver.into())))?;
    let endpoint = ends.at(ends.sender, "DFCP", bind(from, None))?;
    let (told, bytes) = (Rc::clone(&ends.told), ends.spec.bytes);
    ends.run(async move {
        let accepted = listener.accept().await;
        let mut stream = Viewed::new(accepted.ok_or(io::ErrorKind::ConnectionAborted)?);
        let viewed = stream.clone();
        told.add_view(move |row| row.with_dfcp_receiver(&viewed.stats().received));
        let waste = |stream: &Viewed| {
            let received = stream.stats().received;
            let distinct = received.distinct();
            told.waste.set((distinct > 0).then(|| 1.0 - received.useful as f64 / distinct as f64));
        };
        read(&mut stream, &told, bytes, waste).await?;
        stream.shutdown().await
    });
    let (told, start_ns) = (Rc::clone(&ends.told), ends.spec.start_ns);
    let reports = ends.spec.transport.kind != Kind::Classic;
    ends.run(async move {
        told.clock.alarm()?.until(start_ns).await?;
        told.started_ns.set(told.clock.now_ns());
        let mut stream = Viewed::new(endpoint.connect(to, sender).await.map_err(io::Error::other)?);
        let viewed = stream.clone();
        told.add_view(move |row| row.with_dfcp_sender(&viewed.stats(), reports));
        write(&mut stream, bytes).await?;
        stream.shutdown().await?;
        told.note(&told.confirmed_ns);
        Ok::<_, io::Error>(())
    });
    Ok(())
}

/// A stream whose counters stay readable for traces while a task uses the stream.
#[derive(Clone)]
struct Viewed(Rc<RefCell<Stream>>);

impl Viewed {
    fn new(stream: Stream) -> Self {
        Self(Rc::new(RefCell::new(stream)))
    }

    fn stats(&self) -> Stats {
        self.0.borrow().stats()
    }
}

impl AsyncRead for Viewed {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_read(context, buffer)
    }
}

impl AsyncWrite for Viewed {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_shutdown(context)
    }
}
