//! Content-defined chunking of files, for deltas against older versions.
//!
//! Both sides cut their version of a file by its content (FastCDC), so an insertion or removal does not move later
//! cuts. If the old version contains a chunk of the new version, the receiver copies the chunk instead of receiving it.
//! Chunk hashes only save traffic: the final hash over the whole file decides.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dfcp_framing::error::ProtocolError;
use dfcp_framing::files::{CHUNK_HASH_BYTES, ChunkName};
use fastcdc::v2020::StreamCDC;

use crate::limits::{BASIS_CHUNK_BYTES, BASIS_CHUNKS_MAX};

/// Chunking parameters, derived from the mean chunk length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    average_bytes: u32,
}

impl Cut {
    /// Returns the parameters for an older version of `len` bytes: chunks as short as the limit on their number
    /// permits.
    pub(crate) fn of(len: u64) -> Self {
        let wanted = len.div_ceil(BASIS_CHUNKS_MAX as u64 / 2).max(u64::from(*BASIS_CHUNK_BYTES.start()));
        let average_bytes = u32::try_from(wanted.next_power_of_two()).unwrap_or(u32::MAX);
        Self { average_bytes: average_bytes.min(*BASIS_CHUNK_BYTES.end()) }
    }

    /// Checks the mean chunk length that the receiver has sent.
    ///
    /// # Errors
    /// Fails for a value that [`Cut::of`] never returns.
    pub(crate) fn from_peer(average_bytes: u32) -> Result<Self, ProtocolError> {
        let is_possible = average_bytes.is_power_of_two() && BASIS_CHUNK_BYTES.contains(&average_bytes);
        if is_possible { Ok(Self { average_bytes }) } else { Err(ProtocolError::Malformed { frame: "basis" }) }
    }

    /// Returns the mean chunk length, bytes.
    pub(crate) fn average_bytes(self) -> u32 {
        self.average_bytes
    }

    /// Returns the minimum chunk length, bytes. Only the last chunk may be shorter.
    pub(crate) fn least_bytes(self) -> usize {
        self.average_bytes as usize / 4
    }

    /// Returns an iterator over the chunks of a reader.
    pub(crate) fn chunks<R: Read>(self, content: R) -> StreamCDC<R> {
        let average = self.average_bytes as usize;
        StreamCDC::new(content, self.least_bytes(), average, average * 4)
    }
}

/// Returns the length of a chunk, and the hash by which both sides name it.
pub(crate) fn name(chunk: &[u8]) -> ChunkName {
    let mut hash = [0; CHUNK_HASH_BYTES];
    blake3::Hasher::new().update(chunk).finalize_xof().fill(&mut hash);
    ChunkName { hash, len: u32::try_from(chunk.len()).unwrap_or(u32::MAX) }
}

/// Chunks of the receiver's older version, as reported to the sender.
#[derive(Debug)]
pub(crate) struct Known {
    cut: Cut,
    places: BTreeMap<[u8; CHUNK_HASH_BYTES], (u64, u32)>,
    /// Offset of the end of the last chunk, bytes.
    end: u64,
    count: usize,
    _counted: Counted,
}

/// Counter of older versions in use. Clones share the counter.
#[derive(Debug, Clone, Default)]
pub(crate) struct Alive(Arc<AtomicUsize>);

impl Alive {
    /// Returns the current count.
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Increments the count until the returned guard is dropped.
    pub(crate) fn begin(&self) -> Counted {
        self.0.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(&self.0))
    }
}

