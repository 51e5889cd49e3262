//! Pairing code: a number and two words, such as `42-otter-violin`.

use std::fmt;
use std::str::FromStr;

use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::error::PairingError;
use super::words::WORDS;
use crate::limits::PAIRING_TEXT_BYTES_MAX;

const NUMBERS: u8 = 100;

/// Number of possible codes.
pub const CODES: u64 = NUMBERS as u64 * (WORDS.len() * WORDS.len()) as u64;

/// Pairing code that one person gives another. Wiped when dropped; `Display` shows it, `Debug` does not.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct Code {
    number: u8,
    words: [u8; 2],
}

impl Code {
    /// Creates an unpredictable code (`spec/pairing.md` \[code-2\]).
    ///
    /// # Errors
    /// Fails if the system has no random numbers.
    pub fn random() -> Result<Self, PairingError> {
        let mut bytes = Zeroizing::new([0; 8]);
        getrandom::fill(bytes.as_mut_slice()).map_err(PairingError::Random)?;
        Ok(Self::from_bits(u64::from_be_bytes(*bytes)))
    }

    /// Derives a code from 64 uniformly random bits. The bias between codes is below one part in 2⁴¹.
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        let code = bits % CODES;
        let [.., first, second] = code.to_be_bytes();
        Self { number: (code >> 16) as u8, words: [first, second] }
    }

    /// Returns the password of the password-authenticated key exchange.
    pub(super) fn password(&self) -> Zeroizing<String> {
        Zeroizing::new(self.to_string())
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second] = self.words.map(|word| WORDS[usize::from(word)]);
        write!(f, "{}-{first}-{second}", self.number)
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Code(..)")
    }
}

/// Reason why a text is no pairing code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodeError {
    /// The text is not a number and two words.
    #[error("a pairing code is a number from 0 to 99 and two words, such as 42-otter-violin; ask for it again")]
    Form,
    /// A word is not in the list.
    #[error("no pairing code has the word \"{}\" in it; ask for it again", dfcp_framing::printable(.0))]
    Word(String),
}

impl FromStr for Code {
    type Err = CodeError;

    /// Parses a code; ignores case, blanks and the kind of hyphen (`spec/pairing.md` \[code-3\]).
    fn from_str(text: &str) -> Result<Self, CodeError> {
        if text.len() > PAIRING_TEXT_BYTES_MAX {
            return Err(CodeError::Form);
        }
        // Telephones and word processors replace hyphens by these characters.
        let separator = |c: char| c.is_whitespace() || matches!(c, '-' | '_' | '\u{2010}'..='\u{2015}' | '\u{2212}');
        let mut parts = text.split(separator).filter(|part| !part.is_empty());
        let (Some(number), Some(first), Some(second), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(CodeError::Form);
        };
        let digits = number.len() <= 2 && number.bytes().all(|byte| byte.is_ascii_digit());
        let number = number.parse().ok().filter(|_| digits).ok_or(CodeError::Form)?;
        Ok(Self { number, words: [word(first)?, word(second)?] })
    }
}

fn word(text: &str) -> Result<u8, CodeError> {
    let lower = Zeroizing::new(text.to_lowercase());
    let index = WORDS.binary_search(&lower.as_str()).ok();
    index.and_then(|index| u8::try_from(index).ok()).ok_or_else(|| CodeError::Word(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn letters_changed(a: &str, b: &str) -> usize {
        let (a, b): (Vec<_>, Vec<_>) = (a.bytes().collect(), b.bytes().collect());
        let mut row: Vec<usize> = (0..=b.len()).collect();
        for (i, x) in a.iter().enumerate() {
            let mut diagonal = row[0];
            row[0] = i + 1;
            for (j, y) in b.iter().enumerate() {
                let change = diagonal + usize::from(x != y);
                diagonal = row[j + 1];
                row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
            }
        }
        row[b.len()]
    }

    #[test]
    fn words_are_sorted_plain_and_far_apart() {
        assert!(WORDS.is_sorted());
        for (at, word) in WORDS.iter().enumerate() {
            assert!((4..=9).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_lowercase()), "{word}");
            for other in &WORDS[at + 1..] {
                assert!(letters_changed(word, other) >= 2, "{word} {other}");
            }
        }
        assert_eq!((letters_changed("otter", "butter"), letters_changed("", "abc")), (2, 3));
    }

    #[test]
    fn there_are_enough_codes() {
        assert_eq!(CODES, 6_553_600);
        assert_eq!(Code::from_bits(0).to_string(), "0-acorn-acorn");
        assert_eq!(Code::from_bits(CODES - 1).to_string(), "99-zebra-zebra");
        assert_eq!(Code::from_bits(CODES).to_string(), "0-acorn-acorn");
    }

    #[test]
    fn what_people_type_is_understood() {
        let code: Code = "7-otter-violin".parse().unwrap();
        for text in ["7 otter violin", " 07--Otter - VIOLIN\n", "7_otter\u{2013}violin", "7\u{a0}otter\u{2011}violin"] {
            assert_eq!(text.parse(), Ok(code.clone()), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_code_is_said() {
        for text in [
            "",
            "-",
            "7",
            "7-otter",
            "otter-violin-7",
            "100-otter-violin",
            "007-otter-violin",
            "7-a-b-c",
            "+7-otter-violin",
        ] {
            assert_eq!(text.parse::<Code>(), Err(CodeError::Form), "{text:?}");
        }
        assert_eq!("7-otter-violine".parse::<Code>(), Err(CodeError::Word("violine".to_owned())));
        assert_eq!(format!("7-otter-violin{}", " ".repeat(100)).parse::<Code>(), Err(CodeError::Form));
    }

    #[test]
    fn debug_does_not_show_it() {
        assert_eq!(format!("{:?}", Code::from_bits(5)), "Code(..)");
    }

    proptest! {
        #[test]
        fn every_code_is_read_back(bits in any::<u64>()) {
            let code = Code::from_bits(bits);
            prop_assert_eq!(code.to_string().parse(), Ok(code.clone()));
            prop_assert_eq!(code.to_string().to_uppercase().replace('-', " ").parse(), Ok(code));
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC*") {
            let read = text.parse::<Code>();
            prop_assert!(read.is_err() || read.is_ok_and(|code| u64::from(code.number) < 100));
        }
    }
}
