//! Authenticated peers that lie about received data, capacity and consistency. The server under attack is a real endpoint; its peer is a
//! puppet, and every byte sent by the server is counted.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use dfcp_end_to_end_tests::puppet::{MODEST, Opened, boundless_report, decoded};
use dfcp_end_to_end_tests::talk::{Talk, silent};
use dfcp_end_to_end_tests::world::{World, stranger};
use dfcp_netem::{LinkConfig, QueueLimit};
use dfcp_proto::{Config, ConnectionError, PeerKey, PeerMisbehaved, Rate};
use dfcp_testkit::raw::Header;
use dfcp_testkit::{Job, LinksConfig, Testbed, rewrites};
use dfcp_time::Time;
use dfcp_wire::feedback::{Report, Run, StreamState};
use dfcp_wire::handshake::Offer;
use dfcp_wire::{BlockInfo, Flags};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const RATE_BPS: u64 = 20_000_000;
const ACK_KEEP_ALIVE: u32 = 0;
const ACK_OF_FIN: u32 = 1;
const ACK_PATH_CHALLENGE: u32 = 3;

/// Bytes of an IP packet with a full datagram.
const PACKET_BYTES: u64 = 1_500;

fn config() -> Config {
    Config::sealed(PeerKey::Any).with_rate(Rate::Fixed { rate_bps: RATE_BPS }).with_send_buffer_bytes(4 << 20)
}

/// End of a connection whose peer has lied.
struct Caught {
    error: Option<ConnectionError>,
    /// Bits sent after the end.
    bits_after: u64,
    /// Resets received by the liar.
    resets: u32,
}

fn caught(mut talk: Talk, mut lie: impl FnMut(&mut Talk, &Opened) -> Option<Vec<u8>>) -> Caught {
    let (mut lied, mut heard, mut resets) = (false, 0, 0);
    let mut sent_then = None;
    let end = talk.world.now + Duration::from_secs(60);
    while sent_then.is_none() && talk.world.now < end {
        talk.run_for(1, |talk, opened| {
            if lied {
                resets += u32::from(opened.header.flags.contains(Flags::RST));
                return Vec::new();
            }
            if let Some(answer) = lie(talk, opened) {
                lied = true;
                return vec![answer];
            }
            // Before the lie the peer sometimes reports, truthfully, that it has no data.
            heard += 1;
            (heard % 8 == 0).then(|| talk.nothing_yet(|_| {}).unwrap()).into_iter().collect()
        });
        if !talk.world.server.ended.is_empty() {
            sent_then = Some(talk.sent_bits());
        }
    }
    assert!(lied, "the lie was never told");
    talk.run_for(60_000, |_, opened| {
        resets += u32::from(opened.header.flags.contains(Flags::RST));
        Vec::new()
    });
    Caught { error: talk.error(), bits_after: talk.sent_bits() - sent_then.unwrap_or_default(), resets }
}

#[track_caller]
fn assert_wrong_proof(what: &str, Caught { error, bits_after, resets }: Caught) {
    let is_right = matches!(error, Some(ConnectionError::PeerMisbehaved(PeerMisbehaved::WrongProof { .. })));
    assert!(is_right, "{what}: {error:?}");
    assert!(bits_after <= 100 * 8, "{what}: {bits_after} bits after the lie; an RST has 544");
    assert_eq!(resets, 1, "{what}");
}

#[test]
fn who_acknowledges_blocks_it_never_got_gets_nothing_more() {
    for seed in 0..8 {
        let talk = Talk::new(seed, config(), &MODEST).unwrap();
        let all = caught(talk, |talk, _| {
            let (blocks, report) = (talk.blocks, boundless_report(talk.highest));
            (blocks > 2).then(|| talk.puppet.report(&decoded(blocks), &report, &[]).unwrap())
        });
        assert_wrong_proof("all blocks so far", all);
        let talk = Talk::new(seed, config(), &MODEST).unwrap();
        let listed = caught(talk, |talk, _| {
            let report = boundless_report(talk.highest);
            (talk.blocks > 2)
                .then(|| talk.puppet.report(&decoded(0), &report, &[Run::Empty(1), Run::Complete(1)]).unwrap())
        });
        assert_wrong_proof("a block in the list", listed);
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let talk = Talk::new(seed, config(), &MODEST).unwrap();
        let guessed = caught(talk, |talk, _| {
            let state = StreamState { proof_cumulative: random.random(), ..decoded(1) };
            let report = boundless_report(talk.highest);
            (talk.blocks > 0).then(|| talk.puppet.report(&state, &report, &[]).unwrap())
        });
        assert_wrong_proof("a guess", guessed);
    }
}

