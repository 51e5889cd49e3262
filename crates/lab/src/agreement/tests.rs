use super::*;
use crate::expand::{Choice, expand};
use crate::metrics::{FlowMeasured, Measured};
use crate::plan::Level;
use crate::reading::parse;

fn kernel() -> Engine {
    Engine { platform: "kernel-6.12".to_owned(), hash: "k".to_owned() }
}

/// Expands a plan with two points, without and with loss, on both platforms.
fn runs() -> Vec<Run> {
    let text = "id = \"t\"\ntitle = \"\"\nsource = \"ours\"\nquestion = \"\"\n[run]\nseeds = 1\n[topology]\n[[series]]\n\
                label = \"A\"\ntransport = \"cubic\"\n[[sweep]]\nparameter = \"loss\"\nvalues = [0, 0.1]\n[metrics]\n\
                plot = [\"goodput_mbps\"]\n";
    let ours = expand(&parse("t.toml", text).unwrap(), Choice::default()).unwrap();
    ours.iter().flat_map(|run| [run.clone(), run.on(&kernel())]).collect()
}

/// Builds a table from goodputs of each repetition, Mbit/s, in the order of `runs`.
fn table(runs: &[Run], mbps: &[&[f64]]) -> Table {
    let measured = |mbps: &f64| Measured {
        flows: vec![FlowMeasured { goodput_bps: mbps * 1e6, ..FlowMeasured::default() }],
        ..Measured::default()
    };
    let cell = |(run, mbps): (&Run, &&[f64])| Cell {
        series: run.label(),
        point: run.point.clone(),
        warm_up_s: 0.0,
        scale: 1.0,
        measured: mbps.iter().map(measured).collect(),
    };
    Table { cells: runs.iter().zip(mbps).map(cell).collect() }
}

fn outcomes(mbps: [&[f64]; 4]) -> Vec<(bool, Outcome)> {
    let runs = runs();
    let pairs = pairs(&runs, &table(&runs, &mbps), &Engine::sim(), &kernel());
    pairs.into_iter().map(|pair| (pair.has_loss, pair.outcome)).collect()
}

#[test]
fn the_tolerance_is_wider_with_loss() {
    let found = outcomes([&[104.0, 104.0], &[100.0, 100.0], &[81.0, 81.0], &[100.0, 100.0]]);
    assert_eq!(found, [(false, Outcome::Agrees), (true, Outcome::Agrees)]);
    let found = outcomes([&[106.0, 106.0], &[100.0, 100.0], &[121.0, 121.0], &[100.0, 100.0]]);
    assert_eq!(found, [(false, Outcome::Differs), (true, Outcome::Differs)]);
}

#[test]
fn a_plan_can_ask_for_more() {
    let runs: Vec<Run> = runs().into_iter().map(|run| Run { tolerance_with_loss: Some(0.1), ..run }).collect();
    let mbps: [&[f64]; 4] = [&[104.0, 104.0], &[100.0, 100.0], &[115.0, 115.0], &[100.0, 100.0]];
    let pairs = pairs(&runs, &table(&runs, &mbps), &Engine::sim(), &kernel());
    let found: Vec<_> = pairs.iter().map(|pair| (pair.tolerance, pair.outcome)).collect();
    assert_eq!(found, [(TOLERANCE, Outcome::Agrees), (0.1, Outcome::Differs)]);
    // The scatter of these runs suffices for a tolerance of 20 %, but not of 10 %.
    let table = table(&runs, &[&[], &[], &[94.0, 106.0], &[]]);
    let at_loss = runs.iter().find(|run| run.point[0].1 == Level::Number(0.1)).unwrap();
    let looser = Run { tolerance_with_loss: None, ..at_loss.clone() };
    let alone = [&Engine::sim()];
    assert!(runs_needed(at_loss, &table, &alone, RUNS_MAX) > runs_needed(&looser, &table, &alone, RUNS_MAX));
    let says = judge("t", &kernel(), Some(0.1), &pairs).says;
    assert!(says.contains("within 10 % at 90 % of those with it"), "{says}");
}

#[test]
fn what_varies_too_much_does_not_count_on_either_side() {
    // Allowed standard errors are 1.25 % without loss and 5 % with loss. These runs have 2 % and 4 %.
    let found = outcomes([&[98.0, 102.0], &[100.0, 100.0], &[96.0, 104.0], &[100.0, 100.0]]);
    assert_eq!(found, [(false, Outcome::NotSure), (true, Outcome::Agrees)]);
    let found = outcomes([&[100.0, 100.0], &[100.0], &[100.0, 100.0], &[60.0, 140.0]]);
    assert_eq!(found, [(false, Outcome::NotSure), (true, Outcome::NotSure)]);
}

