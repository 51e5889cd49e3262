//! `dfcp perf`: how fast a path is, as counted by the side that receives. Specified in `spec/file-transfer.md`.

pub mod client;
pub mod flow;
pub mod server;
pub mod wire;

use serde::Serialize;

use crate::transport::PathSample;

/// A measurement, so far or at its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Bytes that reached the receiving side.
    pub bytes: u64,
    /// Between its first byte and its last, s.
    pub seconds: f64,
    /// What the sending side knows of the path.
    pub path: Option<PathSample>,
}

impl Measured {
    /// Bits of the application per second.
    pub fn goodput_bps(&self) -> f64 {
        if self.seconds > 0.0 { 8.0 * self.bytes as f64 / self.seconds } else { 0.0 }
    }

    /// What came since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(earlier.bytes),
            seconds: (self.seconds - earlier.seconds).max(0.0),
            path: self.path,
        }
    }

    /// For people: amount, goodput and what the path looks like.
    pub fn describe(&self) -> String {
        let amount = crate::units::human_bytes(self.bytes);
        let mut text = format!("{amount}  {}", crate::units::human_rate(self.goodput_bps()));
        if let Some(path) = self.path {
            if let Some(rtt_ms) = path.rtt_ms {
                text += &format!("  rtt {rtt_ms:.1} ms");
            }
            text += &format!("  loss {:.1} %", 100.0 * path.loss);
        }
        text
    }
}

#[cfg(test)]
mod tests;