/// Guard that decrements the count when dropped.
#[derive(Debug)]
pub(crate) struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Known {
    /// Creates the table without chunks.
    pub(crate) fn new(cut: Cut, alive: &Alive) -> Self {
        Self { cut, places: BTreeMap::new(), end: 0, count: 0, _counted: alive.begin() }
    }

    /// Returns the chunking parameters.
    pub(crate) fn cut(&self) -> Cut {
        self.cut
    }

    /// Adds the next chunks, in the order of the older version.
    ///
    /// # Errors
    /// Fails if there are too many chunks, or if a chunk is empty or too long.
    pub(crate) fn add(&mut self, chunks: &[ChunkName]) -> Result<(), ProtocolError> {
        self.count += chunks.len();
        for ChunkName { hash, len } in chunks {
            if self.count > BASIS_CHUNKS_MAX || *len == 0 || *len > self.cut.average_bytes.saturating_mul(4) {
                return Err(ProtocolError::Malformed { frame: "basis" });
            }
            self.places.entry(*hash).or_insert((self.end, *len));
            self.end += u64::from(*len);
        }
        Ok(())
    }

    /// Returns position and length, bytes, of an equal chunk in the older version.
    pub(crate) fn find(&self, chunk: &[u8]) -> Option<(u64, u32)> {
        let ChunkName { hash, len } = name(chunk);
        self.places.get(&hash).copied().filter(|(_, known)| *known == len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::COPY_BYTES_MAX;

    fn content(len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        blake3::Hasher::new().finalize_xof().fill(&mut bytes);
        bytes
    }

    fn known(content: &[u8]) -> Known {
        let mut known = Known::new(Cut::of(content.len() as u64), &Alive::default());
        for chunk in known.cut().chunks(content) {
            known.add(&[name(&chunk.unwrap().data)]).unwrap();
        }
        known
    }

    #[test]
    fn what_was_inserted_moves_no_cut_behind_it() {
        let old = content(4 << 20);
        let known = known(&old);
        let new = [&old[..1_000_000], b"inserted", &old[1_000_000..3_000_000], &old[3_100_000..]].concat();
        let (mut sent, mut at) = (0, 0);
        for chunk in known.cut().chunks(&new[..]) {
            let chunk = chunk.unwrap().data;
            match known.find(&chunk) {
                Some((start, len)) => assert_eq!(old[start as usize..][..len as usize], chunk[..]),
                None => sent += chunk.len(),
            }
            at += chunk.len();
        }
        assert_eq!(at, new.len());
        assert!(sent < 8 * known.cut().average_bytes() as usize, "{sent}");
    }

    /// Programs with different cuts would find no common chunks, so the exact cuts are tested.
    #[test]
    fn the_cuts_are_those_of_every_other_program() {
        let lens: Vec<_> = Cut::of(0).chunks(&content(1 << 18)[..]).map(|chunk| chunk.unwrap().length).collect();
        assert_eq!(
            lens,
            [25574, 7224, 26313, 21921, 38316, 14362, 31643, 20361, 18968, 4302, 16821, 16565, 15063, 4711]
        );
    }

    #[test]
    fn no_file_is_cut_into_more_chunks_than_may_be() {
        for len in [0, 1 << 20, 1 << 30, 1 << 36, 1 << 40] {
            let cut = Cut::of(len);
            assert_eq!(Cut::from_peer(cut.average_bytes()), Ok(cut));
            let is_longest = cut.average_bytes() == *BASIS_CHUNK_BYTES.end();
            assert!(is_longest || len / u64::from(cut.average_bytes()) <= BASIS_CHUNKS_MAX as u64 / 2, "{len}");
            // Uniform content gives chunks of the maximum length, which must fit into a COPY.
            let same = vec![0; 5 * cut.average_bytes() as usize];
            let longest = cut.chunks(&same[..]).map(|chunk| chunk.unwrap().length).max().unwrap();
            assert!(longest == 4 * cut.average_bytes() as usize && longest <= COPY_BYTES_MAX as usize, "{longest}");
        }
    }

    #[test]
    fn a_receiver_that_lies_about_its_chunks_is_refused() {
        for average in [0, 1, 3 << 14, u32::MAX, BASIS_CHUNK_BYTES.end() * 2] {
            assert!(Cut::from_peer(average).is_err(), "{average}");
        }
        let mut known = Known::new(Cut::of(0), &Alive::default());
        let chunk = |len| ChunkName { hash: [1; CHUNK_HASH_BYTES], len };
        assert!(known.add(&[chunk(0)]).is_err());
        assert!(known.add(&[chunk(u32::MAX)]).is_err());
        let mut known = Known::new(Cut::of(0), &Alive::default());
        assert!((0..=BASIS_CHUNKS_MAX).any(|_| known.add(&[chunk(1)]).is_err()));
    }
}
