//! Names that are written down without being told.

/// A name below the output directory, or the directory itself, in 32 hexadecimal digits: neither is told to a reader of the file that has them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hashed(String);

/// Digits of a [`Hashed`].
const DIGITS: usize = 32;

impl Hashed {
    /// Of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(blake3::hash(bytes).to_hex()[..DIGITS].to_owned())
    }

    /// From its digits; `None` if it is something else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == DIGITS && text.bytes().all(|digit| digit.is_ascii_hexdigit())).then(|| Self(text.to_owned()))
    }

    /// Its digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
