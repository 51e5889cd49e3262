//! State of a TCP connection in the kernel (`struct tcp_info` of `linux/tcp.h`), read with `sock_diag(7)`: no socket is needed, and reading
//! has no side effects.

use std::net::Ipv4Addr;

use super::attributes;
use super::netlink::{Netlink, Refusal};

/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;
/// `NLM_F_ROOT | NLM_F_MATCH`: all matching sockets.
const DUMP: u16 = 0x300;
const AF_INET: u8 = 2;
const IPPROTO_TCP: u8 = 6;
/// The attribute `INET_DIAG_INFO`; its extension is bit 1.
const INFO: u16 = 2;
/// States of open or closing connections: all except SYN_RECV, TIME_WAIT, CLOSE and LISTEN.
const STATES: u32 = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11;
/// Sizes of `struct inet_diag_req_v2` and `struct inet_diag_msg`, bytes.
const REQUEST_BYTES: usize = 56;
const ANSWER_BYTES: usize = 72;
/// Word offsets: of the destination in `struct inet_diag_msg`, and of three fields in `struct tcp_info`.
const DESTINATION: usize = 6;
const SND_MSS: usize = 4;
const RTT: usize = 17;
const SND_CWND: usize = 20;

/// State of a sender's TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpInfo {
    /// Congestion window, segments.
    pub cwnd_segments: u32,
    /// Maximum segment size, bytes.
    pub mss_bytes: u32,
    /// Smoothed round-trip time, µs; 0 while it is unknown.
    pub srtt_us: u32,
}

/// State of the connection to `peer` in the socket's namespace; `None` if there is none.
pub(super) fn tcp_info(netlink: &mut Netlink, peer: Ipv4Addr) -> Result<Option<TcpInfo>, Refusal> {
    let mut request = vec![AF_INET, IPPROTO_TCP, 1 << (INFO - 1), 0];
    request.extend(STATES.to_ne_bytes());
    request.resize(REQUEST_BYTES, 0);
    let answers = netlink.request(BY_FAMILY, DUMP, &request)?;
    let of_peer = answers.iter().find(|answer| {
        let destination = attributes::u32_at(answer, DESTINATION);
        destination == Some(u32::from_ne_bytes(peer.octets()))
    });
    of_peer.map(|answer| parse(answer)).transpose()
}

fn parse(answer: &[u8]) -> Result<TcpInfo, Refusal> {
    let info = attributes::find(answer.get(ANSWER_BYTES..).unwrap_or_default(), INFO);
    let word = |place| info.and_then(|info| attributes::u32_at(info, place));
    match (word(SND_CWND), word(SND_MSS), word(RTT)) {
        (Some(cwnd_segments), Some(mss_bytes), Some(srtt_us)) => Ok(TcpInfo { cwnd_segments, mss_bytes, srtt_us }),
        _ => Err(Refusal::Incomplete("what TCP says of a connection")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_and_a_short_one_refused() {
        let mut info = vec![0; 104];
        for (word, value) in [(SND_MSS, 1_448_u32), (RTT, 10_250), (SND_CWND, 77)] {
            info[word * 4..][..4].copy_from_slice(&value.to_ne_bytes());
        }
        let answer = |info: &[u8]| attributes::Attributes::after(vec![0; ANSWER_BYTES]).bytes(INFO, info).into_bytes();
        let expected = TcpInfo { cwnd_segments: 77, mss_bytes: 1_448, srtt_us: 10_250 };
        assert_eq!(parse(&answer(&info)).unwrap(), expected);
        assert!(parse(&answer(&info[..80])).is_err() && parse(&[0; 10]).is_err());
    }
}
