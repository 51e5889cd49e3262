//! Datagrams which nobody vouches for: noise, damaged copies, and segments with an id that was guessed or overheard.

use dfcp_testkit::raw::{self, Header};
use dfcp_wire::{Flags, Profile};
use rand::{Rng, RngExt};
use rand_pcg::Pcg64Mcg;

/// The longest datagram which is sent: longer than any that is taken.
pub const LENGTH_MAX: usize = 2_000;

/// The flags which a forger tries.
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

/// Random bytes of random length; half of them with the start of a modern header, so that they are looked at.
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

/// A genuine datagram with a few bytes changed, cut, repeated or appended; sometimes with a CRC that fits again.
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

/// Lets the last four bytes be the CRC of those before, as unsealed modern segments have it, or the checksum fit.
pub fn fit_crc(bytes: &mut [u8]) {
    raw::renew(bytes);
}

/// An unsealed segment, or one with SEC and a tag of random bytes, to the connection `id`.
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
