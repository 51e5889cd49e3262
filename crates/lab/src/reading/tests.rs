use super::*;
use crate::expand::Run;
use crate::plan::{Carrier, Discipline};

/// A valid plan.
const SMALL: &str = include_str!("../testdata/small.toml");

fn complaint(from: &str, to: &str) -> String {
    assert!(SMALL.contains(from), "{from}");
    parse("small.toml", &SMALL.replacen(from, to, 1)).unwrap_err().to_string()
}

#[test]
fn the_small_plan_is_right() {
    let source = parse("small.toml", SMALL).unwrap();
    assert_eq!((source.plan.series.len(), source.plan.flows.len()), (2, 1));
}

#[test]
fn single_runs_are_bounded_in_values_alone() {
    for (from, to) in [
        ("within = [1, 10]", "within = [1, 10]\neach_run_within = [2, 1]"),
        ("kind = \"value\"", "kind = \"flat\"\ntolerance = 0.1\neach_run_within = [1, 2]"),
    ] {
        let told = complaint(from, to);
        assert!(told.contains("belongs to a value without `standard_errors`"), "{told}");
    }
}

#[test]
fn runs_are_compared_and_limits_have_a_floor_only_where_that_means_something() {
    let value = "kind = \"value\"";
    for (to, part) in [
        ("kind = \"value\"\neach_run = true", "`each_run` belongs to a claim of the kind order with `factor`"),
        (
            "kind = \"order\"\nto = \"CUBIC\"\neach_run = true",
            "`each_run` belongs to a claim of the kind order with `factor`",
        ),
        (
            "kind = \"order\"\nto = \"CUBIC\"\nfloor = 5",
            "`floor` is a number, and belongs to a claim of the kind below",
        ),
        (
            "kind = \"below\"\nto = \"CUBIC\"\nfloor = inf",
            "`floor` is a number, and belongs to a claim of the kind below",
        ),
        ("kind = \"order\"\nto = [\"CUBIC\", \"BBR\"]\nfactor = 1", "there is no series \"BBR\""),
        ("kind = \"order\"\nto = []\nfactor = 1", "a claim of this kind needs `to`"),
    ] {
        let told = complaint(value, to);
        assert!(told.contains(part), "{told}");
    }
    for to in [
        "kind = \"order\"\nto = [\"DFCP\", \"CUBIC\"]\nfactor = 0.9\neach_run = true",
        "kind = \"below\"\nto = \"CUBIC\"\nfloor = 5\neach_run = true",
    ] {
        assert!(SMALL.contains(value) && parse("small.toml", &SMALL.replacen(value, to, 1)).is_ok(), "{to}");
    }
}

#[test]
fn a_clock_is_that_of_a_present_kernel() {
    let of = |carrier: &str| complaint("kind = \"classic\", window_blocks = 4", carrier);
    for (carrier, expected) in [
        ("kind = \"cubic-2008\", clock_hz = 250", "the transport \"cubic-2008\" has no option `clock_hz`; remove it"),
        ("kind = \"cubic\", clock_hz = 0", "`clock_hz` is 0, but lies between 24 and 1200"),
    ] {
        assert_eq!(of(carrier), format!("small.toml, line 20: \"DFCP\" at loss 0: {expected}"));
    }
}

