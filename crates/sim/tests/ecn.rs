//! Tests of ECN in the TCP models (RFC 3168, RFC 8257), as in Linux 6.12: single ends driven by hand, and flows through
//! marking queues.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod dumbbell;
mod hand;

use std::time::Duration;

use dfcp_netem::{Discipline, Ecn, FqCodel, LinkStats, QueueLimit, Red};
use dfcp_sim::tcp::{Config, Congestion, Flags, Phase, Receiver, SackBlocks, Segment, Sender};
use dfcp_sim::{DfcpConfig, Nobody, Transport, Verifier};
use dfcp_time::Time;

use dumbbell::{Dumbbell, Flow, Path};
use hand::{Hand, MSS};

fn with_ecn(congestion: Congestion) -> Config {
    Config { ecn: true, tick: Duration::ZERO, ..Config::modern(congestion) }
}

fn dctcp() -> Config {
    Config { tick: Duration::ZERO, ..Config::modern(Congestion::Dctcp) }
}

/// Acknowledges everything below segment `una`, with or without ECE. Returns the segments sent in response.
fn ack(hand: &mut Hand, una: u64, ece: bool) -> Vec<Segment> {
    let segment = hand.ack_segment(una, &[]);
    let segment = Segment { flags: Flags { ece, ..segment.flags }, ts_ecr: hand.now, ..segment };
    hand.now += Duration::from_millis(1);
    hand.sender.on_segment(hand.now, &segment);
    std::iter::from_fn(|| hand.sender.poll_transmit(hand.now)).collect()
}

fn at(ms: u64) -> Time {
    Time::from_ms(ms)
}

/// Returns the data segment with this number, counted from 0.
fn data(number: u64, ecn: Ecn) -> Segment {
    Segment {
        seq: 1 + number * MSS,
        ack: 1,
        ts_val: at(20),
        ts_ecr: Time::ZERO,
        sack: SackBlocks::default(),
        window_bytes: 1 << 30,
        len_bytes: MSS as u32,
        wire_bytes: 1500,
        flags: Flags { ack: true, ..Flags::default() },
        ecn,
    }
}

fn syn(flags: Flags, ecn: Ecn) -> Segment {
    Segment { seq: 0, ack: 0, len_bytes: 0, flags: Flags { syn: true, ..flags }, ecn, ..data(0, ecn) }
}

const ASKING: Flags = Flags { syn: true, fin: false, ack: false, psh: false, ece: true, cwr: true };

/// Returns a receiver after the handshake and its initial undelayed acknowledgements, and the number of the next
/// segment.
fn receiver(config: Config) -> (Receiver, u64) {
    let mut receiver = Receiver::new(Config { quick_ack_segments: 0, ..config }).unwrap();
    let ecn = if config.congestion == Congestion::Dctcp { Ecn::Ect0 } else { Ecn::NotEct };
    receiver.on_segment(Time::ZERO, &syn(ASKING, ecn));
    let answer = receiver.poll_transmit(Time::ZERO).unwrap();
    assert!(answer.flags.syn && answer.flags.ece && !answer.flags.cwr);
    receiver.on_segment(at(20), &Segment { len_bytes: 0, ..data(0, Ecn::NotEct) });
    let mut number = 0;
    loop {
        receiver.on_segment(at(20), &data(number, Ecn::Ect0));
        number += 1;
        if number > 40 && receiver.poll_transmit(at(20)).is_none() {
            break;
        }
        receiver.poll_transmit(at(20));
    }
    // From here on, every second segment is acknowledged.
    receiver.on_segment(at(20), &data(number, Ecn::Ect0));
    assert!(!receiver.poll_transmit(at(20)).unwrap().flags.ece);
    (receiver, number + 1)
}

