//! Any bytes as the payload of a feedback segment.

use dfcp_wire::StreamLimits;
use dfcp_wire::feedback::{Record, Records, ReportWriter, Run, StreamState, decode};

/// Panics if the decoder does, or if report and records do not survive being encoded and decoded again.
pub(crate) fn run(data: &[u8]) {
    let Ok((report, records)) = decode(data) else {
        return;
    };
    // A record which says nothing of its blocks is shorter than what the writer wants room for.
    let mut out = vec![0; data.len() + 1];
    let mut writer = ReportWriter::new(&mut out, &report).expect("the input held a report");
    for record in records.clone() {
        match record {
            Record::Stream(state, runs) => {
                let mut list = writer.stream(&state).expect("the canonical form is the shortest");
                for run in runs {
                    assert!(list.push(run), "the canonical form is the shortest");
                }
                list.finish();
            }
            Record::Unseen(limits) => assert!(writer.unseen(limits), "the canonical form is the shortest"),
        }
    }
    let length = writer.finish();
    let (again, records_again) = decode(&out[..length]).expect("what was written decodes");
    assert_eq!(again, report);
    assert_eq!(told(records_again), told(records));
}

/// What records say: the streams with their runs, and the unseen ones.
fn told(records: Records<'_>) -> Vec<Result<(StreamState, Vec<Run>), StreamLimits>> {
    records
        .map(|record| match record {
            Record::Stream(state, runs) => Ok((state, merged(runs))),
            Record::Unseen(limits) => Err(limits),
        })
        .collect()
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
