//! Prometheus' text format, version 0.0.4.

use std::fmt::{Display, Write};

/// Value of `Content-Type`.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Value that only grows; the name ends in `_total`.
    Counter,
    /// Value that can fall.
    Gauge,
}

/// Page of metrics under construction.
#[derive(Debug, Default)]
pub struct Text(String);

impl Text {
    /// Starts the metric family of this name; its samples must be written before the next family.
    pub fn family<'a>(&'a mut self, kind: Kind, name: &'a str, help: &str) -> Family<'a> {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let help = help.replace('\\', r"\\").replace('\n', r"\n");
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Family { text: self, name }
    }

    /// Writes a counter without labels.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(Kind::Counter, name, help).value(value);
    }

    /// Writes a gauge without labels.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(Kind::Gauge, name, help).value(value);
    }

    /// Returns the whole page.
    #[must_use]
    pub fn finish(self) -> String {
        self.0
    }
}

/// Metric family whose samples are being written.
#[derive(Debug)]
pub struct Family<'a> {
    text: &'a mut Text,
    name: &'a str,
}

impl Family<'_> {
    /// Writes the only sample.
    pub fn value(self, value: impl Display) {
        let _ = writeln!(self.text.0, "{} {value}", self.name);
    }

    /// Writes one of several samples, told apart by labels. Label values must be constants of this program, never
    /// values from a peer: each new value creates a permanent time series.
    pub fn labelled(&mut self, labels: &[(&str, &str)], value: impl Display) -> &mut Self {
        let labels: Vec<_> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
        let _ = writeln!(self.text.0, "{}{{{}}} {value}", self.name, labels.join(","));
        self
    }
}

fn escape(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_help_and_type_before_their_samples() {
        let mut text = Text::default();
        text.counter("dfcp_a_total", "As.", 5);
        text.family(Kind::Gauge, "dfcp_b", "Bs.").labelled(&[("x", "1"), ("y", "z")], 0.25).labelled(&[("x", "2")], 7);
        let expected = "# HELP dfcp_a_total As.\n# TYPE dfcp_a_total counter\ndfcp_a_total 5\n\
                        # HELP dfcp_b Bs.\n# TYPE dfcp_b gauge\ndfcp_b{x=\"1\",y=\"z\"} 0.25\ndfcp_b{x=\"2\"} 7\n";
        assert_eq!(text.finish(), expected);
    }

    #[test]
    fn no_value_of_a_label_and_no_help_ends_its_line() {
        let mut text = Text::default();
        text.family(Kind::Gauge, "a", "one\ntwo \\").labelled(&[("x", "q\" 1\nb 2\\")], 3);
        let expected = "# HELP a one\\ntwo \\\\\n# TYPE a gauge\na{x=\"q\\\" 1\\nb 2\\\\\"} 3\n";
        assert_eq!(text.finish(), expected);
    }
}
