//! Differentiated services code points.

use std::fmt;
use std::str::FromStr;

/// Differentiated services code point (RFC 2474): the class of traffic in the IP header. It has the upper six bits of
/// IPv4's TOS and IPv6's traffic class; the lower two bits are ECN's. Its text form is a name (`EF`, `AF41`, `CS1`, ..)
/// or a number from 0 to 63, decimal or `0x..`.
///
/// ```
/// # use dfcp_proto as dfcp;
/// use dfcp::Dscp;
///
/// assert_eq!("46".parse(), Ok(Dscp::EF));
/// assert_eq!("0x2e".parse(), Ok(Dscp::EF));
/// assert_eq!("af41".parse::<Dscp>().map(Dscp::value), Ok(34));
/// assert_eq!(Dscp::EF.to_string(), "EF");
/// assert!("64".parse::<Dscp>().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(try_from = "u8", into = "u8"))]
pub struct Dscp(u8);

/// Error of a text or a number that is not a [`Dscp`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a DSCP is a number from 0 to 63 (46, 0x2e) or a name (EF, AF11 to AF43, CS0 to CS7, VA, LE)")]
pub struct DscpError;

/// Names without a class and a number: RFC 3246, RFC 5865, RFC 8622, RFC 2474.
const NAMES: [(&str, u8); 4] = [("EF", 46), ("VA", 44), ("LE", 1), ("DF", 0)];

impl Dscp {
    /// Default class, the class of unmarked traffic; also called CS0 and DF.
    pub const CS0: Self = Self(0);
    /// Expedited forwarding: voice (RFC 3246).
    pub const EF: Self = Self(46);
    /// Lower effort: uses only the capacity that other classes leave (RFC 8622).
    pub const LE: Self = Self(1);

    /// Returns the code point `value`; `None` above 63.
    #[must_use]
    pub const fn new(value: u8) -> Option<Self> {
        if value < 64 { Some(Self(value)) } else { None }
    }

    /// Returns the number, 0 to 63.
    #[must_use]
    pub const fn value(self) -> u8 {
        self.0
    }

    /// Parses class selectors (RFC 2474) and assured forwarding (RFC 2597), by class and drop precedence.
    fn of_class(name: &str) -> Option<Self> {
        match *name.as_bytes() {
            [b'C', b'S', class @ b'0'..=b'7'] => Some(Self((class - b'0') << 3)),
            [b'A', b'F', class @ b'1'..=b'4', drop @ b'1'..=b'3'] => {
                Some(Self(((class - b'0') << 3) | ((drop - b'0') << 1)))
            }
            _ => None,
        }
    }

    fn of_number(text: &str) -> Option<Self> {
        let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) => (digits, 16),
            // A leading zero is ambiguous: octal for C and iperf3, decimal for people.
            None if text.len() > 1 && text.starts_with('0') => return None,
            None => (text, 10),
        };
        let is_number = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
        is_number.then(|| u8::from_str_radix(digits, radix).ok()).flatten().and_then(Self::new)
    }
}

impl FromStr for Dscp {
    type Err = DscpError;

    fn from_str(text: &str) -> Result<Self, DscpError> {
        let name = text.to_ascii_uppercase();
        let named = NAMES.iter().find(|(known, _)| *known == name).map(|&(_, value)| Self(value));
        named.or_else(|| Self::of_class(&name)).or_else(|| Self::of_number(text)).ok_or(DscpError)
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (class, rest) = (self.0 >> 3, self.0 & 7);
        match NAMES.iter().find(|&&(name, value)| value == self.0 && name != "DF") {
            Some((name, _)) => f.write_str(name),
            None if rest == 0 => write!(f, "CS{class}"),
            None if (1..=4).contains(&class) && rest % 2 == 0 => write!(f, "AF{class}{}", rest / 2),
            None => write!(f, "{}", self.0),
        }
    }
}

impl TryFrom<u8> for Dscp {
    type Error = DscpError;

    fn try_from(value: u8) -> Result<Self, DscpError> {
        Self::new(value).ok_or(DscpError)
    }
}

impl From<Dscp> for u8 {
    fn from(dscp: Dscp) -> Self {
        dscp.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values are iperf3's, which come from OpenSSH.
    #[test]
    fn the_names_are_the_registry_s() {
        let names = [
            ("af11", 0x0a),
            ("af12", 0x0c),
            ("af13", 0x0e),
            ("af21", 0x12),
            ("af22", 0x14),
            ("af23", 0x16),
            ("af31", 0x1a),
            ("af32", 0x1c),
            ("af33", 0x1e),
            ("af41", 0x22),
            ("af42", 0x24),
            ("af43", 0x26),
            ("cs0", 0),
            ("cs1", 8),
            ("cs2", 0x10),
            ("cs3", 0x18),
            ("cs4", 0x20),
            ("cs5", 0x28),
            ("cs6", 0x30),
            ("cs7", 0x38),
            ("ef", 0x2e),
            ("le", 1),
            ("va", 0x2c),
            ("DF", 0),
        ];
        for (name, value) in names {
            assert_eq!(name.parse().map(Dscp::value), Ok(value), "{name}");
        }
    }

    #[test]
    fn what_is_shown_is_understood_and_nothing_else_is_taken() {
        for value in 0..64 {
            let dscp = Dscp::new(value).unwrap();
            for text in [dscp.to_string(), value.to_string(), format!("{value:#x}"), format!("0X{value:X}")] {
                assert_eq!(text.parse(), Ok(dscp), "{text}");
            }
        }
        let not = [
            "", " 1", "+1", "-1", "64", "0x40", "0x", "0x+1", "056", "00", "af", "af10", "af44", "af51", "cs8", "cs",
            "ef ", "256", "EFF", "٣",
        ];
        not.iter().for_each(|text| assert_eq!(text.parse::<Dscp>(), Err(DscpError), "{text:?}"));
    }
}
