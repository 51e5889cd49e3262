//! ECN marks, from the IP header of one end's datagrams to the statistics of both ends.

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

use std::net::SocketAddr;
use std::time::Duration;

use dfcp_proto::{
    Accept, Config, Connection, DATAGRAM_BUFFER_BYTES, Ecn, EcnStats, Endpoint, Origin, PeerKey, Rate, Read, Routed,
    StreamId,
};
use dfcp_time::Time;

fn client_address() -> SocketAddr {
    ([192, 0, 2, 1], 40_000).into()
}

fn server_address() -> SocketAddr {
    ([192, 0, 2, 2], 9_000).into()
}

/// Sends 200 kB over a path that changes the mark of each client datagram by `mark_of`. Returns the client's
/// statistics, the server's, and the datagrams that the server received.
fn transfer(config: Config, mut mark_of: impl FnMut(Ecn) -> Ecn) -> (EcnStats, EcnStats, u64) {
    let mut now = Time::from_s(1);
    let mut server_end = Endpoint::new(server_address().port(), Some(Accept::from(config.clone())), [2; 32]);
    let mut client_end = Endpoint::new(client_address().port(), None, [1; 32]);
    let (_, mut client) = client_end.connect(now, server_address(), config).unwrap();
    let (mut server, mut out): (Option<Connection>, _) = (None, [0; DATAGRAM_BUFFER_BYTES]);
    let (mut written, mut read) = (0, 0);
    for _ in 0..2_000 {
        now += Duration::from_millis(1);
        written += client
            .streams()
            .write(now, StreamId::FIRST, &[7; 1_000][..1_000.min(200_000 - written)])
            .unwrap_or_default();
        client.handle_timeout(now);
        while let Some(sent) = client.poll_transmit(now, &mut out) {
            let mut datagram = out[..sent.length].to_vec();
            let origin = Origin { remote: client_address(), ecn: mark_of(sent.ecn) };
            match server_end.handle_datagram(now, origin.remote, &datagram, &mut out) {
                Routed::Reply(length) => client.handle_datagram(now, server_address(), &mut out[..length]),
                Routed::Opened(_, connection) => server = Some(connection),
                Routed::Connection(..) => server.as_mut().unwrap().handle_datagram(now, origin, &mut datagram),
                _ => {}
            }
        }
        let Some(server) = &mut server else { continue };
        server.handle_timeout(now);
        while let Ok(Read::Bytes(count)) = server.streams().read(now, StreamId::FIRST, &mut out) {
            read += count;
        }
        while let Some(sent) = server.poll_transmit(now, &mut out) {
            client.handle_datagram(now, server_address(), &mut out[..sent.length]);
        }
    }
    assert_eq!((written, read), (200_000, 200_000));
    let server = server.unwrap().stats();
    assert_eq!((server.ecn_reported, client.stats().ecn_received), Default::default(), "the way back has no marks");
    (client.stats().ecn_reported, server.ecn_received, server.segments_received)
}

fn configs() -> [Config; 2] {
    let config = || Config::sealed(PeerKey::Any).with_rate(Rate::Fixed { rate_bps: 20_000_000 });
    [config(), config().with_security(dfcp_proto::Security::Unsealed)]
}

#[test]
fn what_queues_mark_is_counted_once_and_reported() {
    for config in configs() {
        let mut count = 0;
        let (reported, received, datagrams) = transfer(config.with_ecn(true), |mark| {
            assert_eq!(mark, Ecn::Capable, "every datagram is sent so");
            count += 1;
            if count % 10 == 0 { Ecn::CongestionExperienced } else { mark }
        });
        assert_eq!(reported, received);
        assert!(received.ce > 10 && received.ect > 8 * received.ce, "{received:?}");
        // The third message of a sealed handshake opens the session, and does not count as one of its datagrams.
        assert!(datagrams - (received.ce + received.ect) <= 1, "{received:?} of {datagrams}");
    }
}

#[test]
fn a_path_that_clears_the_field_is_seen() {
    for config in configs() {
        let (reported, received, _) = transfer(config.with_ecn(true), |_| Ecn::NotCapable);
        assert_eq!((reported, received), Default::default());
    }
}

#[test]
fn without_asking_for_it_nothing_is_marked() {
    for config in configs() {
        let (reported, received, _) = transfer(config, |mark| {
            assert_eq!(mark, Ecn::NotCapable);
            mark
        });
        assert_eq!((reported, received), Default::default());
    }
}
