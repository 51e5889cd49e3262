//! Control flags of a segment.

use core::fmt;
use core::ops::{BitOr, BitOrAssign};

/// Set of control flags: SYN, ACK, FIN and RST of the thesis (§3.5–3.11), FBK and SEC of the modern profile. `Debug`
/// and `Display` print the names, like `SYN|ACK`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(u16); // Same bit positions as in the header's control field, so that MESSAGE needs no shift.

impl Flags {
    /// Empty set: a data segment.
    pub const NONE: Self = Self(0);
    /// Ends one direction of a stream.
    pub const FIN: Self = Self(0x01);
    /// Opens a connection.
    pub const SYN: Self = Self(0x02);
    /// Resets a connection.
    pub const RST: Self = Self(0x04);
    /// The payload is a feedback report (modern).
    pub const FBK: Self = Self(0x08);
    /// Acknowledges a handshake segment, a block or a FIN.
    pub const ACK: Self = Self(0x10);
    /// The payload is encrypted (modern).
    pub const SEC: Self = Self(0x20);

    /// Reserved bit G of the header. It is no flag, but marks a modern segment with a symbol of messages. Treating it
    /// as a flag makes these segments a separate kind, without cost for other segments.
    pub(crate) const MESSAGE: Self = Self(0x0400);

    const ALL: u8 = 0x3F;
    const NAMES: [(Self, &'static str); 7] = [
        (Self::FIN, "FIN"),
        (Self::SYN, "SYN"),
        (Self::RST, "RST"),
        (Self::FBK, "FBK"),
        (Self::ACK, "ACK"),
        (Self::SEC, "SEC"),
        (Self::MESSAGE, "message"),
    ];

    /// Makes a set from the six bits; `None` if one of the two upper bits is set.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        if bits & !Self::ALL == 0 { Some(Self(bits as u16)) } else { None }
    }

    /// Reads the flags and the bit G from a header's bytes 12–13.
    pub(crate) const fn from_control(control: u16) -> Self {
        Self(control & (Self::ALL as u16 | Self::MESSAGE.0))
    }

    /// Returns the flags as in the header's bytes 12–13.
    pub(crate) const fn to_control(self) -> u16 {
        self.0
    }

    /// Returns the six bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0 as u8
    }

    /// Returns true if no flag is set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns true if all flags of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns true if at least one flag of `other` is set.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns these flags without the flags of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the union with `other`; usable in constants.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.union(other)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Self) {
        *self = self.union(other);
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        let mut separator = "";
        for (flag, name) in Self::NAMES {
            if self.contains(flag) {
                write!(f, "{separator}{name}")?;
                separator = "|";
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::Flags;
    use std::format;

    #[test]
    fn prints_names() {
        assert_eq!(format!("{:?}", Flags::SYN | Flags::ACK), "SYN|ACK");
        assert_eq!(format!("{}", Flags::default()), "none");
    }

    #[test]
    fn upper_bits_are_no_flags() {
        assert_eq!(Flags::from_bits(0x3F).map(Flags::bits), Some(0x3F));
        assert_eq!(Flags::from_bits(0x40), None);
        assert_eq!(Flags::from_control(0xFBC2), Flags::SYN);
        assert_eq!(Flags::from_control(0xFFC2), Flags::SYN.union(Flags::MESSAGE));
        assert_eq!(format!("{}", Flags::MESSAGE | Flags::SEC), "SEC|message");
    }

    #[test]
    fn contains_needs_all_and_intersects_one() {
        let synack = Flags::SYN | Flags::ACK;
        assert!(synack.contains(Flags::SYN) && synack.contains(synack) && !Flags::SYN.contains(synack));
        assert!(synack.intersects(Flags::ACK | Flags::FIN) && !synack.intersects(Flags::FIN));
    }
}
