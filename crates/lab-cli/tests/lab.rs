//! Tests of `dfcp lab`, from the plan to the report.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use assert_cmd::Command;

fn lab(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::cargo_bin("dfcp-lab").unwrap().arg("lab").args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_plan_of_ones_own_runs_and_its_claims_are_judged() {
    let folder = tempfile::tempdir().unwrap();
    let (plans, results) = (folder.path().join("plans"), folder.path().join("results"));
    std::fs::create_dir(&plans).unwrap();
    std::fs::write(plans.join("small.toml"), include_str!("../../lab/src/testdata/small.toml")).unwrap();
    let (plans, results) = (plans.to_str().unwrap(), results.to_str().unwrap());
    let run = ["run", "small", "--quick", "--jobs", "1", "--plans", plans, "--results", results];
    let (code, out, err) = lab(&run);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("1 claims reproduced, 0 differ"), "{out}");
    assert!(out.contains("goodput of each flow after the warm-up, Mbit/s (one run each)\nloss"), "{out}");
    assert!(out.lines().any(|line| line.starts_with("0.01  ") && line.contains(" !")), "{out}");
    let (code, json, err) = lab(&[&run[..], &["--json"]].concat());
    assert_eq!(code, 0, "{err}");
    let lines: Vec<serde_json::Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3, "{json}");
    assert_eq!(lines[0]["value"]["series"], "DFCP");
    assert_eq!(lines[0]["value"]["point"]["loss"], 0.01);
    assert_eq!(lines[0]["value"]["summary"]["has_few_losses"], true);
    assert!(lines[0]["value"]["summary"]["mean"].as_f64().unwrap() > 1.0, "{json}");
    assert_eq!(lines[2]["claim"]["id"], "1");
    let records = std::fs::read_to_string(format!("{results}/small.jsonl")).unwrap();
    assert_eq!(records.lines().count(), 2);
    // All records exist, so nothing is run again.
    assert_eq!(lab(&run).0, 0);
    assert_eq!(std::fs::read_to_string(format!("{results}/small.jsonl")).unwrap(), records);
    let (code, _, err) = lab(&["report", "--quick", "--plans", plans, "--results", results]);
    assert_eq!(code, 0, "{err}");
    assert!(std::fs::read_to_string(format!("{results}/report.html")).unwrap().contains("It moves data."));
    assert!(std::fs::read_to_string(format!("{results}/small.csv")).unwrap().starts_with("plan,platform,series,loss,"));
}

#[test]
fn a_page_is_made_of_archived_records() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::create_dir(at("plans")).unwrap();
    std::fs::write(at("plans/small.toml"), include_str!("../../lab/src/testdata/small.toml")).unwrap();
    let (plans, made, kept, page) = (at("plans"), at("made"), at("kept"), at("page"));
    assert_eq!(lab(&["run", "small", "--plans", &plans, "--results", &made]).0, 0);
    let (code, _, err) = lab(&["archive", "all", "--plans", &plans, "--results", &made, "--to", &kept]);
    assert!(code == 0 && err.contains("small: "), "{err}");
    let jobs = ["jobs", "all", "--plans", &plans, "--results", &page, "--recorded", &kept];
    assert_eq!(lab(&jobs), (0, String::new(), String::new()), "nothing is left to do");
    // Archiving again keeps the records archived earlier.
    let (code, _, err) = lab(&["run", "small", "--seeds", "1", "--plans", &plans, "--results", &page]);
    assert_eq!(code, 0, "{err}");
    let (code, _, err) = lab(&["archive", "all", "--plans", &plans, "--results", &page, "--to", &kept]);
    assert!(code == 0 && lab(&jobs).1.is_empty(), "{err}");
    let (code, judged, _) = lab(&["report", "--plans", &plans, "--results", &made]);
    assert_eq!(code, 0);
    let (code, again, err) = lab(&["report", "--plans", &plans, "--recorded", &kept, "--results", &page]);
    assert_eq!((code, again), (0, judged), "{err}");
    let html = std::fs::read_to_string(at("page/report.html")).unwrap();
    assert!(html.contains("(the page: ") && html.contains("<svg"));
    std::fs::write(at("kept/small.jsonl.gz"), "torn").unwrap();
    let (code, _, err) = lab(&["report", "--plans", &plans, "--recorded", &kept, "--results", &page]);
    assert!(code == 1 && err.contains("cannot use the archive"), "{err}");
}

