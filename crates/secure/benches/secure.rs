//! Costs of security on one core: `cargo bench -p dfcp-secure [-- --quick]`.
//!
//! Measures sealing and opening of full datagrams with each cipher, handshakes of each pattern, cookies, and the memory
//! of a responder before establishment. Cases alternate in short runs; each figure is the median over the runs of its
//! case.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "a benchmark measures time, prints, and stops at the first mistake"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use dfcp_secure::{
    Answered, Cipher, CookieJar, Established, HalfOpen, Initiator, InitiatorKeys, Pattern, PreSharedKey, Responder,
    ResponderKeys, StaticKey, TAG_BYTES,
};

/// Plaintext of a datagram without header, bytes.
const PLAINTEXT_BYTES: usize = 1460;
const HEADER: [u8; 24] = [0x5A; 24];
/// Handshake payload of typical length: five parameters and the list of ciphers.
const PAYLOAD: [u8; 60] = [1; 60];
const PROLOGUE: &[u8] = b"DFCP 2, options of the SYN";
const BATCH: usize = 1000;

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let rounds = if quick { 15 } else { 101 };
    memory();
    println!("\ndatagrams of {PLAINTEXT_BYTES} B plaintext, one core, median of {rounds} runs of {BATCH}");
    packets(rounds);
    println!("\nhandshakes, both ends together and each alone, payloads of {} B", PAYLOAD.len());
    for pattern in Pattern::ALL {
        handshakes(pattern, rounds.min(41));
    }
    strangers(rounds.min(41));
    cookies(rounds);
}

fn packets(rounds: usize) {
    let mut ends: Vec<_> = Cipher::ALL
        .into_iter()
        .map(|cipher| {
            let (initiator, responder) = handshake(Pattern::PreShared);
            (initiator.into_keys(cipher).0, responder.into_keys(cipher).1, 0_u64)
        })
        .collect();
    let mut buffers = vec![[0_u8; PLAINTEXT_BYTES + TAG_BYTES]; BATCH];
    let mut times = vec![[Vec::new(), Vec::new()]; ends.len()];
    for _ in 0..rounds {
        for ((seals, opens, number), times) in ends.iter_mut().zip(&mut times) {
            let started = Instant::now();
            for (at, buffer) in (0_u64..).zip(&mut buffers) {
                let (plaintext, tag) = buffer.split_last_chunk_mut().expect("the buffer has room for a tag");
                seals.seal(*number + at, &HEADER, plaintext, tag).expect("numbers ascend");
            }
            times[0].push(started.elapsed());
            let started = Instant::now();
            for (at, buffer) in (0_u64..).zip(&mut buffers) {
                opens.open(*number + at, &HEADER, buffer).expect("the tag fits");
            }
            times[1].push(started.elapsed());
            *number += BATCH as u64;
        }
    }
    for ((seals, ..), times) in ends.iter().zip(&mut times) {
        for (what, times) in ["seal", "open"].into_iter().zip(times) {
            let ns = median(times).as_secs_f64() * 1e9 / BATCH as f64;
            let gbps = PLAINTEXT_BYTES as f64 * 8.0 / ns;
            println!("{:<18} {what} {ns:7.0} ns  {gbps:6.2} Gbit/s", format!("{:?}", seals.cipher()));
        }
    }
}

fn own_key() -> StaticKey {
    StaticKey::from_seed(&[1; 32])
}

fn keys(pattern: Pattern) -> (InitiatorKeys, ResponderKeys) {
    let shared = PreSharedKey::from_bytes(&[3; 32]);
    let responder = StaticKey::from_seed(&[2; 32]);
    let initiator = match pattern {
        Pattern::FirstContact => InitiatorKeys::FirstContact { own: own_key(), expected: None },
        Pattern::Pinned => InitiatorKeys::Pinned { own: own_key(), responder: responder.public() },
        Pattern::PreShared => InitiatorKeys::PreShared(shared.clone()),
    };
    (initiator, ResponderKeys { own: Some(responder), pre_shared: Some(shared) })
}

fn handshake(pattern: Pattern) -> (Established, Established) {
    let (initiator_keys, responder_keys) = keys(pattern);
    let mut stopwatch = Stopwatch::default();
    stopwatch.run(pattern, &initiator_keys, &responder_keys)
}

/// Time spent at each endpoint of a handshake.
#[derive(Default)]
struct Stopwatch {
    initiator: Duration,
    responder: Duration,
}

