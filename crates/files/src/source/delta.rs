//! Sends of a file what an older version at the receiver does not have.

use std::time::{Duration, Instant};

use dfcp_framing::files::ToReceiver;
use dfcp_framing::frame::{kind, with_header};
use dfcp_framing::limits::DATA_BYTES_MAX;

use super::Stopped;
use super::encoder::{Encoder, NOT_TAKEN};
use super::steady::{Bounded, Reading};
use crate::basis::Known;
use crate::limits::COPY_BYTES_MAX;

/// Longest that frames wait to be sent.
const FLUSH_INTERVAL: Duration = Duration::from_millis(250);

/// Bytes of the older version which follow each other.
#[derive(Debug, Default)]
struct Run {
    start: u64,
    len: u32,
}

impl Run {
    /// Takes a chunk that follows; or gives back what there was, and begins with that chunk.
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
    /// Sends `content`, which had `announced` bytes when it was found, and of which the receiver has an older version of which this is
    /// known. Returns what it was; none if it was given up.
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
        // The receiver may take up the next one as soon as this one comes.
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
                    // Of a file that has become longer no more is spared than was to be sent.
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
            // A few bytes may stand for gigabytes, which the receiver copies meanwhile.
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
