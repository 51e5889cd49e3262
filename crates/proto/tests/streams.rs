//! Peers that lie about streams: their cost is bounded, nothing panics, and statements that no correct peer makes end
//! the session.

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

#[path = "support/liar.rs"]
mod liar;
#[expect(dead_code, reason = "the other test binaries need more of it")]
mod support;

use std::time::Duration;

use dfcp_proto::{Opener, PeerMisbehaved, Read, StreamError, StreamEvent, StreamId, StreamKind, StreamLimits, limits};
use dfcp_wire::BlockInfo;
use dfcp_wire::feedback::{Report, Run, StreamState};
use dfcp_wire::segment::{Ack, Data, Fin, Segment};
use liar::{LIMIT, Liar, MS, permitting, theirs};
use support::decode;

/// Segments that no correct peer sends for a stream end the session, or change nothing.
#[test]
fn every_segment_for_every_id_ends_the_session_or_changes_nothing() {
    let ids: Vec<_> = [Opener::Initiator, Opener::Acceptor]
        .into_iter()
        .flat_map(|opener| [StreamKind::Bidirectional, StreamKind::OneWay].map(|kind| (opener, kind)))
        .flat_map(|(opener, kind)| {
            [0, 1, 2, 3, LIMIT - 1, LIMIT, LIMIT + 1, (1 << 30) - 1].map(|index| (opener, kind, index))
        })
        .filter_map(|(opener, kind, index)| StreamId::new(opener, kind, index))
        .collect();
    let numbers = [0, 1, 2, 5, u32::MAX - 1, u32::MAX];
    let mut ended = 0;
    for &stream in &ids {
        let first = numbers.iter().flat_map(|&n| {
            let of_fin = [0, 1].map(|proof| Segment::Ack(Ack::OfFin { stream, end: n, proof }));
            let fin = [None, Some(n)].map(|ack_proof| Segment::Fin(Fin { stream, end: n, ack_proof }));
            let block = BlockInfo { k: 1, length_bytes: 100, end_of_stream: n % 2 == 0 };
            let others = [
                Segment::Ack(Ack::ResetStream { stream, error: n, end: n }),
                Segment::Ack(Ack::OfReset { stream, served: n }),
                Segment::Ack(Ack::StopSending { stream, error: n }),
                Segment::Ack(Ack::Gone { stream }),
                Segment::Ack(Ack::KeepAlive { stream }),
                Segment::Data(Data { stream, block_id: n, esi: n, block, fragment: dfcp_wire::Fragment::WHOLE }),
            ];
            of_fin.into_iter().chain(fin).chain(others)
        });
        let all: Vec<Segment> = first.collect();
        for (place, &segment) in all.iter().enumerate() {
            // For each kind: a stream of ours, written and finished, and a known stream of the peer.
            let mut liar = Liar::new();
            liar.report(&permitting(0, 0), &[], None);
            let now = liar.server.now;
            for kind in [StreamKind::Bidirectional, StreamKind::OneWay] {
                let id = liar.streams().open(kind).unwrap();
                assert_eq!(liar.streams().write(now, id, &[7; 5_000]), Ok(5_000));
                liar.streams().finish(now, id);
                liar.block(theirs(kind, 1), 0, 100, false);
            }
            liar.server.wait(Duration::from_millis(50));
            liar.sent_numbers();
            // Two successors: the same segment again, and another one.
            for segment in [segment, segment, all[place * 31 % all.len()]] {
                let payload: &[u8] = if matches!(segment, Segment::Data(_)) { &[7; 100] } else { &[] };
                liar.say(segment, payload);
                liar.server.wait(MS);
                liar.sent_numbers();
                liar.events();
                for id in std::iter::from_fn(|| liar.streams().accept()).collect::<Vec<_>>() {
                    let now = liar.server.now;
                    let _whatever = liar.streams().read(now, id, &mut [0; 1_000]);
                }
            }
            ended += usize::from(liar.misbehaved().is_some());
            assert!(liar.server.stats().memory_bytes < 4 << 20);
        }
    }
    assert!(ended > ids.len(), "{ended}: the test lies");
}