#[test]
fn both_ends_have_to_agree() {
    for (config, syn_ecn) in [(with_ecn(Congestion::Cubic), Ecn::NotEct), (dctcp(), Ecn::Ect0)] {
        let mut sender = Sender::new(config, None, 1).unwrap();
        let sent = sender.poll_transmit(Time::ZERO).unwrap();
        assert_eq!((sent.flags.ece, sent.flags.cwr, sent.ecn), (true, true, syn_ecn));
        let (_, flight) = Hand::connected(config);
        assert_eq!(flight.len(), 10);
    }
    let mut plain = Sender::new(Config::modern(Congestion::Cubic), None, 1).unwrap();
    let sent = plain.poll_transmit(Time::ZERO).unwrap();
    assert_eq!((sent.flags.ece, sent.flags.cwr, sent.ecn), (false, false, Ecn::NotEct));
    // Returns true if a receiver answers this SYN with ECE.
    let answer = |config, flags, ecn| {
        let mut receiver = Receiver::new(config).unwrap();
        receiver.on_segment(Time::ZERO, &syn(flags, ecn));
        receiver.poll_transmit(Time::ZERO).unwrap().flags.ece
    };
    let reno = Config::modern(Congestion::NewReno);
    assert!(answer(with_ecn(Congestion::NewReno), ASKING, Ecn::NotEct));
    assert!(!answer(reno, ASKING, Ecn::NotEct));
    assert!(!answer(with_ecn(Congestion::NewReno), Flags { cwr: false, ..ASKING }, Ecn::NotEct));
    // A SYN that is itself ECT comes from DCTCP, which needs exact echoes (`tcp_ecn_create_request`).
    assert!(!answer(with_ecn(Congestion::NewReno), ASKING, Ecn::Ect0));
    assert!(answer(dctcp(), ASKING, Ecn::Ect0));
}

/// Returns a sender whose SYN was answered with these flags, and the sender's first segment.
fn first_after(config: Config, flags: Flags) -> (Sender, Segment) {
    let mut sender = Sender::new(config, None, 1).unwrap();
    sender.poll_transmit(Time::ZERO).unwrap();
    let answer = Segment { seq: 0, ack: 1, flags: Flags { syn: true, ack: true, ..flags }, ..syn(flags, Ecn::NotEct) };
    sender.on_segment(at(10), &answer);
    sender.poll_transmit(at(10)).unwrap();
    let first = sender.poll_transmit(at(10)).unwrap();
    (sender, first)
}

#[test]
fn without_agreement_nothing_is_ect_and_dctcp_is_reno() {
    let agreed = Flags { ece: true, ..Flags::default() };
    assert_eq!(first_after(with_ecn(Congestion::Cubic), agreed).1.ecn, Ecn::Ect0);
    // Some hosts reflect the flags of the SYN.
    let reflected = Flags { ece: true, cwr: true, ..Flags::default() };
    for flags in [Flags::default(), reflected] {
        assert_eq!(first_after(with_ecn(Congestion::Cubic), flags).1.ecn, Ecn::NotEct);
        let (mut sender, first) = first_after(dctcp(), flags);
        assert_eq!(first.ecn, Ecn::NotEct);
        // An echo without negotiated ECN is ignored.
        let echo =
            Segment { flags: Flags { ack: true, ece: true, ..Flags::default() }, ack: 1 + MSS, ..data(0, Ecn::NotEct) };
        sender.on_segment(at(20), &Segment { len_bytes: 0, seq: 1, ..echo });
        assert_eq!((sender.phase(), sender.ssthresh_segments()), (Phase::Open, None));
    }
}

/// The second SYN has no ECN flags, so it also passes paths that drop SYNs with ECN (RFC 3168, section 6.1.1.1).
#[test]
fn a_syn_sent_again_does_not_ask() {
    let mut sender = Sender::new(with_ecn(Congestion::Cubic), None, 1).unwrap();
    assert!(sender.poll_transmit(Time::ZERO).unwrap().flags.ece);
    let now = sender.next_timeout().unwrap();
    sender.handle_timeout(now);
    let again = sender.poll_transmit(now).unwrap();
    assert_eq!((again.flags.syn, again.flags.ece, again.flags.cwr), (true, false, false));
}

