//! Both ends of a model. Each message is one datagram over UDP, with a header as long as SRT's. There is no handshake.

use std::collections::VecDeque;

use dfcp_time::Time;

use super::{
    MODEL_BYTES_MAX, MODEL_HEADER_BYTES, Messages, MessagesError, ModelSegment, Received, Schedule, Sent, Tally, arq,
    fec,
};

/// Loss recovery of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Fixed FEC without requests: 10 repair datagrams follow every 20 messages, and any 20 of the 30 recover all
    /// messages.
    Fec,
    /// ARQ: lost messages are requested again until their deadline.
    Arq,
}

/// Configuration of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelConfig {
    /// Messages to be sent.
    pub messages: Messages,
    /// Loss recovery.
    pub recovery: Recovery,
}

/// Sender or receiver of a model.
#[derive(Debug)]
pub struct ModelEnd {
    side: Side,
    bytes: u32,
    /// Segments waiting to be sent.
    queue: VecDeque<ModelSegment>,
}

#[derive(Debug)]
enum Side {
    Sender { schedule: Schedule, has_repairs: bool, datagrams: u64 },
    Receiver { decoder: Decoder, messages: Messages, tally: Tally },
}

#[derive(Debug)]
enum Decoder {
    Fec(fec::Receiver),
    Arq(arq::Receiver),
}

impl ModelEnd {
    pub(crate) fn pair(config: ModelConfig, flow_bytes: Option<u64>) -> Result<[Self; 2], MessagesError> {
        let ModelConfig { messages, recovery } = config;
        messages.validate(MODEL_BYTES_MAX)?;
        if messages.beside_stream {
            return Err(MessagesError::Stream);
        }
        if flow_bytes.is_some() {
            return Err(MessagesError::Sized);
        }
        let decoder = match recovery {
            Recovery::Fec => Decoder::Fec(fec::Receiver::new(messages)),
            Recovery::Arq => Decoder::Arq(arq::Receiver::new(messages)),
        };
        let schedule = Schedule::new(messages);
        let sender = Side::Sender { schedule, has_repairs: recovery == Recovery::Fec, datagrams: 0 };
        let receiver = Side::Receiver { decoder, messages, tally: Tally::new(messages.deadline) };
        Ok([sender, receiver].map(|side| Self { side, bytes: messages.bytes, queue: VecDeque::new() }))
    }

    pub(crate) fn handle_segment(&mut self, now: Time, segment: ModelSegment) {
        let queue = &mut self.queue;
        match (&mut self.side, segment) {
            (Side::Sender { schedule, .. }, ModelSegment::Nak { number }) if schedule.is_open(number, now) => {
                queue.push_back(ModelSegment::Data { number, began: schedule.begin(now) });
            }
            (Side::Receiver { decoder, messages, tally }, ModelSegment::Data { number, began }) => {
                let complete = match decoder {
                    Decoder::Fec(fec) => fec.on_data(now, number, began),
                    Decoder::Arq(arq) => {
                        let is_new =
                            arq.on_data(now, number, began, |number| queue.push_back(ModelSegment::Nak { number }));
                        is_new.then_some(number).into_iter().collect()
                    }
                };
                complete.into_iter().for_each(|number| tally.complete(now, messages.handed_over_at(began, number)));
            }
            (Side::Receiver { decoder: Decoder::Fec(fec), messages, tally }, ModelSegment::Repair { group, began }) => {
                let complete = fec.on_repair(now, group, began);
                complete.into_iter().for_each(|number| tally.complete(now, messages.handed_over_at(began, number)));
            }
            _ => {}
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        let queue = &mut self.queue;
        match &mut self.side {
            Side::Sender { schedule, has_repairs, .. } => {
                let began = schedule.begin(now);
                while let Some(number) = schedule.take(now) {
                    queue.push_back(ModelSegment::Data { number, began });
                    if *has_repairs && (number + 1).is_multiple_of(fec::SOURCE) {
                        let repair = ModelSegment::Repair { group: number / fec::SOURCE, began };
                        queue.extend((0..fec::REPAIR).map(|_| repair));
                    }
                }
            }
            Side::Receiver { decoder: Decoder::Arq(arq), .. } => {
                arq.handle_timeout(now, |number| queue.push_back(ModelSegment::Nak { number }));
            }
            Side::Receiver { .. } => {}
        }
    }

    /// Returns the next segment, and the size of its IP packet in bytes.
    pub(crate) fn poll_transmit(&mut self) -> Option<(u32, ModelSegment)> {
        let segment = self.queue.pop_front()?;
        if let Side::Sender { datagrams, .. } = &mut self.side {
            *datagrams += 1;
        }
        let payload_bytes = match segment {
            ModelSegment::Data { .. } | ModelSegment::Repair { .. } => self.bytes,
            // The request contains the number of the missing message.
            ModelSegment::Nak { .. } => 4,
        };
        Some((MODEL_HEADER_BYTES + payload_bytes, segment))
    }

    pub(crate) fn next_timeout(&self, now: Time) -> Option<Time> {
        if !self.queue.is_empty() {
            return Some(now);
        }
        match &self.side {
            Side::Sender { schedule, .. } => schedule.next_at(),
            Side::Receiver { decoder: Decoder::Arq(arq), .. } => arq.next_timeout(),
            Side::Receiver { .. } => None,
        }
    }

    pub(crate) fn sent(&self, now: Time) -> Option<Sent> {
        match &self.side {
            Side::Sender { schedule, datagrams, .. } => Some(schedule.sent(now, *datagrams)),
            Side::Receiver { .. } => None,
        }
    }

    pub(crate) fn received(&self, now: Time) -> Option<Received> {
        match &self.side {
            Side::Sender { .. } => None,
            Side::Receiver { tally, .. } => Some(tally.received(now, 0)),
        }
    }

    pub(crate) fn delivered_bytes(&self) -> u64 {
        match &self.side {
            Side::Sender { .. } => 0,
            Side::Receiver { tally, .. } => tally.delivered() * u64::from(self.bytes),
        }
    }
}
