//! Commands `dfcp lab jobs`, `job` and `collect`: runs on other machines.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, bail};
use dfcp_lab::archive::unpack;
use dfcp_lab::job::{Job, check, make};
use dfcp_lab::{Log, Platform, Record, read};
use dfcp_terminal::output;
use serde_json::to_value;

use super::args::{CollectArgs, JobArgs, JobsArgs};
use super::{choice, chosen, lay_out, platforms, sources};
use crate::limits::RECORD_BYTES_MAX;

/// Prints all runs without a record, each as a line of JSON.
pub(super) fn list(args: &JobsArgs) -> anyhow::Result<()> {
    let sources = chosen(sources(&args.plans.which())?, &args.ids)?;
    let platforms = platforms::of(&args.runs.platforms)?;
    for plan in lay_out(&sources, &args.runs, &platforms)? {
        let id = &plan.source.plan.id;
        let mut known = read(&args.runs.results, id)?;
        if let Some(directory) = &args.recorded {
            known.extend(unpack(directory, id, &plan.runs)?);
        }
        let mut seen: BTreeSet<&str> = known.keys().map(String::as_str).collect();
        for run in plan.runs.iter().filter(|run| seen.insert(&run.hash)) {
            output::json(&to_value(Job::new(run, choice(&args.runs).form))?);
        }
    }
    Ok(())
}

/// Executes the run of the given id, or all runs listed on standard input, and prints a record for each.
pub(super) async fn run(args: JobArgs) -> anyhow::Result<()> {
    let work = tokio::task::spawn_blocking(move || {
        let sources = sources(&args.plans.which())?;
        let all = platforms::of(&args.platforms)?;
        let platforms: Vec<&dyn Platform> = all.iter().map(|platform| &**platform).collect();
        let one = |id: &str| {
            let record = make(id, &sources, &platforms)?;
            output::json(&to_value(record)?);
            Ok::<_, anyhow::Error>(())
        };
        if let Some(id) = &args.id {
            return one(id);
        }
        each_line(io::stdin().lock(), "standard input", |line| {
            let job: Job = serde_json::from_str(line).context("it is no job as `dfcp lab jobs` prints it")?;
            one(&job.id)
        })
    });
    work.await.context("the run ended in a panic")?
}

/// Checks records from other machines, and adds them to the existing records.
pub(super) fn collect(args: &CollectArgs) -> anyhow::Result<()> {
    let sources = sources(&args.plans.which())?;
    let all = platforms::of(&args.platforms)?;
    let platforms: Vec<&dyn Platform> = all.iter().map(|platform| &**platform).collect();
    let results = &args.results;
    let (mut logs, mut counts) = (BTreeMap::new(), (0_usize, 0_usize));
    let mut take = |line: &str| {
        let record: Record = serde_json::from_str(line).context("it is no record as `dfcp lab job` prints it")?;
        check(&record, &sources, &platforms)?;
        add(results, &mut logs, &record, &mut counts)
    };
    if args.files.is_empty() {
        each_line(io::stdin().lock(), "standard input", &mut take)?;
    }
    for path in &args.files {
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        each_line(BufReader::new(file), &path.display().to_string(), &mut take)?;
    }
    let (added, known) = counts;
    output::note(&format!("{added} records added, {known} were there already"));
    Ok(())
}

/// Record file of a plan, and the hashes of all records in it.
type Known = (Log, BTreeSet<String>);

fn add(
    results: &Path,
    logs: &mut BTreeMap<String, Known>,
    record: &Record,
    (added, known): &mut (usize, usize),
) -> anyhow::Result<()> {
    if !logs.contains_key(&record.plan) {
        let log = Log::open(results, &record.plan)?;
        logs.insert(record.plan.clone(), (log, read(results, &record.plan)?.into_keys().collect()));
    }
    let Some((log, hashes)) = logs.get_mut(&record.plan) else { return Ok(()) };
    if hashes.insert(record.hash.clone()) {
        log.add(record)?;
        *added += 1;
    } else {
        *known += 1;
    }
    Ok(())
}

/// Calls `take` with each line; an error names the line.
fn each_line(
    mut input: impl BufRead,
    name: &str,
    mut take: impl FnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    for number in 1_usize.. {
        let mut line = Vec::new();
        let length = input.by_ref().take(RECORD_BYTES_MAX + 1).read_until(b'\n', &mut line);
        if length.with_context(|| format!("cannot read {name}"))? == 0 {
            return Ok(());
        }
        if line.len() as u64 > RECORD_BYTES_MAX {
            bail!("{name}, line {number} is longer than {} MiB, which no record is", RECORD_BYTES_MAX >> 20);
        }
        let text = str::from_utf8(&line).with_context(|| format!("{name}, line {number}"))?;
        if !text.trim().is_empty() {
            take(text).with_context(|| format!("{name}, line {number}"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_and_their_faults_are_told() {
        let lines = |input: &[u8]| {
            let mut seen = Vec::new();
            let outcome = each_line(input, "it", |line| {
                if line.starts_with('x') {
                    bail!("an x");
                }
                seen.push(line.trim().to_owned());
                Ok(())
            });
            (seen, outcome.err().map(|error| format!("{error:#}")))
        };
        assert_eq!(lines(b"a\n\nb"), (vec!["a".to_owned(), "b".to_owned()], None));
        assert_eq!(lines(b"a\nx\n"), (vec!["a".to_owned()], Some("it, line 2: an x".to_owned())));
        assert!(lines(b"\xff\n").1.is_some_and(|error| error.starts_with("it, line 1: invalid utf-8")));
        let (seen, error) = lines(&vec![b'a'; RECORD_BYTES_MAX as usize + 2]);
        assert!(seen.is_empty() && error.is_some_and(|error| error.contains("longer than 64 MiB")));
    }
}
