//! Optional features of the protocol. A session uses a feature only if both ends have chosen it (`spec/wire-format.md`
//! §4).

/// Set of features, one bit each. Option 6 offers features; option 6 or parameter 20 chooses among them. Unknown bits
/// are kept, as a peer may offer features of a later implementation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Features(u32);

impl Features {
    /// No feature.
    pub const NONE: Self = Self(0);
    /// Message segments, and records of type 7 in reports.
    pub const MESSAGES: Self = Self(1);
    /// Data segments that carry a part of an encoding symbol.
    pub const FRAGMENTS: Self = Self(1 << 1);
    /// Path probes and their answers.
    pub const PATH_PROBES: Self = Self(1 << 2);
    /// Records of types 3 and 4 in reports: the receiver's clock, and earlier marks.
    pub const ARRIVAL_CLOCK: Self = Self(1 << 3);
    /// Records of type 5 in reports: ECN counts.
    pub const ECN_COUNTS: Self = Self(1 << 4);
    /// Records of type 6 in reports: loss runs.
    pub const LOSS_RUNS: Self = Self(1 << 5);

    /// Makes a set from its bits in the option or the parameter.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Returns the bits of the set in the option or the parameter.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Returns true if the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns true if all features of `other` are in the set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the union of both sets.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the intersection of both sets, for example to choose from an offer.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Features;

    #[test]
    fn each_feature_has_a_bit_of_its_own_and_unknown_bits_are_kept() {
        let all = [
            Features::MESSAGES,
            Features::FRAGMENTS,
            Features::PATH_PROBES,
            Features::ARRIVAL_CLOCK,
            Features::ECN_COUNTS,
            Features::LOSS_RUNS,
        ];
        assert_eq!(all.map(Features::bits), [1, 2, 4, 8, 16, 32]);
        let offer = Features::from_bits(0x8000_0003);
        assert_eq!(offer.bits(), 0x8000_0003);
        assert_eq!(offer.intersection(Features::FRAGMENTS.union(Features::LOSS_RUNS)), Features::FRAGMENTS);
        assert!(offer.contains(Features::NONE) && !offer.contains(Features::PATH_PROBES));
        assert!(Features::NONE.is_empty() && !offer.is_empty());
    }
}
