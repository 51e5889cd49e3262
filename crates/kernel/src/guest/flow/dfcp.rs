//! DFCP over sockets, by the crate which users have.

use std::io;
use std::rc::Rc;

use dfcp::{Carrier, Endpoint, Listener, Stream};
use dfcp_lab::plan::Kind;
use dfcp_sim::DfcpConfig;
use tokio::io::AsyncWriteExt;

use super::{Ends, read, write};

pub(super) fn start(ends: &Ends<'_>, config: DfcpConfig) -> Result<(), String> {
    // As in the simulator: the documents carry classic in IP itself.
    let carrier = if ends.spec.transport.kind == Kind::Classic { Carrier::RAW_IP } else { Carrier::Udp };
    let (from, to) = (ends.sender_address(), ends.receiver_address());
    let DfcpConfig { sender, receiver } = config;
    let listener = ends.at(ends.receiver, "DFCP", || Listener::bind_over(carrier, to, receiver))?;
    let endpoint = ends.at(ends.sender, "DFCP", || Endpoint::bind_over(carrier, from, None))?;
    let (told, bytes) = (Rc::clone(&ends.told), ends.spec.bytes);
    ends.run(async move {
        let mut stream = listener.accept().await?;
        let waste = |stream: &Stream| {
            let received = stream.stats().received;
            let distinct = received.distinct();
            told.waste.set((distinct > 0).then(|| 1.0 - received.useful as f64 / distinct as f64));
        };
        read(&mut stream, &told, bytes, waste).await?;
        stream.shutdown().await
    });
    let (told, start_ns) = (Rc::clone(&ends.told), ends.spec.start_ns);
    ends.run(async move {
        told.clock.alarm()?.until(start_ns).await?;
        told.started_ns.set(told.clock.now_ns());
        let mut stream = endpoint.connect(to, sender).await.map_err(io::Error::other)?;
        write(&mut stream, bytes).await?;
        stream.shutdown().await?;
        told.note(&told.confirmed_ns);
        Ok::<_, io::Error>(())
    });
    Ok(())
}