#[test]
fn a_point_with_late_runs_says_nothing() {
    let runs = runs();
    let mut table = table(&runs, &[&[100.0, 100.0], &[100.0, 100.0]]);
    let late = Some(crate::Lateness { p99_ms: 9.0, ..crate::Lateness::default() }.judged());
    table.cells[1].measured[0].lateness = late;
    let pairs = pairs(&runs, &table, &Engine::sim(), &kernel());
    assert_eq!((pairs[0].outcome, pairs[0].reference.late_runs, pairs[0].ours.late_runs), (Outcome::NotSure, 1, 0));
}

#[test]
fn a_point_which_one_platform_lacks_is_no_pair() {
    assert_eq!(outcomes([&[1.0, 1.0], &[], &[], &[1.0, 1.0]]), []);
}

#[test]
fn nothing_agrees_with_nothing_alone() {
    let found = outcomes([&[0.0, 0.0], &[0.0, 0.0], &[0.0, 0.0], &[1.0, 1.0]]);
    assert_eq!(found, [(false, Outcome::Agrees), (true, Outcome::Differs)]);
}

#[test]
fn runs_are_added_until_the_mean_is_sure() {
    let runs = runs();
    let both = [&Engine::sim(), &kernel()];
    let needed = |mbps: &[f64]| runs_needed(&runs[0], &table(&runs, &[mbps]), &both, RUNS_MAX);
    assert_eq!(needed(&[]), 3);
    assert_eq!(needed(&[100.0, 100.0]), 3);
    assert_eq!(needed(&[100.0; 5]), 5);
    // The standard error of 2.5 % is twice the allowed one, so four times as many runs are needed.
    assert_eq!(needed(&[97.5, 102.5]), 8);
    assert_eq!(needed(&[10.0, 190.0]), RUNS_MAX);
    let at_most = |most| runs_needed(&runs[0], &table(&runs, &[&[10.0, 190.0]]), &both, most);
    assert_eq!((at_most(1), at_most(5), at_most(99)), (1, 5, RUNS_MAX));
    assert_eq!(runs_needed(&runs[0], &table(&runs, &[]), &both, 2), 2);
    // The second platform's runs are close by chance; the first platform's runs show the real scatter.
    let needed =
        |run: &Run| runs_needed(run, &table(&runs, &[&[80.0, 100.0, 120.0], &[99.0, 100.0, 101.0]]), &both, RUNS_MAX);
    assert_eq!((needed(&runs[0]), needed(&runs[1])), (RUNS_MAX, RUNS_MAX));
    let found = outcomes([&[80.0, 100.0, 120.0], &[99.0, 100.0, 101.0], &[80.0, 100.0, 120.0], &[99.0, 100.0, 101.0]]);
    assert_eq!(found, [(false, Outcome::NotSure), (true, Outcome::NotSure)]);
}

#[test]
fn unsure_points_are_not_a_part_of_the_share() {
    let count = Count { agree: 19, differ: 1, not_sure: 100 };
    assert!(count.is_reached(false));
    assert!(!Count { agree: 18, ..count }.is_reached(false) && Count { agree: 18, ..count }.is_reached(true));
}

/// Returns verdict and sentence of the agreement claim for these goodputs, Mbit/s.
fn claim(mbps: [&[f64]; 4]) -> (Verdict, String) {
    let runs = runs();
    let judged = judge("t", &kernel(), None, &pairs(&runs, &table(&runs, &mbps), &Engine::sim(), &kernel()));
    assert_eq!(judged.id, "t.agree, kernel-6.12");
    (judged.verdict, judged.measured)
}

#[test]
fn agreement_is_a_claim_which_can_fail() {
    let (verdict, measured) = claim([&[104.0, 104.0], &[100.0, 100.0], &[81.0, 81.0], &[100.0, 100.0]]);
    assert_eq!((verdict, &*measured), (Verdict::Reproduced, "at 2 of 2 points; 0.81 to 1.04 times as much"));
    let (verdict, measured) = claim([&[104.0, 104.0], &[100.0, 100.0], &[79.0, 79.0], &[100.0, 100.0]]);
    assert_eq!((verdict, &*measured), (Verdict::Differs, "at 1 of 2 points; 0.79 to 1.04 times as much"));
    let (verdict, measured) = claim([&[104.0], &[100.0], &[100.0, 100.0], &[100.0, 100.0]]);
    assert_eq!(
        (verdict, &*measured),
        (Verdict::Reproduced, "at 1 of 1 points; 1.00 to 1.00 times as much; 1 are not sure")
    );
    // Imprecise or missing points must not count as reproduced.
    for unsure in [[&[100.0][..], &[100.0], &[100.0], &[100.0]], [&[], &[], &[], &[]]] {
        let (verdict, measured) = claim(unsure);
        assert!(verdict == Verdict::NotRun && measured.contains("dfcp lab agree t"), "{measured}");
    }
}

#[test]
fn the_simulator_alone_claims_no_agreement() {
    let alone: Vec<Run> = runs().into_iter().filter(|run| run.engine.is_sim()).collect();
    assert_eq!(judged("t", &alone, &BTreeMap::new()), []);
    assert_eq!(judged("t", &runs(), &BTreeMap::new()).len(), 1);
}
