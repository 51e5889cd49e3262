//! Cost of streams, and the memory and traffic that a peer can cause by lies about them.
//! `cargo test -p dfcp-proto --test stream_costs -- --nocapture` prints the table of `docs/limits.md`.

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

#[expect(dead_code, reason = "another test binary needs more of it")]
#[path = "support/liar.rs"]
mod liar;
#[expect(dead_code, reason = "the other test binaries need more of it")]
mod support;

use std::time::Duration;

use dfcp_proto::{PeerMisbehaved, Read, StreamId, StreamKind, limits};
use dfcp_wire::feedback;
use dfcp_wire::segment::{Ack, Fin, Segment};
use liar::{LIMIT, Liar, MS, theirs};
use support::{Server, decode};

/// Memory that a session keeps after its streams are gone, bytes: the final states of the last streams, and queues that
/// are short again. Together with an idle session's 5.8 KiB it is less than `CONNECTION_BYTES_MAX`.
const SLACK_BYTES: u64 = 10 << 10;

/// Costs of an attack.
struct Cost {
    what: &'static str,
    said_bytes: u64,
    /// Memory kept, as counted by the allocator.
    kept_bytes: u64,
    /// Memory kept, as charged by the endpoint.
    counted_bytes: u64,
    drawn_datagrams: u64,
    drawn_bytes: u64,
    /// Time spent by the attacked end: receiving, timers, application and sending.
    took: Duration,
}

/// Returns the bytes that `act` allocates on this thread and does not free. Other threads, such as the test harness's,
/// do not count.
fn kept_bytes(act: impl FnOnce()) -> u64 {
    u64::try_from(allocation_counter::measure(act).bytes_current).unwrap_or(0)
}

/// Returns the costs of one second of an attack. The liar acts once per millisecond.
fn cost(what: &'static str, mut act: impl FnMut(&mut Liar, u32)) -> Cost {
    let mut liar = Liar::new();
    let counted = liar.server.stats().memory_bytes;
    let (mut drawn_datagrams, mut drawn_bytes) = (0, 0);
    liar.server_took = Duration::ZERO;
    let kept_bytes = kept_bytes(|| {
        for round in 0..1_000 {
            act(&mut liar, round);
            for datagram in liar.timed(Server::sent) {
                drawn_datagrams += 1;
                drawn_bytes += datagram.len() as u64;
                let (_, received) = decode(&datagram);
                match received.segment {
                    Segment::Fin(Fin { stream, end, .. }) => liar.ack(Ack::OfFin { stream, end, proof: 0 }),
                    Segment::Report(_) => liar.permitted = feedback::decode(received.payload).unwrap().0.streams,
                    _ => {}
                }
            }
            liar.timed(|server, handle| {
                let mut streams = server.connection(handle).streams();
                while streams.poll_event().is_some() {}
                server.wait(MS);
            });
        }
    });
    Cost {
        what,
        said_bytes: liar.said_bytes,
        kept_bytes,
        // A session that has ended may release more than the attack took.
        counted_bytes: liar.server.stats().memory_bytes.saturating_sub(counted),
        drawn_datagrams,
        drawn_bytes,
        took: liar.server_took,
    }
}

/// Accepts every stream, reads the available bytes, and ends our half.
fn serve(liar: &mut Liar) {
    liar.timed(|server, handle| {
        let now = server.now;
        let mut streams = server.connection(handle).streams();
        while let Some(id) = streams.accept() {
            while matches!(streams.read(now, id, &mut [0; 100]), Ok(Read::Bytes(_))) {}
            streams.finish(now, id);
        }
    });
}

/// Reads the available bytes of every stream of a kind.
fn read_all(liar: &mut Liar, kind: StreamKind) {
    liar.timed(|server, handle| {
        let now = server.now;
        let mut streams = server.connection(handle).streams();
        while streams.accept().is_some() {}
        for id in (1..LIMIT).map(|index| theirs(kind, index)) {
            while matches!(streams.read(now, id, &mut [0; 2_000]), Ok(Read::Bytes(_))) {}
        }
    });
}

fn each(liar: &mut Liar, kind: StreamKind, act: impl Fn(&mut Liar, StreamId)) {
    (1..LIMIT).for_each(|index| act(liar, theirs(kind, index)));
}