/// RFC 3168, section 6.1.2: a mark reduces the window as a loss does, once per window of data. Only the first new
/// segment after the reduction carries CWR, and nothing is retransmitted.
#[test]
fn marks_reduce_the_window_once_in_a_window_of_data() {
    for (config, thresholds) in [
        (with_ecn(Congestion::Cubic), [7, 4]),
        (with_ecn(Congestion::NewReno), [5, 2]),
        (Config { ecn: true, ..Config::rfc(Congestion::NewReno) }, [5, 2]),
        (Config { ecn: true, ..Config::rfc(Congestion::Cubic) }, [7, 4]),
        // The first acknowledgement ends an RTT without marks, so alpha is 960/1024.
        (dctcp(), [6, 4]),
    ] {
        let (mut hand, _) = Hand::connected(config);
        let mut sent = Vec::new();
        // All ten segments of the first flight are acknowledged with an echo.
        for una in 1..=10 {
            sent.extend(ack(&mut hand, una, true));
            assert_eq!((hand.sender.phase(), hand.sender.ssthresh_segments()), (Phase::Cwr, Some(thresholds[0])));
        }
        assert_eq!(hand.sender.stats().ecn_reductions, 1, "{config:?}");
        assert_eq!(hand.cwnd(), thresholds[0]);
        let cwr: Vec<bool> = sent.iter().map(|segment| segment.flags.cwr).collect();
        assert!(cwr[0] && cwr[1..].iter().all(|&cwr| !cwr), "{cwr:?}");
        assert!(sent.iter().all(|segment| segment.ecn == Ecn::Ect0));
        // A segment of the second flight was marked.
        ack(&mut hand, 11, true);
        assert_eq!(hand.sender.stats().ecn_reductions, 2);
        assert!(
            hand.sender.ssthresh_segments() <= Some(thresholds[1]),
            "{config:?}: {:?}",
            hand.sender.ssthresh_segments()
        );
        let stats = hand.sender.stats();
        assert_eq!((stats.retransmissions, stats.recoveries, stats.timeouts), (0, 0, 0));
    }
}

/// Proportional rate reduction, as after a loss: with 10 segments in flight, one is sent per two arrivals until 5 are
/// in flight.
#[test]
fn the_window_comes_down_in_proportion() {
    let (mut hand, _) = Hand::connected(with_ecn(Congestion::NewReno));
    let sent: Vec<usize> = (1..=10).map(|una| ack(&mut hand, una, una == 1).len()).collect();
    assert_eq!(sent.iter().sum::<usize>(), 5, "{sent:?}");
    assert!(sent.iter().all(|&count| count <= 1), "{sent:?}");
    assert_eq!(hand.sender.pipe_segments(), 5);
    // The reduction ends when data sent after its start is acknowledged.
    assert_eq!(hand.sender.phase(), Phase::Cwr);
    ack(&mut hand, 11, false);
    assert_eq!((hand.sender.phase(), hand.cwnd()), (Phase::Open, 5));
}

#[test]
fn bbr_hears_of_marks_and_does_not_slow_down() {
    for config in [with_ecn(Congestion::Bbr1), Config { ecn: true, ..Config::rfc(Congestion::Bbr1) }] {
        let (mut marked, _) = Hand::connected(config);
        let (mut plain, _) = Hand::connected(config);
        let (mut cwr, mut una) = (0, 0);
        for _ in 0..10 {
            una += 1;
            cwr += ack(&mut marked, una, true).iter().filter(|segment| segment.flags.cwr).count();
            ack(&mut plain, una, false);
            assert_eq!((marked.cwnd(), marked.sender.stats().segments), (plain.cwnd(), plain.sender.stats().segments));
        }
        // Pacing makes a window of data a few segments here, so CWR is sent several times.
        assert!((1..=5).contains(&cwr), "the receiver is told that it need not repeat itself: {cwr}");
    }
}

/// RFC 3168, section 6.1.5: retransmissions are Not-ECT. Linux sends all segments of DCTCP as ECT(0); otherwise,
/// marking queues would drop them first.
#[test]
fn what_is_sent_again_is_not_ect_except_of_dctcp() {
    for (config, expected) in [(with_ecn(Congestion::Cubic), Ecn::NotEct), (dctcp(), Ecn::Ect0)] {
        let (mut hand, _) = Hand::connected(config);
        let segment = hand.ack_segment(0, &[(1, 5)]);
        hand.now += Duration::from_millis(1);
        hand.sender.on_segment(hand.now, &segment);
        let again = hand.sender.poll_transmit(hand.now).unwrap();
        assert_eq!((again.seq, again.ecn, again.flags.cwr), (1, expected, false));
        // The loss has reduced the window, so the first new segment carries CWR.
        let sent = ack(&mut hand, 6, false);
        let (again, new): (Vec<_>, Vec<_>) = sent.into_iter().partition(|segment| segment.seq <= 9 * MSS + 1);
        assert!(again.iter().all(|segment| segment.ecn == expected && !segment.flags.cwr), "{again:?}");
        assert!(new[0].flags.cwr && new[0].ecn == Ecn::Ect0, "{new:?}");
    }
}

