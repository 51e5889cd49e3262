//! The socket's queue of ICMP messages with the datagrams that they quote (Linux error queue).

use std::io::IoSliceMut;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use nix::cmsg_space;
use nix::errno::Errno;
use nix::libc::{ECONNREFUSED, sock_extended_err, sockaddr_in6};
use nix::sys::socket::sockopt::{Ipv4RecvErr, Ipv6RecvErr};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt};

use super::{Message, QUESTION_BYTES};

/// Enables the error queue of this socket. Without it, ICMP messages are reported only as errors of calls.
pub(super) fn keep_messages(socket: &UdpSocket, is_ipv4: bool) {
    let kept = if is_ipv4 { setsockopt(socket, Ipv4RecvErr, &true) } else { setsockopt(socket, Ipv6RecvErr, &true) };
    if let Err(error) = kept {
        tracing::debug!(%error, "no refusal can be told from a forged one");
    }
}

/// Returns the next message, or `None` if the queue is empty or not enabled.
pub(super) fn message(socket: &UdpSocket, question: &[u8]) -> Option<Message> {
    let mut repeated = [0; QUESTION_BYTES];
    let mut control = cmsg_space!(sock_extended_err, sockaddr_in6);
    let mut parts = [IoSliceMut::new(&mut repeated)];
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    let (repeated_bytes, is_refusal) =
        match recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(&mut control), flags) {
            Ok(received) => {
                (received.bytes, received.cmsgs().is_ok_and(|mut messages| messages.any(|it| refuses(&it))))
            }
            Err(Errno::EINTR) => return Some(Message::Other),
            Err(_nothing) => return None,
        };
    if !is_refusal {
        return Some(Message::Other);
    }
    let is_proven = repeated.get(..repeated_bytes).is_some_and(|repeated| repeated == question);
    Some(Message::Refusal { is_proven })
}

fn refuses(message: &ControlMessageOwned) -> bool {
    let (ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _)) = message else {
        return false;
    };
    i32::try_from(error.ee_errno).is_ok_and(|number| number == ECONNREFUSED)
}
