//! The bytes which tests send: a function of the offset, so that any length is checked without being stored.

/// A stream of bytes, different for every seed. Each eight bytes mix the whole offset, so that blocks which change
/// places never look alike.
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
        let mut at = offset;
        let mut rest = out;
        while !rest.is_empty() {
            let word = self.word(at / 8);
            let from = (at % 8) as usize;
            let take = (8 - from).min(rest.len());
            rest[..take].copy_from_slice(&word[from..from + take]);
            rest = &mut rest[take..];
            at += take as u64;
        }
    }

    /// The offset of the first byte of `data` which is not the stream's.
    #[must_use]
    pub fn first_difference(self, offset: u64, data: &[u8]) -> Option<u64> {
        let mut expected = vec![0; data.len()];
        self.fill(offset, &mut expected);
        if expected == data {
            return None;
        }
        expected.iter().zip(data).position(|(a, b)| a != b).map(|i| offset + i as u64)
    }
}
