use super::*;
use crate::metrics::{FlowMeasured, Measured};
use crate::reading::parse;

/// Table of invented goodputs of two flows, Mbit/s, for series A and B at loss 0, 0.1 and 0.2.
fn table() -> Table {
    let cells = [(0.0, [10.0, 10.0], [10.0, 12.0]), (0.1, [8.0, 8.4], [4.0, 4.0]), (0.2, [8.0, 8.0], [0.0, 0.0])];
    let cell = |series: &str, loss: f64, goodputs: [f64; 2]| Cell {
        series: series.to_owned(),
        point: vec![("loss".to_owned(), Level::Number(loss))],
        warm_up_s: 0.0,
        scale: 1.0,
        measured: vec![Measured {
            flows: goodputs.map(|mbps| FlowMeasured { goodput_bps: mbps * 1e6, ..FlowMeasured::default() }).to_vec(),
            ..Measured::default()
        }],
    };
    Table { cells: cells.iter().flat_map(|&(loss, a, b)| [cell("A", loss, a), cell("B", loss, b)]).collect() }
}

fn verdict(claim: &str) -> (Verdict, String) {
    verdict_on(&table(), claim)
}

fn verdict_on(table: &Table, claim: &str) -> (Verdict, String) {
    let text = format!(
        "id = \"t\"\ntitle = \"\"\nsource = \"\"\nquestion = \"\"\n[run]\n[topology]\n[[series]]\nlabel = \"A\"\ntransport = \"modern\"\n\
         [[series]]\nlabel = \"B\"\ntransport = \"cubic\"\n[[sweep]]\nparameter = \"loss\"\nvalues = [0, 0.1, 0.2, 0.3]\n\
         [metrics]\nplot = [\"goodput_mbps\"]\n[[claims]]\nid = \"1\"\nsays = \"\"\ntag = \"D\"\n{claim}"
    );
    let source = parse("t.toml", &text).unwrap();
    let judged = judge_once(&source.plan, table).remove(0);
    (judged.verdict, judged.measured)
}

#[test]
fn every_kind_of_claim_is_judged_by_its_numbers() {
    use Verdict::{Differs, Reproduced};
    for (claim, expected, measured) in [
        ("kind = \"value\"\nseries = \"A\"\nat = { loss = 0.1 }\nwithin = [8, 9]", Reproduced, "8.20 at loss 0.1"),
        (
            "kind = \"value\"\nseries = \"A\"\nflow = 2\nat = { loss = 0.1 }\nwithin = [8, 8.3]",
            Differs,
            "8.40 at loss 0.1",
        ),
        (
            "kind = \"ratio\"\nseries = \"A\"\nto = \"B\"\nat = { loss = 0.1 }\nwithin = [2, 2.1]",
            Reproduced,
            "2.05× at loss 0.1",
        ),
        (
            "kind = \"ratio\"\nseries = \"B\"\nflow = 2\nto_flow = 1\nat = { loss = 0 }\nwithin = [1.3, 2]",
            Differs,
            "1.20× at loss 0",
        ),
        (
            "kind = \"order\"\nseries = \"A\"\nto = \"B\"\nfactor = 2\nat = { loss = { min = 0.1 } }",
            Reproduced,
            "2.05× at loss 0.1, without bound× at loss 0.2",
        ),
        ("kind = \"order\"\nseries = \"A\"\nto = \"B\"", Differs, "0.909× at loss 0"),
        (
            "kind = \"below\"\nseries = \"A\"\nto = \"B\"\nfactor = 2\nplus = 0.3\nat = { loss = 0.1 }",
            Reproduced,
            "-0.1 beyond at loss 0.1",
        ),
        (
            "kind = \"below\"\nseries = \"A\"\nto = \"B\"\nat = { loss = { max = 0.1 } }",
            Differs,
            "4.20 beyond at loss 0.1",
        ),
        (
            "kind = \"value\"\nseries = \"A\"\nat = { loss = { max = 0.2 } }\nwithin = [8, 9]\nshare = 0.6",
            Reproduced,
            "at 2 of 3 points; 10.0 at loss 0",
        ),
        (
            "kind = \"value\"\nseries = \"A\"\nat = { loss = { max = 0.2 } }\nwithin = [8, 9]\nshare = 0.7",
            Differs,
            "at 2 of 3 points; 10.0 at loss 0",
        ),
        (
            "kind = \"flat\"\nseries = \"A\"\nat = { loss = [0.1, 0.2] }\ntolerance = 0.05",
            Reproduced,
            "8.00 to 8.20, a spread of 2.4 %",
        ),
        ("kind = \"flat\"\nseries = \"A\"\ntolerance = 0.1", Differs, "8.00 to 10.0, a spread of 20.0 %"),
        (
            "kind = \"monotone\"\nseries = \"B\"\nfalls = true",
            Reproduced,
            "11.0 at loss 0, 4.00 at loss 0.1, 0 at loss 0.2",
        ),
        ("kind = \"monotone\"\nseries = \"B\"", Differs, "11.0 at loss 0, 4.00 at loss 0.1, 0 at loss 0.2"),
        (
            "kind = \"equal\"\nseries = \"A\"\ntolerance = 0.05",
            Reproduced,
            "0 % at loss 0, 4.88 % at loss 0.1, 0 % at loss 0.2",
        ),
    ] {
        assert_eq!(verdict(claim), (expected, measured.to_owned()), "{claim}");
    }
}