/// A mark and a loss in the same window of data cause only one reduction. With DCTCP, the mark may have reduced the
/// window little, so the loss halves it.
#[test]
fn a_loss_in_a_reduction_reduces_no_further() {
    for (config, thresholds) in [
        (with_ecn(Congestion::Cubic), [7, 7]),
        (Config { ecn: true, ..Config::rfc(Congestion::Cubic) }, [7, 7]),
        (dctcp(), [6, 6]),
    ] {
        let (mut hand, _) = Hand::connected(config);
        ack(&mut hand, 1, true);
        assert_eq!(hand.sender.ssthresh_segments(), Some(thresholds[0]));
        let segment = hand.ack_segment(1, &[(2, 7)]);
        hand.now += Duration::from_millis(1);
        hand.sender.on_segment(hand.now, &segment);
        assert_eq!(hand.sender.phase(), Phase::Recovery, "{config:?}");
        assert!(hand.sender.ssthresh_segments() <= Some(thresholds[0]));
        if config.congestion != Congestion::Dctcp {
            assert_eq!(hand.sender.ssthresh_segments(), Some(thresholds[1]));
        }
        assert_eq!((hand.sender.stats().ecn_reductions, hand.sender.stats().recoveries), (1, 1));
    }
}

/// RFC 3168, section 6.1.3: every acknowledgement echoes the mark until the sender confirms its response.
#[test]
fn a_mark_is_told_until_it_is_obeyed() {
    let (mut receiver, first) = receiver(with_ecn(Congestion::Cubic));
    let mut told = Vec::new();
    let mut take = |number: u64, ecn, cwr| {
        let segment = data(first + number, ecn);
        receiver.on_segment(at(21), &Segment { flags: Flags { cwr, ..segment.flags }, ..segment });
        told.extend(receiver.poll_transmit(at(21)).map(|ack| (number, ack.flags.ece)));
    };
    take(0, Ecn::Ce, false);
    for number in 1..5 {
        take(number, Ecn::Ect0, false);
    }
    // This segment carries CWR and is acknowledged immediately.
    take(5, Ecn::Ect0, true);
    take(6, Ecn::Ect0, false);
    take(7, Ecn::Ect0, false);
    // This segment carries CWR and is marked again.
    take(8, Ecn::Ce, true);
    // The first marked segment, the one after it, and those with CWR are acknowledged immediately, the others in pairs.
    let at_once: Vec<u64> = told.iter().map(|&(number, _)| number).collect();
    assert!(at_once.starts_with(&[0, 1]) && at_once.contains(&5) && at_once.ends_with(&[8]), "{told:?}");
    for (number, ece) in told {
        assert_eq!(ece, number < 5 || number == 8, "{number}");
    }
}

/// RFC 8257, section 3.2: acknowledgements may be delayed. When marks begin or end, the data before is acknowledged
/// separately, so every segment is reported exactly.
#[test]
fn dctcp_tells_exactly_which_segments_were_marked() {
    let (mut receiver, first) = receiver(dctcp());
    let marks = [0, 0, 0, 1, 1, 1, 1, 0, 1, 0, 0, 0, 0, 1, 1, 1, 0];
    let (mut told, mut early) = (Vec::new(), 0);
    let mut take = |receiver: &mut Receiver, number: usize| {
        let mut acks = 0;
        while let Some(ack) = receiver.poll_transmit(at(21 + number as u64)) {
            assert_eq!(ack.ecn, Ecn::Ect0);
            let una = ((ack.ack - 1) / MSS - first) as usize;
            assert!(una >= told.len(), "{una}");
            told.resize(una, u8::from(ack.flags.ece));
            acks += 1;
        }
        early += usize::from(acks == 2);
    };
    for (number, &mark) in marks.iter().enumerate() {
        let ecn = if mark == 1 { Ecn::Ce } else { Ecn::Ect0 };
        receiver.on_segment(at(21 + number as u64), &data(first + number as u64, ecn));
        take(&mut receiver, number);
    }
    // The last acknowledgement may still be delayed.
    let deadline = receiver.next_timeout();
    if let Some(deadline) = deadline {
        receiver.handle_timeout(deadline);
        take(&mut receiver, 100);
    }
    assert_eq!(told, marks);
    assert!(early > 0, "no acknowledgement was waiting when marks began or ended");
    assert_eq!(receiver.stats().ce_segments, 8);
}

const MBIT: u64 = 1_000_000;

/// Results of equal flows from 5 s to 20 s, with a bottleneck of 100 Mbit/s and an RTT of 20 ms.
struct Outcome {
    share: f64,
    queue_packets: f64,
    stats: LinkStats,
    retransmissions: u64,
    timeouts: u64,
    delivered_ce: u64,
    received_ce: u64,
}

