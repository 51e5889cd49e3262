//! Tests of DSCPs, which are read from the IP headers of received datagrams.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod support;

use std::collections::BTreeMap;
use std::io::IoSliceMut;
use std::net::{Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use dfcp::{Config, Dscp, Endpoint, Listener};
use nix::cmsg_space;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg};
use socket2::SockRef;
use support::{local, modern, read_hash, write_pattern};
use tokio::io::AsyncWriteExt;

fn local_v6() -> SocketAddr {
    (Ipv6Addr::LOCALHOST, 0).into()
}

/// Binds a socket that reports the TOS or traffic class of received datagrams.
fn telling(address: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    let view = SockRef::from(&socket);
    if address.is_ipv4() { view.set_recv_tos_v4(true) } else { view.set_recv_tclass_v6(true) }.unwrap();
    socket
}

/// Returns a datagram's length, sender, and TOS or traffic class. `None` after a timeout.
fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> Option<(usize, SocketAddr, u8)> {
    let mut space = cmsg_space!(i32);
    let mut slices = [IoSliceMut::new(buffer)];
    let message =
        recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut slices, Some(&mut space), MsgFlags::empty()).ok()?;
    let from = message.address.unwrap();
    let from = from
        .as_sockaddr_in()
        .map(|v4| SocketAddr::from(std::net::SocketAddrV4::from(*v4)))
        .or_else(|| Some(SocketAddr::from(std::net::SocketAddrV6::from(*from.as_sockaddr_in6()?))));
    let tos = message.cmsgs().unwrap().find_map(|told| match told {
        ControlMessageOwned::Ipv4Tos(tos) => Some(tos),
        ControlMessageOwned::Ipv6TClass(class) => u8::try_from(class).ok(),
        _ => None,
    });
    Some((message.bytes, from.unwrap(), tos.unwrap()))
}

/// Number of datagrams by TOS or traffic class: from the client, and from the server.
type Seen = [BTreeMap<u8, usize>; 2];

/// Forwards datagrams between a client and a server, and counts them by TOS.
struct Observer {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    ended: Arc<AtomicBool>,
}

impl Observer {
    fn before(server: SocketAddr) -> Self {
        let any = SocketAddr::new(server.ip(), 0);
        let (front, back) = (telling(any), telling(any));
        let (seen, ended) = (Arc::<Mutex<Seen>>::default(), Arc::<AtomicBool>::default());
        let observer =
            Self { address: front.local_addr().unwrap(), seen: Arc::clone(&seen), ended: Arc::clone(&ended) };
        let client = Arc::<Mutex<Option<SocketAddr>>>::default();
        for (index, from, to) in [(0, front.try_clone().unwrap(), back.try_clone().unwrap()), (1, back, front)] {
            let (seen, ended, client) = (Arc::clone(&seen), Arc::clone(&ended), Arc::clone(&client));
            thread::spawn(move || {
                let mut buffer = vec![0; 1 << 16];
                while !ended.load(Ordering::Relaxed) {
                    let Some((length, sender, tos)) = receive(&from, &mut buffer) else { continue };
                    *seen.lock().unwrap()[index].entry(tos).or_default() += 1;
                    let destination = if index == 0 {
                        *client.lock().unwrap() = Some(sender);
                        server
                    } else {
                        client.lock().unwrap().unwrap()
                    };
                    to.send_to(&buffer[..length], destination).unwrap();
                }
            });
        }
        observer
    }

