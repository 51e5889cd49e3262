//! FIFO queue that drops arriving packets when full.

use std::collections::VecDeque;

use super::DropCause;
use super::limit::QueueLimit;
use crate::packet::Packet;

#[derive(Clone, Debug)]
pub(super) struct DropTailQueue<P> {
    packets: VecDeque<P>,
    bytes: u64,
}

impl<P: Packet> DropTailQueue<P> {
    pub(super) fn new() -> Self {
        Self { packets: VecDeque::new(), bytes: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn push(&mut self, packet: P, limit: QueueLimit, on_drop: &mut impl FnMut(P, DropCause)) {
        let size_bytes = packet.size_bytes();
        if !limit.admits(self.packets.len(), self.bytes, size_bytes) {
            on_drop(packet, DropCause::Full);
            return;
        }
        self.bytes += u64::from(size_bytes);
        self.packets.push_back(packet);
    }

    pub(super) fn pop(&mut self) -> Option<P> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.size_bytes());
        Some(packet)
    }
}