impl Stopwatch {
    fn run(
        &mut self,
        pattern: Pattern,
        keys: &InitiatorKeys,
        responder_keys: &ResponderKeys,
    ) -> (Established, Established) {
        let (mut first, mut second, mut third, mut out) = ([0; 300], [0; 300], [0; 300], [0; 300]);
        let started = Instant::now();
        let mut initiator = Initiator::new(keys.clone(), PROLOGUE, [4; 32]).expect("keys fit");
        let first_bytes = initiator.write_first(&PAYLOAD, &mut first).expect("first");
        self.initiator += started.elapsed();

        let started = Instant::now();
        let (responder, _) =
            Responder::read_first(responder_keys, pattern, PROLOGUE, [5; 32], &first[..first_bytes], &mut out)
                .expect("first");
        let (second_bytes, answered) = responder.write_second(&PAYLOAD, &mut second).expect("second");
        self.responder += started.elapsed();

        let started = Instant::now();
        initiator.read_second(&second[..second_bytes], &mut out).expect("second");
        let third_bytes = match answered {
            Answered::HalfOpen(_) => initiator.write_third(&[], &mut third).expect("third"),
            Answered::Established(_) => 0,
        };
        let initiator = initiator.finish().expect("all is said");
        self.initiator += started.elapsed();

        let started = Instant::now();
        let responder = match answered {
            Answered::Established(responder) => responder,
            Answered::HalfOpen(mut half_open) => {
                half_open.read_third(responder_keys, &third[..third_bytes], &mut out).expect("third").0
            }
        };
        self.responder += started.elapsed();
        (initiator, responder)
    }
}

fn handshakes(pattern: Pattern, rounds: usize) {
    const HANDSHAKES: u32 = 20;
    let (initiator_keys, responder_keys) = keys(pattern);
    let (mut initiator, mut responder) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let mut stopwatch = Stopwatch::default();
        for _ in 0..HANDSHAKES {
            black_box(stopwatch.run(pattern, &initiator_keys, &responder_keys));
        }
        initiator.push(stopwatch.initiator / HANDSHAKES);
        responder.push(stopwatch.responder / HANDSHAKES);
    }
    let (initiator, responder) = (median(&mut initiator), median(&mut responder));
    println!(
        "{:<36} {:5.0}/s  initiator {:4.0} us, responder {:4.0} us ({:.0}/s)",
        pattern.name(),
        1.0 / (initiator + responder).as_secs_f64(),
        initiator.as_secs_f64() * 1e6,
        responder.as_secs_f64() * 1e6,
        1.0 / responder.as_secs_f64(),
    );
}

/// Measures the work that an unknown initiator can cause at a responder.
fn strangers(rounds: usize) {
    const MESSAGES: u32 = 20;
    let (initiator_keys, responder_keys) = keys(Pattern::FirstContact);
    let (mut first, mut misdirected, mut out) = ([0; 300], [0; 300], [0; 300]);
    let mut initiator = Initiator::new(initiator_keys, PROLOGUE, [4; 32]).expect("keys fit");
    let first_bytes = initiator.write_first(&PAYLOAD, &mut first).expect("first");
    let elsewhere = InitiatorKeys::Pinned {
        own: StaticKey::from_seed(&[1; 32]),
        responder: StaticKey::from_seed(&[99; 32]).public(),
    };
    let mut initiator = Initiator::new(elsewhere, PROLOGUE, [4; 32]).expect("keys fit");
    let misdirected_bytes = initiator.write_first(&PAYLOAD, &mut misdirected).expect("first");
    let mut half_open = half_open().0;
    let false_third = [7; 64];
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..rounds {
        let read = |pattern, message: &[u8], out: &mut [u8]| {
            Responder::read_first(&responder_keys, pattern, PROLOGUE, [5; 32], message, out)
        };
        let started = Instant::now();
        for _ in 0..MESSAGES {
            assert!(read(Pattern::Pinned, &misdirected[..misdirected_bytes], &mut out).is_err());
        }
        times[0].push(started.elapsed() / MESSAGES);
        let started = Instant::now();
        for _ in 0..MESSAGES {
            let (responder, _) = read(Pattern::FirstContact, &first[..first_bytes], &mut out).expect("first");
            black_box(responder.write_second(&PAYLOAD, &mut out).expect("second"));
        }
        times[1].push(started.elapsed() / MESSAGES);
        let started = Instant::now();
        for _ in 0..MESSAGES {
            assert!(half_open.read_third(&responder_keys, &false_third, &mut out).is_err());
        }
        times[2].push(started.elapsed() / MESSAGES);
    }
    println!();
    for (what, times) in ["IK, first message for another key", "XX, first message answered", "XX, false third message"]
        .iter()
        .zip(&mut times)
    {
        println!("{what:<36} {:4.0} us", median(times).as_secs_f64() * 1e6);
    }
}

