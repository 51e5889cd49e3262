//! TCP flows by the kernel's own TCP, and its settings.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::rc::Rc;

use dfcp_sim::tcp::{Config, Congestion, RECEIVE_BUFFER_BYTES_MAX};
use nix::libc;
use nix::sys::socket::{setsockopt, sockopt::SetStruct};
use socket2::{Domain, SockRef, Socket, Type};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};

use crate::flow::{Ends, Hosts, read, write};

/// Payload share of a full packet, 1448 of 1500 bytes.
const PAYLOAD_SHARE: f64 = 1448.0 / 1500.0;

/// Kernel name of the algorithm that both ends, not only the sender, must use.
const DCTCP: &str = "dctcp";

/// Socket option for the maximum pacing rate, bytes per second; it uses an internal timer, without a queue discipline.
#[derive(Clone, Copy, Debug)]
struct MaxPacingRate;

nix::setsockopt_impl!(MaxPacingRate, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, u32, SetStruct<'_, u32>);

/// Returns the kernel's name of an algorithm, or `None` if the kernel lacks the algorithm.
#[must_use]
pub fn congestion(config: &Config) -> Option<&'static str> {
    match config.congestion {
        Congestion::Cubic => Some("cubic"),
        // The kernel's Reno has SACK, RACK and PRR, like all of its algorithms.
        Congestion::NewReno => Some("reno"),
        Congestion::Bbr1 => Some("bbr"),
        Congestion::Dctcp => Some(DCTCP),
        Congestion::Cubic2008 | Congestion::Reno | Congestion::Tahoe => None,
    }
}

pub(crate) fn start(ends: &Ends<'_, impl Hosts>, config: &Config) -> Result<(), String> {
    let name = congestion(config).ok_or("the kernel has no such TCP")?;
    let (from, to) = (ends.sender_address(), ends.receiver_address());
    let listener = ends.at(ends.receiver, "TCP", || listen(name, to))?;
    let device_bps = ends.device_bps();
    let socket = ends.at(ends.sender, "TCP", || socket(name, from, device_bps))?;
    let (told, bytes) = (Rc::clone(&ends.told), ends.spec.bytes);
    ends.run(async move {
        let (mut stream, _) = listener.accept().await?;
        read(&mut stream, &told, bytes, |_| ()).await?;
        // Tells the sender that everything has arrived.
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

fn listen(congestion: &str, at: SocketAddr) -> io::Result<TcpListener> {
    let listener = StdListener::bind(at)?;
    if congestion == DCTCP {
        // A DCTCP receiver echoes each CE mark; receivers of other algorithms echo until the sender responds.
        SockRef::from(&listener).set_tcp_congestion(congestion.as_bytes())?;
    }
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

fn socket(congestion: &str, from: SocketAddr, device_bps: Option<u64>) -> io::Result<TcpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_tcp_congestion(congestion.as_bytes())?;
    if let Some(bps) = device_bps {
        // The kernel counts payload, and treats the maximum number as no limit.
        let bytes_per_s = (bps as f64 / 8.0 * PAYLOAD_SHARE).min(f64::from(u32::MAX - 1)) as u32;
        setsockopt(&socket, MaxPacingRate, &bytes_per_s)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&from.into())?;
    Ok(TcpSocket::from_std_stream(socket.into()))
}

/// Enables ECN for outgoing TCP connections in the current thread's namespace (RFC 3168).
///
/// # Errors
/// Fails with a sentence if the kernel refuses the setting.
pub fn tcp_ecn() -> Result<(), String> {
    let path = "/proc/sys/net/ipv4/tcp_ecn";
    fs::write(path, "1").map_err(|error| format!("cannot write 1 to {path}: {error}"))
}

/// Sets TCP buffers in the current thread's namespace: initial sizes are the kernel's defaults, maximum sizes the
/// simulator's.
///
/// # Errors
/// Fails with a sentence if the kernel refuses the setting.
pub fn tcp_buffers() -> Result<(), String> {
    for (name, first) in [("tcp_rmem", "4096 131072"), ("tcp_wmem", "4096 16384")] {
        let (path, value) = (format!("/proc/sys/net/ipv4/{name}"), format!("{first} {RECEIVE_BUFFER_BYTES_MAX}"));
        fs::write(&path, &value).map_err(|error| format!("cannot write {value} to {path}: {error}"))?;
    }
    Ok(())
}