#[test]
fn a_report_which_takes_back_what_it_said_of_reading_is_no_way_to_more_memory() {
    let mut liar = Liar::new();
    liar.report(&permitting(0, 0), &[], None);
    let now = liar.server.now;
    let id = liar.streams().open(StreamKind::Bidirectional).unwrap();
    assert_eq!(liar.streams().write(now, id, &[7; 50_000]), Ok(50_000));
    let mut numbers = Vec::new();
    for _ in 0..100 {
        numbers.extend(liar.sent_numbers());
        liar.server.wait(MS);
    }
    assert!(numbers.len() > 20, "{numbers:?}");
    // Two contradicting reports: "no block is decoded, but 5 KiB were read", then "I have never seen this stream".
    let state = StreamState { stream: id, kib_read: 5, ..StreamState::default() };
    liar.report(&permitting(numbers[10], 1), &[(state, &[Run::Empty(1)])], None);
    assert_eq!(liar.misbehaved(), None);
    liar.report(&permitting(numbers[20], 1), &[], Some(StreamLimits::default()));
    assert_eq!(liar.misbehaved(), None);
    liar.server.wait(MS);
    liar.sent_numbers();
}

/// Streams of two lost blocks each, sent in turn. The unseen blocks of each stream count only once.
#[test]
fn what_is_unseen_counts_once_however_its_datagrams_alternate() {
    let mut liar = Liar::new();
    liar.report(&permitting(0, 0), &[], None);
    let now = liar.server.now;
    let ids = [(); 3].map(|()| liar.streams().open(StreamKind::OneWay).unwrap());
    for id in ids {
        assert_eq!(liar.streams().write(now, id, &[7; 40_000]), Ok(40_000));
    }
    let mut numbers = Vec::new();
    for _ in 0..500 {
        numbers.extend(liar.sent_numbers());
        liar.server.wait(MS);
    }
    assert!(numbers.len() > 80, "{}", numbers.len());
    // All of the first stream has arrived, but this report does not name it. Nothing of the other streams has arrived.
    let first_unseen = StreamLimits { bidirectional: 0, one_way: 1 };
    liar.report(&permitting(*numbers.last().unwrap(), 30), &[], Some(first_unseen));
    assert_eq!(liar.misbehaved(), None);
}

/// Either half of a stream may end last.
#[test]
fn resets_give_credit_back_at_a_bounded_rate_whatever_becomes_of_the_other_half() {
    let mut liar = Liar::new();
    let mut next = 1;
    let begun = liar.server.now;
    let rounds = 200;
    for _ in 0..rounds {
        let granted = liar.granted().bidirectional;
        while next < granted + 1 && next < 100_000 {
            let id = theirs(StreamKind::Bidirectional, next);
            liar.reset(id);
            next += 1;
        }
        let now = liar.server.now;
        for id in std::iter::from_fn(|| liar.streams().accept()).collect::<Vec<_>>() {
            assert_eq!(liar.streams().read(now, id, &mut [0; 10]), Err(StreamError::Reset(7)));
            liar.streams().finish(now, id);
        }
        // The liar acknowledges every end.
        for _ in 0..5 {
            let sent = liar.server.sent(liar.handle);
            for datagram in sent {
                if let Segment::Fin(Fin { stream, end, .. }) = decode(&datagram).1.segment {
                    liar.ack(Ack::OfFin { stream, end, proof: 0 });
                }
            }
            liar.server.wait(MS);
        }
    }
    assert_eq!(liar.misbehaved(), None);
    let seconds = (liar.server.now - begun).as_secs_f64();
    let most = f64::from(LIMIT + limits::STREAM_RESETS_BURST) + seconds * f64::from(limits::STREAM_RESETS_PER_S) + 2.0;
    assert!(f64::from(next) <= most, "{next} in {seconds} s, at most {most}");
    assert!(f64::from(next) > 0.8 * most, "{next} of {most}: the test storms");
}

/// Acknowledgements, blocks and FINs that are repeated after both halves have ended give no further credit.
#[test]
fn a_stream_gives_its_credit_back_once() {
    let mut liar = Liar::new();
    let id = theirs(StreamKind::Bidirectional, 1);
    liar.block(id, 0, 100, true);
    let now = liar.server.now;
    assert_eq!(liar.streams().accept(), Some(id));
    assert_eq!(liar.streams().read(now, id, &mut [0; 1_000]), Ok(Read::Bytes(100)));
    assert_eq!(liar.streams().read(now, id, &mut [0; 1_000]), Ok(Read::End));
    liar.streams().finish(now, id);
    for _ in 0..50 {
        liar.ack(Ack::OfFin { stream: id, end: 0, proof: 0 });
        liar.block(id, 0, 100, true);
        liar.say(Segment::Fin(Fin { stream: id, end: 1, ack_proof: None }), &[]);
        liar.server.wait(MS);
        liar.sent_numbers();
    }
    // Reports tell the stream's end before it is forgotten.
    for _ in 0..100 {
        liar.server.wait(MS);
        liar.sent_numbers();
    }
    assert_eq!(liar.granted(), StreamLimits { bidirectional: LIMIT + 1, one_way: LIMIT });
    assert_eq!(liar.misbehaved(), None);
}