#[test]
fn claims_about_differences_and_shapes_are_judged_by_their_numbers() {
    use Verdict::{Differs, Reproduced};
    for (claim, expected, measured) in [
        ("kind = \"unequal\"\nseries = \"A\"\ntolerance = 0.04", Differs, "0 % at loss 0, 0 % at loss 0.2"),
        ("kind = \"unequal\"\nseries = \"B\"\nat = { loss = 0 }\ntolerance = 0.15", Reproduced, "18.2 % at loss 0"),
        (
            "kind = \"growth\"\nseries = \"A\"\nwithin = [0.75, 0.85]",
            Reproduced,
            "0.8× from first to last: 10.0 at loss 0, 8.20 at loss 0.1, 8.00 at loss 0.2",
        ),
        (
            "kind = \"growth\"\nseries = \"A\"\nwithin = [1.01, 2]",
            Differs,
            "0.8× from first to last: 10.0 at loss 0, 8.20 at loss 0.1, 8.00 at loss 0.2",
        ),
        (
            "kind = \"curved\"\nseries = \"A\"\nat = { loss = { max = 0.2 } }",
            Reproduced,
            "10.0 at loss 0, 8.20 at loss 0.1, 8.00 at loss 0.2; off the straight line by -40.0 % of the change at loss 0.1",
        ),
        (
            "kind = \"curved\"\nseries = \"B\"\nchange = 0.2",
            Differs,
            "11.0 at loss 0, 4.00 at loss 0.1, 0 at loss 0.2; off the straight line by -13.6 % of the change at loss 0.1",
        ),
    ] {
        assert_eq!(verdict(claim), (expected, measured.to_owned()), "{claim}");
    }
}

/// Constants, ties, and the ratio of two zeros.
#[test]
fn what_says_nothing_proves_nothing() {
    use Verdict::Differs;
    for (claim, expected, measured) in [
        // At loss 0.2 both flows of B deliver nothing. Equal zeros do not count as fair.
        (
            "kind = \"equal\"\nseries = \"B\"\ntolerance = 0.05",
            Differs,
            "18.2 % at loss 0, without bound % at loss 0.2",
        ),
        ("kind = \"order\"\nseries = \"B\"\nto = \"B\"\nat = { loss = 0 }", Differs, "1.00× at loss 0"),
        (
            "kind = \"order\"\nseries = \"B\"\nto = \"B\"\nat = { loss = 0.2 }\nfactor = 1",
            Differs,
            "undefined× at loss 0.2",
        ),
        (
            "kind = \"monotone\"\nseries = \"A\"\nat = { loss = [0.1, 0.2] }\ntolerance = 0.1",
            Differs,
            "8.20 at loss 0.1, 8.00 at loss 0.2; -2.44 % from first to last",
        ),
        (
            "kind = \"monotone\"\nseries = \"A\"\nat = { loss = [0.1, 0.2] }\nfalls = true\nchange = 0.05",
            Differs,
            "8.20 at loss 0.1, 8.00 at loss 0.2; 2.50 % from first to last",
        ),
    ] {
        assert_eq!(verdict(claim), (expected, measured.to_owned()), "{claim}");
    }
    let mut silent = table();
    for flow in silent.cells.iter_mut().flat_map(|cell| &mut cell.measured).flat_map(|run| &mut run.flows) {
        flow.goodput_bps = 0.0;
    }
    let flat = "kind = \"flat\"\nseries = \"B\"\ntolerance = 0.5";
    assert_eq!(verdict_on(&silent, flat), (Differs, "0 to 0, a spread of without bound %".to_owned()));
    // One point cannot show a slope or a spread, so the claim counts as not run.
    for alone in ["kind = \"flat\"\ntolerance = 0.5", "kind = \"monotone\"", "kind = \"growth\"\nwithin = [2, 3]"] {
        assert_eq!(verdict(&format!("{alone}\nseries = \"A\"\nat = {{ loss = 0 }}")).0, Verdict::NotRun, "{alone}");
    }
}

