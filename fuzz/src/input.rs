//! The fuzzer's bytes as a sequence of choices.

use arbitrary::{Arbitrary, Unstructured};

/// Sequence of choices, taken from the front of a byte string. After its end every choice is zero, and
/// [`Input::is_empty`] returns true: a short input is a short scenario, not an error. Each choice takes few whole
/// bytes, so that a mutation of one byte changes one choice.
#[derive(Debug)]
pub struct Input<'a>(Unstructured<'a>);

impl<'a> Input<'a> {
    /// Sequence of choices from all of `data`.
    #[must_use]
    pub fn new(data: &'a [u8]) -> Self {
        Self(Unstructured::new(data))
    }

    /// Returns true if all bytes are used up.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes one byte.
    pub fn u8(&mut self) -> u8 {
        self.value()
    }

    /// Takes two bytes, the lower one first.
    pub fn u16(&mut self) -> u16 {
        self.value()
    }

    /// Takes four bytes, the lowest first.
    pub fn u32(&mut self) -> u32 {
        self.value()
    }

    /// Takes eight bytes, the lowest first.
    pub fn u64(&mut self) -> u64 {
        self.value()
    }

    /// Reads an integer; missing bytes are zeros.
    fn value<T: Arbitrary<'a> + Default>(&mut self) -> T {
        self.0.arbitrary().unwrap_or_default()
    }

    /// Takes the lowest bit of one byte.
    pub fn bool(&mut self) -> bool {
        self.value()
    }

    /// True for one of `n` values of a byte, `n` a power of two up to 256; false after the end of the input.
    pub fn rarely(&mut self, n: u16) -> bool {
        u16::from(self.u8()) % n == n - 1
    }

    /// A number below `n`; 0 if `n` is 0. Takes as many bytes as `n` - 1 has, most significant first.
    pub fn below(&mut self, n: usize) -> usize {
        self.0.choose_index(n).unwrap_or(0)
    }

    /// Picks one of `choices`, which must not be empty.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Takes up to `n` of the remaining bytes.
    pub fn bytes(&mut self, n: usize) -> &'a [u8] {
        self.0.bytes(n.min(self.0.len())).unwrap_or_default()
    }

    /// Bytes preceded by a length byte.
    pub fn short_bytes(&mut self) -> &'a [u8] {
        let n = self.u8().into();
        self.bytes(n)
    }

    /// All remaining bytes.
    pub fn all(&mut self) -> &'a [u8] {
        self.bytes(usize::MAX)
    }

    /// A number of any magnitude: small numbers, powers of two and their neighbours, the greatest number, and arbitrary
    /// ones.
    pub fn number(&mut self) -> u64 {
        let choice = self.u8();
        match choice {
            0..=127 => choice.into(),
            128..=191 => 1 << (choice - 128),
            192..=223 => (1 << (2 * (choice - 192))) - 1,
            224..=231 => u64::MAX - u64::from(choice - 224),
            232..=235 => u64::from(u32::MAX) - u64::from(choice - 232),
            236..=247 => self.u16().into(),
            248..=251 => self.u32().into(),
            _ => self.u64(),
        }
    }

    /// Lower half of [`Input::number`].
    pub fn number32(&mut self) -> u32 {
        self.number() as u32
    }

    /// `near` plus or minus at most 127, or an arbitrary number.
    pub fn number_near(&mut self, near: u64) -> u64 {
        match self.u8() as i8 {
            i8::MIN => self.number(),
            step => near.wrapping_add_signed(step.into()),
        }
    }
}

/// Changes `bytes` by one to four edits from the input; the result may equal the original.
pub fn mutate(input: &mut Input<'_>, bytes: &mut Vec<u8>) {
    for _ in 0..=input.below(4) {
        let at = input.below(bytes.len());
        match input.below(7) {
            0 | 1 if !bytes.is_empty() => bytes[at] ^= 1 << input.below(8),
            2 if !bytes.is_empty() => bytes[at] = input.u8(),
            3 => bytes.truncate(at),
            4 => bytes.extend_from_slice(input.short_bytes()),
            5 if !bytes.is_empty() => drop(bytes.remove(at)),
            _ => bytes.insert(at, input.u8()),
        }
    }
}

/// Returns `length` bytes derived from `seed`; the files in `seeds/` contain such bytes. They have no period, because a
/// period that divides a block's length could hide errors.
#[must_use]
pub fn filler(seed: u64, length: usize) -> Vec<u8> {
    let byte = |at: u64| {
        let word = (seed ^ (at / 8)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let word = (word ^ (word >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (word >> (at % 8 * 8)) as u8
    };
    (0..length as u64).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_used_up_input_gives_zeros() {
        let mut input = Input::new(&[1, 2, 3]);
        assert_eq!(input.u16(), 0x0201);
        assert_eq!((input.u32(), input.u8(), input.number(), input.is_empty()), (3, 0, 0, true));
        assert_eq!(input.bytes(7), b"");
        assert!(!input.rarely(2) && !input.bool());
    }

    #[test]
    fn a_choice_among_many_takes_more_bytes() {
        let mut input = Input::new(&[9, 1, 2, 3, 4, 5, 6]);
        assert_eq!((input.below(0), input.below(1), input.below(256)), (0, 0, 9));
        assert_eq!((input.below(257), input.below(0x1_0001), input.u8()), (0x0102 % 257, 0x0003_0405 % 0x1_0001, 6));
        assert_eq!(input.below(100), 0);
    }

    #[test]
    fn numbers_reach_their_ends() {
        let number = |bytes: &[u8]| Input::new(bytes).number();
        assert_eq!((number(&[127]), number(&[128]), number(&[191])), (127, 1, 1 << 63));
        assert_eq!((number(&[192]), number(&[223]), number(&[224])), (0, (1 << 62) - 1, u64::MAX));
        assert_eq!((number(&[232]), number(&[236, 1, 2])), (u32::MAX.into(), 0x0201));
        assert_eq!(Input::new(&[0xFF]).number_near(0), u64::MAX);
    }

    #[test]
    fn every_edit_keeps_within_the_bytes() {
        for choice in 0..=u8::MAX {
            for length in 0..4 {
                let mut bytes = vec![0; length];
                mutate(&mut Input::new(&[3, choice, choice, choice, 9, 9, 9, choice, choice]), &mut bytes);
                assert!(bytes.len() < 32);
            }
        }
    }
}
