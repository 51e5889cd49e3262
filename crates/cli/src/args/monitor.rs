//! Metrics and audit log of a server, on the command line.

use std::path::PathBuf;

use clap::Args;

use super::local_address;

/// Metrics option of a server.
#[derive(Debug, Clone, Default, Args)]
pub struct MetricsArgs {
    /// Serve metrics at http://127.0.0.1:PORT/metrics, in the Prometheus text format. A bare port binds to loopback; with an address,
    /// everyone who can reach it can read the metrics, which name no peer and no file
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = local_address)]
    pub metrics: Option<String>,
}

/// Audit log option of a server.
#[derive(Debug, Clone, Default, Args)]
pub struct AuditArgs {
    /// Append one JSON object per peer action to this file: peer, address, key, action, file, size, hash and outcome. While the file cannot
    /// be written, no peer is admitted, and sessions end before they confirm unlogged files
    #[arg(long, value_name = "FILE")]
    pub log_json: Option<PathBuf>,
}
