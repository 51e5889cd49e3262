//! Hashed names: a file that stores them does not reveal them.

/// Hash of a name below the output directory, or of the directory itself, as 32 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hashed(String);

/// Digits of a [`Hashed`].
const DIGITS: usize = 32;

impl Hashed {
    /// Hashes these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(blake3::hash(bytes).to_hex()[..DIGITS].to_owned())
    }

    /// Parses the digits; `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == DIGITS && text.bytes().all(|digit| digit.is_ascii_hexdigit())).then(|| Self(text.to_owned()))
    }

    /// Hexadecimal digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
