//! Coefficients of the source symbols for an encoding symbol id.

/// Vigna's SplitMix64, a public-domain generator with a state of 64 bits.
#[derive(Debug)]
pub(crate) struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// Writes the coefficients of the encoding symbol `esi` of a block with `coefficients.len()` source symbols.
/// Coefficient i is the factor of source symbol i.
///
/// A source symbol has one coefficient 1, and zeros otherwise. The coefficients of a repair symbol are the bytes,
/// lowest first, of successive outputs of SplitMix64 seeded with the symbol's ESI, with 1 in place of 0.
pub fn write_coefficients(esi: u32, coefficients: &mut [u8]) {
    if (esi as usize) < coefficients.len() {
        coefficients.fill(0);
        coefficients[esi as usize] = 1;
    } else {
        write_repair_coefficients(esi, coefficients);
    }
}

/// Does [`write_coefficients`] for a repair symbol; a shorter slice gets the first coefficients.
pub(crate) fn write_repair_coefficients(esi: u32, coefficients: &mut [u8]) {
    let mut random = SplitMix64::new(u64::from(esi));
    let mut next = || ones_for_zeros(random.next()).to_le_bytes();
    let (chunks, rest) = coefficients.as_chunks_mut::<8>();
    for chunk in chunks {
        *chunk = next();
    }
    if !rest.is_empty() {
        rest.copy_from_slice(&next()[..rest.len()]);
    }
}

/// Returns the eight bytes of `word`, with 1 in place of 0.
const fn ones_for_zeros(word: u64) -> u64 {
    const LOW_BITS: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    // The top bit of each byte tells whether the byte is nonzero: adding 0x7f carries into it from any of the low seven
    // bits, and no carry leaves the byte.
    let nonzero = ((word & LOW_BITS) + LOW_BITS) | word;
    word | (!nonzero & !LOW_BITS) >> 7
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_bytes_become_one_and_others_stay() {
        for at in 0..8 {
            for byte in 0..=255 {
                for other in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut bytes: [u8; 8] = [other; 8];
                    bytes[at] = byte;
                    let got = ones_for_zeros(u64::from_le_bytes(bytes)).to_le_bytes();
                    assert_eq!(got, bytes.map(|byte| byte.max(1)));
                }
            }
        }
    }

    #[test]
    fn the_generator_is_the_published_one() {
        let mut random = SplitMix64::new(1_234_567);
        let outputs: [u64; 3] = core::array::from_fn(|_| random.next());
        assert_eq!(outputs, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn a_source_symbol_has_one_coefficient() {
        let mut coefficients = [7; 5];
        write_coefficients(3, &mut coefficients);
        assert_eq!(coefficients, [0, 0, 0, 1, 0]);
    }

    #[test]
    fn no_coefficient_of_a_repair_symbol_is_zero_and_shorter_blocks_use_a_prefix() {
        let mut all = [0; 256];
        for esi in (256..2000).chain([u32::MAX]) {
            write_coefficients(esi, &mut all);
            assert!(!all.contains(&0), "{esi}");
            for k in [1, 7, 8, 45, 255] {
                let mut some = [0; 256];
                write_coefficients(esi, &mut some[..k]);
                assert_eq!(some[..k], all[..k], "{esi} at {k}");
            }
        }
    }
}