fn run(config: Config, discipline: Discipline, packets: usize, flows: usize) -> Outcome {
    let mut path = Path::drop_tail(100 * MBIT, packets, 0.0, 5);
    path.bottleneck = path.bottleneck.with_discipline(discipline).with_queue(QueueLimit::packets(packets));
    // Hosts send at twice the bottleneck's rate, so bursts also queue at the hosts.
    path.access_bps = 200 * MBIT;
    let flow = |number: usize| Flow {
        start: Time::from_ms(number as u64 * 37),
        ..Flow::new(Transport::Tcp(config), Duration::from_millis(20), None)
    };
    let bottleneck = path.bottleneck.clone();
    let mut dumbbell = Dumbbell::new(path, (0..flows).map(flow).collect(), Verifier::default());
    let link = dumbbell.bottleneck;
    dumbbell.simulation.observer_mut().watch(link, bottleneck);
    dumbbell.simulation.run_until(Time::from_s(5));
    let before = dumbbell.delivered_bytes();
    let queue_packets = dumbbell.run_sampling(Time::from_s(20));
    let goodput_mbps: f64 = dumbbell.goodput_since(&before, Time::from_s(5)).iter().sum();
    let stats = dumbbell.simulation.link_stats(link);
    assert_eq!(Verifier::verdict(&mut dumbbell.simulation), Vec::<String>::new());
    let senders = || (0..flows).map(|flow| dumbbell.tcp_sender(flow).stats());
    Outcome {
        share: goodput_mbps / (100.0 * 1448.0 / 1500.0),
        queue_packets,
        stats,
        retransmissions: senders().map(|stats| stats.retransmissions).sum(),
        timeouts: senders().map(|stats| stats.timeouts).sum(),
        delivered_ce: senders().map(|stats| stats.delivered_ce_segments).sum(),
        received_ce: (0..flows).map(|flow| dumbbell.tcp_receiver(flow).stats().ce_segments).sum(),
    }
}

fn codel(ecn: bool) -> Discipline {
    Discipline::FqCodel(FqCodel { ecn, ..FqCodel::single_queue() })
}

/// Returns DCTCP's step marking: packets are marked if the instantaneous queue is longer than `k` packets.
fn step(k: u64) -> Discipline {
    Discipline::Red(Red {
        min_threshold: k,
        max_threshold: k + 1,
        max_probability: 1.0,
        weight: 1.0,
        ecn: true,
        ..Red::default()
    })
}

/// With CoDel, marks replace losses. After the start, nothing is lost; the utilisation is equal and the queue is no
/// longer.
#[test]
fn codel_s_marks_take_the_place_of_its_losses() {
    for congestion in [Congestion::Cubic, Congestion::NewReno] {
        let off = run(Config::modern(congestion), codel(true), 10_000, 2);
        assert!(off.stats.early_drops.packets > 10 && off.retransmissions > 10, "{congestion:?}");
        assert_eq!(off.stats.ce_marked.packets, 0, "nothing is marked that does not ask for it");
        let on = run(Config { ecn: true, ..Config::modern(congestion) }, codel(true), 10_000, 2);
        assert_eq!((on.stats.queue_drops.packets, on.retransmissions, on.timeouts), (0, 0, 0), "{congestion:?}");
        assert!(on.stats.ce_marked.packets > 10, "{congestion:?}");
        assert!(on.stats.ce_marked.packets - on.received_ce <= 5, "every mark arrives");
        assert!(on.share > 0.9 && on.share > off.share - 0.03, "{congestion:?}: {} and {}", on.share, off.share);
        assert!(on.queue_packets < 1.5 * off.queue_packets + 5.0, "{} and {}", on.queue_packets, off.queue_packets);
    }
}