fn cookies(rounds: usize) {
    let (jar, message) = (CookieJar::new([6; 32]), [7; 92]);
    let mut times = Vec::new();
    for round in 0..rounds as u64 {
        let started = Instant::now();
        for connection_id in 0..BATCH as u32 {
            black_box(jar.issue(round, b"16 bytes and 2 more", connection_id, &message));
        }
        times.push(started.elapsed());
    }
    println!("\ncookie: {:.0} ns to issue, as much to verify", median(&mut times).as_secs_f64() * 1e9 / BATCH as f64);
}

fn half_open() -> (HalfOpen, usize) {
    let (initiator_keys, responder_keys) = keys(Pattern::FirstContact);
    let (mut first, mut second, mut out) = ([0; 300], [0; 300], [0; 300]);
    let mut initiator = Initiator::new(initiator_keys, PROLOGUE, [4; 32]).expect("keys fit");
    let bytes = initiator.write_first(&PAYLOAD, &mut first).expect("first");
    let (responder, _) =
        Responder::read_first(&responder_keys, Pattern::FirstContact, PROLOGUE, [5; 32], &first[..bytes], &mut out)
            .expect("first");
    let (bytes, answered) = responder.write_second(&PAYLOAD, &mut second).expect("second");
    let Answered::HalfOpen(half_open) = answered else { unreachable!("XX has three messages") };
    (half_open, bytes)
}

/// Returns the resident bytes of this process; `None` if the system does not report them.
fn resident_bytes() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    text.split(' ').nth(1)?.parse::<usize>().ok().map(|pages| pages * 4096)
}

/// Returns the bytes of a value made by `make`, including its heap, from the growth of the process.
fn measured<T>(make: impl Fn() -> T) -> Option<usize> {
    const COUNT: usize = 20_000;
    let mut kept = Vec::with_capacity(COUNT);
    kept.push(make());
    let before = resident_bytes()?;
    kept.extend((1..COUNT).map(|_| make()));
    let after = resident_bytes()?;
    black_box(&kept);
    Some((after - before) / COUNT)
}

fn memory() {
    // Measure keys first, while the allocator has no freed memory to reuse.
    let keys_bytes = measured_keys();
    let (half, second_bytes) = half_open();
    let (_, responder_keys) = keys(Pattern::FirstContact);
    let live = measured(|| {
        let first = [9; 92];
        Responder::read_first(&responder_keys, Pattern::FirstContact, PROLOGUE, [5; 32], &first, &mut [0; 100])
            .expect("first")
    });
    let shown = |bytes: Option<usize>| bytes.map_or_else(|| "unknown".to_owned(), |bytes| format!("{bytes} B"));
    println!("responder, XX, payloads of {} B, prologue of {} B:", PAYLOAD.len(), PROLOGUE.len());
    println!("  snow's HandshakeState {} B and its heap", size_of::<snow::HandshakeState>());
    println!("  live (Responder)      {} B, with heap {} measured", size_of::<Responder>(), shown(live));
    println!(
        "  HalfOpen              {} B, with heap {} B; the caller's copy of message 2: {second_bytes} B",
        size_of::<HalfOpen>(),
        half.memory_bytes(),
    );
    println!("  Established           {} B, no heap", size_of::<Established>());
    println!("  SealKeys + OpenKeys   {}, with heap measured", shown(keys_bytes));
}

fn measured_keys() -> Option<usize> {
    const COUNT: usize = 2000;
    let mut kept = Vec::with_capacity(COUNT);
    kept.push(handshake(Pattern::PreShared).0.into_keys(Cipher::Aes128Gcm));
    let before = resident_bytes()?;
    kept.extend((1..COUNT).map(|_| handshake(Pattern::PreShared).0.into_keys(Cipher::Aes128Gcm)));
    let after = resident_bytes()?;
    black_box(&kept);
    Some((after - before) / COUNT)
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