#[test]
fn a_known_reason_and_missing_points_are_told() {
    let because = |within: &str| {
        let claim = "kind = \"value\"\nseries = \"A\"\nat = { loss = 0 }\nwithin = [1, 2]\nbecause";
        verdict(&format!("{claim} = {{ why = \"of this\", within = {within} }}"))
    };
    assert_eq!(because("[9, 11]").0, Verdict::NotReproducible("of this".to_owned()));
    // The known reason covers 3 to 9, and the measured 10.0 lies outside.
    let (differs, measured) = because("[3, 9]");
    assert_eq!((differs, measured.as_str()), (Verdict::Differs, "10.0 at loss 0; the known reason explains 3 to 9"));
    let missing = "kind = \"value\"\nseries = \"A\"\nat = { loss = 0.3 }\nwithin = [1, 2]";
    assert_eq!(verdict(missing).0, Verdict::NotRun);
}

#[test]
fn numbers_have_three_digits() {
    for (number, text) in
        [(0.0, "0"), (923.4, "923"), (12.34, "12.3"), (1.0, "1.00"), (0.0123, "0.0123"), (1e-5, "0.00001")]
    {
        assert_eq!(digits(number), text);
    }
}

/// With one outlier in three runs, a claim fails on the mean and holds on the median.
#[test]
fn claims_are_held_against_the_median_where_the_plan_says_so() {
    let text = |judge_by: &str| {
        format!(
            "id = \"t\"\ntitle = \"\"\nsource = \"\"\nquestion = \"\"\n[run]\njudge_by = \"{judge_by}\"\n[topology]\n\
             [[series]]\nlabel = \"A\"\ntransport = \"modern\"\n[metrics]\nplot = [\"goodput_mbps\"]\n[[claims]]\nid = \"1\"\n\
             says = \"\"\ntag = \"D\"\nkind = \"value\"\nseries = \"A\"\nwithin = [9, 11]\n"
        )
    };
    let measured = [10.0, 1.0, 10.0].map(|mbps| Measured {
        flows: vec![FlowMeasured { goodput_bps: mbps * 1e6, ..FlowMeasured::default() }],
        ..Measured::default()
    });
    let cell =
        Cell { series: "A".to_owned(), point: Vec::new(), warm_up_s: 0.0, scale: 1.0, measured: measured.to_vec() };
    let table = Table { cells: vec![cell] };
    let verdict = |judge_by| judge_once(&parse("t.toml", &text(judge_by)).unwrap().plan, &table).remove(0);
    assert_eq!(verdict("mean").verdict, Verdict::Differs);
    let by_median = verdict("median");
    assert_eq!((by_median.verdict, by_median.measured.as_str()), (Verdict::Reproduced, "10.0"));
}

