//! A netlink socket with immediate answers.
//!
//! The kernel answers a request within the system call that sends it, so reading the answer never blocks: no task per socket and no wake-up
//! of a runtime are needed, and no virtual time passes.

use std::io;

use rtnetlink::packet_core::{
    NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NetlinkHeader, NetlinkMessage,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::sys::{Socket, SocketAddr};

use super::attributes;

/// Most bytes of one read; the kernel limits parts of dumps to 32 KiB.
const ANSWER_BYTES_MAX: usize = 1 << 16;
/// Size of `struct nlmsghdr`: length, type, flags, sequence number, port.
const HEADER_BYTES: usize = 16;
/// Attribute of a refusal that contains a sentence.
const NLMSGERR_ATTR_MSG: u16 = 1;

/// Reason for which a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The kernel refused: errno, and a sentence if the kernel sent one.
    #[error("the kernel said: {error}{}", text.as_ref().map(|text| format!(" ({text})")).unwrap_or_default())]
    Kernel {
        /// Errno of the kernel.
        error: io::Error,
        /// Sentence of the kernel.
        text: Option<String>,
    },
    /// The socket failed.
    #[error("netlink failed: {0}")]
    Socket(#[from] io::Error),
    /// The answer is incomplete or unexpected.
    #[error("the kernel's answer lacks {0}")]
    Incomplete(&'static str),
}

/// A netlink socket.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: Socket,
    sequence: u32,
    answer: Vec<u8>,
}

impl Netlink {
    /// Opens a socket in the thread's present namespace.
    pub(super) fn open(protocol: isize) -> io::Result<Self> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        socket.set_ext_ack(true)?;
        // Refusals do not repeat the request, so that their attributes are at a known offset.
        socket.set_cap_ack(true)?;
        Ok(Self { socket, sequence: 0, answer: Vec::with_capacity(ANSWER_BYTES_MAX) })
    }

    /// Sends a request that has a type in `rtnetlink`; the content of the answer is ignored.
    pub(super) fn route(&mut self, message: RouteNetlinkMessage, flags: u16) -> Result<(), Refusal> {
        let mut message = NetlinkMessage::new(NetlinkHeader::default(), message.into());
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        let kind = message.payload.message_type();
        self.request(kind, flags, &bytes[HEADER_BYTES..]).map(drop)
    }

    /// Sends a request with this type and `body` (fixed structure and attributes); returns the bodies of the answers.
    pub(super) fn request(&mut self, kind: u16, flags: u16, body: &[u8]) -> Result<Vec<Vec<u8>>, Refusal> {
        self.sequence = self.sequence.wrapping_add(1);
        let length = u32::try_from(HEADER_BYTES + body.len()).unwrap_or(u32::MAX);
        let mut message = Vec::with_capacity(HEADER_BYTES + body.len());
        message.extend(length.to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend((flags | NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
        message.extend(self.sequence.to_ne_bytes());
        message.extend([0; 4]);
        message.extend(body);
        self.socket.send(&message, 0)?;
        let mut answers = Vec::new();
        while !self.receive(&mut answers)? {}
        Ok(answers)
    }

    /// Reads one datagram; returns true if it was the last of the answer.
    fn receive(&mut self, answers: &mut Vec<Vec<u8>>) -> Result<bool, Refusal> {
        self.answer.clear();
        self.socket.recv(&mut self.answer, 0)?;
        let mut rest = &self.answer[..];
        while let Some(header) = rest.first_chunk::<HEADER_BYTES>() {
            let length = attributes::u32_at(header, 0).unwrap_or_default() as usize;
            let kind = u16::from_ne_bytes([header[4], header[5]]);
            let flags = u16::from_ne_bytes([header[6], header[7]]);
            let sequence = attributes::u32_at(header, 2);
            let body = rest.get(HEADER_BYTES..length).ok_or(Refusal::Incomplete("the end of a message"))?;
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            if sequence != Some(self.sequence) {
                continue; // the rest of an answer to a request that failed
            }
            match kind {
                NLMSG_ERROR => return refusal(body, flags).map_or(Ok(true), Err),
                NLMSG_DONE => return Ok(true),
                _ => answers.push(body.to_vec()),
            }
        }
        Ok(false)
    }
}

/// Refusal in an error message; `None` for an acknowledgement.
fn refusal(body: &[u8], flags: u16) -> Option<Refusal> {
    let Some(errno) = attributes::u32_at(body, 0) else { return Some(Refusal::Incomplete("its errno")) };
    if errno == 0 {
        return None;
    }
    let has_text = flags & NLM_F_ACK_TLVS != 0;
    let tlvs = body.get(4 + HEADER_BYTES..).filter(|_| has_text).unwrap_or_default();
    let text = attributes::find(tlvs, NLMSGERR_ATTR_MSG);
    let text = text.map(|text| String::from_utf8_lossy(text).trim_end_matches('\0').to_owned());
    Some(Refusal::Kernel { error: io::Error::from_raw_os_error(errno.cast_signed().wrapping_neg()), text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_the_kernel_said() {
        let mut body = (-22_i32).to_ne_bytes().to_vec();
        body.extend([0; HEADER_BYTES]);
        let body = attributes::Attributes::after(body).string(NLMSGERR_ATTR_MSG, "no such thing").into_bytes();
        let said = refusal(&body, NLM_F_ACK_TLVS).unwrap().to_string();
        assert_eq!(said, "the kernel said: Invalid argument (os error 22) (no such thing)");
        let said = refusal(&body, 0).unwrap().to_string();
        assert_eq!(said, "the kernel said: Invalid argument (os error 22)");
        assert!(refusal(&[0; 20], 0).is_none());
        assert!(refusal(&[], 0).is_some());
    }
}
