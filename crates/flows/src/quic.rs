//! QUIC flows by quinn, over sockets.

use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;

use dfcp_lab::trace::FlowColumns;
use dfcp_sim::{QUIC_NAME, QuicConfig, quic_configs};
use quinn::{Endpoint, EndpointConfig, TokioRuntime};

use crate::flow::{Ends, Hosts, read, write};

/// Bytes that an endless application may write before acknowledgement: enough for 200 Mbit/s at an RTT of 2 s.
const SEND_WINDOW_BYTES: u64 = 64 << 20;

pub(crate) fn start(ends: &Ends<'_, impl Hosts>, config: QuicConfig) -> Result<(), String> {
    let (client, server) = quic_configs(config, ends.seed, SEND_WINDOW_BYTES).map_err(|error| error.to_string())?;
    let (from, to) = (ends.sender_address(), ends.receiver_address());
    let endpoint = |at: SocketAddr, server| {
        Endpoint::new(EndpointConfig::default(), server, UdpSocket::bind(at)?, Arc::new(TokioRuntime))
    };
    let listener = ends.at(ends.receiver, "QUIC", || endpoint(to, Some(server)))?;
    let sender = ends.at(ends.sender, "QUIC", || endpoint(from, None))?;
    let (told, bytes) = (Rc::clone(&ends.told), ends.spec.bytes);
    ends.run(async move {
        let incoming = listener.accept().await.ok_or("the endpoint of the receiver is closed")?;
        let connection = incoming.await?;
        let mut stream = connection.accept_uni().await?;
        read(&mut stream, &told, bytes, |_| ()).await?;
        // The last acknowledgement must leave before the connection is dropped.
        connection.closed().await;
        Ok::<_, Box<dyn Error>>(())
    });
    let (told, start_ns) = (Rc::clone(&ends.told), ends.spec.start_ns);
    ends.run(async move {
        told.clock.alarm()?.until(start_ns).await?;
        told.started_ns.set(told.clock.now_ns());
        let connection = sender.connect_with(client, to, QUIC_NAME)?.await?;
        let mut stream = connection.open_uni().await?;
        told.add_view(move |row| {
            let path = connection.stats().path;
            FlowColumns {
                cwnd_bytes: Some(path.cwnd as f64),
                srtt_ms: Some(path.rtt.as_secs_f64() * 1e3),
                lost_packets: Some(path.lost_packets),
                ..row
            }
        });
        write(&mut stream, bytes).await?;
        stream.finish()?;
        stream.stopped().await?;
        told.note(&told.confirmed_ns);
        Ok::<_, Box<dyn Error>>(())
    });
    Ok(())
}
