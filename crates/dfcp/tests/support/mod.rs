//! Helpers shared by the tests.

use std::io;
use std::net::SocketAddr;

use dfcp::{Config, PeerKey};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Encrypted configuration that accepts any peer key.
pub(crate) fn modern() -> Config {
    Config::sealed(PeerKey::Any)
}

pub(crate) fn local() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

/// Pseudorandom bytes (xorshift64*), in which every misplaced block is detected.
pub(crate) struct Pattern(u64);

impl Pattern {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(2).wrapping_add(1))
    }

    pub(crate) fn take(&mut self, bytes: usize) -> Vec<u8> {
        let mut words = std::iter::repeat_with(|| {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            self.0.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes()
        });
        let mut data: Vec<u8> = words.by_ref().take(bytes.div_ceil(8)).flatten().collect();
        data.truncate(bytes);
        data
    }
}

/// Writes the pattern of `seed`, and returns its hash.
pub(crate) async fn write_pattern(
    to: &mut (impl AsyncWrite + Unpin),
    seed: u64,
    bytes: u64,
) -> io::Result<blake3::Hash> {
    let mut pattern = Pattern::new(seed);
    let mut hasher = blake3::Hasher::new();
    let mut left = bytes;
    while left > 0 {
        let chunk = pattern.take(left.min(1 << 17) as usize);
        hasher.update(&chunk);
        to.write_all(&chunk).await?;
        left -= chunk.len() as u64;
    }
    Ok(hasher.finalize())
}

/// Reads to the end. Returns the number of bytes and their hash.
pub(crate) async fn read_hash(from: &mut (impl AsyncRead + Unpin)) -> io::Result<(u64, blake3::Hash)> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 17];
    let mut total = 0;
    loop {
        match from.read(&mut buffer).await? {
            0 => return Ok((total, hasher.finalize())),
            count => {
                total += count as u64;
                hasher.update(&buffer[..count]);
            }
        }
    }
}