/// Runs the program with `input` on its standard input.
fn lab_reading(arguments: &[&str], input: &str) -> (i32, String, String) {
    let mut command = Command::cargo_bin("dfcp-lab").unwrap();
    let output = command.arg("lab").args(arguments).write_stdin(input).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn jobs_of_other_machines_come_to_the_same_records() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::create_dir(at("plans")).unwrap();
    std::fs::write(at("plans/small.toml"), include_str!("../../lab/src/testdata/small.toml")).unwrap();
    let plans = at("plans");
    let list = ["jobs", "small", "--quick", "--seeds", "2", "--plans", &plans, "--results", &at("far")];
    let (code, jobs, err) = lab(&list);
    assert_eq!((code, jobs.lines().count()), (0, 4), "{err}");
    // Another machine may execute the jobs in another order.
    let mut lines: Vec<&str> = jobs.lines().collect();
    lines.reverse();
    let (code, records, err) = lab_reading(&["job", "--plans", &plans], &lines.join("\n"));
    assert_eq!((code, records.lines().count()), (0, 4), "{err}");
    let first: serde_json::Value = serde_json::from_str(lines[0]).unwrap();
    let (code, one, _) = lab(&["job", first["id"].as_str().unwrap(), "--plans", &plans]);
    assert_eq!((code, one.lines().count()), (0, 1));
    let collect = ["collect", "--plans", &plans, "--results", &at("far")];
    let (code, _, err) = lab_reading(&collect, &format!("{records}{one}"));
    assert_eq!((code, err.trim()), (0, "4 records added, 1 were there already"));
    assert!(lab(&list).1.is_empty(), "nothing is left to do");
    let run = ["run", "small", "--quick", "--seeds", "2", "--plans", &plans, "--results", &at("here"), "--jobs", "1"];
    assert_eq!(lab(&run).0, 0);
    let read = |directory: &str| {
        let text = std::fs::read_to_string(at(directory) + "/small.jsonl").unwrap();
        let mut records: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for record in &mut records {
            for own in ["wall_s", "host"] {
                record.as_object_mut().unwrap().remove(own);
            }
            record["measured"]["cpu_s"] = serde_json::Value::Null;
        }
        records.sort_by_key(|record| record["hash"].as_str().unwrap().to_owned());
        records
    };
    assert_eq!(read("far"), read("here"));
    // A record with a wrong seed is refused, with its line number.
    let (code, _, err) = lab_reading(&collect, &records.replace("\"seed\":", "\"seed\":1"));
    assert_eq!((code, err.lines().count()), (1, 1), "{err}");
    assert!(err.contains("standard input, line 1") && err.contains("has other settings"), "{err}");
    let (code, _, err) = lab(&["job", "small.quick.1.00000000000000000000000000000000", "--plans", &plans]);
    assert!(code == 1 && err.contains("list the jobs anew"), "{err}");
}

#[test]
fn a_check_fails_where_a_claim_differs() {
    let folder = tempfile::tempdir().unwrap();
    let (plans, results) = (folder.path().join("plans"), folder.path().join("results"));
    std::fs::create_dir(&plans).unwrap();
    let wrong = include_str!("../../lab/src/testdata/small.toml").replace("within = [1, 10]", "within = [100, 200]");
    std::fs::write(plans.join("small.toml"), wrong).unwrap();
    let (plans, results) = (plans.to_str().unwrap(), results.to_str().unwrap());
    let run = ["run", "small", "--quick", "--plans", plans, "--results", results];
    let (code, out, err) = lab(&run);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("0 claims reproduced, 1 differ"), "{out}");
    let (code, _, err) = lab(&[&run[..], &["--check"]].concat());
    assert_eq!((code, err.lines().count()), (1, 1), "{err}");
    assert!(err.contains("1 differ from what their plans claim"), "{err}");
}

#[test]
fn one_run_is_traced_or_the_choice_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let (plans, output) = (folder.path().join("plans"), folder.path().join("trace"));
    std::fs::create_dir(&plans).unwrap();
    std::fs::write(plans.join("small.toml"), include_str!("../../lab/src/testdata/small.toml")).unwrap();
    let (plans, output) = (plans.to_str().unwrap(), output.to_str().unwrap());
    let base = ["trace", "small", "--plans", plans, "--output", output, "--series", "cubic"];
    let (code, out, err) = lab(&base);
    assert_eq!((code, out.as_str(), err.lines().count()), (1, "", 1), "{err}");
    assert!(err.contains("--at loss=, one of 0, 0.01"), "{err}");
    let at = ["--at", "loss=0.01", "--bin", "50ms", "--pcap"];
    let (code, out, err) = lab(&[&base[..], &at[..]].concat());
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("cubic") && out.contains("no physical law was broken on 6"), "{out}");
    for file in ["flows.csv", "queues.csv", "packets.pcapng"] {
        assert!(out.contains(file) && std::fs::metadata(format!("{output}/{file}")).unwrap().len() > 200, "{out}");
    }
    let (code, out, err) =
        lab(&[&base[..], &at[..], &["--json", "--duration", "100ms", "--seed-number", "7"]].concat());
    assert_eq!((code, err.as_str()), (0, ""));
    let found: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&found["repetition"], &found["duration_s"]), (&7.into(), &0.1.into()));
    assert_eq!(std::fs::read_to_string(format!("{output}/queues.csv")).unwrap().lines().count(), 3);
}