/// A peer that has decoded two blocks, proves them, and claims more.
#[test]
fn a_true_proof_of_two_blocks_proves_no_other() {
    type Claim = fn(&Talk, &mut StreamState) -> Vec<Run>;
    let claims: [(&str, Claim); 4] = [
        ("the truth", |talk, _| vec![Run::Empty(talk.blocks - 2)]),
        ("all that was sent", |talk, state| {
            state.next_needed = talk.blocks;
            Vec::new()
        }),
        ("one more in the list", |_, _| vec![Run::Complete(1)]),
        ("with one bit changed", |talk, state| {
            state.proof_cumulative ^= 1 << 24;
            vec![Run::Empty(talk.blocks - 2)]
        }),
    ];
    for (what, claim) in claims {
        let mut secrets = BTreeMap::new();
        let ended = caught(Talk::new(1, config(), &MODEST).unwrap(), |talk, opened| {
            let Header { block_id, s1: esi, s2, flags, .. } = opened.header;
            if flags == Flags::SEC && block_id < 2 && esi < BlockInfo::from_s2(s2).unwrap().k.into() {
                secrets.insert((block_id, esi), u32::from_be_bytes(*opened.payload.last_chunk().unwrap()));
            }
            if talk.blocks <= 2 {
                return None;
            }
            let report =
                Report { datagrams_received: talk.control + secrets.len() as u32, ..boundless_report(talk.highest) };
            let proof_cumulative = secrets.values().fold(0, |proof, secret| proof ^ secret);
            let mut state = StreamState { proof_cumulative, ..decoded(2) };
            let runs = claim(talk, &mut state);
            Some(talk.puppet.report(&state, &report, &runs).unwrap())
        });
        if what == "the truth" {
            assert_eq!(ended.error, Some(ConnectionError::TimedOut), "a true proof is taken");
        } else {
            assert_wrong_proof(what, ended);
        }
    }
}

#[test]
fn who_confirms_the_end_without_the_data_is_caught() {
    let proofs = [0, 5, 0x1234_5678];
    for (flags, proof) in proofs.into_iter().flat_map(|proof| [(Flags::ACK, proof), (Flags::FIN | Flags::ACK, proof)]) {
        let mut talk = Talk::new(3, config(), &MODEST).unwrap();
        talk.world.server.job.send_bytes = 50_000;
        let ended = caught(talk, |talk, _| {
            let end = talk.end?;
            let (block_id, s1) = if flags == Flags::ACK { (end, ACK_OF_FIN) } else { (0, 0) };
            let say = |head: &mut Header| (head.block_id, head.s1, head.s2) = (block_id, s1, proof);
            Some(talk.puppet.seal(flags, say, &[]).unwrap())
        });
        assert_wrong_proof("the end", ended);
    }
}

