//! Bytes sent by tests: a function of the offset, so that any length is checked without being stored.

/// A stream of bytes, different for every seed. Each eight bytes depend on the whole offset, so that exchanged blocks are always detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern(pub u64);

impl Pattern {
    fn word(self, index: u64) -> [u8; 8] {
        let mut x = index.wrapping_add(self.0.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (x ^ (x >> 31)).to_le_bytes()
    }

    /// Writes the stream's bytes from `offset` on.
    pub fn fill(self, offset: u64, out: &mut [u8]) {
        let (mut index, from) = (offset / 8, (offset % 8) as usize);
        let (head, rest) = out.split_at_mut(((8 - from) % 8).min(out.len()));
        if !head.is_empty() {
            head.copy_from_slice(&self.word(index)[from..from + head.len()]);
            index += 1;
        }
        let (words, tail) = rest.as_chunks_mut::<8>();
        for word in words {
            *word = self.word(index);
            index += 1;
        }
        tail.copy_from_slice(&self.word(index)[..tail.len()]);
    }

    /// Offset of the first byte of `data` that differs from the stream.
    #[must_use]
    pub fn first_difference(self, offset: u64, data: &[u8]) -> Option<u64> {
        const PIECE_BYTES: usize = 1024;
        let mut expected = [0; PIECE_BYTES];
        (offset..).step_by(PIECE_BYTES).zip(data.chunks(PIECE_BYTES)).find_map(|(at, piece)| {
            let expected = &mut expected[..piece.len()];
            self.fill(at, expected);
            if expected == piece {
                return None;
            }
            expected.iter().zip(piece).position(|(a, b)| a != b).map(|i| at + i as u64)
        })
    }
}
