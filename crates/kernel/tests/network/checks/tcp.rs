//! Checks of packets on wires from sockets that hand over many at once.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use dfcp_kernel::guest::network::{Network, RouteMetrics};
use dfcp_lab::scenario::Layout;
use dfcp_sim::Pair as HostPair;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::UdpGsoSegment;

use super::{Check, dumbbell, link, ms, plain};
use crate::traffic::Pair;

pub(super) const CHECKS: &[Check] = &[
    ("tcp fills a link by single packets", || segments(None)),
    ("tcp fills a link by single packets behind a slower one", || segments(Some(200_000_000))),
    ("udp segments are single packets", udp_segments),
    ("a locked congestion window holds from the second connection on", locked_window),
    ("the initial window is the route's", initial_window),
];

/// Payload bytes of a segment, without the headers of IP (20) and TCP (32, with timestamps).
const SEGMENT_BYTES: usize = 1448;

/// Transfer time of `bytes` from the sender to the receiver, without connection establishment.
fn transfer(network: &Network, layout: &Layout, bytes: usize) -> Duration {
    let (sender, receiver) = layout.hosts[0];
    let listen = || TcpListener::bind((network.address(receiver), 0)).unwrap();
    let listener = network.enter(receiver, listen).unwrap();
    let address = listener.local_addr().unwrap();
    thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let mut received = Vec::new();
            stream.read_to_end(&mut received).unwrap();
            (received.len(), Instant::now())
        });
        let mut stream = network.enter(sender, || TcpStream::connect(address)).unwrap().unwrap();
        let start = Instant::now();
        stream.write_all(&vec![7; bytes]).unwrap();
        drop(stream);
        let (received, end) = reader.join().unwrap();
        assert_eq!(received, bytes);
        end - start
    })
}

fn segments(access_bps: Option<u64>) {
    let rate_bps = 100_000_000;
    let layout = dumbbell(link(rate_bps, ms(5), 1000), 1, HostPair { access_bps, ..plain(ms(0)) });
    let mut network = Network::build(&layout, 1).unwrap();
    let bytes = 20_000_000;
    let took = transfer(&network, &layout, bytes).as_secs_f64();
    let full = (bytes * 1500) as f64 / SEGMENT_BYTES as f64;
    let expected = full * 8.0 / rate_bps as f64;
    assert!((expected..expected * 1.1).contains(&took), "{took} s instead of {expected} s");
    let [there, _] = layout.routes(0).unwrap();
    let received = network.received(layout.hosts[0].1).unwrap();
    for sent in there.iter().map(|&edge| network.sample(edge).unwrap().sent).chain([received]).collect::<Vec<_>>() {
        let packets = sent.packets as usize;
        let needed = bytes / SEGMENT_BYTES;
        // The margin of 10 % covers the handshake, a final partial packet, and retransmissions.
        assert!((needed..needed + needed / 10).contains(&packets), "{packets} packets instead of {needed}");
        assert!(sent.ip_bytes <= sent.packets * 1500, "{sent:?}");
        assert!(sent.ip_bytes as f64 >= full, "{sent:?}");
    }
}

fn udp_segments() {
    for access_bps in [None, Some(10_000_000)] {
        let layout = dumbbell(link(100_000_000, ms(5), 1000), 1, HostPair { access_bps, ..plain(ms(0)) });
        let mut network = Network::build(&layout, 1).unwrap();
        let pair = Pair::new(&network, layout.hosts[0]);
        setsockopt(&pair.sender, UdpGsoSegment, &1472).unwrap();
        let start = Instant::now();
        pair.sender.send(&vec![0; 1472 * 40]).unwrap();
        let arrivals = pair.receive(start);
        assert_eq!(arrivals.len(), 40);
        assert!(arrivals.iter().all(|arrival| arrival.ip_bytes == 1500));
        if access_bps.is_some() {
            let took = (arrivals[39].after - arrivals[0].after).as_secs_f64();
            assert!((took / (39.0 * 0.0012) - 1.0).abs() < 0.002, "{took}");
        }
        let [there, _] = layout.routes(0).unwrap();
        for edge in there {
            let sent = network.sample(edge).unwrap().sent;
            assert_eq!((sent.packets, sent.ip_bytes), (40, 40 * 1500), "edge {}", edge.index());
        }
    }
}

fn with_metrics(metrics: RouteMetrics, bytes: usize) -> Duration {
    let layout = dumbbell(link(1_000_000_000, ms(50), 10_000), 1, plain(ms(0)));
    let mut network = Network::build(&layout, 1).unwrap();
    let (sender, receiver) = layout.hosts[0];
    network.set_route_metrics(sender, receiver, metrics).unwrap();
    let large = RouteMetrics { initrwnd_segments: Some(1000), ..RouteMetrics::default() };
    network.set_route_metrics(receiver, sender, large).unwrap();
    transfer(&network, &layout, bytes)
}

fn locked_window() {
    let layout = dumbbell(link(1_000_000_000, ms(50), 10_000), 1, plain(ms(0)));
    let mut network = Network::build(&layout, 1).unwrap();
    let (sender, receiver) = layout.hosts[0];
    let metrics = RouteMetrics { cwnd_segments: Some(10), ..RouteMetrics::default() };
    network.set_route_metrics(sender, receiver, metrics).unwrap();
    let took = || transfer(&network, &layout, 100 * SEGMENT_BYTES).as_secs_f64();
    // The metrics do not apply to the first connection, which sends 10, 20, 40 segments, and then the rest.
    let (first, second) = (took(), took());
    assert!((0.35..0.37).contains(&first), "{first} s");
    // Ten windows, half a round trip, and the FIN one round trip after the last window.
    assert!((1.04..1.08).contains(&second), "{second} s");
}

fn initial_window() {
    let took = |initcwnd_segments| {
        let metrics = RouteMetrics { initcwnd_segments, ..RouteMetrics::default() };
        with_metrics(metrics, 40 * SEGMENT_BYTES).as_secs_f64()
    };
    // The default window sends 10 and 20 segments, and then the rest; the large one sends all together, and then the
    // FIN.
    let (default, large) = (took(None), took(Some(41)));
    assert!((0.25..0.27).contains(&default), "{default} s");
    assert!((0.05..0.07).contains(&large), "{large} s");
}