#[test]
fn a_share_of_messages_may_miss_its_bound_by_chance_and_the_less_the_more_there_are() {
    let verdict = |due: u64, in_time: f64| {
        let messages = Some(crate::metrics::MessagesMeasured { due, in_time, ..Default::default() });
        let run =
            || Measured { flows: vec![FlowMeasured { messages, ..FlowMeasured::default() }], ..Measured::default() };
        let point = vec![("loss".to_owned(), Level::Number(0.0))];
        let cell = Cell { series: "A".to_owned(), point, warm_up_s: 0.0, scale: 1.0, measured: vec![run(), run()] };
        let text = "id = \"t\"\ntitle = \"\"\nsource = \"\"\nquestion = \"\"\n[run]\n[topology]\n[[series]]\nlabel = \"A\"\ntransport = \"modern\"\n\
             [[sweep]]\nparameter = \"loss\"\nvalues = [0]\n[metrics]\nplot = [\"in_time_percent\"]\n[[claims]]\nid = \"1\"\nsays = \"\"\n\
             tag = \"D\"\nkind = \"value\"\nseries = \"A\"\nwithin = [99, 100]\nstandard_errors = 2\n";
        let judged = judge_once(&parse("t.toml", text).unwrap().plan, &Table { cells: vec![cell] }).remove(0);
        (judged.verdict, judged.measured)
    };
    // Of 10 000 messages 1 % may be late: 100, with a standard error of 10.
    assert_eq!(verdict(5_000, 0.9881), (Verdict::Reproduced, "1.19 % not in time at loss 0".to_owned()));
    assert_eq!(verdict(5_000, 0.9879).0, Verdict::Differs);
    assert_eq!(verdict(50_000, 0.9881).0, Verdict::Differs);
}

/// Returns the verdict on `claim`. `a` and `b` hold the goodputs of two flows in each of two runs of series A and B.
fn of_runs(claim: &str, a: [[f64; 2]; 2], b: [[f64; 2]; 2]) -> Verdict {
    let text = format!(
        "id = \"t\"\ntitle = \"\"\nsource = \"\"\nquestion = \"\"\n[run]\n[topology]\n[[series]]\nlabel = \"A\"\ntransport = \"modern\"\n\
         [[series]]\nlabel = \"B\"\ntransport = \"cubic\"\n[metrics]\nplot = [\"goodput_mbps\"]\n[[claims]]\nid = \"1\"\nsays = \"\"\n\
         tag = \"D\"\nseries = \"A\"\n{claim}"
    );
    let cell = |series: &str, runs: [[f64; 2]; 2]| {
        let flow = |mbps: f64| FlowMeasured { goodput_bps: mbps * 1e6, ..FlowMeasured::default() };
        let run = |flows: [f64; 2]| Measured { flows: flows.map(flow).to_vec(), ..Measured::default() };
        Cell {
            series: series.to_owned(),
            point: Vec::new(),
            warm_up_s: 0.0,
            scale: 1.0,
            measured: runs.map(run).to_vec(),
        }
    };
    let table = Table { cells: vec![cell("A", a), cell("B", b)] };
    judge_once(&parse("t.toml", &text).unwrap().plan, &table).remove(0).verdict
}

#[test]
fn two_runs_which_are_unfair_the_other_way_round_are_not_fair() {
    let equal = "kind = \"equal\"\ntolerance = 0.1";
    assert_eq!(of_runs(equal, [[9.0, 1.0], [1.0, 9.0]], [[0.0; 2]; 2]), Verdict::Differs);
    assert_eq!(of_runs(equal, [[5.0, 5.2], [5.1, 5.0]], [[0.0; 2]; 2]), Verdict::Reproduced);
}

#[test]
fn who_is_ahead_by_chance_is_not_above() {
    let above = "kind = \"order\"\nto = \"B\"";
    let of = |a: [f64; 2], b: [f64; 2]| of_runs(above, a.map(|mbps| [mbps; 2]), b.map(|mbps| [mbps; 2]));
    assert_eq!(of([10.0, 10.2], [9.0, 9.2]), Verdict::Reproduced);
    assert_eq!(of([10.0, 12.0], [9.0, 11.0]), Verdict::Differs);
    assert_eq!(of([10.0, 10.0], [10.0, 10.0]), Verdict::Differs);
    assert_eq!(of([0.0, 0.0], [0.0, 0.0]), Verdict::Differs);
}

/// Returns the verdict on `claim`. `runs` holds the goodput of A's only flow at loss 0, 0.1, 0.2 and 0.3, for two runs
/// each.
fn over_loss(claim: &str, runs: [[f64; 2]; 4]) -> Verdict {
    let text = format!(
        "id = \"t\"\ntitle = \"\"\nsource = \"\"\nquestion = \"\"\n[run]\n[topology]\n[[series]]\nlabel = \"A\"\ntransport = \"modern\"\n\
         [[sweep]]\nparameter = \"loss\"\nvalues = [0, 0.1, 0.2, 0.3]\n[metrics]\nplot = [\"goodput_mbps\"]\n[[claims]]\nid = \"1\"\n\
         says = \"\"\ntag = \"D\"\nseries = \"A\"\n{claim}"
    );
    let run = |mbps: f64| Measured {
        flows: vec![FlowMeasured { goodput_bps: mbps * 1e6, ..FlowMeasured::default() }],
        ..Measured::default()
    };
    let cell = |(place, runs): (usize, [f64; 2])| Cell {
        series: "A".to_owned(),
        point: vec![("loss".to_owned(), Level::Number(place as f64 / 10.0))],
        warm_up_s: 0.0,
        scale: 1.0,
        measured: runs.map(run).to_vec(),
    };
    let table = Table { cells: runs.into_iter().enumerate().map(cell).collect() };
    judge_once(&parse("t.toml", &text).unwrap().plan, &table).remove(0).verdict
}

