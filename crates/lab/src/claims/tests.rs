use super::*;
use crate::metrics::{FlowMeasured, Measured};
use crate::plan::Source;

/// A table of made-up goodputs of two flows, Mbit/s: series A and B over loss 0, 0.1 and 0.2.
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
    let text = format!(
        "id = \"t\"\ntitle = \"\"\nsource = \"\"\nquestion = \"\"\n[run]\n[topology]\n[[series]]\nlabel = \"A\"\ntransport = \"modern\"\n\
         [[series]]\nlabel = \"B\"\ntransport = \"cubic\"\n[[sweep]]\nparameter = \"loss\"\nvalues = [0, 0.1, 0.2, 0.3]\n\
         [metrics]\nplot = [\"goodput_mbps\"]\n[[claims]]\nid = \"1\"\nsays = \"\"\ntag = \"D\"\n{claim}"
    );
    let source = Source::parse("t.toml", &text).unwrap();
    let judged = judge(&source.plan, &table()).remove(0);
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

/// Constants, ties, and nothing against nothing.
#[test]
fn what_says_nothing_proves_nothing() {
    use Verdict::Differs;
    for (claim, expected, measured) in [
        // At 0.2 neither flow of B delivers anything: that is no fairness.
        (
            "kind = \"equal\"\nseries = \"B\"\ntolerance = 0.05",
            Differs,
            "18.2 % at loss 0, without bound % at loss 0.2",
        ),
        (
            "kind = \"flat\"\nseries = \"B\"\nat = { loss = 0.2 }\ntolerance = 0.5",
            Differs,
            "0 to 0, a spread of without bound %",
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
}

#[test]
fn a_known_reason_and_missing_points_are_told() {
    let because = |within: &str| {
        let claim = "kind = \"value\"\nseries = \"A\"\nat = { loss = 0 }\nwithin = [1, 2]\nbecause";
        verdict(&format!("{claim} = {{ why = \"of this\", within = {within} }}"))
    };
    assert_eq!(because("[9, 11]").0, Verdict::NotReproducible("of this".to_owned()));
    // A reason for another number explains nothing.
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

/// One run in three is far off: the mean fails where the median does not.
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
    let verdict = |judge_by| judge(&Source::parse("t.toml", &text(judge_by)).unwrap().plan, &table).remove(0);
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
        let judged = judge(&Source::parse("t.toml", text).unwrap().plan, &Table { cells: vec![cell] }).remove(0);
        (judged.verdict, judged.measured)
    };
    // Of ten thousand 1 % is a hundred, give or take ten.
    assert_eq!(verdict(5_000, 0.9881), (Verdict::Reproduced, "1.19 % not in time at loss 0".to_owned()));
    assert_eq!(verdict(5_000, 0.9879).0, Verdict::Differs);
    assert_eq!(verdict(50_000, 0.9881).0, Verdict::Differs);
}

/// Series A and B in two runs each, by what their two flows deliver.
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
    judge(&Source::parse("t.toml", &text).unwrap().plan, &table).remove(0).verdict
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
