//! `dfcp receive --partials`: lists unfinished files.

use std::path::Path;
use std::time::SystemTime;

use anyhow::Context;
use dfcp_files::{Found, Partials};
use dfcp_framing::{printable_bytes, printable_path};
use serde_json::json;

use crate::output;
use crate::units::human_bytes;

/// Lists the unfinished files of all senders.
///
/// # Errors
/// Fails if the directory cannot be searched.
pub(super) fn list(output: &Path, json: bool) -> anyhow::Result<()> {
    let now = SystemTime::now();
    let found = Partials::at(output).and_then(|partials| partials.list(None, now));
    let shown = printable_path(output);
    let found = found.with_context(|| format!("cannot list the unfinished files below {shown}, check --output"))?;
    for one in &found {
        if json {
            output::json(&object(one, now));
        } else {
            output::always(&line(one, now));
        }
    }
    if found.is_empty() && !json {
        output::always(&format!("no unfinished files below {shown}"));
    }
    Ok(())
}

fn object(found: &Found, now: SystemTime) -> serde_json::Value {
    json!({
        "event": "partial", "name": printable_bytes(&found.file.name), "peer_key": found.file.owner.as_str(),
        "bytes": found.offset, "total_bytes": found.file.len, "is_active": found.is_active,
        "age_s": age_s(found, now),
    })
}

fn line(found: &Found, now: SystemTime) -> String {
    let when = if found.is_active {
        "being received".to_owned()
    } else {
        format!("{} ago", output::human_seconds(age_s(found, now)))
    };
    format!(
        "{}  {} of {}  {when}  {}",
        printable_bytes(&found.file.name),
        human_bytes(found.offset),
        human_bytes(found.file.len),
        found.file.owner
    )
}

fn age_s(found: &Found, now: SystemTime) -> f64 {
    now.duration_since(found.changed).unwrap_or_default().as_secs_f64()
}
