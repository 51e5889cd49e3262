use super::*;
use crate::reading::parse;

const PLAN: &str = r#"id = "two"
title = "Two axes"
source = "ours"
question = "How many runs?"
[run]
seeds = 3
duration_s = 1
warm_up_s = 0
[quick]
set = { bottleneck_mbps = 5 }
[topology]
rate_mbps = 10
[[series]]
label = "DFCP"
transport = { kind = "classic", redundancy = "optimal" }
set = { discipline = "drr" }
[[series]]
label = "CUBIC"
transport = "cubic"
[[sweep]]
parameter = "loss"
values = [0, 0.1, 0.2]
quick = [0.1]
[[sweep]]
parameter = "rtt_ms"
values = [1, 100]
[metrics]
plot = ["goodput_mbps"]
"#;

fn runs(choice: Choice) -> Vec<Run> {
    expand(&parse("two.toml", PLAN).unwrap(), choice).unwrap()
}

#[test]
fn every_point_series_and_repetition_is_a_run_of_its_own() {
    let all = runs(Choice::default());
    assert_eq!(all.len(), 3 * 2 * 2 * 3);
    let hashes: std::collections::BTreeSet<_> = all.iter().map(|run| &run.hash).collect();
    assert_eq!(hashes.len(), all.len());
    assert_eq!(runs(Choice { form: Form::Quick, seeds: None }).len(), 4);
    assert_eq!(runs(Choice { form: Form::Quick, seeds: Some(5) }).len(), 20);
    assert_eq!(all, runs(Choice::default()));
}

#[test]
fn a_series_is_longer_in_the_full_form_alone() {
    let plan = PLAN.replace("discipline = \"drr\" }", "discipline = \"drr\", duration_s = 9 }");
    let source = parse("two.toml", &plan).unwrap();
    let longest_s = |form| {
        let runs = expand(&source, Choice { form, seeds: None }).unwrap();
        runs.iter().map(|run| run.scenario.duration_ns / 1_000_000_000).max()
    };
    assert_eq!([Form::Full, Form::Quick, Form::Small].map(longest_s), [Some(9), Some(1), Some(1)]);
}

#[test]
fn a_series_has_runs_of_its_own_number_in_the_full_form() {
    let plan = PLAN.replace("label = \"CUBIC\"\n", "label = \"CUBIC\"\nseeds = 5\n");
    let source = parse("two.toml", &plan).unwrap();
    let count =
        |choice, series: &str| expand(&source, choice).unwrap().iter().filter(|run| run.series == series).count();
    let quick = Choice { form: Form::Quick, seeds: None };
    assert_eq!([count(Choice::default(), "DFCP"), count(Choice::default(), "CUBIC")], [6 * 3, 6 * 5]);
    assert_eq!([count(quick, "DFCP"), count(quick, "CUBIC")], [2, 2]);
    assert_eq!(count(Choice { form: Form::Full, seeds: Some(2) }, "CUBIC"), 6 * 2);
    // A series' own number of seeds adds runs; common repetitions are identical.
    let (own, others) = (expand(&source, Choice::default()).unwrap(), runs(Choice::default()));
    assert!(others.iter().all(|run| own.contains(run)));
}

#[test]
fn series_meet_the_same_seeds_and_points_other_ones() {
    let all = runs(Choice::default());
    let seeds = |series: &str| all.iter().filter(|run| run.series == series).map(|run| run.seed).collect::<Vec<_>>();
    assert_eq!(seeds("DFCP"), seeds("CUBIC"));
    let different: std::collections::BTreeSet<_> = seeds("DFCP").into_iter().collect();
    assert_eq!(different.len(), 18);
}

