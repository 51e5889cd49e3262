use super::*;
use crate::expand::{Choice, Form, expand};
use crate::metrics::Measured;
use crate::reading::parse;
use crate::record::Origin;

fn small() -> Vec<Run> {
    let text = include_str!("../testdata/small.toml");
    expand(&parse("small.toml", text).unwrap(), Choice::default()).unwrap()
}

fn records(runs: &[Run]) -> BTreeMap<String, Record> {
    let origin = Origin { version: "1".to_owned(), commit: "c".to_owned(), host: "h".to_owned() };
    let of = |run: &Run| (run.hash.clone(), Record::new(run, Form::Full, Measured::default(), &origin, 1.5));
    runs.iter().map(of).collect()
}

#[test]
fn records_of_older_code_are_found_by_their_settings() {
    let directory = tempfile::tempdir().unwrap();
    let runs = small();
    // A change of the code changes the hashes, and nothing else.
    let mut older = runs.clone();
    older.iter_mut().for_each(|run| run.hash = run.hash.chars().rev().collect());
    let mut kept = records(&older);
    let without = kept.pop_first().unwrap().1;
    let packed = pack(directory.path(), "small", &older, &kept).unwrap();
    assert_eq!((packed.records, packed.bytes > 100), (runs.len() - 1, true));
    let found = unpack(directory.path(), "small", &runs).unwrap();
    assert_eq!(found.len(), runs.len() - 1);
    for (run, older) in runs.iter().zip(&older).filter(|(_, older)| older.hash != without.hash) {
        assert_eq!(found[&run.hash], Record { hash: run.hash.clone(), ..kept[&older.hash].clone() });
    }
    let mut others = runs.clone();
    others.iter_mut().for_each(|run| run.scenario.duration_ns += 1);
    assert!(unpack(directory.path(), "small", &others).unwrap().is_empty(), "another scenario");
    let again = [runs[0].repeated(99)];
    assert!(unpack(directory.path(), "small", &again).unwrap().is_empty(), "another seed");
    assert!(unpack(directory.path(), "other", &runs).unwrap().is_empty(), "no such archive");
}

#[test]
fn the_same_records_make_the_same_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let runs = small();
    let bytes = |name: &str| {
        let at = directory.path().join(name);
        pack(&at, "small", &runs, &records(&runs)).unwrap();
        fs::read(path(&at, "small")).unwrap()
    };
    assert_eq!(bytes("a"), bytes("b"));
}

fn compressed(text: &[u8]) -> Vec<u8> {
    let mut out = GzBuilder::new().write(Vec::new(), Compression::fast());
    out.write_all(text).unwrap();
    out.finish().unwrap()
}

fn error_of(bytes: &[u8]) -> String {
    let directory = tempfile::tempdir().unwrap();
    fs::write(path(directory.path(), "small"), bytes).unwrap();
    unpack(directory.path(), "small", &small()).unwrap_err().to_string()
}

#[test]
fn what_is_no_archive_is_refused() {
    assert!(error_of(b"{}\n").contains("cannot use the archive"));
    let whole = compressed(b"nonsense\n");
    assert!(error_of(&whole).contains("line 1 is not a record"));
    let record = serde_json::to_string(&records(&small()).pop_first().unwrap().1).unwrap() + "\n";
    let whole = compressed(record.as_bytes());
    assert!(error_of(&whole[..whole.len() - 4]).contains("cannot use the archive"), "a torn one");
}

#[test]
fn a_small_file_that_becomes_a_long_one_is_refused() {
    let mut out = GzBuilder::new().write(Vec::new(), Compression::fast());
    io::copy(&mut io::repeat(b' ').take(RECORD_BYTES_MAX + 1), &mut out).unwrap();
    let bytes = out.finish().unwrap();
    assert!(bytes.len() < 1 << 20);
    assert!(error_of(&bytes).contains("has more than 1024 MiB, or a record of more than 64"));
}

#[test]
fn what_cannot_be_written_leaves_what_was_there() {
    let directory = tempfile::tempdir().unwrap();
    let runs = small();
    pack(directory.path(), "small", &runs, &records(&runs)).unwrap();
    let before = fs::read(path(directory.path(), "small")).unwrap();
    fs::create_dir(path(directory.path(), "small").with_extension("new")).unwrap();
    assert!(pack(directory.path(), "small", &runs, &BTreeMap::new()).is_err());
    assert_eq!(fs::read(path(directory.path(), "small")).unwrap(), before);
}