#[test]
fn reports_of_what_was_never_sent_end_the_connection() {
    let datagrams = caught(Talk::new(4, config(), &MODEST).unwrap(), |talk, _| {
        Some(talk.nothing_yet(|report| report.highest_datagram = 0x00FF_FFFF).unwrap())
    });
    let expected = ConnectionError::PeerMisbehaved(PeerMisbehaved::ReportOfUnsentDatagrams { claimed: 0, sent: 0 });
    assert_eq!(datagrams.error.as_ref().map(std::mem::discriminant), Some(std::mem::discriminant(&expected)));
    let blocks = caught(Talk::new(4, config(), &MODEST).unwrap(), |talk, _| {
        let report = boundless_report(talk.highest);
        Some(talk.puppet.report(&decoded(u32::MAX), &report, &[]).unwrap())
    });
    assert!(matches!(blocks.error, Some(ConnectionError::PeerMisbehaved(_))), "{:?}", blocks.error);
    for Caught { error, bits_after, .. } in [datagrams, blocks] {
        assert!(bits_after <= 800, "{error:?}: {bits_after} bits after the lie");
    }
    // Without encryption, and from an otherwise honest receiver.
    let mut world = World::new(3, Config::danger_unsealed());
    world.client.job.send_bytes = u64::MAX;
    world.tap = rewrites(Flags::FBK, |_, payload| payload[..4].copy_from_slice(&0x00FF_FFFF_u32.to_be_bytes()));
    world.connect(Config::danger_unsealed().with_rate(Rate::Fixed { rate_bps: RATE_BPS })).unwrap();
    world.run_until(Time::from_s(3));
    let error = world.client.ended.first().cloned().flatten();
    assert_eq!(error.as_ref().map(std::mem::discriminant), Some(std::mem::discriminant(&expected)), "{error:?}");
}

/// Unlimited windows, in the handshake and in every report, without any acknowledgement.
#[test]
fn absurd_windows_and_reports_do_not_lift_the_rate() {
    let offers = [
        Offer { window_blocks: u32::MAX, receive_memory_bytes: u64::MAX, ..MODEST },
        Offer { window_blocks: u32::MAX, receive_memory_bytes: 1, ..MODEST },
        Offer { window_blocks: 1, receive_memory_bytes: u64::MAX, ..MODEST },
    ];
    let lies: [fn(&mut Report); 5] = [
        |report| report.memory_kib = u32::MAX,
        |report| (report.datagrams_received, report.bytes_received) = (1, 1),
        |report| (report.hold_us, report.arrival_rate_bps) = (u32::MAX, u64::MAX),
        |report| (report.bytes_received, report.arrival_rate_bps) = (u64::MAX, 0),
        |report| report.wasted.refused = u32::MAX,
    ];
    for offer in offers {
        for (number, &lie) in lies.iter().enumerate() {
            let mut talk = Talk::new(5, config(), &offer).unwrap();
            let mut count = 0;
            talk.run_for(2_000, |talk, _| {
                count += 1;
                (count % 8 == 0).then(|| talk.nothing_yet(lie).unwrap()).into_iter().collect()
            });
            let limit = RATE_BPS * 2 + RATE_BPS / 50 + PACKET_BYTES * 8;
            let (sent, error) = (talk.sent_bits(), talk.error());
            assert!(sent <= limit, "{offer:?}, lie {number}: {sent} bits of at most {limit}");
            // More waste than datagrams is contradictory; other claims cannot be checked.
            let is_caught =
                matches!(error, Some(ConnectionError::PeerMisbehaved(PeerMisbehaved::InconsistentReport { .. })));
            assert_eq!(is_caught, number == lies.len() - 1, "{offer:?}, lie {number}: {error:?}");
        }
    }
}

/// Declared rate limits from one end of the range to the other.
#[test]
fn a_declared_rate_never_makes_a_server_send_above_its_own() {
    for rate_max_bps in [0, 1, 7, 999, 100_000, 5_000_000, RATE_BPS + 1, u64::MAX / 2, u64::MAX] {
        let mut talk = Talk::new(6, config(), &Offer { rate_max_bps, ..MODEST }).unwrap();
        let mut count = 0;
        talk.run_for(3_000, |talk, _| {
            count += 1;
            (count % 8 == 0).then(|| talk.nothing_yet(|_| {}).unwrap()).into_iter().collect()
        });
        let allowed = if rate_max_bps == 0 { RATE_BPS } else { rate_max_bps.min(RATE_BPS) };
        // The margins are a twentieth of a second, for bytes sent before the pacer knew the rate, and the few datagrams
        // without data.
        let limit = allowed * 3 + allowed / 20 + 8 * PACKET_BYTES * 8;
        let sent = talk.sent_bits();
        assert!(sent <= limit, "{rate_max_bps}: {sent} bits of at most {limit}");
        if rate_max_bps >= 5_000_000 {
            assert!(sent >= allowed / 2, "{rate_max_bps}: only {sent} bits: nothing was tested");
        }
    }
}