fn attacks() -> Vec<Cost> {
    let one_way = StreamKind::OneWay;
    let both_ways = StreamKind::Bidirectional;
    let mut next = 1;
    vec![
        cost("an id far ahead, within credit", |liar, round| {
            if round == 0 {
                liar.ack(Ack::KeepAlive { stream: theirs(both_ways, LIMIT) });
                liar.ack(Ack::KeepAlive { stream: theirs(one_way, LIMIT - 1) });
            }
        }),
        cost("open and reset, served at once, as fast as credit comes", |liar, round| {
            // Requests the report that grants more credit.
            liar.ack(Ack::KeepAlive { stream: StreamId::FIRST });
            while next <= liar.permitted.bidirectional {
                liar.reset(theirs(both_ways, next));
                next += 1;
            }
            serve(liar);
            assert!(round < 999 || next > LIMIT + limits::STREAM_RESETS_PER_S, "{next}: it storms");
        }),
        cost("opens beyond credit: the session ends at the first", |liar, round| {
            liar.ack(Ack::KeepAlive { stream: theirs(both_ways, LIMIT) });
            (1..100).for_each(|past| liar.ack(Ack::KeepAlive { stream: theirs(both_ways, LIMIT + past) }));
            if round == 0 {
                assert!(matches!(liar.misbehaved(), Some(PeerMisbehaved::StreamBeyondCredit { .. })), "it goes on");
            }
        }),
        cost("a byte each, never read", |liar, round| {
            each(liar, one_way, |liar, id| liar.block(id, round, 1, round == 999));
        }),
        cost("a byte each, read at once, never finished", |liar, round| {
            each(liar, one_way, |liar, id| liar.block(id, round, 1, false));
            read_all(liar, one_way);
        }),
        cost("a full symbol each, never read", |liar, round| {
            each(liar, one_way, |liar, id| liar.block(id, round, 1_420, round == 999));
        }),
        cost("a full symbol each, read at once, never finished", |liar, round| {
            each(liar, one_way, |liar, id| liar.block(id, round, 1_420, false));
            read_all(liar, one_way);
        }),
        cost("resets of streams that are gone", |liar, _| {
            each(liar, one_way, |liar, id| liar.reset(id));
            serve(liar);
        }),
        cost("StopSending for all, again and again", |liar, _| {
            each(liar, both_ways, |liar, stream| liar.ack(Ack::StopSending { stream, error: 9 }));
        }),
        cost("Gone for all, again and again", |liar, _| {
            each(liar, both_ways, |liar, stream| liar.ack(Ack::Gone { stream }));
        }),
        cost("questions about all, again and again", |liar, _| {
            each(liar, both_ways, |liar, stream| liar.ack(Ack::KeepAlive { stream }));
        }),
    ]
}

fn idle_stream_bytes() -> u64 {
    const STREAMS: u32 = 1_000;
    let mut liar = Liar::with(STREAMS, 1 << 30);
    kept_bytes(|| liar.ack(Ack::KeepAlive { stream: theirs(StreamKind::Bidirectional, STREAMS) })) / u64::from(STREAMS)
}

#[test]
fn streams_take_what_is_promised_and_lies_about_them_cost_what_is_counted() {
    // First-time allocations belong to no connection.
    let _tables = cost("", |liar, round| liar.block(theirs(StreamKind::OneWay, 1), round, 100, false));
    let idle = idle_stream_bytes();
    println!("an idle stream, both halves: {idle} bytes");
    assert!((200..=limits::STREAM_BYTES_MAX).contains(&idle), "{idle}");
    println!(
        "| attack, for a second | it sends | we keep | charged | we send | datagrams | we take, ms |\n\
         |---|---|---|---|---|---|---|"
    );
    for Cost { what, said_bytes, kept_bytes, counted_bytes, drawn_datagrams, drawn_bytes, took } in attacks() {
        let took_ms = took.as_millis();
        println!(
            "| {what} | {said_bytes} | {kept_bytes} | {counted_bytes} | {drawn_bytes} | {drawn_datagrams} | {took_ms} |"
        );
        assert!(kept_bytes <= counted_bytes + SLACK_BYTES, "{what}: {kept_bytes} kept, {counted_bytes} counted");
        // Two datagrams per millisecond, one answer per stream, and the segments that announce opened streams.
        let answers = u64::from(LIMIT) * 1_100;
        assert!(drawn_datagrams <= answers && drawn_bytes <= said_bytes + 200_000, "{what}: {drawn_datagrams}");
    }
}