#[test]
fn parameters_reach_the_scenario() {
    let all = runs(Choice { form: Form::Quick, seeds: None });
    let (dfcp, cubic) = (&all[0], &all[1]);
    assert_eq!(dfcp.point, [("loss".to_owned(), Level::Number(0.1)), ("rtt_ms".to_owned(), Level::Number(1.0))]);
    for run in [dfcp, cubic] {
        assert_eq!((run.scenario.links[0].rate_bps, run.scenario.links[0].loss), (5_000_000, 0.1));
        assert_eq!(run.scenario.flows[0].rtt_ns, 1_000_000);
        assert!((run.scenario.flows[0].loss - 0.1).abs() < 1e-12);
    }
    let disciplines = [dfcp, cubic].map(|run| run.scenario.links[0].discipline);
    assert_eq!(disciplines, [crate::plan::Discipline::Drr, crate::plan::Discipline::DropTail]);
}

#[test]
fn the_small_form_is_the_quick_one_with_what_small_says() {
    let slow = PLAN.replace("rate_mbps = 10", "rate_mbps = 10\naccess_mbps = 100");
    let of = |plan: &str, form| {
        let source = parse("two.toml", plan).unwrap();
        expand(&source, Choice { form, seeds: None }).unwrap()
    };
    assert_eq!(of(&slow, Form::Small), of(&slow, Form::Quick));
    let plan = slow
        .replace("[topology]", "[small]\nseeds = 2\nduration_s = 0.5\nset = { discipline = \"sfq\" }\n[topology]")
        .replace("quick = [0.1]", "quick = [0.1]\nsmall = [0, 0.2]");
    let small = of(&plan, Form::Small);
    assert_eq!(small.len(), 2 * 2 * 2 * 2);
    let losses: std::collections::BTreeSet<_> = small.iter().map(|run| run.point[0].1.to_string()).collect();
    assert_eq!(losses.into_iter().collect::<Vec<_>>(), ["0", "0.2"]);
    for run in &small {
        assert_eq!((run.scenario.links[0].rate_bps, run.scenario.duration_ns), (5_000_000, 500_000_000));
    }
    // Settings of a series override the settings of the form.
    let disciplines = [&small[0], &small[2]].map(|run| run.scenario.links[0].discipline);
    assert_eq!(disciplines, [crate::plan::Discipline::Drr, crate::plan::Discipline::Sfq]);
}

#[test]
fn a_small_form_can_be_slower_than_others() {
    let rates_mbps = |plan: &str| {
        let source = parse("two.toml", plan).unwrap();
        let small = expand(&source, Choice { form: Form::Small, seeds: None }).unwrap();
        let rates = small.iter().map(|run| (run.scenario.links[0].rate_bps, run.scenario.fastest_bps()));
        let rates: std::collections::BTreeSet<_> =
            rates.map(|(link, all)| (link / 1_000_000, all / 1_000_000)).collect();
        rates.into_iter().collect::<Vec<_>>()
    };
    let plan = PLAN.replace("rate_mbps = 10", "rate_mbps = 10\naccess_mbps = 100").replace("mbps = 5 }", "mbps = 50 }");
    assert_eq!(rates_mbps(&plan), [(50, 100)]);
    let slower = plan.replace("[topology]", "[small]\nfastest_mbps = 20\n[topology]");
    assert_eq!(rates_mbps(&slower), [(10, 20)]);
    // `fastest_mbps` only lowers rates: a plan with slower links stays unchanged.
    assert_eq!(rates_mbps(&slower.replace("fastest_mbps = 20", "fastest_mbps = 200")), [(50, 100)]);
}

