//! One end of a flow, whatever its transport.

use dfcp_time::Time;

use crate::dfcp::DfcpEnd;
use crate::flow::{FlowError, Transport};
use crate::packet::Body;
use crate::quic::QuicEnd;
use crate::tcp;

/// One end of a flow.
#[derive(Debug)]
pub enum End {
    /// A TCP model which sends.
    TcpSender(Box<tcp::Sender>),
    /// A TCP model which receives.
    TcpReceiver(Box<tcp::Receiver>),
    /// DFCP, either way.
    Dfcp(Box<DfcpEnd>),
    /// QUIC, either way.
    Quic(Box<QuicEnd>),
}

impl End {
    /// The two ends of a flow of `bytes`: sender, receiver.
    pub(crate) fn pair(transport: Transport, bytes: Option<u64>, seed: u64) -> Result<[Self; 2], FlowError> {
        match transport {
            Transport::Tcp(config) => {
                let sender = tcp::Sender::new(config, bytes, seed)?;
                Ok([Self::TcpSender(Box::new(sender)), Self::TcpReceiver(Box::new(tcp::Receiver::new(config)?))])
            }
            Transport::Dfcp(config) => {
                let [sender, receiver] = DfcpEnd::pair(*config, bytes, seed)?;
                Ok([Self::Dfcp(Box::new(sender)), Self::Dfcp(Box::new(receiver))])
            }
            Transport::Quic(config) => {
                let [sender, receiver] = QuicEnd::pair(config, bytes, seed)?;
                Ok([Self::Quic(Box::new(sender)), Self::Quic(Box::new(receiver))])
            }
        }
    }

    pub(crate) fn handle_packet(&mut self, now: Time, body: Body, spare: &mut Vec<Vec<u8>>) {
        match (self, body) {
            (Self::TcpSender(sender), Body::Tcp(segment)) => sender.on_segment(now, &segment),
            (Self::TcpReceiver(receiver), Body::Tcp(segment)) => receiver.on_segment(now, &segment),
            (Self::Dfcp(end), Body::Datagram(mut bytes)) => {
                end.handle_datagram(now, &mut bytes);
                spare.push(bytes);
            }
            (Self::Quic(end), Body::Quic(bytes)) => {
                end.handle_datagram(now, &bytes);
                spare.push(bytes);
            }
            // A flow's packets are of its own transport.
            (Self::TcpSender(_) | Self::TcpReceiver(_) | Self::Dfcp(_) | Self::Quic(_), _) => {}
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        match self {
            Self::TcpSender(sender) => sender.handle_timeout(now),
            Self::TcpReceiver(receiver) => receiver.handle_timeout(now),
            Self::Dfcp(end) => end.handle_timeout(now),
            Self::Quic(end) => end.handle_timeout(now),
        }
    }

    /// The next packet which may leave now, and its size.
    pub(crate) fn poll_transmit(&mut self, now: Time, spare: &mut Vec<Vec<u8>>) -> Option<(u32, Body)> {
        match self {
            Self::TcpSender(sender) => sender.poll_transmit(now).map(tcp_packet),
            Self::TcpReceiver(receiver) => receiver.poll_transmit(now).map(tcp_packet),
            Self::Dfcp(end) => with_buffer(spare, Body::Datagram, |bytes| end.poll_transmit(now, bytes)),
            Self::Quic(end) => with_buffer(spare, Body::Quic, |bytes| end.poll_transmit(now, bytes)),
        }
    }

    pub(crate) fn next_timeout(&self, now: Time) -> Option<Time> {
        match self {
            Self::TcpSender(sender) => sender.next_timeout(),
            Self::TcpReceiver(receiver) => receiver.next_timeout(),
            Self::Dfcp(end) => end.next_timeout(now),
            Self::Quic(end) => end.next_timeout(),
        }
    }

    /// Whether it sends as fast as its interface takes packets, and so must not be asked for more than that.
    pub(crate) fn waits_for_uplink(&self) -> bool {
        match self {
            Self::TcpSender(_) | Self::TcpReceiver(_) | Self::Quic(_) => false,
            Self::Dfcp(end) => end.waits_for_uplink(),
        }
    }

    /// Application bytes which this end has been given, in order.
    pub(crate) fn delivered_bytes(&self) -> u64 {
        match self {
            Self::TcpSender(_) => 0,
            Self::TcpReceiver(receiver) => receiver.stats().delivered_bytes,
            Self::Dfcp(end) => end.delivered_bytes(),
            Self::Quic(end) => end.delivered_bytes(),
        }
    }

    /// Whether this end knows that the other has got all.
    pub(crate) fn is_confirmed(&self) -> bool {
        match self {
            Self::TcpSender(sender) => sender.is_finished(),
            Self::TcpReceiver(_) => false,
            Self::Dfcp(end) => end.is_confirmed(),
            Self::Quic(end) => end.is_confirmed(),
        }
    }

    pub(crate) fn failure(&self) -> Option<String> {
        match self {
            Self::TcpSender(_) | Self::TcpReceiver(_) => None,
            Self::Dfcp(end) => end.failure(),
            Self::Quic(end) => end.failure(),
        }
    }
}

fn tcp_packet(segment: tcp::Segment) -> (u32, Body) {
    (segment.wire_bytes, Body::Tcp(segment))
}

/// Lets `poll` write a packet into a buffer which was used before, if there is one, and say its size.
fn with_buffer(
    spare: &mut Vec<Vec<u8>>,
    body: impl FnOnce(Vec<u8>) -> Body,
    poll: impl FnOnce(&mut Vec<u8>) -> Option<u32>,
) -> Option<(u32, Body)> {
    let mut bytes = spare.pop().unwrap_or_default();
    match poll(&mut bytes) {
        Some(size_bytes) => Some((size_bytes, body(bytes))),
        None => {
            spare.push(bytes);
            None
        }
    }
}
