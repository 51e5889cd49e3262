//! The kernel's own TCP.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::rc::Rc;

use dfcp_sim::tcp::{Config, Congestion};
use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};

use super::{Ends, read, write};

/// What the kernel calls an algorithm; `None` for those which it does not have.
pub(in crate::guest) fn congestion(config: &Config) -> Option<&'static str> {
    match config.congestion {
        Congestion::Cubic => Some("cubic"),
        // With selective acknowledgements, RACK and PRR, as its every other algorithm.
        Congestion::NewReno => Some("reno"),
        Congestion::Bbr1 => Some("bbr"),
        Congestion::Cubic2008 | Congestion::Reno | Congestion::Tahoe => None,
    }
}

pub(super) fn start(ends: &Ends<'_>, config: &Config) -> Result<(), String> {
    let name = congestion(config).ok_or("the kernel has no such TCP")?;
    let (from, to) = (ends.sender_address(), ends.receiver_address());
    let listener = ends.at(ends.receiver, "TCP", || listen(to))?;
    let socket = ends.at(ends.sender, "TCP", || socket(name, from))?;
    let (told, bytes) = (Rc::clone(&ends.told), ends.spec.bytes);
    ends.run(async move {
        let (mut stream, _) = listener.accept().await?;
        read(&mut stream, &told, bytes, |_| ()).await?;
        // Says to the sender that all has arrived.
        stream.shutdown().await
    });
    let (told, start_ns) = (Rc::clone(&ends.told), ends.spec.start_ns);
    ends.run(async move {
        told.clock.alarm()?.until(start_ns).await?;
        told.started_ns.set(told.clock.now_ns());
        let mut stream = socket.connect(to).await?;
        write(&mut stream, bytes).await?;
        stream.shutdown().await?;
        let mut nothing = [0];
        if stream.read(&mut nothing).await? == 0 {
            told.note(&told.confirmed_ns);
        }
        Ok::<_, io::Error>(())
    });
    Ok(())
}

fn listen(at: SocketAddr) -> io::Result<TcpListener> {
    let listener = StdListener::bind(at)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

fn socket(congestion: &str, from: SocketAddr) -> io::Result<TcpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_tcp_congestion(congestion.as_bytes())?;
    socket.set_nonblocking(true)?;
    socket.bind(&from.into())?;
    Ok(TcpSocket::from_std_stream(socket.into()))
}