/// Opens streams with ids far ahead, as far as credit permits, and sends one byte on each, which is never read.
#[test]
fn streams_which_nobody_reads_give_no_credit_and_take_what_is_counted() {
    let mut liar = Liar::new();
    let before = liar.server.stats().memory_bytes;
    liar.ack(Ack::KeepAlive { stream: theirs(StreamKind::Bidirectional, LIMIT) });
    liar.ack(Ack::KeepAlive { stream: theirs(StreamKind::OneWay, LIMIT - 1) });
    assert_eq!(liar.events().len(), 2 * LIMIT as usize, "an id opens all before it");
    let idle = liar.server.stats().memory_bytes - before;
    assert!((300_000..=600_000).contains(&idle), "{idle} bytes for {} streams", 2 * LIMIT);
    for round in 0..100 {
        for index in 0..LIMIT {
            liar.block(theirs(StreamKind::OneWay, index), round, 1, false);
        }
        assert!(liar.server.stats().memory_bytes <= before + (16 << 20));
    }
    assert_eq!(liar.granted(), StreamLimits { bidirectional: LIMIT, one_way: LIMIT });
    assert_eq!(liar.misbehaved(), None);
    liar.ack(Ack::KeepAlive { stream: theirs(StreamKind::OneWay, LIMIT) });
    assert!(matches!(liar.misbehaved(), Some(PeerMisbehaved::StreamBeyondCredit { .. })));
}

/// Any number of segments in any order causes one event, and at most one answer per question.
#[test]
fn floods_of_stops_and_questions_make_one_event_and_bounded_answers() {
    let mut liar = Liar::new();
    let id = theirs(StreamKind::Bidirectional, 1);
    liar.block(id, 0, 100, false);
    liar.events();
    for _ in 0..10_000 {
        liar.ack(Ack::StopSending { stream: id, error: 9 });
    }
    let stops = liar.events();
    assert_eq!(stops, [StreamEvent::Stopped { stream: id, error: 9 }]);
    // Questions about streams that are gone: one pending answer per stream, and a bounded number of answers.
    for index in 1..LIMIT {
        liar.reset(theirs(StreamKind::OneWay, index));
    }
    liar.sent_acks();
    for _ in 0..100 {
        for index in 1..LIMIT {
            liar.reset(theirs(StreamKind::OneWay, index));
        }
    }
    let answers = liar.sent_acks().len();
    assert!(answers <= limits::STREAM_ANSWERS_MAX + 1, "{answers} answers");
    assert_eq!(liar.misbehaved(), None);
}

/// Our half of the stream was delivered and proven, so a later stop request must not turn it into a stopped stream.
#[test]
fn who_stops_what_it_has_proven_has_finished_it() {
    let mut liar = Liar::new();
    let id = theirs(StreamKind::Bidirectional, 1);
    liar.block(id, 0, 100, false);
    let now = liar.server.now;
    liar.streams().finish(now, id);
    liar.events();
    liar.ack(Ack::StopSending { stream: id, error: 9 });
    assert_eq!(liar.events(), [StreamEvent::Finished(id)]);
}

/// The peer has not seen the refused stream, so the next stream may get its id.
#[test]
fn a_stream_of_ours_for_which_there_is_no_memory_was_never_opened() {
    let mut liar = Liar::with(limits::STREAMS_MAX, 4 << 20);
    let streams = StreamLimits { bidirectional: limits::STREAMS_MAX, one_way: 0 };
    liar.report(&Report { streams, ..permitting(0, 0) }, &[], None);
    let mut opened = Vec::new();
    let refused = loop {
        match liar.streams().open(StreamKind::Bidirectional) {
            Ok(id) => opened.push(id),
            Err(error) => break error,
        }
    };
    assert_eq!(refused, StreamError::NoMemory);
    assert!(opened.len() > 100, "{}", opened.len());
    for _ in 0..10 {
        assert_eq!(liar.streams().open(StreamKind::Bidirectional), Err(StreamError::NoMemory));
    }
    // Closing one half makes room for another stream.
    liar.reset(opened[0]);
    let now = liar.server.now;
    assert_eq!(liar.streams().read(now, opened[0], &mut [0; 10]), Err(StreamError::Reset(7)));
    let next = liar.streams().open(StreamKind::Bidirectional).unwrap();
    assert_eq!(next.index() as usize, opened.len());
}

