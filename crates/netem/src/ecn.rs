//! Explicit congestion notification (RFC 3168): two bits by which a queue signals congestion without loss.

/// The ECN codepoint of an IP packet (RFC 3168, section 5). The discriminants are the bits of the IP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// Not-ECT: the endpoints ignore marks, so a queue must drop instead.
    #[default]
    NotEct = 0,
    /// ECT(1): equal to [`Ect0`](Self::Ect0) for the queues here. L4S gives it another meaning (RFC 9331).
    Ect1 = 1,
    /// ECT(0): a queue may mark the packet.
    Ect0 = 2,
    /// CE: marked by a queue.
    Ce = 3,
}

impl Ecn {
    /// Codepoint in the two lowest bits of `bits`, such as the traffic class of an IP header.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// The codepoint's two bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// True for ECT and CE: a queue may mark the packet instead of dropping it.
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
