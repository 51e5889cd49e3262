//! Metrics and audit log of a server, on the command line.

use std::path::PathBuf;

use clap::Args;

use super::local_address;

/// Metrics of a server.
#[derive(Debug, Clone, Default, Args)]
pub struct MetricsArgs {
    /// Serve what is counted at http://127.0.0.1:PORT/metrics, in Prometheus' text format. A port alone is one that only programs of
    /// this machine reach; with an address, everyone who can reach it can read the metrics, which name no peer and no file
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = local_address)]
    pub metrics: Option<String>,
}

/// The audit log of a server.
#[derive(Debug, Clone, Default, Args)]
pub struct AuditArgs {
    /// Append to this file what peers do, as one JSON object a line: who, from where, by which key, what, how much, its hash, and
    /// what came of it. While it cannot be written nobody is let in, and sessions end before they confirm what is not in it
    #[arg(long, value_name = "FILE")]
    pub log_json: Option<PathBuf>,
}
