//! End of a flow, for any transport.

use dfcp_netem::Ecn;
use dfcp_time::Time;

use crate::config::{FlowError, Transport};
use crate::dfcp::DfcpEnd;
use crate::messages::{self, ModelEnd, Received, Sent};
use crate::packet::{Body, Datagram};
use crate::quic::QuicEnd;
use crate::tcp;
use crate::web::{self, WebReceiver, WebSender};

/// Length of the scratch buffer, bytes: that of the longest message.
const SCRATCH_BYTES: usize = messages::DFCP_BYTES_MAX as usize;

/// Scratch memory shared by all ends, so that it stays in the CPU cache.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// Scratch buffer of [`SCRATCH_BYTES`].
    pub(crate) bytes: Box<[u8]>,
    /// Unused buffers for datagrams.
    pub(crate) spare: Vec<Vec<u8>>,
}

impl Default for Scratch {
    fn default() -> Self {
        Self { bytes: vec![0; SCRATCH_BYTES].into(), spare: Vec::new() }
    }
}

/// Packet that an end is sending.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) size_bytes: u32,
    pub(crate) ecn: Ecn,
    pub(crate) body: Body,
}

/// End of a flow.
#[derive(Debug)]
pub enum End {
    /// Sender of the TCP model.
    TcpSender(Box<tcp::Sender>),
    /// Receiver of the TCP model.
    TcpReceiver(Box<tcp::Receiver>),
    /// DFCP sender or receiver.
    Dfcp(Box<DfcpEnd>),
    /// QUIC sender or receiver.
    Quic(Box<QuicEnd>),
    /// Model of a message transport, sender or receiver.
    Model(Box<ModelEnd>),
    /// Sender of web traffic.
    WebSender(Box<WebSender>),
    /// Receiver of web traffic.
    WebReceiver(Box<WebReceiver>),
}

impl End {
    /// Creates both ends of a flow of `bytes`: sender, receiver.
    pub(crate) fn pair(transport: Transport, bytes: Option<u64>, seed: u64) -> Result<[Self; 2], FlowError> {
        match transport {
            Transport::Tcp(config) => {
                let sender = tcp::Sender::new(config, bytes, seed)?;
                Ok([Self::TcpSender(Box::new(sender)), Self::TcpReceiver(Box::new(tcp::Receiver::new(config)?))])
            }
            Transport::Dfcp(config) => {
                config.validate_messages(bytes)?;
                let [sender, receiver] = DfcpEnd::pair(*config, bytes, seed)?;
                Ok([Self::Dfcp(Box::new(sender)), Self::Dfcp(Box::new(receiver))])
            }
            Transport::Quic(config) => {
                let [sender, receiver] = QuicEnd::pair(config, bytes, seed)?;
                Ok([Self::Quic(Box::new(sender)), Self::Quic(Box::new(receiver))])
            }
            Transport::Model(config) => Ok(ModelEnd::pair(config, bytes)?.map(|end| Self::Model(Box::new(end)))),
            Transport::Web(config) => {
                config.tcp.validate()?;
                let (sender, receiver) = web::pair(config, bytes, seed)?;
                Ok([Self::WebSender(Box::new(sender)), Self::WebReceiver(Box::new(receiver))])
            }
        }
    }

