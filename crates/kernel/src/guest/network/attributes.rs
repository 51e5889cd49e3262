//! Netlink attributes as bytes, for those without a type in `rtnetlink`.
//!
//! An attribute is its length (u16, its own header included), its kind (u16), and its value, padded to four bytes; numbers
//! are in the machine's byte order (`include/uapi/linux/netlink.h`).

const HEADER_BYTES: usize = 4;
/// Flag of an attribute type whose value consists of attributes.
const NESTED: u16 = 0x8000;
/// Mask of an attribute type without its two flag bits.
const KIND_MASK: u16 = 0x3fff;

/// A sequence of attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Attributes(Vec<u8>);

impl Attributes {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Attributes after a fixed structure, whose length is a multiple of four bytes.
    pub(super) fn after(structure: Vec<u8>) -> Self {
        Self(structure)
    }

    pub(super) fn bytes(mut self, kind: u16, value: &[u8]) -> Self {
        let length = u16::try_from(HEADER_BYTES + value.len()).unwrap_or(u16::MAX);
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(HEADER_BYTES), 0);
        self
    }

    pub(super) fn nested(self, kind: u16, inner: Self) -> Self {
        self.bytes(kind | NESTED, &inner.0)
    }

    pub(super) fn u32(self, kind: u16, value: u32) -> Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    pub(super) fn u64(self, kind: u16, value: u64) -> Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    pub(super) fn i64(self, kind: u16, value: i64) -> Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    /// Appends a string with a terminating zero.
    pub(super) fn string(self, kind: u16, value: &str) -> Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.bytes(kind, &bytes)
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Iterates over the attributes in `bytes` as type and value, up to the first truncated one.
pub(super) fn parse(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let kind = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?);
        let value = bytes.get(HEADER_BYTES..length)?;
        bytes = bytes.get(length.next_multiple_of(HEADER_BYTES)..).unwrap_or_default();
        Some((kind & KIND_MASK, value))
    })
}

/// Value of the first attribute of a type.
pub(super) fn find(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    parse(bytes).find(|(found, _)| *found == kind).map(|(_, value)| value)
}

/// Reads u32 number `index` of a structure.
pub(super) fn u32_at(structure: &[u8], index: usize) -> Option<u32> {
    structure.get(index * 4..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

/// Reads u64 number `index` of a structure.
pub(super) fn u64_at(structure: &[u8], index: usize) -> Option<u64> {
    structure.get(index * 8..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_padded_and_their_length_is_not() {
        let bytes = Attributes::new().string(1, "tbf").bytes(5, &[7]).u32(2, 0x0102_0304).into_bytes();
        let number = 0x0102_0304_u32.to_ne_bytes();
        let mut golden = vec![8, 0, 1, 0, b't', b'b', b'f', 0, 5, 0, 5, 0, 7, 0, 0, 0, 8, 0, 2, 0];
        golden.extend(number);
        assert_eq!(bytes, golden);
        let parsed: Vec<_> = parse(&bytes).collect();
        assert_eq!(parsed, [(1, &b"tbf\0"[..]), (5, &[7][..]), (2, &number[..])]);
    }

    #[test]
    fn nested_attributes_are_marked_and_found() {
        let bytes = Attributes::new().nested(2, Attributes::new().u64(4, 9)).into_bytes();
        assert_eq!(bytes[..8], [16, 0, 2, 0x80, 12, 0, 4, 0]);
        let inner = find(&bytes, 2).unwrap();
        assert_eq!(find(inner, 4).and_then(|value| u64_at(value, 0)), Some(9));
        assert_eq!(find(inner, 5), None);
    }

    #[test]
    fn what_is_cut_off_is_left_out() {
        let bytes = Attributes::new().u32(1, 1).u32(2, 2).into_bytes();
        for length in 0..bytes.len() {
            assert_eq!(parse(&bytes[..length]).count(), length / 8, "{length}");
        }
        assert_eq!(parse(&[0; 16]).count(), 0, "an attribute is never shorter than its header");
    }
}