#[test]
fn neither_a_line_nor_a_constant_nor_chance_nor_nothing_is_a_curve() {
    use Verdict::{Differs, Reproduced};
    let of = |means: [f64; 4]| over_loss("kind = \"curved\"", means.map(|mbps| [mbps; 2]));
    // First a hyperbola 1/(1 + 3x), then the straight line between its end points.
    assert_eq!(of([90.0, 69.2, 56.3, 47.4]), Reproduced);
    assert_eq!(of([90.0, 75.8, 61.6, 47.4]), Differs);
    assert_eq!(of([90.0; 4]), Differs);
    assert_eq!(of([0.0; 4]), Differs);
    // The curve crosses the line: above it first, then below.
    assert_eq!(of([90.0, 85.0, 50.0, 47.4]), Differs);
    // Here the total change is small, so that any bend is a large share of it. The claim must fail.
    assert_eq!(of([90.0, 89.0, 89.0, 89.5]), Differs);
    // The deviation from the line is as large as above, but the runs at each point scatter as much.
    assert_eq!(over_loss("kind = \"curved\"", [[95.0, 85.0], [79.2, 59.2], [60.0, 52.6], [50.0, 44.8]]), Differs);
}

#[test]
fn neither_a_constant_nor_chance_nor_nothing_grows() {
    use Verdict::{Differs, Reproduced};
    let grows = "kind = \"growth\"\nwithin = [1.05, 1.2]";
    let of = |means: [f64; 4]| over_loss(grows, means.map(|mbps| [mbps; 2]));
    assert_eq!(of([50.0, 50.0, 50.0, 55.0]), Reproduced);
    assert_eq!(of([50.0; 4]), Differs);
    assert_eq!(of([0.0; 4]), Differs);
    assert_eq!(of([0.0, 0.0, 0.0, 1.0]), Differs);
    // The mean grows by 10 %, which chance explains.
    assert_eq!(over_loss(grows, [[45.0, 55.0], [50.0; 2], [50.0; 2], [50.0, 60.0]]), Differs);
    let parse = |within: &str| {
        let text = format!(
            "id = \"t\"\ntitle = \"\"\nsource = \"\"\nquestion = \"\"\n[run]\n[topology]\n[[series]]\nlabel = \"A\"\ntransport = \"modern\"\n\
             [metrics]\nplot = [\"goodput_mbps\"]\n[[claims]]\nid = \"1\"\nsays = \"\"\ntag = \"D\"\nseries = \"A\"\nkind = \"growth\"\n\
             within = {within}"
        );
        parse("t.toml", &text).is_ok()
    };
    assert_eq!((parse("[1.05, 1.2]"), parse("[0.9, 1.2]")), (true, false));
}

#[test]
fn flows_apart_by_chance_or_without_anything_are_not_unequal() {
    use Verdict::{Differs, Reproduced};
    let unequal = "kind = \"unequal\"\ntolerance = 0.1";
    assert_eq!(of_runs(unequal, [[6.0, 4.0], [6.1, 4.0]], [[0.0; 2]; 2]), Reproduced);
    // One flow is slower in each run, but not the same flow in both.
    assert_eq!(of_runs(unequal, [[6.0, 4.0], [4.0, 6.1]], [[0.0; 2]; 2]), Reproduced);
    assert_eq!(of_runs(unequal, [[6.0, 4.0], [5.0, 5.0]], [[0.0; 2]; 2]), Differs);
    assert_eq!(of_runs(unequal, [[5.0, 5.0], [5.0, 5.0]], [[0.0; 2]; 2]), Differs);
    assert_eq!(of_runs(unequal, [[0.0; 2]; 2], [[0.0; 2]; 2]), Differs);
}

