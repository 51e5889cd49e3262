//! Streams of one session that are written and read concurrently. Like the [`Flow`](super::Flow) around them, they allocate nothing once
//! they are open.

use anyhow::{Context, Result, ensure};
use dfcp_proto::{Connection, Read, StreamEvent, StreamId, StreamKind};
use dfcp_time::Time;

/// One stream at both ends.
#[derive(Debug)]
struct Lane {
    id: StreamId,
    written: u64,
    read: u64,
    is_writable: bool,
    /// True once the first datagram has arrived.
    is_accepted: bool,
}

/// All streams.
#[derive(Debug, Default)]
pub(super) struct Lanes(Vec<Lane>);

impl Lanes {
    /// Opens `count` streams in an open session.
    ///
    /// # Errors
    /// Fails if there is not enough credit.
    pub(super) fn open(sender: &mut Connection, count: u32) -> Result<Self> {
        let mut streams = sender.streams();
        let lane = |id| Lane { id, written: 0, read: 0, is_writable: true, is_accepted: false };
        (0..count).map(|_| Ok(lane(streams.open(StreamKind::OneWay)?))).collect::<Result<_>>().map(Self)
    }

    pub(super) fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    fn find(&mut self, id: StreamId) -> Option<&mut Lane> {
        self.0.iter_mut().find(|lane| lane.id == id)
    }

    /// Writes `content`, repeatedly, to each stream as long as it accepts data.
    pub(super) fn write(&mut self, now: Time, sender: &mut Connection, content: &[u8]) {
        let mut streams = sender.streams();
        while let Some(event) = streams.poll_event() {
            if let StreamEvent::Writable(id) = event
                && let Some(lane) = self.find(id)
            {
                lane.is_writable = true;
            }
        }
        for lane in &mut self.0 {
            while lane.is_writable {
                let piece = &content[(lane.written % content.len() as u64) as usize..];
                let taken = streams.write(now, lane.id, piece).unwrap_or_default();
                lane.written += taken as u64;
                lane.is_writable = taken == piece.len();
            }
        }
    }

    /// Reads and checks all available data of each stream, using `buffer`.
    ///
    /// # Errors
    /// Fails if a byte is wrong, or a stream or the session has ended.
    pub(super) fn read(
        &mut self,
        now: Time,
        receiver: &mut Connection,
        buffer: &mut [u8],
        content: &[u8],
    ) -> Result<()> {
        let mut streams = receiver.streams();
        while streams.poll_event().is_some() {}
        while let Some(id) = streams.accept() {
            self.find(id).context("a stream which was not opened")?.is_accepted = true;
        }
        for lane in self.0.iter_mut().filter(|lane| lane.is_accepted) {
            loop {
                let from = (lane.read % content.len() as u64) as usize;
                let room = buffer.len().min(content.len() - from);
                let Read::Bytes(count) = streams.read(now, lane.id, &mut buffer[..room])? else { break };
                ensure!(buffer[..count] == content[from..from + count], "wrong bytes behind byte {}", lane.read);
                lane.read += count as u64;
            }
        }
        Ok(())
    }
}
