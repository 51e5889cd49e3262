//! Text and JSON output of both directions.

use dfcp_framing::perf::Request;
use serde_json::{Value, json};

use super::Both;
use crate::perf::intervals::{Intervals, of_direction};

/// Splits both directions into intervals of about a second, each by the clock of the direction's receiving side.
#[derive(Debug, Default)]
pub(in crate::perf) struct BothIntervals {
    to_server: Intervals,
    to_client: Intervals,
    /// Finished lines that wait for the other direction's line of the same interval.
    held: [Option<String>; 2],
}

impl BothIntervals {
    /// Returns the lines to print now. A line is held until the next counts, so that both lines of an interval appear
    /// together and in the same order.
    pub(in crate::perf) fn advance(&mut self, now: &Both) -> Vec<String> {
        let new = [self.to_server.advance(&now.to_server), self.to_client.advance(&now.to_client)];
        let is_new = new.iter().any(Option::is_some);
        let mut lines = Vec::new();
        for ((held, new), (name, _)) in self.held.iter_mut().zip(new).zip(now.named()) {
            if let Some(new) = new {
                lines.extend(held.replace(format!("{name}  {new}")));
            }
        }
        if !is_new || self.held.iter().all(Option::is_some) {
            lines.extend(self.held.iter_mut().filter_map(Option::take));
        }
        lines
    }

    /// Ends the last intervals, and returns their lines.
    pub(in crate::perf) fn finish(&mut self, end: &Both) -> Vec<String> {
        let rests = [self.to_server.finish(&end.to_server), self.to_client.finish(&end.to_client)];
        let rests = rests.into_iter().zip(end.named());
        let rests = rests.filter_map(|(rest, (name, _))| rest.map(|rest| format!("{name}  {rest}")));
        self.held.iter_mut().filter_map(Option::take).chain(rests).collect()
    }
}

/// Returns the JSON of the measurement. Each direction has the members of a one-way measurement.
pub(in crate::perf) fn summary(peer: &str, request: &Request, both: &Both, intervals: &BothIntervals) -> Value {
    json!({
        "peer": peer, "bidir": true, "streams": request.streams,
        "to_server": of_direction(&both.to_server, &intervals.to_server),
        "to_client": of_direction(&both.to_client, &intervals.to_client),
    })
}
