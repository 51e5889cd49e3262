//! File that the demonstration sends, and verification of the received bytes.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

/// Seed of the file's contents, the same for every demonstration.
const SEED: &[u8] = b"dfcp demo";

/// Size of reads and writes, bytes.
pub(super) const CHUNK_BYTES: usize = 256 * 1024;

/// A file of incompressible data.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// Path of the file.
    pub(super) path: PathBuf,
    /// Length of the file, bytes.
    pub(super) bytes: u64,
    /// BLAKE3 hash of the whole file.
    pub(super) hash: blake3::Hash,
}

impl Source {
    /// Creates the file. The contents depend on the length alone. Blocks the thread.
    pub(super) fn create(path: PathBuf, bytes: u64) -> anyhow::Result<Self> {
        let hash = write(&path, bytes).with_context(|| {
            format!("cannot write the file to send, {}; choose an --output with more room", path.display())
        })?;
        Ok(Self { path, bytes, hash })
    }

    /// Returns true if `copy` has the same contents as the first `arrived_bytes` bytes of this file. Reads both from
    /// disk and blocks the thread.
    pub(super) fn verify(&self, copy: &mut File, arrived_bytes: u64) -> anyhow::Result<bool> {
        let expected = if arrived_bytes == self.bytes {
            self.hash
        } else {
            let source = File::open(&self.path).with_context(|| format!("cannot read {}", self.path.display()))?;
            hash(source.take(arrived_bytes)).with_context(|| format!("cannot read {}", self.path.display()))?
        };
        copy.rewind().and_then(|()| hash(copy)).map(|found| found == expected).context("cannot read what arrived")
    }
}

fn write(path: &Path, bytes: u64) -> io::Result<blake3::Hash> {
    let mut random = blake3::Hasher::new().update(SEED).finalize_xof();
    let mut hasher = blake3::Hasher::new();
    let mut file = BufWriter::with_capacity(CHUNK_BYTES, File::create_new(path)?);
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut left_bytes = bytes;
    while left_bytes > 0 {
        let now_bytes = chunk.len().min(usize::try_from(left_bytes).unwrap_or(usize::MAX));
        let part = &mut chunk[..now_bytes];
        random.fill(part);
        hasher.update(part);
        file.write_all(part)?;
        left_bytes -= now_bytes as u64;
    }
    file.flush()?;
    Ok(hasher.finalize())
}

fn hash(mut from: impl Read) -> io::Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match from.read(&mut chunk)? {
            0 => return Ok(hasher.finalize()),
            read_bytes => hasher.update(&chunk[..read_bytes]),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_reproducible_and_checked_byte_by_byte() {
        let dir = tempfile::tempdir().unwrap();
        let bytes = CHUNK_BYTES as u64 + 777;
        let source = Source::create(dir.path().join("a"), bytes).unwrap();
        let again = Source::create(dir.path().join("b"), bytes).unwrap();
        assert_eq!(source.hash, again.hash);
        let mut contents = std::fs::read(&source.path).unwrap();
        assert_eq!(contents.len() as u64, bytes);

        let mut copy = tempfile::tempfile_in(dir.path()).unwrap();
        copy.write_all(&contents[..5000]).unwrap();
        assert!(source.verify(&mut copy, 5000).unwrap(), "a true prefix");
        assert!(!source.verify(&mut copy, 5001).unwrap(), "shorter than said");
        copy.write_all(&contents[5000..]).unwrap();
        assert!(source.verify(&mut copy, bytes).unwrap(), "the whole");
        contents[3] ^= 1;
        copy.rewind().unwrap();
        copy.write_all(&contents).unwrap();
        assert!(!source.verify(&mut copy, bytes).unwrap(), "one bit differs");
    }

    #[test]
    fn a_missing_directory_is_explained() {
        let error = Source::create("no/such/directory/file".into(), 1).unwrap_err();
        assert!(error.to_string().contains("--output"), "{error}");
    }
}
