use super::*;
use crate::expand::{Choice, expand};
use crate::metrics::Measured;
use crate::platform::Sim;
use crate::reading::parse;

fn small() -> Vec<Run> {
    let text = include_str!("../testdata/small.toml");
    expand(&parse("small.toml", text).unwrap(), Choice::default()).unwrap()
}

fn run_in(directory: &Path, runs: &[Run], jobs: usize) -> Vec<Progress> {
    let stop = AtomicBool::new(false);
    let settings = Settings {
        results: directory,
        platform: &Sim::default(),
        form: Form::Full,
        jobs: NonZeroUsize::new(jobs).unwrap(),
        stop: &stop,
    };
    let mut told = Vec::new();
    run_all(runs, settings, |progress| told.push(progress.clone())).unwrap();
    told
}

#[test]
fn a_torn_sweep_goes_on_and_gives_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let runs = small();
    let told = run_in(directory.path(), &runs, 2);
    assert_eq!((told[0].done, told[told.len() - 1].done, told.len()), (0, runs.len(), runs.len() + 1));
    let before = read(directory.path(), "small").unwrap();
    assert_eq!(before.len(), runs.len());
    let path = directory.path().join("small.jsonl");
    let text = std::fs::read(&path).unwrap();
    std::fs::write(&path, &text[..text.len() - 40]).unwrap();
    let told = run_in(directory.path(), &runs, 1);
    assert_eq!((told[0].done, told.len()), (runs.len() - 1, 2));
    let after = read(directory.path(), "small").unwrap();
    let course = |record: &Record| Measured { cpu_s: None, ..record.measured.clone() };
    assert!(before.iter().all(|(hash, record)| course(&after[hash]) == course(record)));
    assert_eq!(run_in(directory.path(), &runs, 1).len(), 1);
}

#[test]
fn nothing_is_begun_after_a_stop() {
    let directory = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(true);
    let settings = Settings {
        results: directory.path(),
        platform: &Sim::default(),
        form: Form::Full,
        jobs: NonZeroUsize::MIN,
        stop: &stop,
    };
    run_all(&small(), settings, |_| {}).unwrap();
    assert!(read(directory.path(), "small").unwrap().is_empty());
}