/// The median of the three runs is in range; one run is outside, and `each_run_within` reports it.
#[test]
fn a_run_which_fails_is_not_hidden_by_the_others() {
    let measured = [10.0, 1.0, 10.0].map(|mbps| Measured {
        flows: vec![FlowMeasured { goodput_bps: mbps * 1e6, ..FlowMeasured::default() }],
        ..Measured::default()
    });
    let point = vec![("loss".to_owned(), Level::Number(0.0))];
    let cell = Cell { series: "A".to_owned(), point, warm_up_s: 0.0, scale: 1.0, measured: measured.to_vec() };
    let table = Table { cells: vec![cell] };
    let of = |each: &str| {
        verdict_on(&table, &format!("kind = \"value\"\nseries = \"A\"\nat = {{ loss = 0 }}\nwithin = [6, 11]\n{each}"))
    };
    assert_eq!(of(""), (Verdict::Reproduced, "7.00 at loss 0".to_owned()));
    assert_eq!(of("each_run_within = [1, 11]").0, Verdict::Reproduced);
    assert_eq!(of("each_run_within = [5, 11]"), (Verdict::Differs, "1.00 at loss 0 in one of its runs".to_owned()));
    assert_eq!(of("each_run_within = [0, 9]"), (Verdict::Differs, "10.0 at loss 0 in one of its runs".to_owned()));
}

/// Returns the verdict on `claim` and its words. Each series has the goodput, Mbit/s, and the mean queue, ms, of its runs.
fn beside_two(claim: &str, [a, b, c]: [&[(f64, f64)]; 3]) -> (Verdict, String) {
    let text = format!(
        "id = \"t\"\ntitle = \"\"\nsource = \"\"\nquestion = \"\"\n[run]\njudge_by = \"median\"\n[topology]\n[[series]]\nlabel = \"A\"\n\
         transport = \"modern\"\n[[series]]\nlabel = \"B\"\ntransport = \"bbr\"\n[[series]]\nlabel = \"C\"\ntransport = \"cubic\"\n\
         [metrics]\nplot = [\"goodput_mbps\"]\n[[claims]]\nid = \"1\"\nsays = \"\"\ntag = \"D\"\nseries = \"A\"\n{claim}"
    );
    let run = |&(mbps, queue_ms): &(f64, f64)| Measured {
        flows: vec![FlowMeasured { goodput_bps: mbps * 1e6, ..FlowMeasured::default() }],
        links: vec![crate::metrics::LinkMeasured { queue_mean_ms: queue_ms, ..Default::default() }],
        ..Measured::default()
    };
    let cell = |(series, runs): (&str, &[(f64, f64)])| Cell {
        series: series.to_owned(),
        point: Vec::new(),
        warm_up_s: 0.0,
        scale: 1.0,
        measured: runs.iter().map(run).collect(),
    };
    let table = Table { cells: [("A", a), ("B", b), ("C", c)].map(cell).to_vec() };
    let judged = judge_once(&parse("t.toml", &text).unwrap().plan, &table).remove(0);
    (judged.verdict, judged.measured)
}

#[test]
fn of_several_series_the_one_that_delivers_more_is_compared() {
    let order = "kind = \"order\"\nto = [\"B\", \"C\"]\nfactor = 0.9";
    let queue = "kind = \"below\"\nto = [\"C\", \"B\"]\nmetric = \"queue_ms\"\nfactor = 0.5";
    let of = |claim: &str, b: f64| beside_two(claim, [&[(9.0, 6.0)], &[(b, 10.0)], &[(9.5, 20.0)]]);
    assert_eq!(of(order, 8.0), (Verdict::Reproduced, "0.947×".to_owned()));
    assert_eq!(of(order, 11.0), (Verdict::Differs, "0.818×".to_owned()));
    // A short queue of the better series counts, not the shortest one of any.
    assert_eq!(of(queue, 8.0), (Verdict::Reproduced, "-4.00 beyond".to_owned()));
    assert_eq!(of(queue, 11.0), (Verdict::Differs, "1.00 beyond".to_owned()));
    assert_eq!(beside_two(order, [&[(9.0, 6.0)], &[], &[(9.5, 20.0)]]).0, Verdict::NotRun);
}