    fn marks(&self) -> [Vec<u8>; 2] {
        self.seen.lock().unwrap().clone().map(|seen| seen.into_keys().collect())
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

/// Transfers data to the server and an answer back. Returns the TOS values seen in either direction.
async fn marks(address: SocketAddr, client: Config, server: Config) -> [Vec<u8>; 2] {
    let listener = Listener::bind(address, server).unwrap();
    let observer = Observer::before(listener.local_addr().unwrap());
    let endpoint = Endpoint::bind(address, None).unwrap();
    let (ours, theirs) = tokio::join!(endpoint.connect(observer.address, client), listener.accept());
    let (mut ours, mut theirs) = (ours.unwrap(), theirs.unwrap());
    let sending = async {
        write_pattern(&mut ours, 3, 300_000).await.unwrap();
        ours.shutdown().await.unwrap();
    };
    let ((), read) = tokio::join!(sending, read_hash(&mut theirs));
    assert_eq!(read.unwrap().0, 300_000);
    theirs.write_all(b"answer").await.unwrap();
    theirs.shutdown().await.unwrap();
    assert_eq!(read_hash(&mut ours).await.unwrap().0, 6);
    observer.marks()
}

fn with(dscp: Dscp) -> Config {
    modern().with_dscp(Some(dscp))
}

#[tokio::test]
async fn every_datagram_has_the_code_point_of_its_configuration() {
    for address in [local(), local_v6()] {
        assert_eq!(marks(address, modern(), modern()).await, [[0], [0]], "nobody has asked for any");
        let cs1 = Dscp::new(8).unwrap();
        assert_eq!(marks(address, with(Dscp::EF), with(cs1)).await, [[46 << 2], [8 << 2]]);
        // The connection, not the application, sets the two ECN bits.
        let both = marks(address, with(Dscp::EF).with_ecn(true), modern().with_ecn(true)).await;
        assert_eq!(both[0].last(), Some(&(46 << 2 | 2)), "{both:?}");
        assert!(both[0].iter().all(|mark| mark >> 2 == 46) && both[1].iter().all(|mark| mark >> 2 == 0), "{both:?}");
        assert!(both[1].contains(&2), "{both:?}");
    }
}

#[tokio::test]
async fn connections_of_one_endpoint_have_a_code_point_each() {
    let listener = Listener::bind(local(), modern()).unwrap();
    let endpoint = Endpoint::bind(local(), None).unwrap();
    let observers = [0; 2].map(|_| Observer::before(listener.local_addr().unwrap()));
    let mut streams = Vec::new();
    for (observer, dscp) in observers.iter().zip([Dscp::EF, Dscp::LE]) {
        let calling = endpoint.connect(observer.address, with(dscp));
        let (ours, theirs) = tokio::join!(calling, listener.accept());
        streams.push((ours.unwrap(), theirs.unwrap()));
    }
    for (ours, theirs) in &mut streams {
        ours.write_all(&[1; 20_000]).await.unwrap();
        ours.finish().unwrap();
        assert_eq!(read_hash(theirs).await.unwrap().0, 20_000);
    }
    assert_eq!([observers[0].marks()[0].clone(), observers[1].marks()[0].clone()], [[46 << 2], [1 << 2]]);
}

/// `quinn-udp` alone would write 0 into the TOS byte of every datagram.
#[tokio::test]
async fn a_socket_of_the_application_keeps_its_code_point_unless_the_configuration_has_one() {
    for (address, dscp, expected) in [
        (local(), None, 46 << 2),
        (local_v6(), None, 46 << 2),
        (local(), Some(Dscp::CS0), 0),
        (local(), Some(Dscp::LE), 1 << 2),
    ] {
        let listener = Listener::bind(address, modern()).unwrap();
        let observer = Observer::before(listener.local_addr().unwrap());
        let socket = UdpSocket::bind(address).unwrap();
        let view = SockRef::from(&socket);
        // The ECN bits set here must not be kept.
        if address.is_ipv4() { view.set_tos_v4(46 << 2 | 1) } else { view.set_tclass_v6(46 << 2 | 1) }.unwrap();
        let endpoint = Endpoint::with_socket(socket, None).unwrap();
        let calling = endpoint.connect(observer.address, modern().with_dscp(dscp));
        let (ours, theirs) = tokio::join!(calling, listener.accept());
        let (mut ours, mut theirs) = (ours.unwrap(), theirs.unwrap());
        ours.write_all(&[1; 20_000]).await.unwrap();
        ours.finish().unwrap();
        assert_eq!(read_hash(&mut theirs).await.unwrap().0, 20_000);
        assert_eq!(observer.marks()[0], [expected], "{dscp:?}");
        // The same holds after a rebind, for the new socket's own setting.
        endpoint.rebind(UdpSocket::bind(address).unwrap()).unwrap();
        while ours.local_addr() != endpoint.local_addr() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        observer.seen.lock().unwrap()[0].clear();
        theirs.write_all(&[1; 20_000]).await.unwrap();
        theirs.shutdown().await.unwrap();
        assert_eq!(read_hash(&mut ours).await.unwrap().0, 20_000);
        let own = dscp.unwrap_or_default().value() << 2;
        assert!(observer.marks()[0].iter().all(|&mark| mark == own), "{:?} for {dscp:?}", observer.marks());
    }
}