    /// Processes a packet. `from` is the number of its source address, `ecn` its ECN codepoint on arrival.
    pub(crate) fn handle_packet(&mut self, now: Time, from: u16, ecn: Ecn, mut body: Body, scratch: &mut Scratch) {
        if let Body::Tcp(segment) | Body::Web { segment, .. } = &mut body {
            segment.ecn = ecn;
        }
        match (self, body) {
            (Self::TcpSender(sender), Body::Tcp(segment)) => sender.on_segment(now, &segment),
            (Self::TcpReceiver(receiver), Body::Tcp(segment)) => receiver.on_segment(now, &segment),
            (Self::Dfcp(end), Body::Datagram(mut bytes)) => {
                end.handle_datagram(now, from, ecn, &mut bytes, &mut scratch.bytes);
                bytes.recycle(&mut scratch.spare);
            }
            (Self::Quic(end), Body::Quic(bytes)) => {
                end.handle_datagram(now, from, &bytes);
                scratch.spare.push(bytes);
            }
            (Self::Model(end), Body::Model(segment)) => end.handle_segment(now, segment),
            (Self::WebSender(sender), Body::Web { connection, segment }) => {
                sender.on_segment(now, connection, &segment)
            }
            (Self::WebReceiver(receiver), Body::Web { connection, segment }) => {
                receiver.on_segment(now, connection, &segment);
            }
            // Unreachable: packets always match their flow's transport.
            (
                Self::TcpSender(_)
                | Self::TcpReceiver(_)
                | Self::Dfcp(_)
                | Self::Quic(_)
                | Self::Model(_)
                | Self::WebSender(_)
                | Self::WebReceiver(_),
                _,
            ) => {}
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Time, scratch: &mut Scratch) {
        match self {
            Self::TcpSender(sender) => sender.handle_timeout(now),
            Self::TcpReceiver(receiver) => receiver.handle_timeout(now),
            Self::Dfcp(end) => end.handle_timeout(now, &mut scratch.bytes),
            Self::Quic(end) => end.handle_timeout(now),
            Self::Model(end) => end.handle_timeout(now),
            Self::WebSender(sender) => sender.handle_timeout(now),
            Self::WebReceiver(receiver) => receiver.handle_timeout(now),
        }
    }

    /// Returns the next packet that may be sent now.
    pub(crate) fn poll_transmit(&mut self, now: Time, scratch: &mut Scratch) -> Option<Outgoing> {
        let unmarked = |size_bytes, body| Outgoing { size_bytes, ecn: Ecn::NotEct, body };
        match self {
            Self::TcpSender(sender) => sender.poll_transmit(now).map(tcp_packet),
            Self::TcpReceiver(receiver) => receiver.poll_transmit(now).map(tcp_packet),
            Self::Dfcp(end) => {
                let (length, size_bytes, ecn) = end.poll_transmit(now, &mut scratch.bytes)?;
                let datagram = Datagram::copy(&scratch.bytes[..length], &mut scratch.spare);
                Some(Outgoing { size_bytes, ecn, body: Body::Datagram(datagram) })
            }
            Self::Quic(end) => {
                let mut bytes = scratch.spare.pop().unwrap_or_default();
                if let Some(size_bytes) = end.poll_transmit(now, &mut bytes) {
                    return Some(unmarked(size_bytes, Body::Quic(bytes)));
                }
                scratch.spare.push(bytes);
                None
            }
            Self::Model(end) => {
                end.poll_transmit().map(|(size_bytes, segment)| unmarked(size_bytes, Body::Model(segment)))
            }
            Self::WebSender(sender) => sender.poll_transmit(now).map(web_packet),
            Self::WebReceiver(receiver) => receiver.poll_transmit(now).map(web_packet),
        }
    }

    /// Returns the number of the destination address of the last polled packet.
    pub(crate) fn sends_to(&self) -> u16 {
        match self {
            Self::Dfcp(end) => end.sends_to(),
            Self::Quic(end) => end.sends_to(),
            _ => 0,
        }
    }

    pub(crate) fn next_timeout(&self, now: Time) -> Option<Time> {
        match self {
            Self::TcpSender(sender) => sender.next_timeout(),
            Self::TcpReceiver(receiver) => receiver.next_timeout(),
            Self::Dfcp(end) => end.next_timeout(now),
            Self::Quic(end) => end.next_timeout(),
            Self::Model(end) => end.next_timeout(now),
            Self::WebSender(sender) => sender.next_timeout(),
            Self::WebReceiver(receiver) => receiver.next_timeout(),
        }
    }

    /// Returns the time at which to poll again an end that may not send now because its interface is full.
    pub(crate) fn asks_again(&self, now: Time) -> Option<Time> {
        match self {
            // QUIC must build a packet to find out whether it has one.
            Self::Quic(_) => Some(now),
            _ => self.next_timeout(now),
        }
    }

    /// Called after a packet was sent: returns the time until which the end has nothing more to send, if that is known.
    pub(crate) fn quiet_until(&self, now: Time) -> Option<Time> {
        match self {
            Self::Dfcp(end) => end.next_timeout(now).filter(|&at| at > now),
            _ => None,
        }
    }

    /// Returns true if the end sends as fast as its interface accepts packets, so that it must be polled only while the
    /// interface has room. A real QUIC sender is limited by its socket, which is full long before the window is.
    /// Without this, the queue would grow with the window for ever on a path without loss.
    pub(crate) fn waits_for_uplink(&self) -> bool {
        match self {
            Self::Quic(_) => true,
            Self::Dfcp(end) => end.waits_for_uplink(),
            _ => false,
        }
    }

    /// Returns true if the end must know the length of its interface's queue before it is polled.
    pub(crate) fn minds_uplink(&self) -> bool {
        matches!(self, Self::TcpSender(_) | Self::WebSender(_))
    }

    /// Tells the end the number of packets queued at its interface.
    pub(crate) fn note_uplink(&mut self, packets: usize) {
        match self {
            Self::TcpSender(sender) => sender.note_device_queue(packets),
            Self::WebSender(sender) => sender.note_device_queue(packets),
            _ => {}
        }
    }

    /// Returns true if the end can send more as soon as the next packet has left the interface.
    pub(crate) fn resumes_by_uplink(&self) -> bool {
        match self {
            Self::TcpSender(sender) => sender.waits_for_device(),
            Self::WebSender(sender) => sender.waits_for_device(),
            _ => false,
        }
    }

    /// Returns the application bytes delivered: of streams in order, of messages on time.
    pub(crate) fn delivered_bytes(&self) -> u64 {
        match self {
            Self::TcpSender(_) | Self::WebSender(_) => 0,
            Self::TcpReceiver(receiver) => receiver.stats().delivered_bytes,
            Self::WebReceiver(receiver) => receiver.delivered_bytes(),
            Self::Dfcp(end) => end.delivered_bytes(),
            Self::Quic(end) => end.delivered_bytes(),
            Self::Model(end) => end.delivered_bytes(),
        }
    }

    /// Returns true once this end knows that the other end has received everything.
    pub(crate) fn is_confirmed(&self) -> bool {
        match self {
            Self::TcpSender(sender) => sender.is_finished(),
            // Web traffic and models last for the whole simulation. A TCP receiver does not learn of the confirmation.
            Self::TcpReceiver(_) | Self::Model(_) | Self::WebSender(_) | Self::WebReceiver(_) => false,
            Self::Dfcp(end) => end.is_confirmed(),
            Self::Quic(end) => end.is_confirmed(),
        }
    }

    /// Returns the sender's counts of messages; `None` for other ends.
    pub(crate) fn messages_sent(&self, now: Time) -> Option<Sent> {
        match self {
            Self::Dfcp(end) => end.messages_sent(now),
            Self::Model(end) => end.sent(now),
            _ => None,
        }
    }

    /// Returns the receiver's counts of messages; `None` for other ends.
    pub(crate) fn messages_received(&self, now: Time) -> Option<Received> {
        match self {
            Self::Dfcp(end) => end.messages_received(now),
            Self::Model(end) => end.received(now),
            _ => None,
        }
    }

    pub(crate) fn failure(&self) -> Option<String> {
        match self {
            Self::Dfcp(end) => end.failure(),
            Self::Quic(end) => end.failure(),
            _ => None,
        }
    }
}

fn tcp_packet(segment: tcp::Segment) -> Outgoing {
    Outgoing { size_bytes: segment.wire_bytes, ecn: segment.ecn, body: Body::Tcp(Box::new(segment)) }
}

fn web_packet((connection, segment): (u32, tcp::Segment)) -> Outgoing {
    let body = Body::Web { connection, segment: Box::new(segment) };
    Outgoing { size_bytes: segment.wire_bytes, ecn: segment.ecn, body }
}