#[test]
fn a_declared_idle_timeout_buys_few_keep_alives() {
    for idle_timeout_ms in [0, 1, 2, 29, 1_000, u32::MAX] {
        // No data to send, and a permanently silent peer.
        let mut talk = Talk::new(7, config(), &Offer { idle_timeout_ms, ..MODEST }).unwrap();
        talk.world.server.job.send_bytes = 0;
        talk.world.server.job.shut_down = false;
        talk.run_for(40_000, silent);
        assert_eq!(talk.error(), Some(ConnectionError::TimedOut), "{idle_timeout_ms}");
        // At most one datagram per 10 ms for the idle timeout of 30 s.
        let datagrams = talk.world.server.sent_datagrams[&talk.from];
        assert!(datagrams <= 3_000 + 100, "{idle_timeout_ms}: {datagrams} datagrams");
    }
}

/// Puppets without reports, or with reports of no data; and an honest receiver that is switched off at full speed.
#[test]
fn a_sender_whose_peer_falls_silent_stops_within_a_few_round_trips() {
    for (rate, reports) in [(Rate::Fixed { rate_bps: RATE_BPS }, true), (Rate::Fixed { rate_bps: RATE_BPS }, false)] {
        let mut talk = Talk::new(8, config().with_rate(rate), &MODEST).unwrap();
        let mut count = 0;
        talk.run_for(500, |talk, _| {
            count += 1;
            (reports && count % 8 == 0).then(|| talk.nothing_yet(|_| {}).unwrap()).into_iter().collect()
        });
        talk.run_for(150, silent);
        let (then, datagrams) = (talk.sent_bits(), talk.world.server.sent_datagrams[&talk.from]);
        if !reports {
            // A peer that never reports gets only the bytes sent before its first report is overdue.
            assert!(then <= RATE_BPS * 3 / 10, "{then} bits to a peer which has never reported");
        }
        talk.run_for(60_000, silent);
        let after = talk.world.server.sent_datagrams[&talk.from] - datagrams;
        assert!(after <= 60, "{after} datagrams in a minute of silence");
        assert_eq!(talk.error(), Some(ConnectionError::TimedOut));
    }
    for rate in [Rate::Fixed { rate_bps: 100_000_000 }, Rate::Line] {
        let link = LinkConfig::default()
            .with_rate_bps(100_000_000)
            .with_delay(Duration::from_millis(25))
            .with_queue(QueueLimit::packets(500));
        let links = LinksConfig { forward: link.clone(), backward: link, interface_bps: 1_000_000_000 };
        let sender = (Config::danger_unsealed().with_rate(rate), Job::send(u64::MAX));
        let receiver = (Config::danger_unsealed(), Job::send(0));
        let mut testbed = Testbed::over(1, links, sender, receiver).unwrap();
        testbed.run_until(Time::from_s(3));
        testbed.server.is_off = true;
        let [begin, end, gone, later] = [4, 30, 41, 100].map(|second| {
            testbed.run_until(Time::from_s(second));
            testbed.client.emitted()
        });
        // Four RTT and the reports in flight, with the queueing delay; after that at most slow probing.
        let probes = end - begin;
        assert!((10..60).contains(&probes), "{probes} datagrams in 26 s of silence");
        assert_eq!(testbed.client.ended, [Some(ConnectionError::TimedOut)]);
        assert_eq!(later, gone, "it sends after it gave up");
    }
}

fn data(talk: &mut Talk, block_id: u32, esi: u32, info: BlockInfo, payload: &[u8]) -> Vec<u8> {
    let say = |head: &mut Header| (head.block_id, head.s1, head.s2) = (block_id, esi, info.to_s2());
    talk.puppet.seal(Flags::default(), say, payload).unwrap()
}