/// Thesis §3.12.2: the rate is 250·Inctokens encoded bytes per second, in a plan as in the socket interface.
#[test]
fn the_token_bucket_of_the_thesis_can_be_swept() {
    let plan = PLAN
        .replace("duration_s = 1", "duration_s = 11")
        .replace("warm_up_s = 0", "warm_up_s = 1")
        .replace("redundancy = \"optimal\"", "window_blocks = 2, parameters = { maxtokens = 20000, inctokens = 1 }")
        .replace(
            "parameter = \"loss\"\nvalues = [0, 0.1, 0.2]\nquick = [0.1]",
            "parameter = \"parameters.Inctokens\"\nvalues = [1000, 4000]",
        )
        .replace("values = [1, 100]", "values = [1]")
        .replace("[quick]\nset = { bottleneck_mbps = 5 }\n", "")
        .replace("rate_mbps = 10", "rate_mbps = 100");
    let choice = Choice { form: Form::Full, seeds: Some(1) };
    let runs = expand(&parse("tokens.toml", &plan).unwrap(), choice).unwrap();
    let goodput = |run: &Run| {
        let flows = crate::measure(&run.scenario, run.seed).unwrap().flows;
        flows.iter().map(|flow| flow.goodput_bps).sum::<f64>() / 1e6
    };
    let of = |series: &str| runs.iter().filter(|run| run.series == series).map(goodput).collect::<Vec<f64>>();
    for (mbps, inctokens) in of("DFCP").into_iter().zip([1000.0, 4000.0]) {
        let encoded_mbps = inctokens * 250.0 * 8.0 / 1e6;
        assert!((0.85..=1.0).contains(&(mbps / encoded_mbps)), "{mbps} of {encoded_mbps} Mbit/s");
    }
    assert!(of("CUBIC").iter().all(|&mbps| mbps > 50.0), "TCP has no such parameter");
}

#[test]
fn a_wrong_parameter_of_the_thesis_is_said_in_one_sentence() {
    for (parameters, expected) in [
        ("parameters = { maxtokens = 5 }", "parameters.maxtokens: Maxtokens must lie between 1420 and"),
        ("parameters = { tokens = 5 }", "parameters.tokens: thesis table 3.2 has no such parameter"),
    ] {
        let plan = PLAN.replace("redundancy = \"optimal\"", parameters);
        let error = parse("tokens.toml", &plan).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_series_is_run_where_it_says() {
    let plan = PLAN.replace("transport = \"cubic\"", "transport = \"cubic\"\nat = { loss = [0, 0.1], rtt_ms = 100 }");
    let all = expand(&parse("two.toml", &plan).unwrap(), Choice { form: Form::Full, seeds: Some(1) }).unwrap();
    let points =
        |series: &str| all.iter().filter(|run| run.series == series).map(|run| run.point.clone()).collect::<Vec<_>>();
    assert_eq!(points("DFCP").len(), 6);
    let expected = [0.0, 0.1]
        .map(|loss| vec![("loss".to_owned(), Level::Number(loss)), ("rtt_ms".to_owned(), Level::Number(100.0))]);
    assert_eq!(points("CUBIC"), expected);
    let alien = PLAN.replace("transport = \"cubic\"", "transport = \"cubic\"\nat = { loss = 0.3 }");
    let message = parse("two.toml", &alien).unwrap_err().to_string();
    assert!(message.contains("`at` has 0.3, which is not in the values of `loss`"), "{message}");
}

#[test]
fn changes_and_transports_of_flows_are_swept_by_number() {
    let plan = PLAN
        .replace(
            "parameter = \"loss\"\nvalues = [0, 0.1, 0.2]\nquick = [0.1]",
            "parameter = \"time1.rate_mbps\"\nvalues = [3]",
        )
        .replace("parameter = \"rtt_ms\"\nvalues = [1, 100]", "parameter = \"flows2.transport\"\nvalues = [\"bbr\"]")
        .replace(
            "[[series]]\nlabel = \"DFCP\"",
            "[[time]]\nat_s = 0.5\n[[flows]]\n[[flows]]\n[[series]]\nlabel = \"DFCP\"",
        );
    let all = expand(&parse("two.toml", &plan).unwrap(), Choice::default()).unwrap();
    for run in &all {
        assert_eq!(run.scenario.changes[0].rate_bps, Some(3_000_000));
        assert_eq!(run.scenario.flows[1].transport.name(), "bbr");
        assert_ne!(run.scenario.flows[0].transport.name(), "bbr");
    }
    let wrong = plan.replace("\"bbr\"", "\"bbq\"");
    let message = parse("two.toml", &wrong).unwrap_err().to_string();
    assert!(message.contains("`flows2.transport`: ") && message.contains("bbq"), "{message}");
}
