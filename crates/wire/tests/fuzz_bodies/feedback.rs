//! Fuzz body: arbitrary bytes as the payload of a feedback segment.

use dfcp_wire::feedback::{MessageRun, Record, Records, ReportWriter, Run, StreamState, decode};

/// Decodes `data`, and checks that report and records survive a round trip. Panics if the decoder does.
pub(crate) fn run(data: &[u8]) {
    let Ok((report, records)) = decode(data) else {
        return;
    };
    // The decoded record may lack block states, but the writer requires room for one.
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
            Record::ArrivalClock(clock_us) => assert!(writer.arrival_clock(clock_us), "it is of fixed length"),
            Record::Marks(marks) => assert!(writer.marks(&marks.collect::<Vec<_>>()), "what was read can be written"),
            Record::Ecn(counts) => assert!(writer.ecn(counts), "it is of fixed length"),
            Record::LossRuns(runs) => {
                let count = runs.clone().count();
                assert_eq!(writer.loss_runs(runs), Some(count), "the canonical form is the shortest");
            }
            Record::Messages(state, runs) => {
                let mut list = writer.messages(state.first_id).expect("the canonical form is the shortest");
                for run in runs {
                    assert!(list.push(run), "the canonical form is the shortest");
                }
                list.finish(state.proof);
            }
        }
    }
    let length = writer.finish();
    let (again, records_again) = decode(&out[..length]).expect("what was written decodes");
    assert_eq!(again, report);
    assert_eq!(told(records_again), told(records));
}

/// Returns the contents of records: streams with their runs, and other records as debug text.
fn told(records: Records<'_>) -> Vec<Result<(StreamState, Vec<Run>), String>> {
    records
        .map(|record| match record {
            Record::Stream(state, runs) => Ok((state, merged(runs))),
            Record::Unseen(limits) => Err(format!("{limits:?}")),
            Record::ArrivalClock(clock_us) => Err(format!("{clock_us} us")),
            Record::Marks(marks) => Err(format!("{:?}", marks.collect::<Vec<_>>())),
            Record::Ecn(counts) => Err(format!("{counts:?}")),
            Record::LossRuns(runs) => Err(format!("{:?}", runs.collect::<Vec<_>>())),
            Record::Messages(state, runs) => Err(format!("{state:?} {:?}", merged_messages(runs))),
        })
        .collect()
}

/// Merges adjacent runs of the same kind.
fn merged_messages<'a>(runs: impl Iterator<Item = MessageRun<'a>>) -> Vec<MessageRun<'a>> {
    let mut merged: Vec<MessageRun<'_>> = Vec::new();
    for run in runs {
        match (merged.last_mut(), run) {
            (Some(MessageRun::Complete(sum)), MessageRun::Complete(more)) => *sum += more,
            (Some(MessageRun::Empty(sum)), MessageRun::Empty(more)) => *sum += more,
            _ => merged.push(run),
        }
    }
    merged
}

/// Merges adjacent runs of the same kind.
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
