//! An application that uses the streams of a session other than the first.

use std::collections::BTreeMap;

use dfcp_proto::{Connection, Read, StreamId, StreamKind};
use dfcp_testkit::Pattern;
use dfcp_time::Time;

use crate::input::Input;

/// An action on a stream.
#[derive(Clone, Copy, Debug)]
pub enum StreamAction {
    /// Open a stream of this kind.
    Open(StreamKind),
    /// Write some bytes.
    Write,
    /// Read some bytes.
    Read,
    /// Finish our half.
    Finish,
    /// Reset our half.
    Reset,
    /// Request the peer to stop its half.
    Stop,
    /// Poll events, and accept streams.
    Accept,
}

/// Bytes written to and read from each stream.
#[derive(Debug, Default)]
pub struct SideStreams {
    offsets: BTreeMap<StreamId, (u64, u64)>,
}

impl SideStreams {
    /// Executes an action on a stream from the input, which may be gone or may never have existed. Panics if a read
    /// byte differs from the written one, if bytes are checked.
    pub fn act(
        &mut self,
        now: Time,
        connection: &mut Connection,
        action: StreamAction,
        (own, peer): (Pattern, Option<Pattern>),
        input: &mut Input<'_>,
    ) {
        let mut streams = connection.streams();
        let known = self.offsets.keys().nth(input.below(self.offsets.len())).copied();
        // Not the first stream, which other actions write and read.
        let id = known.unwrap_or_else(|| StreamId::from_word(1 + u32::from(input.u8())));
        match action {
            StreamAction::Open(kind) => {
                if let Ok(id) = streams.open(kind) {
                    self.offsets.entry(id).or_default();
                }
            }
            StreamAction::Accept => {
                while streams.poll_event().is_some() {}
                while let Some(id) = streams.accept() {
                    self.offsets.entry(id).or_default();
                }
            }
            StreamAction::Write => {
                let (written, _) = self.offsets.entry(id).or_default();
                let mut bytes = vec![0; input.u16() as usize];
                of_stream(own, id).fill(*written, &mut bytes);
                *written += streams.write(now, id, &bytes).unwrap_or(0) as u64;
                streams.flush(id);
            }
            StreamAction::Read => {
                let (_, read) = self.offsets.entry(id).or_default();
                let mut bytes = vec![0; input.u16() as usize];
                if let Ok(Read::Bytes(count)) = streams.read(now, id, &mut bytes) {
                    let wrong = peer.and_then(|peer| of_stream(peer, id).first_difference(*read, &bytes[..count]));
                    assert_eq!(wrong, None, "a byte of {id:?} is not the one that was written");
                    *read += count as u64;
                }
            }
            StreamAction::Finish => streams.finish(now, id),
            StreamAction::Reset => streams.reset(now, id, 1),
            StreamAction::Stop => streams.stop_sending(now, id, 2),
        }
    }

    /// Ends all streams, so that the session can end.
    pub fn end(&mut self, now: Time, connection: &mut Connection) {
        let mut streams = connection.streams();
        while let Some(id) = streams.accept() {
            self.offsets.entry(id).or_default();
        }
        for &id in self.offsets.keys() {
            streams.finish(now, id);
            streams.stop_sending(now, id, 3);
        }
    }
}

/// Pattern of a stream, different for each stream.
fn of_stream(side: Pattern, id: StreamId) -> Pattern {
    Pattern(side.0 ^ (u64::from(id.to_word()) + 1) << 32)
}
