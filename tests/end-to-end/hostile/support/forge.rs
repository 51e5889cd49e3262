//! Datagrams without authentication: noise, damaged copies, and segments with a guessed or observed id.

use dfcp_testkit::raw::{self, Header};
use dfcp_wire::{Flags, Profile};
use rand::{Rng, RngExt};
use rand_pcg::Pcg64Mcg;

/// Longest datagram sent: longer than any accepted one.
pub const LENGTH_MAX: usize = 2_000;

/// Flags used by a forger.
pub const FLAGS: [Flags; 8] = [
    Flags::RST,
    Flags::FIN,
    Flags::ACK,
    Flags::FBK,
    Flags::SYN,
    Flags::FIN.union(Flags::ACK),
    Flags::SYN.union(Flags::ACK),
    Flags::SEC,
];

/// Random bytes of random length; half of them start like a modern header, so that they are parsed.
pub fn noise(random: &mut Pcg64Mcg) -> Vec<u8> {
    let length = match random.random_range(0..4) {
        0 => random.random_range(0..64),
        1 => random.random_range(1_400..LENGTH_MAX),
        _ => random.random_range(24..600),
    };
    let mut bytes = vec![0; length];
    random.fill_bytes(&mut bytes);
    if random.random_bool(0.5) && length >= 24 {
        bytes[12] = 0x60 | 0x08;
        bytes[13] &= 0x3F;
        bytes[14..16].fill(0);
    }
    bytes
}

/// A genuine datagram with a few bytes changed, cut, repeated or appended; sometimes with a corrected CRC.
pub fn mutated(random: &mut Pcg64Mcg, genuine: &[u8]) -> Vec<u8> {
    let mut bytes = genuine.to_vec();
    match random.random_range(0..6) {
        0 => bytes.truncate(random.random_range(0..=bytes.len())),
        1 => {
            let more = random.random_range(1..LENGTH_MAX);
            bytes.resize((bytes.len() + more).min(LENGTH_MAX), random.random());
        }
        2 => {
            for byte in bytes.iter_mut().take(24) {
                if random.random_bool(0.1) {
                    *byte = random.random();
                }
            }
        }
        _ => {
            for _ in 0..random.random_range(1..8) {
                let count = bytes.len();
                if count > 0 {
                    bytes[random.random_range(0..count)] ^= 1 << random.random_range(0..8);
                }
            }
        }
    }
    if random.random_bool(0.3) {
        fit_crc(&mut bytes);
    }
    bytes
}

/// Corrects the CRC in the last four bytes (unencrypted modern segments), or the checksum.
pub fn fit_crc(bytes: &mut [u8]) {
    raw::renew(bytes);
}

/// An unencrypted segment, or one with SEC and a random tag, for the connection `id`.
pub fn spoofed(random: &mut Pcg64Mcg, id: u32, flags: Flags) -> Vec<u8> {
    let mut head = Header {
        block_id: random.random_range(0..4_000),
        s1: random.random_range(0..5),
        s2: random.random(),
        s3: random.random_range(0..100_000),
        ..Header::modern(flags, id)
    };
    if random.random_bool(0.05) {
        head.profile = Profile::Classic;
        head.flags = if flags.intersects(Flags::FBK | Flags::SEC) { Flags::ACK } else { flags };
    }
    let mut payload = [0; 1_400];
    let length = random.random_range(0..payload.len());
    random.fill_bytes(&mut payload[..length]);
    raw::write(&head, &[], &payload[..length])
}