/// Bytes of an encoding symbol, if its block has several symbols: application bytes and the secret of a proof.
const SYMBOL: usize = 1_420 + 4;

fn block(k: u16, length_bytes: u32, end_of_stream: bool) -> BlockInfo {
    BlockInfo { k, length_bytes, end_of_stream }
}

type Poison = fn(&mut Talk) -> Vec<Vec<u8>>;

#[test]
fn a_poisoned_block_ends_in_a_clear_error() {
    let poisons: [(&str, Poison); 8] = [
        ("another K", |talk| {
            vec![
                data(talk, 0, 0, block(2, 2_840, false), &[1; SYMBOL]),
                data(talk, 0, 1, block(3, 4_260, false), &[1; SYMBOL]),
            ]
        }),
        ("another length", |talk| {
            vec![
                data(talk, 0, 0, block(2, 2_840, false), &[1; SYMBOL]),
                data(talk, 0, 1, block(2, 2_839, false), &[1; SYMBOL]),
            ]
        }),
        ("a symbol of another size", |talk| {
            vec![
                data(talk, 0, 0, block(2, 2_840, false), &[1; SYMBOL]),
                data(talk, 0, 1, block(2, 2_840, false), &[1; 900]),
            ]
        }),
        ("a length which K symbols do not hold", |talk| vec![data(talk, 0, 0, block(2, 100_000, false), &[1; SYMBOL])]),
        ("an empty symbol", |talk| vec![data(talk, 0, 0, block(1, 100, false), &[])]),
        ("data behind the end", |talk| {
            vec![
                data(talk, 3, 0, block(2, 2_840, true), &[1; SYMBOL]),
                data(talk, 4, 0, block(2, 2_840, false), &[1; SYMBOL]),
            ]
        }),
        ("two ends", |talk| {
            vec![
                data(talk, 3, 0, block(2, 2_840, true), &[1; SYMBOL]),
                data(talk, 2, 0, block(2, 2_840, true), &[1; SYMBOL]),
            ]
        }),
        ("a FIN before data that has come", |talk| {
            vec![
                data(talk, 3, 0, block(2, 2_840, false), &[1; SYMBOL]),
                talk.puppet.seal(Flags::FIN, |head| head.block_id = 1, &[]).unwrap(),
            ]
        }),
    ];
    for (name, poison) in poisons {
        let mut talk = Talk::new(9, config(), &MODEST).unwrap();
        talk.world.server.job.send_bytes = 0;
        for datagram in poison(&mut talk) {
            talk.say(datagram);
        }
        talk.run_for(2_000, silent);
        let is_clear = matches!(
            talk.error(),
            Some(ConnectionError::PeerMisbehaved(
                PeerMisbehaved::InconsistentBlock { .. } | PeerMisbehaved::InconsistentEnd { .. }
            ))
        );
        assert!(is_clear, "{name}: {:?}", talk.error());
        let server = &talk.world.server;
        assert!(server.read_error.is_some() && server.read_to_end == 0, "{name}: the reader saw no error");
        let whole_rows = [0, 1_420].contains(&server.read);
        assert!(whole_rows, "{name}: {} bytes were read", server.read);
    }
}