/// RFC 8257 and the paper on DCTCP (SIGCOMM 2010, section 3.3): if K exceeds a seventh of C·RTT (167 packets), the path
/// is full. The queue of N flows stays at about K; for one flow, its amplitude is √(2(C·RTT + K))/2. With the same
/// step, CUBIC sometimes empties its queue, as each mark costs three tenths of the window.
#[test]
fn dctcp_keeps_the_queue_at_its_threshold() {
    let k = 40;
    for flows in [1, 2, 8] {
        let outcome = run(Config::modern(Congestion::Dctcp), step(k), 1000, flows);
        assert_eq!((outcome.retransmissions, outcome.timeouts, outcome.stats.queue_drops.packets), (0, 0, 0));
        assert!(outcome.share > 0.97, "{flows}: {}", outcome.share);
        let (low, high) = (0.4 * k as f64, k as f64 + 2.0 * flows as f64);
        assert!((low..high).contains(&outcome.queue_packets), "{flows}: {}", outcome.queue_packets);
        // RED marks packets on arrival; some of the marked packets are still queued or in flight.
        assert!(outcome.stats.ce_marked.packets - outcome.received_ce <= 300, "{flows}");
        // The sender's count of marks is exact, except for marks in flight.
        let off = outcome.delivered_ce.abs_diff(outcome.received_ce);
        assert!(off <= 400, "{flows}: {} of {}", outcome.delivered_ce, outcome.received_ce);
    }
    let cubic = run(with_ecn(Congestion::Cubic), step(k), 1000, 1);
    let dctcp = run(Config::modern(Congestion::Dctcp), step(k), 1000, 1);
    assert!(dctcp.share > cubic.share, "{} and {}", dctcp.share, cubic.share);
}

/// Step marking by CoDel's CE threshold, a common configuration of fq_codel for DCTCP.
#[test]
fn dctcp_obeys_codel_s_ce_threshold() {
    let ce_threshold = Some(Duration::from_millis(1));
    let discipline = Discipline::FqCodel(FqCodel { ce_threshold, ..FqCodel::single_queue() });
    let outcome = run(Config::modern(Congestion::Dctcp), discipline, 1000, 2);
    assert_eq!((outcome.retransmissions, outcome.stats.queue_drops.packets), (0, 0));
    // 1 ms corresponds to 8 packets.
    assert!(outcome.share > 0.85 && outcome.queue_packets < 12.0, "{} {}", outcome.share, outcome.queue_packets);
}

/// The verifier is told of a link without marking, and must detect the marks.
#[test]
fn the_verifier_notices_marks_made_of_nothing() {
    let mut path = Path::drop_tail(20 * MBIT, 100, 0.0, 3);
    path.bottleneck = path.bottleneck.with_discipline(step(5));
    let told = path.bottleneck.clone().with_discipline(Discipline::DropTail);
    let flow = Flow::new(Transport::Tcp(dctcp()), Duration::from_millis(20), None);
    let mut dumbbell = Dumbbell::new(path, vec![flow], Verifier::default());
    let link = dumbbell.bottleneck;
    dumbbell.simulation.observer_mut().watch(link, told);
    dumbbell.simulation.run_until(Time::from_s(1));
    let verdict = Verifier::verdict(&mut dumbbell.simulation);
    assert!(!verdict.is_empty() && verdict.iter().all(|what| what.contains("ECN codepoint")), "{verdict:?}");
}

/// DFCP with ECN counts marks, but does not respond to them yet.
#[test]
fn dfcp_counts_marks() {
    let config = dfcp_proto::Config::danger_unsealed()
        .with_rate(dfcp_proto::Rate::Fixed { rate_bps: 30 * MBIT })
        .with_codec(&dfcp_sim::Counting)
        .with_ecn(true);
    let mut path = Path::drop_tail(20 * MBIT, 100, 0.0, 3);
    path.bottleneck = path.bottleneck.with_discipline(step(20));
    let transport = Transport::Dfcp(Box::new(DfcpConfig::both(config)));
    let mut dumbbell = Dumbbell::new(path, vec![Flow::new(transport, Duration::from_millis(20), None)], Nobody);
    dumbbell.simulation.run_until(Time::from_s(3));
    let link = dumbbell.simulation.link_stats(dumbbell.bottleneck);
    let end = |is_receiver| match dumbbell.simulation.end(dumbbell.flows[0], is_receiver) {
        dfcp_sim::End::Dfcp(end) => end.stats(),
        other => panic!("not DFCP: {other:?}"),
    };
    let (sender, receiver) = (end(false), end(true));
    assert!(receiver.ecn_received.ce > 1000 && receiver.ecn_received.ect > 0, "{:?}", receiver.ecn_received);
    let on_the_way = link.ce_marked.packets - receiver.ecn_received.ce;
    assert!(on_the_way <= 200, "{on_the_way}");
    assert!(sender.ecn_reported.ce > receiver.ecn_received.ce * 9 / 10, "{:?}", sender.ecn_reported);
}
