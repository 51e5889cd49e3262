//! Sending of a file as a delta: only content that the receiver's older version lacks is sent.

use std::time::{Duration, Instant};

use dfcp_framing::files::ToReceiver;
use dfcp_framing::frame::{kind, with_header};
use dfcp_framing::limits::DATA_BYTES_MAX;

use super::Stopped;
use super::encoder::{Encoder, NOT_TAKEN};
use super::steady::{Bounded, Reading};
use crate::basis::Known;
use crate::limits::COPY_BYTES_MAX;

/// Longest time for which encoded frames are held back.
const FLUSH_INTERVAL: Duration = Duration::from_millis(250);

/// Contiguous bytes of the older version, to be copied by one frame.
#[derive(Debug, Default)]
struct Run {
    start: u64,
    len: u32,
}

impl Run {
    /// Extends the run by a chunk that directly follows it. For any other chunk, starts a new run and returns the old
    /// one.
    fn extend(&mut self, (start, len): (u64, u32)) -> Option<Self> {
        let together = self.len.checked_add(len).filter(|together| *together <= COPY_BYTES_MAX);
        match together {
            Some(together) if self.len > 0 && self.start + u64::from(self.len) == start => {
                self.len = together;
                None
            }
            _ => Some(std::mem::replace(self, Self { start, len })),
        }
    }
}

impl Encoder {
    /// Sends `content` as a delta against the receiver's older version `known`. `announced` is the length found in the
    /// search, bytes. Returns `None` if the file was given up.
    pub(super) fn changes(
        &mut self,
        index: u32,
        content: Bounded<'_>,
        announced: u64,
        known: &Known,
    ) -> Result<Option<Reading>, Stopped> {
        let (mut hasher, mut len, mut run) = (blake3::Hasher::new(), 0_u64, Run::default());
        let (mut copied_bytes, mut flushed) = (0, Instant::now());
        let mut chunks = known.cut().chunks(content);
        // The receiver may start the next file as soon as it has the file frame, so send that frame now.
        self.flush()?;
        loop {
            if self.is_refused(index) {
                return self.give_up(index, NOT_TAKEN.to_owned()).map(|()| None);
            }
            let started = Instant::now();
            let chunk = match chunks.next().transpose() {
                Ok(Some(chunk)) => chunk.data,
                Ok(None) => break,
                Err(error) => return self.give_up(index, format!("it cannot be read: {error}")).map(|()| None),
            };
            hasher.update(&chunk);
            len += chunk.len() as u64;
            let place = known.find(&chunk);
            self.spent(started);
            match place {
                Some(place) => {
                    // If the file has grown, `announced` limits the content subtracted from the total.
                    let left = announced.saturating_sub(copied_bytes);
                    self.shared().spare(left.min(chunk.len() as u64));
                    copied_bytes += chunk.len() as u64;
                    if let Some(before) = run.extend(place) {
                        self.copy(before);
                    }
                }
                None => {
                    self.copy(std::mem::take(&mut run));
                    for data in chunk.chunks(DATA_BYTES_MAX) {
                        with_header(kind::DATA, &mut self.chunk.bytes, |out| out.extend_from_slice(data));
                        self.flush_if_full()?;
                    }
                }
            }
            // A few bytes may make the receiver copy gigabytes, so send them early.
            if flushed.elapsed() >= FLUSH_INTERVAL {
                self.copy(std::mem::take(&mut run));
                self.flush()?;
                flushed = Instant::now();
            }
            self.flush_if_full()?;
        }
        self.copy(run);
        Ok(Some(Reading { len, hash: hasher.finalize(), copied_bytes, resumed_bytes: 0 }))
    }

    fn copy(&mut self, Run { start, len }: Run) {
        if len > 0 {
            ToReceiver::Copy { start, len }.encode(&mut self.chunk.bytes);
        }
    }
}