#[test]
fn a_floor_is_the_least_limit() {
    let of = |queue_ms: f64| {
        let claim = "kind = \"below\"\nto = \"B\"\nmetric = \"queue_ms\"\nfactor = 0.5\nfloor = 5";
        beside_two(claim, [&[(9.0, queue_ms)], &[(9.0, 4.0)], &[]])
    };
    assert_eq!(of(4.9), (Verdict::Reproduced, "-0.1 beyond".to_owned()));
    assert_eq!(of(5.5), (Verdict::Differs, "0.5 beyond".to_owned()));
}

#[test]
fn every_run_is_compared_with_the_better_run_of_the_same_seed() {
    let (b, c) = ([(10.0, 4.0), (2.0, 4.0), (10.0, 4.0)], [(2.0, 40.0), (10.0, 40.0), (2.0, 40.0)]);
    let order = |a: [f64; 3]| {
        let claim = "kind = \"order\"\nto = [\"B\", \"C\"]\nfactor = 0.9\neach_run = true";
        beside_two(claim, [&a.map(|mbps| (mbps, 0.0)), &b, &c])
    };
    assert_eq!(order([9.5, 9.2, 9.9]), (Verdict::Reproduced, "0.92× at run 2 (0 of 3 fail)".to_owned()));
    // The medians would be 9.5 and 10.
    assert_eq!(order([9.5, 1.0, 9.9]), (Verdict::Differs, "0.1× at run 2 (1 of 3 fail)".to_owned()));
    // Half of the better's queue is 2, 20 and 2 ms.
    let queue = |a: [f64; 3]| {
        let claim = "kind = \"below\"\nto = [\"B\", \"C\"]\nmetric = \"queue_ms\"\nfactor = 0.5\neach_run = true";
        beside_two(claim, [&a.map(|queue_ms| (9.5, queue_ms)), &b, &c])
    };
    assert_eq!(queue([1.0, 19.0, 1.5]), (Verdict::Reproduced, "-0.5 beyond at run 3 (0 of 3 fail)".to_owned()));
    assert_eq!(queue([3.0, 19.0, 4.0]), (Verdict::Differs, "2.00 beyond at run 3 (2 of 3 fail)".to_owned()));
}

#[test]
fn runs_without_a_counterpart_and_runs_of_nothing_prove_nothing() {
    let claim = "kind = \"order\"\nto = [\"B\", \"C\"]\nfactor = 0.9\neach_run = true";
    let nine = [(9.0, 1.0); 2];
    assert_eq!(beside_two(claim, [&nine, &nine, &nine]).0, Verdict::Reproduced);
    assert_eq!(beside_two(claim, [&nine, &nine[..1], &nine]).0, Verdict::NotRun);
    assert_eq!(beside_two(claim, [&nine, &nine, &[]]).0, Verdict::NotRun);
    let nothing = [(0.0, 0.0), (9.0, 1.0)];
    let found = beside_two(claim, [&nothing, &nothing, &nothing]);
    assert_eq!(found, (Verdict::Differs, "undefined× at run 1 (1 of 2 fail)".to_owned()));
}

#[test]
fn a_comparison_with_the_better_one_is_told_in_words() {
    let text = "id = \"t\"\ntitle = \"\"\nsource = \"\"\nquestion = \"\"\n[run]\n[topology]\n[[series]]\nlabel = \"A\"\ntransport = \"modern\"\n\
         [[series]]\nlabel = \"B\"\ntransport = \"bbr\"\n[[series]]\nlabel = \"C\"\ntransport = \"cubic\"\n[metrics]\nplot = [\"queue_ms\"]\n\
         [[claims]]\nid = \"1\"\nsays = \"\"\ntag = \"D\"\nseries = \"A\"\nkind = \"below\"\nto = [\"B\", \"C\"]\nfactor = 0.5\nfloor = 5\n\
         each_run = true\nshare = 1\n[[claims]]\nid = \"2\"\nsays = \"\"\ntag = \"D\"\nseries = \"A\"\nkind = \"order\"\nto = \"B\"\nfactor = 0.9\n";
    let source = parse("t.toml", text).unwrap();
    let told: Vec<String> = source.plan.claims.iter().map(|claim| describe(claim.get_ref())).collect();
    assert_eq!(
        told,
        [
            "A: at most 0.5 times that of B or C, whichever delivers more, or 5 if that is more, in each run, at 100 % of the points",
            "A: at least 0.9 times that of B"
        ]
    );
}
