//! `dfcp decrypt`: opens the encrypted datagrams in a capture, with the keys of a key log.

pub mod args;
mod keys;
mod packets;

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use dfcp_framing::printable_path;
use serde_json::json;
use tempfile::NamedTempFile;

use self::args::DecryptArgs;
use self::keys::KeyRing;
use self::packets::Counts;
use crate::capture::packet::{LinkType, carried};
use crate::capture::{self, CaptureError, Piece};
use crate::output;

/// Decrypts every datagram whose key is known, writes the new capture, and prints packet counts by outcome.
///
/// # Errors
/// Fails if a file cannot be read or written, there are no keys, or no datagram was decrypted.
pub fn run(args: &DecryptArgs) -> anyhow::Result<()> {
    let (name, keys_name) = (printable_path(&args.capture), printable_path(&args.keys));
    let keys = File::open(&args.keys).with_context(|| format!("cannot open {keys_name}, check the path"))?;
    let mut keys = KeyRing::read(keys).with_context(|| keys_name.clone())?;
    if let Some(damage) = keys.describe_damage() {
        output::always(&format!("{keys_name}: {damage}; they are left out"));
    }
    let file = File::open(&args.capture).with_context(|| format!("cannot open {name}, check the path"))?;
    let target = args.output.clone().unwrap_or_else(|| beside(&args.capture));
    let out = Output::create(&target)?;
    let (counts, is_whole, out) = copy(file, &mut keys, out).with_context(|| name.clone())?;
    if !is_whole {
        output::always(&format!("{name} ends within a packet; what is before it counts"));
    }
    ensure!(
        counts.encrypted() > 0,
        "{name} has no encrypted datagram of DFCP's: record one while the connection runs, on an interface that it uses"
    );
    ensure!(
        counts.opened + counts.opened_before > 0,
        "{}: nothing was opened: {}; {}",
        name,
        describe(&counts),
        advice(&counts)
    );
    let target_name = printable_path(&target);
    out.finish(&target).with_context(|| format!("cannot write {target_name}, choose another --output or make room"))?;
    if args.json {
        let connections = keys.connections();
        output::json(
            &json!({ "file": name, "output": target_name, "is_whole": is_whole, "connections": connections, "datagrams": counts }),
        );
    } else {
        output::line(&format!("{}; written to {target_name}", describe(&counts)));
    }
    Ok(())
}

/// Describes the packet counts by outcome, for display.
fn describe(counts: &Counts) -> String {
    let mut text = format!("opened {} of {} encrypted datagrams", counts.opened, counts.encrypted());
    for (count, what) in [
        (counts.no_key, "without a key"),
        (counts.forged, "not authentic under their connection's keys"),
        (counts.truncated, "cut off by the capture"),
        (counts.opened_before, "opened before"),
        (counts.plaintext, "never encrypted, as a handshake's"),
        (counts.others, "other packets"),
    ] {
        if count > 0 {
            text += &format!(", {count} {what}");
        }
    }
    text
}

/// Returns advice for a capture without any decrypted datagram, by the most frequent cause.
fn advice(counts: &Counts) -> &'static str {
    if counts.truncated >= counts.no_key.max(counts.forged) {
        "record whole packets, such as with tcpdump -s 0"
    } else if counts.no_key >= counts.forged {
        "give the key log that was written while this was recorded"
    } else {
        "these are keys of another connection, or the capture was changed"
    }
}

/// Returns the default output path: `x.decrypted.pcapng` beside `x.pcapng`.
fn beside(capture: &Path) -> PathBuf {
    let mut name = capture.file_stem().unwrap_or_default().to_owned();
    name.push(".decrypted");
    if let Some(extension) = capture.extension() {
        name.push(".");
        name.push(extension);
    }
    capture.with_file_name(name)
}

/// Copies the capture and decrypts its datagrams. Returns the counts, false if the capture ends within a packet, and
/// the writer.
fn copy<W: Write>(file: impl Read + Send, keys: &mut KeyRing, mut out: W) -> Result<(Counts, bool, W), DecryptError> {
    let mut counts = Counts::default();
    // The buffer grows to the longest block, which the reader limits.
    let mut packet = Vec::new();
    let is_whole = capture::pieces(file, |piece| {
        let written = match packet_of(&piece) {
            Some((range, carried)) => {
                packet.clear();
                packet.extend_from_slice(piece.bytes);
                packets::open(keys, packet.get_mut(range).unwrap_or_default(), &carried, &mut counts);
                out.write_all(&packet)
            }
            None => {
                counts.others += u64::from(piece.frame.is_some());
                out.write_all(piece.bytes)
            }
        };
        written.map_err(DecryptError::Write)
    })?;
    Ok((counts, is_whole, out))
}

/// Returns the range of the packet in a block, and the range of the possible DFCP payload in that packet.
fn packet_of(piece: &Piece<'_>) -> Option<(std::ops::Range<usize>, capture::packet::Carried)> {
    let frame = piece.frame.as_ref()?;
    let link = LinkType::from_number(frame.link?)?;
    let carried = carried(link, piece.bytes.get(frame.range.clone())?, frame.wire_bytes)?;
    Some((frame.range.clone(), carried))
}

/// Reason why a capture could not be copied.
#[derive(Debug, thiserror::Error)]
enum DecryptError {
    #[error(transparent)]
    Capture(#[from] CaptureError),
    #[error("the copy cannot be written: {0}; choose another --output or make room")]
    Write(io::Error),
}

/// Output file, renamed into place when complete. Mode 0600: it contains decrypted traffic.
#[derive(Debug)]
struct Output(BufWriter<NamedTempFile>);

impl Output {
    fn create(target: &Path) -> anyhow::Result<Self> {
        let name = printable_path(target);
        let advice = || format!("cannot write {name}, choose another --output");
        if let Ok(there) = target.metadata() {
            ensure!(there.is_file(), "{name} is no file: choose another --output");
        }
        let directory =
            target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
        Ok(Self(BufWriter::new(NamedTempFile::new_in(directory).with_context(advice)?)))
    }

    fn finish(self, target: &Path) -> anyhow::Result<()> {
        let file = self.0.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.persist(target)?;
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests;
