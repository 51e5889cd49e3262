//! End of a flow with any transport.

use dfcp_netem::Ecn;
use dfcp_time::Time;

use crate::config::{FlowError, Transport};
use crate::dfcp::DfcpEnd;
use crate::messages::{self, ModelEnd, Received, Sent};
use crate::packet::{Body, Datagram};
use crate::quic::QuicEnd;
use crate::tcp;
use crate::web::{self, WebReceiver, WebSender};

/// Scratch size: the longest message.
const SCRATCH_BYTES: usize = messages::DFCP_BYTES_MAX as usize;

/// Scratch memory shared by all ends, so that it stays in the cache.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// Buffer of [`SCRATCH_BYTES`].
    pub(crate) bytes: Box<[u8]>,
    /// Buffers of received datagrams, for reuse.
    pub(crate) spare: Vec<Vec<u8>>,
}

impl Default for Scratch {
    fn default() -> Self {
        Self { bytes: vec![0; SCRATCH_BYTES].into(), spare: Vec::new() }
    }
}

/// Packet that an end sends.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) size_bytes: u32,
    pub(crate) ecn: Ecn,
    pub(crate) body: Body,
}

/// End of a flow.
#[derive(Debug)]
pub enum End {
    /// Sending TCP model.
    TcpSender(Box<tcp::Sender>),
    /// Receiving TCP model.
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
    /// Both ends of a flow of `bytes`: sender, receiver.
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

    /// Processes a packet; `from` is the number of its source address, `ecn` its codepoint on arrival.
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
            // Packets match the flow's transport.
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

    /// Next packet that may be sent now.
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

    /// Number of the address that the last polled packet goes to.
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

    /// Time of the next poll or timer, for an end whose interface is full.
    pub(crate) fn asks_again(&self, now: Time) -> Option<Time> {
        match self {
            // QUIC must build a packet to know whether it has one.
            Self::Quic(_) => Some(now),
            _ => self.next_timeout(now),
        }
    }

    /// Time until which an end that has just sent has nothing more to send, if known.
    pub(crate) fn quiet_until(&self, now: Time) -> Option<Time> {
        match self {
            Self::Dfcp(end) => end.next_timeout(now).filter(|&at| at > now),
            _ => None,
        }
    }

    /// True if the end sends as fast as its interface takes packets, and must be polled only while there is room. QUIC is limited by its
    /// socket, which fills long before its window: otherwise, on a path without loss, the queue would grow with the window for ever.
    pub(crate) fn waits_for_uplink(&self) -> bool {
        match self {
            Self::Quic(_) => true,
            Self::Dfcp(end) => end.waits_for_uplink(),
            _ => false,
        }
    }

    /// True if the end must know the interface's queue before it is polled.
    pub(crate) fn minds_uplink(&self) -> bool {
        matches!(self, Self::TcpSender(_) | Self::WebSender(_))
    }

    /// Records the number of packets queued at the sender's interface.
    pub(crate) fn note_uplink(&mut self, packets: usize) {
        match self {
            Self::TcpSender(sender) => sender.note_device_queue(packets),
            Self::WebSender(sender) => sender.note_device_queue(packets),
            _ => {}
        }
    }

    /// True if the end has more to send when the next packet has left the interface.
    pub(crate) fn resumes_by_uplink(&self) -> bool {
        match self {
            Self::TcpSender(sender) => sender.waits_for_device(),
            Self::WebSender(sender) => sender.waits_for_device(),
            _ => false,
        }
    }

    /// Delivered application bytes: of streams in order, of messages on time.
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

    /// True once this end knows that the other has received everything.
    pub(crate) fn is_confirmed(&self) -> bool {
        match self {
            Self::TcpSender(sender) => sender.is_finished(),
            // Web traffic lasts for the whole run.
            Self::TcpReceiver(_) | Self::Model(_) | Self::WebSender(_) | Self::WebReceiver(_) => false,
            Self::Dfcp(end) => end.is_confirmed(),
            Self::Quic(end) => end.is_confirmed(),
        }
    }

    /// Counters of an end that sends messages.
    pub(crate) fn messages_sent(&self, now: Time) -> Option<Sent> {
        match self {
            Self::Dfcp(end) => end.messages_sent(now),
            Self::Model(end) => end.sent(now),
            _ => None,
        }
    }

    /// Counters of an end that receives messages.
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