/// Blocks far ahead, and more than the memory holds: they are dropped, and the window stays unchanged.
#[test]
fn blocks_outside_the_window_or_the_memory_are_dropped() {
    let config = config().with_receive_memory_bytes(1 << 20).with_window_blocks(100);
    let mut talk = Talk::new(10, config, &MODEST).unwrap();
    talk.world.server.job.send_bytes = 0;
    talk.run_for(20, silent);
    let before = talk.world.server.host.endpoint.stats().memory_bytes;
    let far = [100, 4_096, 16_384, 1 << 20, u32::MAX - 1, u32::MAX];
    for block_id in far {
        let datagram = data(&mut talk, block_id, 0, block(2, 2 * 1_420, false), &[5; SYMBOL]);
        let (now, from) = (talk.world.now, talk.from);
        talk.world.server.receive(now, from, &datagram);
    }
    assert_eq!(talk.world.server.host.endpoint.stats().memory_bytes, before, "they open nothing");
    let stats = talk.world.server.connection().unwrap().stats();
    assert_eq!((stats.received.refused, stats.segments_dropped), (far.len() as u64, far.len() as u64));
    let mut given = far.len() as u64;
    for number in 0..30_000_u32 {
        // Block 0 never arrives.
        let block_id = if number % 2 == 0 { 1 + number % 99 } else { number.wrapping_mul(0x0001_0001) | 128 };
        let datagram = data(&mut talk, block_id, number % 256, block(256, 256 * 1_420, false), &[5; SYMBOL]);
        let (now, from) = (talk.world.now, talk.from);
        talk.world.server.receive(now, from, &datagram);
        given += 1;
    }
    talk.run_for(100, silent);
    let stats = talk.world.server.connection().unwrap().stats();
    assert_eq!(stats.received.distinct() + stats.received.duplicate, given, "{stats:?}");
    // 1 MiB holds two blocks of 364 kB, each with at most 256 symbols.
    assert!(stats.received.useful <= 3 * 256, "{stats:?}");
    assert!(stats.received.refused > given / 2, "{stats:?}");
    assert_eq!((talk.error(), talk.world.server.read), (None, 0));
}

/// [safe-3]: for any input of an authenticated peer, the result is an error or no effect, and never more bytes than the rate permits.
#[test]
fn random_sealed_segments_end_in_an_error_or_nothing() {
    for seed in 0..30 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut talk = Talk::new(seed, config(), &MODEST).unwrap();
        talk.world.server.job.send_bytes = 300_000;
        for _ in 0..300 {
            let flags = [Flags::default(), Flags::FBK, Flags::ACK, Flags::FIN, Flags::FIN | Flags::ACK, Flags::SYN];
            let flags = flags[random.random_range(0..flags.len())];
            let mut payload = vec![0; random.random_range(0..1_400)];
            random.fill_bytes(&mut payload);
            let words: [u32; 3] = std::array::from_fn(|_| match random.random_range(0..3) {
                0 => random.random_range(0..4),
                1 => random.random_range(0..100_000),
                _ => random.random(),
            });
            let say = |head: &mut Header| (head.block_id, head.s1, head.s2) = (words[0], words[1], words[2]);
            let datagram = talk.puppet.seal(flags, say, &payload).unwrap();
            talk.say(datagram);
            talk.run_for(1, silent);
        }
        talk.run_for(100_000, silent);
        assert_eq!(talk.world.server.ended.len(), 1, "seed {seed}");
        assert!(talk.sent_bits() <= RATE_BPS, "seed {seed}: {} bits", talk.sent_bits());
    }
}

/// An authenticated peer that uses another host's source address.
#[test]
fn an_authenticated_peer_cannot_make_the_server_amplify_towards_a_victim() {
    for s1 in [ACK_KEEP_ALIVE, ACK_PATH_CHALLENGE] {
        let mut talk = Talk::new(12, config(), &MODEST).unwrap();
        talk.run_for(100, |talk, _| vec![talk.nothing_yet(|_| {}).unwrap()]);
        let victims: Vec<SocketAddr> = (100..102).map(stranger).collect();
        for round in 0..50_u32 {
            for victim in &victims {
                let say = |head: &mut Header| (head.block_id, head.s1, head.s2) = (round, s1, 7);
                let datagram = talk.puppet.seal(Flags::ACK, say, &[]).unwrap();
                talk.say_from(*victim, datagram);
            }
            talk.run_for(25, |talk, _| vec![talk.nothing_yet(|_| {}).unwrap()]);
        }
        for victim in victims {
            let (sent, received) =
                (talk.world.server.sent_to(victim.ip()), talk.world.server.received_from(victim.ip()));
            assert!(sent <= received, "S1 {s1}: {sent} bytes to a victim in whose name {received} were sent");
        }
        assert_eq!(talk.world.server.connection().map(dfcp_proto::Connection::remote), Some(talk.from));
    }
}
