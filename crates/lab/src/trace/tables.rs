//! Writer of a trace's tables.

use std::path::Path;

use super::columns::{self, FlowColumns, LinkColumns, Row};
use super::error::TraceError;
use super::files::{self, Csv, Files};
use crate::scenario::Scenario;

/// Tables `flows.csv` and `queues.csv`, open for writing. They have a line per bin and flow or link.
#[derive(Debug)]
pub struct Tables {
    flows: Csv,
    links: Csv,
    labels: Vec<String>,
    flows_before: Vec<FlowColumns>,
    links_before: Vec<LinkColumns>,
    sampled_ns: u64,
}

impl Tables {
    /// Creates the tables for `scenario` in an existing directory.
    ///
    /// # Errors
    /// Fails if a file cannot be created.
    pub fn new(scenario: &Scenario, directory: &Path) -> Result<Self, TraceError> {
        Self::of(scenario, &mut Files::open(directory, false)?)
    }

    pub(super) fn of(scenario: &Scenario, files: &mut Files) -> Result<Self, TraceError> {
        let names = |first: &[&'static str], row: &dyn Row| {
            first.iter().copied().chain(row.columns().iter().map(|(name, _)| *name)).collect::<Vec<_>>()
        };
        let flows = names(&["time_s", "flow", "label", "goodput_mbps"], &FlowColumns::default());
        let links = names(&["time_s", "link"], &LinkColumns::default());
        Ok(Self {
            flows: files.csv(files::FLOWS, &flows)?,
            links: files.csv(files::QUEUES, &links)?,
            labels: scenario.flows.iter().map(|flow| flow.label.clone().unwrap_or_default()).collect(),
            flows_before: vec![FlowColumns::default(); scenario.flows.len()],
            links_before: vec![LinkColumns::default(); scenario.links.len()],
            sampled_ns: 0,
        })
    }

    /// Ends a bin at `now_ns` and writes its lines. Does nothing if no time has passed since the last bin. `flows` and
    /// `links` are in the plan's order.
    ///
    /// # Errors
    /// Fails if a line cannot be written.
    pub fn sample(&mut self, now_ns: u64, flows: &[FlowColumns], links: &[LinkColumns]) -> Result<(), TraceError> {
        let bin_ns = now_ns - self.sampled_ns;
        if bin_ns == 0 {
            return Ok(());
        }
        self.sampled_ns = now_ns;
        let time_s = (now_ns as f64 / 1e9).to_string();
        for (place, (row, last)) in flows.iter().zip(&mut self.flows_before).enumerate() {
            let before = std::mem::replace(last, *row);
            let goodput_mbps = (row.delivered_bytes - before.delivered_bytes) as f64 * 8e3 / bin_ns as f64;
            let label = self.labels[place].clone();
            let head = [time_s.clone(), (place + 1).to_string(), label, format!("{goodput_mbps:.6}")];
            self.flows.add(head.into_iter().chain(columns::since(row, &before)))?;
        }
        for (place, (row, last)) in links.iter().zip(&mut self.links_before).enumerate() {
            let before = std::mem::replace(last, *row);
            let head = [time_s.clone(), (place + 1).to_string()];
            self.links.add(head.into_iter().chain(columns::since(row, &before)))?;
        }
        Ok(())
    }

    /// Flushes the tables and returns their paths.
    ///
    /// # Errors
    /// Fails if the last lines cannot be written.
    pub fn finish(self) -> Result<Vec<String>, TraceError> {
        Ok(vec![self.flows.finish()?, self.links.finish()?])
    }
}
