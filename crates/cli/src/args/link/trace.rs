//! Delivery trace files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, anyhow, ensure};
use dfcp_netem::{DeliveryTrace, TRACE_TEXT_BYTES_MAX};

/// Reads a delivery trace.
///
/// # Errors
/// Fails if the file cannot be read or is no delivery trace.
pub(super) fn read_trace(path: &Path) -> anyhow::Result<DeliveryTrace> {
    let shown = path.display();
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(TRACE_TEXT_BYTES_MAX + 1).read_to_string(&mut text));
    let read_bytes = read.with_context(|| format!("cannot read the trace {shown}"))? as u64;
    ensure!(
        read_bytes <= TRACE_TEXT_BYTES_MAX,
        "cannot read the trace {shown}: it has more than {TRACE_TEXT_BYTES_MAX} bytes"
    );
    DeliveryTrace::parse(&text).map_err(|error| anyhow!("{shown}, line {}: {error}", error.line))
}
