//! Base64 (RFC 4648 §4) of 32 bytes without padding: 43 characters, as `ssh` shows fingerprints.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const CHARACTERS: usize = 43;

pub(crate) fn encode(bytes: &[u8; 32]) -> String {
    let bit = |at: usize| bytes.get(at / 8).map_or(0, |byte| byte >> (7 - at % 8) & 1);
    let digit = |at: usize| (0..6).fold(0, |value, i| value << 1 | bit(at * 6 + i));
    (0..CHARACTERS).map(|at| char::from(ALPHABET[usize::from(digit(at))])).collect()
}

/// `None` unless `text` is what [`encode`] gives for some 32 bytes; one trailing `=` is let pass.
pub(crate) fn decode(text: &str) -> Option<[u8; 32]> {
    let text = text.strip_suffix('=').unwrap_or(text).as_bytes();
    let mut bits = [0_u8; 33];
    for (at, character) in text.iter().enumerate().take(CHARACTERS) {
        let digit = ALPHABET.iter().position(|known| known == character)?;
        for i in 0..6 {
            bits[(at * 6 + i) / 8] |= ((digit >> (5 - i) & 1) as u8) << (7 - (at * 6 + i) % 8);
        }
    }
    let (bytes, rest) = bits.split_first_chunk()?;
    // Bits behind the last byte: not zero would be a second spelling of the same key.
    (text.len() == CHARACTERS && rest == [0]).then_some(*bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        assert_eq!(encode(&[0; 32]), "A".repeat(43));
        assert_eq!(encode(&[0xFF; 32]), "/".repeat(42) + "8");
        let counted = core::array::from_fn(|i| i as u8);
        assert_eq!(encode(&counted), "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8");
        assert_eq!(decode("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="), Some(counted));
    }

    #[test]
    fn other_spellings_are_refused() {
        let good = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
        for bad in [
            "",
            "A",
            &good[1..],
            "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9",
            &format!("{good}A"),
            &good.replace('E', "-"),
        ] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
