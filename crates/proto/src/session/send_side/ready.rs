//! A chosen symbol, until it has been sent.

use std::collections::VecDeque;

use dfcp_time::Time;
use dfcp_wire::StreamId;
use dfcp_wire::segment::Data;

use super::SendSide;
use super::scheduler::Scheduler;
use super::streams::SendEvent;
use crate::path::Path;
use crate::path::in_flight::{Carried, Sent};
use crate::stream::send::SendStream;
use crate::stream::send::parts::Parts;
use crate::stream::send::shared::SendShared;
use crate::stream::send::symbol::{CodeError, Reason, Symbol};

/// A symbol, or a part of one, that is to be sent now. It borrows its stream, so the stream is looked up once and
/// cannot disappear before the symbol has been written and sent. If dropped, the symbol counts as not sent, and is
/// chosen again.
#[derive(Debug)]
#[must_use]
pub(crate) struct Ready<'a> {
    symbol: Symbol,
    stream: &'a mut SendStream,
    parts: &'a mut Option<Box<Parts>>,
    shared: &'a mut SendShared,
    scheduler: &'a mut Scheduler,
    events: &'a mut VecDeque<(StreamId, SendEvent)>,
}

impl<'a> Ready<'a> {
    /// Returns `None` if the symbol's stream no longer exists.
    pub(super) fn new(side: &'a mut SendSide, symbol: Symbol) -> Option<Self> {
        let SendSide { streams, parts, shared, scheduler, events, .. } = side;
        let stream = streams.get_mut(symbol.stream)?;
        Some(Self { symbol, stream, parts, shared, scheduler, events })
    }

    /// Returns the header of the symbol's segment.
    pub(crate) fn segment(&self) -> Data {
        let Symbol { stream, block_id, esi, info: block, fragment, .. } = self.symbol;
        Data { stream, block_id, esi, block, fragment }
    }

    /// Payload bytes to be written.
    pub(crate) fn payload_bytes(&self) -> usize {
        self.shared.codec.carried_bytes(self.symbol.symbol_size)
    }

    /// Bytes that count as sent.
    pub(crate) fn symbol_bytes(&self) -> usize {
        self.symbol.symbol_size
    }

    #[cfg(test)]
    pub(super) fn reason(&self) -> Reason {
        self.symbol.reason
    }

    /// Writes the payload into `out`, which must have exactly [`payload_bytes`](Self::payload_bytes) bytes.
    ///
    /// # Errors
    /// If the block has no such symbol.
    pub(crate) fn write(&mut self, out: &mut [u8]) -> Result<(), CodeError> {
        let Self { symbol, stream, parts, shared, .. } = self;
        match parts {
            Some(parts) if !symbol.fragment.is_whole() => {
                let whole = parts.whole;
                let whole_bytes = shared.codec.carried_bytes(whole.symbol_size);
                parts.write(whole_bytes, |out| stream.write_symbol(whole, out), out)
            }
            Some(_) | None => stream.write_symbol(*symbol, out),
        }
    }

    /// Records that the symbol was sent over `path` as datagram `number`.
    pub(crate) fn sent(self, now: Time, path: &mut Path, number: u64) {
        let Self { symbol: part, stream, parts, shared, scheduler, events } = self;
        scheduler.on_sent(part.stream, part.symbol_size);
        let symbol = match parts {
            // A symbol counts as sent when its last part is sent.
            Some(begun) if !part.fragment.is_whole() => {
                if !begun.on_sent() {
                    return path.flight_mut().on_part_sent(now);
                }
                let whole = begun.whole;
                *parts = None;
                whole
            }
            Some(_) | None => part,
        };
        stream.on_sent(now, symbol, path.flight().loss().high(), shared);
        let what = Carried::Symbol { stream: symbol.stream, block_id: symbol.block_id };
        path.on_symbol_sent(Sent::new(number, now, what), symbol.reason == Reason::Probe);
        if stream.wakes_writer(path.flight(), shared) {
            events.push_back((symbol.stream, SendEvent::Writable));
        }
    }
}