/// A peer opens and resets `per_s` streams per second for two seconds, as far as credit permits, and never requests
/// credit. Returns the number of streams opened, and the longest wait for credit, ms.
fn resets(per_s: u32) -> (u32, u32) {
    let mut liar = Liar::new();
    let (mut opened, mut waiting_since, mut longest_ms) = (0, None, 0);
    for ms in 1..=2_000_u32 {
        let due = u64::from(per_s) * u64::from(ms) / 1_000;
        while u64::from(opened) < due && opened < liar.permitted.bidirectional {
            opened += 1;
            longest_ms = longest_ms.max(waiting_since.take().map_or(0, |since| ms - since));
            liar.reset(theirs(StreamKind::Bidirectional, opened));
        }
        if u64::from(opened) < due {
            waiting_since.get_or_insert(ms);
        }
        let now = liar.server.now;
        while let Some(id) = liar.streams().accept() {
            assert_eq!(liar.streams().read(now, id, &mut [0; 9]), Err(StreamError::Reset(7)));
            liar.streams().reset(now, id, 0);
        }
        liar.events();
        for datagram in liar.server.sent(liar.handle) {
            let (_, received) = decode(&datagram);
            match received.segment {
                Segment::Report(_) => liar.permitted = dfcp_wire::feedback::decode(received.payload).unwrap().0.streams,
                Segment::Ack(Ack::ResetStream { stream, .. }) => liar.ack(Ack::OfReset { stream, served: 0 }),
                _ => {}
            }
        }
        liar.server.wait(MS);
    }
    (opened, longest_ms)
}

#[test]
fn resets_at_an_honest_pace_never_wait_and_faster_ones_get_their_credit_as_soon_as_it_is_there() {
    for per_s in [110, 150, 200] {
        assert_eq!(resets(per_s), (2 * per_s, 0), "{per_s} a second");
    }
    for per_s in [300, 1_000] {
        let (opened, longest_ms) = resets(per_s);
        println!("{per_s} resets a second: {opened} in two, the longest wait {longest_ms} ms");
        let permitted = LIMIT + limits::STREAM_RESETS_BURST + 2 * limits::STREAM_RESETS_PER_S;
        assert!((permitted.min(2 * per_s) - 10..=permitted).contains(&opened), "{opened} of {permitted}");
        let interval_ms = 1_000 / limits::STREAM_RESETS_PER_S;
        assert!(longest_ms <= interval_ms + 2, "{longest_ms} ms between two");
    }
}

/// Each report visits every open block. `cargo test --release -p dfcp-proto --test streams reports -- --nocapture`
/// prints the time for reading one second of reports.
#[test]
#[expect(clippy::disallowed_methods, reason = "what is measured is printed, and judges nothing")]
fn of_a_storm_of_reports_no_more_are_read_than_an_eighth_of_the_time_is_enough_for() {
    const BLOCKS: u32 = 4_096;
    let mut liar = Liar::new();
    liar.report(&permitting(0, 0), &[], None);
    let (handle, now) = (liar.handle, liar.server.now);
    for _ in 0..BLOCKS {
        let connection = liar.server.connection(handle);
        assert_eq!(connection.streams().write(now, StreamId::FIRST, &[7]), Ok(1));
        connection.streams().flush(StreamId::FIRST);
        liar.server.wait(MS);
        liar.sent_numbers();
        liar.report(&permitting(0, 0), &[], None);
    }
    let before = liar.server.connection(handle).stats();
    let nothing = StreamState { stream: StreamId::FIRST, ..StreamState::default() };
    let began = std::time::Instant::now();
    for _ in 0..1_000 {
        for _ in 0..100 {
            liar.report(&permitting(0, 0), &[(nothing, &[Run::Empty(BLOCKS)])], None);
        }
        liar.server.wait(MS);
        liar.sent_numbers();
    }
    let stats = liar.server.connection(handle).stats();
    let (read, dropped) =
        (stats.acks_received - before.acks_received, stats.segments_dropped - before.segments_dropped);
    println!("100 000 reports of {BLOCKS} open blocks in a second: {read} read, {} ms", began.elapsed().as_millis());
    let items = BLOCKS + 1;
    let time = Duration::from_secs(1) / limits::REPORTS_SHARE + limits::REPORTS_AT_ONCE;
    let one = limits::REPORT_READING + limits::REPORT_PER_ITEM * items;
    assert_eq!((liar.misbehaved(), read + dropped), (None, 100_000));
    assert!((time / 2..time + one).contains(&(one * read as u32)), "{read}");
    liar.server.wait(Duration::from_millis(200));
    liar.report(&permitting(0, 0), &[], None);
    assert_eq!(liar.server.connection(handle).stats().acks_received, stats.acks_received + 1);
}