#[test]
fn ecn_is_an_option_of_the_transports_that_may_be_without() {
    let of = |carrier: &str| complaint("kind = \"classic\", window_blocks = 4", carrier);
    for kind in ["dctcp", "cubic-2008", "tahoe", "quic-cubic", "modern"] {
        let expected = format!("the transport \"{kind}\" has no option `ecn`; remove it");
        let found = of(&format!("kind = \"{kind}\", ecn = true"));
        assert_eq!(found, format!("small.toml, line 20: \"DFCP\" at loss 0: {expected}"));
    }
    for (text, has_ecn) in [
        (r#"{"kind":"cubic","ecn":true}"#, true),
        (r#"{"kind":"newreno","ecn":false}"#, false),
        (r#"{"kind":"bbr"}"#, false),
        (r#"{"kind":"dctcp"}"#, true),
    ] {
        let carrier: Carrier = serde_json::from_str(text).unwrap();
        assert_eq!((carrier.check_options(), carrier.has_ecn()), (Ok(()), has_ecn));
        assert_eq!(serde_json::to_string(&carrier).unwrap(), text, "nothing is added to what records have");
    }
}

#[test]
fn a_threshold_for_marks_belongs_to_codel() {
    let with = |lines: &str| complaint("rate_mbps = 10", &format!("rate_mbps = 10\n{lines}"));
    for discipline in ["drop-tail", "red", "drr"] {
        let found = with(&format!("discipline = \"{discipline}\"\nce_threshold_us = 1000"));
        assert!(found.contains("ce_threshold_us belongs to codel and fq-codel"), "{found}");
    }
    let found = with("discipline = \"codel\"\nce_threshold_us = 0");
    assert!(found.contains("ce_threshold_us is 0, but lies between"), "{found}");
}

#[test]
fn errors_name_the_line_and_what_to_do() {
    for (from, to, expected) in [
        (
            "seeds = 2",
            "seeds = 0",
            "small.toml, line 1: `seeds` in [run], [quick], [small] and [[series]] lies between 1 and 1000",
        ),
        ("title = \"Small\"\n", "", "small.toml, line 1: missing field `title`"),
        ("rate_mbps = 10", "rate_mbps = \"fast\"", "small.toml, line 15: invalid type: string \"fast\", expected f64"),
        (
            "rate_mbps = 10",
            "rate_mbps = 0",
            "small.toml, line 14: \"DFCP\" at loss 0: a bottleneck's rate_mbps is 0, but lies between 0 and 1000000",
        ),
        (
            "label = \"CUBIC\"",
            "label = \"DFCP\"",
            "small.toml, line 24: the label \"DFCP\" is taken; give this series another",
        ),
        (
            "kind = \"classic\", window_blocks = 4",
            "kind = \"classic\", hystart = true",
            "small.toml, line 20: \"DFCP\" at loss 0: the transport \"classic\" has no option `hystart`; remove it",
        ),
        (
            "quick = [0.01]",
            "quick = [0.5]",
            "small.toml, line 28: `quick` has 0.5, which is not in `values` of `loss`; add it there",
        ),
        (
            "series = \"DFCP\"",
            "series = \"TCP\"",
            "small.toml, line 36: there is no series \"TCP\"; choose one of \"DFCP\", \"CUBIC\"",
        ),
        (
            "at = { loss = 0.01 }",
            "at = { loss = 0.02 }",
            "small.toml, line 36: `at` has 0.02, which is not in the values of `loss`",
        ),
        (
            "at = { loss = 0.01 }",
            "at = { rtt_ms = 1 }",
            "small.toml, line 36: `at` names `rtt_ms`, which is not swept; choose a parameter of a [[sweep]]",
        ),
        (
            "[topology]",
            "[agreement]\ntolerance_with_loss = 0.3\n[topology]",
            "small.toml, line 1: `tolerance_with_loss` in [agreement] lies above 0, and not above 0.2",
        ),
        (
            "[topology]",
            "[small]\nfastest_mbps = 201\n[topology]",
            "small.toml, line 1: `fastest_mbps` in [small] lies between 1 and 200",
        ),
        (
            "duration_s = 0.2",
            "fastest_mbps = 20",
            "small.toml, line 1: `fastest_mbps` belongs to [small]; move it there, or `set` rates in [quick]",
        ),
        ("within = [1, 10]\n", "", "small.toml, line 36: a claim of this kind needs `within = [low, high]`"),
        (
            "warm_up_s = 0.1",
            "warm_up_s = 1",
            "small.toml, line 14: \"DFCP\" at loss 0: warm_up_s is 1, but lies between 0 and the run's 0.4 s",
        ),
    ] {
        assert_eq!(complaint(from, to), expected, "{to}");
    }
}

#[test]
fn long_lists_of_names_are_told_too() {
    let message = complaint("duration_s = 0.2", "set = { los = 1 }");
    assert!(
        message
            .starts_with("small.toml, line 1: [quick]: there is no parameter `los`; choose one of bottleneck_mbps, "),
        "{message}"
    );
    let message = complaint("plot = [\"goodput_mbps\"]", "plot = [\"speed\"]");
    assert!(
        message.starts_with("small.toml, line 34: there is no metric `speed`; choose one of goodput_mbps, "),
        "{message}"
    );
    let message = complaint("transport = \"cubic\"", "transport = \"cubik\"");
    assert!(
        message.starts_with("small.toml, line 26: unknown variant `cubik`, expected one of `classic`"),
        "{message}"
    );
    let message = complaint("rtt_ms = 4", "rtt = 4");
    assert!(message.starts_with("small.toml, line 17: unknown field `rtt`, expected one of `kind`, "), "{message}");
    let message = complaint("rtt_ms = 4", "rtt_ms = ");
    assert!(message.starts_with("small.toml, line 17: "), "{message}");
}

#[test]
fn every_plan_of_the_project_is_right_and_has_a_quick_form() {
    let sources = builtin().unwrap();
    assert!(sources.len() >= 32);
    for source in &sources {
        assert_eq!(source.file, format!("{}.toml", source.plan.id));
        assert!(
            source.plan.claims.iter().all(|claim| claim.get_ref().id.starts_with(&source.plan.id)),
            "{}",
            source.file
        );
        let full = expand(source, Choice::default()).unwrap();
        let quick = expand(source, Choice { form: Form::Quick, seeds: None }).unwrap();
        let cost = |runs: &[Run]| runs.iter().map(|run| run.scenario.cost()).sum::<f64>();
        assert!(!quick.is_empty() && cost(&quick) <= cost(&full), "{}", source.file);
    }
}

/// Small forms run on every platform, so they must not use a discipline that only the simulator has.
#[test]
fn small_forms_of_the_project_ask_for_no_wfq_unless_a_series_is_about_it() {
    for source in builtin().unwrap() {
        for run in expand(&source, Choice { form: Form::Small, seeds: Some(1) }).unwrap() {
            let has_wfq = run.scenario.links.iter().any(|link| link.discipline == Discipline::Wfq);
            assert!(!has_wfq || run.series.contains("WFQ"), "{}: {}", source.file, run.series);
        }
    }
}

#[test]
fn a_directory_of_plans_is_read_in_order_and_each_id_once() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    write("b.toml", SMALL);
    write("a.toml", &SMALL.replace("\"small\"", "\"other\""));
    write("notes.txt", "not a plan");
    let ids: Vec<_> = read_directory(directory.path()).unwrap().into_iter().map(|source| source.plan.id).collect();
    assert_eq!(ids, ["other", "small"]);
    write("c.toml", SMALL);
    assert!(read_directory(directory.path()).unwrap_err().to_string().contains("both have the id small; rename one"));
    assert!(read_directory(&directory.path().join("none")).unwrap_err().to_string().contains("--plans"));
}

#[test]
fn traces_are_read_beside_the_plan_and_their_mistakes_have_lines() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    let rates = "[[rates]]\nfrom = \"trace\"\nfile = \"cell.down\"\nbin_ms = 10\n";
    write("a.toml", &SMALL.replacen("[topology]", &format!("{rates}[topology]"), 1));
    let read = || read_directory(directory.path()).map_err(|error| error.to_string());
    let error = read().unwrap_err();
    assert!(error.contains("a.toml, line ") && error.contains("cannot read the trace"), "{error}");
    write("cell.down", "0\n3\nx\n");
    let error = read().unwrap_err();
    assert!(error.contains("cell.down, line 3: `x` is no time"), "{error}");
    write("cell.down", "0\n3\n3\n10\n");
    let sources = read().unwrap();
    let run = &expand(&sources[0], Choice { form: Form::Full, seeds: Some(1) }).unwrap()[0];
    let changes = run.scenario.drawn(1).changes;
    // The trace has 3 packets in the first 10 ms and 4 in every other bin, at 0, 3, 3; 10, 10, 13, 13 ms and so on.
    let rates: Vec<u64> = changes.iter().filter_map(|change| change.rate_bps).take(3).collect();
    assert_eq!(rates, [3_600_000, 4_800_000, 4_800_000]);
    assert_eq!((changes[1].at_ns, run.scenario.drawn(1).drawn(2).changes.len()), (10_000_000, changes.len()));
    let mean_bps = run.scenario.links[0].rate_bps;
    let sum_bps: u64 = changes.iter().filter_map(|change| change.rate_bps).sum();
    assert_eq!(mean_bps, sum_bps / changes.len() as u64);
    for (line, instead, part) in [
        ("bin_ms = 10", "bin_ms = 0.0001", "bin_ms makes more than"),
        ("bin_ms = 10", "bottleneck = 9", "names bottleneck 9"),
        ("bin_ms = 10", "bin = 10", "unknown field"),
        ("\"trace\"", "\"tracer\"", "unknown variant"),
    ] {
        write("a.toml", &SMALL.replacen("[topology]", &format!("{}[topology]", rates_with(line, instead)), 1));
        let error = read().unwrap_err();
        assert!(error.contains(part) && error.contains("a.toml, line"), "{instead}: {error}");
    }
    let twice = format!("{}{}", rates_with("", ""), rates_with("", ""));
    write("a.toml", &SMALL.replacen("[topology]", &format!("{twice}[topology]"), 1));
    assert!(read().unwrap_err().contains("from elsewhere, too"));
    // Two traces, one per direction: the first applies to data, the second to the reverse direction.
    let both = format!("{}{}", rates_with("", ""), rates_with("bin_ms = 10", "way = \"down\"\nbin_ms = 20"));
    write("a.toml", &SMALL.replacen("[topology]", &format!("{both}[topology]"), 1));
    let sources = read().unwrap();
    let run = &expand(&sources[0], Choice { form: Form::Full, seeds: Some(1) }).unwrap()[0];
    let first = |is_back: bool| {
        let changes = run.scenario.drawn(1).changes;
        changes.iter().find(|change| change.is_back == is_back).and_then(|change| change.rate_bps)
    };
    // The first bin of 10 ms has 3 packets; the first bin of 20 ms has 3 + 4.
    assert_eq!((first(false), first(true)), (Some(3_600_000), Some(4_200_000)));
    assert!(run.scenario.links[0].back_bps.is_some());
    let up = format!("{}[topology]\nup_mbps = 3\n", rates_with("", ""));
    write("a.toml", &SMALL.replacen("[topology]\n", &up, 1));
    assert!(read().unwrap_err().contains("up_mbps is the rate which [[rates]] has, too"));
}

/// Returns a table `[[rates]]` for a recorded rate, with the text `from` replaced by `to`.
fn rates_with(from: &str, to: &str) -> String {
    "[[rates]]\nfrom = \"trace\"\nfile = \"cell.down\"\nbin_ms = 10\n".replacen(from, to, 1)
}