#[test]
fn an_unknown_plan_is_one_sentence_and_exit_code_1() {
    let (code, out, err) = lab(&["run", "S99"]);
    assert_eq!((code, out.as_str(), err.lines().count()), (1, "", 1), "{err}");
    assert!(err.contains("S99") && err.contains("say all"), "{err}");
    let (code, out, err) = lab(&["trace", "S99"]);
    assert_eq!((code, out.as_str(), err.lines().count()), (1, "", 1), "{err}");
    assert!(err.contains("S99") && err.contains("S10") && !err.contains("say all"), "{err}");
}

#[test]
fn the_projects_plans_are_listed() {
    let (code, out, err) = lab(&["list"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.lines().count() >= 32 && out.contains("S10 "), "{out}");
}

#[test]
fn metrics_that_are_shown_can_be_named_in_a_plan() {
    let (code, out, err) = lab(&["metrics", "queue", "--json"]);
    assert_eq!(code, 0, "{err}");
    let metrics: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = metrics.iter().map(|metric| metric["metric"].as_str().unwrap()).collect();
    assert!(names.contains(&"queue_p95_ms") && names.contains(&"drops") && !names.contains(&"jain"), "{names:?}");
    let (code, out, _) = lab(&["metrics"]);
    assert!(code == 0 && out.lines().count() > names.len() && out.lines().all(|line| line.contains("  ")), "{out}");
    let (code, _, err) = lab(&["metrics", "no\nsuch"]);
    assert!(code == 1 && err.contains("dfcp lab metrics") && err.trim_end().lines().count() == 1, "{err}");

    let folder = tempfile::tempdir().unwrap();
    let plan = include_str!("../../lab/src/testdata/small.toml");
    let (start, rest) = plan.split_once("plot = [").unwrap();
    let (_, end) = rest.split_once(']').unwrap();
    let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    std::fs::write(folder.path().join("small.toml"), format!("{start}plot = [{}]{end}", quoted.join(", "))).unwrap();
    let (code, _, err) = lab(&["list", "--plans", folder.path().to_str().unwrap()]);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn flows_are_called_by_their_labels_and_seeds_that_change_nothing_are_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (plans, results, output) = (at("plans"), at("results"), at("trace"));
    std::fs::create_dir(&plans).unwrap();
    let small = include_str!("../../lab/src/testdata/small.toml");
    let flows = "[[flows]]\nlabel = \"ours\"\n[[flows]]\nlabel = \"the rival\"\ntransport = \"cubic\"\n[[series]]";
    let labelled = small.replacen("[[series]]", flows, 1).replace("at = {", "flow = \"the rival\"\nat = {");
    std::fs::write(format!("{plans}/small.toml"), labelled).unwrap();
    let (code, out, err) = lab(&["run", "small", "--jobs", "1", "--plans", &plans, "--results", &results]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("ours") && out.contains("the rival"), "{out}");
    let warning = "small: Seeds change nothing in some results, whose ± 0 says nothing of chance: DFCP at loss 0; CUBIC at loss 0. \
                   Let [spread] draw starts and round trips, or set `seeds = 1`.";
    assert!(err.contains(warning), "{err}");
    let table = std::fs::read_to_string(format!("{results}/small.csv")).unwrap();
    assert!(table.starts_with("plan,platform,series,loss,repetition,seed,flow,flow_label,"), "{table}");
    assert!(table.lines().nth(2).unwrap().contains(",2,the rival,"), "{table}");
    let (code, out, err) = lab(&[
        "trace",
        "small",
        "--plans",
        &plans,
        "--output",
        &output,
        "--series",
        "cubic",
        "--at",
        "loss=0.01",
        "--bin",
        "50ms",
    ]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("the rival"), "{out}");
    let lines = std::fs::read_to_string(format!("{output}/flows.csv")).unwrap();
    assert!(lines.starts_with("time_s,flow,label,goodput_mbps,") && lines.contains(",2,the rival,"), "{lines}");
    // The label of a flow may change without a new run.
    let plan = std::fs::read_to_string(format!("{plans}/small.toml")).unwrap().replace("the rival", "CUBIC");
    std::fs::write(format!("{plans}/small.toml"), plan).unwrap();
    assert_eq!(lab(&["jobs", "small", "--plans", &plans, "--results", &results]), (0, String::new(), String::new()));
}
