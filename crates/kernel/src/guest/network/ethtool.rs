//! Switching offloads of devices off, with ethtool's netlink interface.

use rtnetlink::sys::protocols::NETLINK_GENERIC;

use super::attributes::{self, Attributes};
use super::error::{Asked, NetworkError};
use super::netlink::{Netlink, Refusal};

/// Offloads to switch off: they merge several packets into one buffer, which a queue or a loss would count as one.
const OFFLOADS: [&str; 10] = [
    "tx-tcp-segmentation",
    "tx-tcp-ecn-segmentation",
    "tx-tcp-mangleid-segmentation",
    "tx-tcp6-segmentation",
    "tx-udp-segmentation",
    "tx-generic-segmentation",
    "tx-scatter-gather",
    "tx-scatter-gather-fraglist",
    "rx-gro",
    "rx-gro-list",
];

/// Generic netlink family that reports the numbers of the other families.
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
/// Size of `struct genlmsghdr`: command, version, reserved.
const GENLMSGHDR_BYTES: usize = 4;
const VERSION: u8 = 1;

const ETHTOOL_MSG_FEATURES_GET: u8 = 11;
const ETHTOOL_MSG_FEATURES_SET: u8 = 12;
const ETHTOOL_A_FEATURES_HEADER: u16 = 1;
const ETHTOOL_A_FEATURES_WANTED: u16 = 3;
const ETHTOOL_A_FEATURES_ACTIVE: u16 = 4;
const ETHTOOL_A_HEADER_DEV_INDEX: u16 = 1;
const ETHTOOL_A_BITSET_NOMASK: u16 = 1;
const ETHTOOL_A_BITSET_BITS: u16 = 3;
const ETHTOOL_A_BITSET_BITS_BIT: u16 = 1;
const ETHTOOL_A_BITSET_BIT_NAME: u16 = 2;

/// Ethtool interface of one namespace.
#[derive(Debug)]
pub(super) struct Ethtool {
    netlink: Netlink,
    family: u16,
}

impl Ethtool {
    /// Opens a socket in the thread's namespace.
    pub(super) fn open() -> Result<Self, NetworkError> {
        let open = Netlink::open(NETLINK_GENERIC);
        let mut netlink =
            open.map_err(|error| NetworkError::system("cannot open a socket of generic netlink", error))?;
        let family = family(&mut netlink).asked(|| "cannot find ethtool's family of generic netlink".into())?;
        Ok(Self { netlink, family })
    }

    /// Switches off every offload that merges packets, and verifies it.
    pub(super) fn turn_offloads_off(&mut self, device: u32) -> Result<(), NetworkError> {
        let bits = OFFLOADS.iter().fold(Attributes::new(), |bits, name| {
            // A bit without a value means "off".
            bits.nested(ETHTOOL_A_BITSET_BITS_BIT, Attributes::new().string(ETHTOOL_A_BITSET_BIT_NAME, name))
        });
        let set = request(ETHTOOL_MSG_FEATURES_SET, device)
            .nested(ETHTOOL_A_FEATURES_WANTED, Attributes::new().nested(ETHTOOL_A_BITSET_BITS, bits));
        let answer = self.netlink.request(self.family, 0, &set.into_bytes());
        answer.asked(|| format!("cannot turn off the offloads of device {device}"))?;
        let active = self.active(device).asked(|| format!("cannot read the offloads of device {device}"))?;
        match active.iter().find(|name| OFFLOADS.contains(&name.as_str())) {
            Some(name) => Err(NetworkError::layout(format!("device {device} keeps its offload {name}"))),
            None => Ok(()),
        }
    }

    /// Names of a device's enabled features.
    fn active(&mut self, device: u32) -> Result<Vec<String>, Refusal> {
        let get = request(ETHTOOL_MSG_FEATURES_GET, device).into_bytes();
        let answers = self.netlink.request(self.family, 0, &get)?;
        let first = answers.first().and_then(|answer| answer.get(GENLMSGHDR_BYTES..));
        let active = first.and_then(|answer| attributes::find(answer, ETHTOOL_A_FEATURES_ACTIVE));
        let active = active.ok_or(Refusal::Incomplete("the active features"))?;
        names(active).ok_or(Refusal::Incomplete("a list of the active features"))
    }
}

fn request(command: u8, device: u32) -> Attributes {
    Attributes::after(vec![command, VERSION, 0, 0])
        .nested(ETHTOOL_A_FEATURES_HEADER, Attributes::new().u32(ETHTOOL_A_HEADER_DEV_INDEX, device))
}

/// Names in a bit set in the form of a list (not of value and mask).
fn names(bitset: &[u8]) -> Option<Vec<String>> {
    attributes::find(bitset, ETHTOOL_A_BITSET_NOMASK)?;
    let bits = attributes::find(bitset, ETHTOOL_A_BITSET_BITS).unwrap_or_default();
    let names = attributes::parse(bits).filter_map(|(_, bit)| attributes::find(bit, ETHTOOL_A_BITSET_BIT_NAME));
    Some(names.map(|name| String::from_utf8_lossy(name).trim_end_matches('\0').to_owned()).collect())
}

fn family(netlink: &mut Netlink) -> Result<u16, Refusal> {
    let header = vec![CTRL_CMD_GETFAMILY, VERSION, 0, 0];
    let get = Attributes::after(header).string(CTRL_ATTR_FAMILY_NAME, "ethtool").into_bytes();
    let answers = netlink.request(GENL_ID_CTRL, 0, &get)?;
    let first = answers.first().and_then(|answer| answer.get(GENLMSGHDR_BYTES..));
    let id = first.and_then(|answer| attributes::find(answer, CTRL_ATTR_FAMILY_ID));
    let id = id.and_then(<[u8]>::first_chunk).map(|bytes| u16::from_ne_bytes(*bytes));
    id.ok_or(Refusal::Incomplete("the family's number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bit(name: &str) -> Attributes {
        Attributes::new().u32(1, 5).string(ETHTOOL_A_BITSET_BIT_NAME, name)
    }

    #[test]
    fn names_are_read_from_lists_alone() {
        let bits =
            Attributes::new().nested(ETHTOOL_A_BITSET_BITS_BIT, bit("a")).nested(ETHTOOL_A_BITSET_BITS_BIT, bit("bc"));
        let list = Attributes::new()
            .bytes(ETHTOOL_A_BITSET_NOMASK, &[])
            .u32(2, 64)
            .nested(ETHTOOL_A_BITSET_BITS, bits.clone());
        assert_eq!(names(&list.into_bytes()), Some(vec!["a".to_owned(), "bc".to_owned()]));
        // With a mask, a listed bit may be off.
        assert_eq!(names(&Attributes::new().nested(ETHTOOL_A_BITSET_BITS, bits).into_bytes()), None);
        assert_eq!(names(&Attributes::new().bytes(ETHTOOL_A_BITSET_NOMASK, &[]).into_bytes()), Some(Vec::new()));
    }
}
