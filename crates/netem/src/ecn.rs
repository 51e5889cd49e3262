//! Explicit congestion notification (RFC 3168): two bits with which queues signal congestion without loss.

/// ECN codepoint of an IP packet (RFC 3168, §5). The discriminants equal the bits of the IP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// Not-ECT: the endpoints do not support ECN, so a queue must drop the packet instead of marking it.
    #[default]
    NotEct = 0,
    /// ECT(1): treated like [`Ect0`](Self::Ect0) by the queues of this crate. L4S gives it another meaning (RFC 9331).
    Ect1 = 1,
    /// ECT(0): the endpoints support ECN, so a queue may mark the packet.
    Ect0 = 2,
    /// CE: congestion experienced; a queue has marked the packet.
    Ce = 3,
}

impl Ecn {
    /// Returns the codepoint in the two lowest bits of `bits`, such as an IP header's traffic class.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// Returns the two bits of the codepoint.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// Returns true for ECT and CE: a queue may mark the packet instead of dropping it.
    #[must_use]
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codepoints_are_those_of_the_ip_header() {
        let codepoints = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce];
        for (bits, ecn) in (0u8..).zip(codepoints) {
            assert_eq!((ecn.bits(), Ecn::from_bits(bits), Ecn::from_bits(0xB8 | bits)), (bits, ecn, ecn));
            assert_eq!(ecn.is_capable(), bits > 0);
        }
    }
}
