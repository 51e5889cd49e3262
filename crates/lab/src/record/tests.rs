use super::*;
use crate::expand::{Choice, expand};
use crate::reading::parse;

fn records() -> Vec<Record> {
    let text = include_str!("../testdata/small.toml");
    let runs = expand(&parse("small.toml", text).unwrap(), Choice::default()).unwrap();
    let origin = Origin { version: "1".to_owned(), commit: "c".to_owned(), host: "h".to_owned() };
    runs.iter().map(|run| Record::new(run, Form::Full, Measured::default(), &origin, 1.5)).collect()
}

#[test]
fn what_is_written_is_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let records = records();
    let mut log = Log::open(directory.path(), "small").unwrap();
    records.iter().for_each(|record| log.add(record).unwrap());
    let found = read(directory.path(), "small").unwrap();
    assert_eq!(found.len(), records.len());
    for record in &records {
        assert_eq!(found[&record.hash], *record);
    }
    assert!(read(directory.path(), "other").unwrap().is_empty());
}

#[test]
fn a_torn_last_line_is_passed_over_and_cut_off() {
    let directory = tempfile::tempdir().unwrap();
    let records = records();
    let mut log = Log::open(directory.path(), "small").unwrap();
    log.add(&records[0]).unwrap();
    log.add(&records[1]).unwrap();
    let path = directory.path().join("small.jsonl");
    let whole = fs::read(&path).unwrap();
    let second = whole.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    for end in [second, second + 1, whole.len() - 1] {
        fs::write(&path, &whole[..end]).unwrap();
        assert_eq!(read(directory.path(), "small").unwrap().len(), 1, "{end}");
        Log::open(directory.path(), "small").unwrap().add(&records[1]).unwrap();
        assert_eq!(fs::read(&path).unwrap(), whole, "{end}");
    }
}

#[test]
fn a_line_which_is_no_record_is_named() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("small.jsonl"), "{\"schema\":0}\nnonsense\n").unwrap();
    let message = read(directory.path(), "small").unwrap_err().to_string();
    assert!(message.contains("line 2 is not a record") && message.contains("remove the line"), "{message}");
}

#[test]
fn tables_quote_what_has_commas() {
    let mut text = String::new();
    line(&mut text, ["a", "b,c", "d\"e"].into_iter().map(str::to_owned));
    assert_eq!(text, "a,\"b,c\",\"d\"\"e\"\r\n");
}
