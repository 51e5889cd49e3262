//! Any bytes as the payload of a feedback segment.

use dfcp_wire::feedback::{ReportWriter, Run, decode};

/// Panics if the decoder does, or if report and runs do not survive being encoded and decoded again.
pub(crate) fn run(data: &[u8]) {
    let Ok((report, runs)) = decode(data) else {
        return;
    };
    let mut out = vec![0; data.len()];
    let mut writer = ReportWriter::new(&mut out, &report).expect("the input held a report");
    for run in runs.clone() {
        assert!(writer.push(run), "the canonical form is the shortest");
    }
    let length = writer.finish();
    let (again, runs_again) = decode(&out[..length]).expect("what was written decodes");
    assert_eq!(again, report);
    assert_eq!(merged(runs_again), merged(runs));
}

/// Adjacent runs of the same kind as one.
fn merged(runs: impl Iterator<Item = Run>) -> Vec<Run> {
    let mut merged: Vec<Run> = Vec::new();
    for run in runs {
        match (merged.last_mut(), run) {
            (Some(Run::Complete(sum)), Run::Complete(more)) => *sum += more,
            (Some(Run::Empty(sum)), Run::Empty(more)) => *sum += more,
            _ => merged.push(run),
        }
    }
    merged
}
