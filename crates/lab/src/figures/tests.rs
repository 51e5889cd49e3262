use super::*;
use crate::expand::{Choice, Form, expand};
use crate::metrics::FlowMeasured;
use crate::metrics::Measured;
use crate::reading::parse;
use crate::record::Origin;

/// Returns the figure of a plan with the given `source`. Each run lost `losses` packets at random.
fn drawn(source: &str, losses: Option<u64>) -> report::Figure {
    let plan = include_str!("../testdata/small.toml");
    drawn_of(&plan.replace("\"ours\"", &format!("\"{source}\"")), losses)
}

fn drawn_of(text: &str, losses: Option<u64>) -> report::Figure {
    let source = parse("small.toml", text).unwrap();
    let runs = expand(&source, Choice::default()).unwrap();
    let origin = Origin { version: String::new(), commit: String::new(), host: String::new() };
    let measured = |run: &Run| {
        let goodput_bps = 5e6 + f64::from(run.repetition);
        let flow = FlowMeasured { goodput_bps, ..FlowMeasured::default() };
        Measured { flows: vec![flow; run.scenario.flows.len()], random_losses: losses, ..Measured::default() }
    };
    let record = |run: &Run| (run.hash.clone(), Record::new(run, Form::Full, measured(run), &origin, 1.0));
    figures(&source, &runs, &runs.iter().map(record).collect()).remove(0)
}

#[test]
fn a_figure_has_its_question_and_says_whose_it_is() {
    assert_eq!(drawn("TH 4.3", None).question, "Does it work?");
    assert_eq!(drawn("TH 4.3", None).source, "TH 4.3");
    for ours in ["ours", "Ours ", ""] {
        assert_eq!(drawn(ours, None).source, report::OURS, "{ours:?}");
    }
}

#[test]
fn results_which_hang_on_few_losses_are_warned_of() {
    let warnings = drawn("ours", Some(29)).warnings;
    assert_eq!(warnings.len(), 1);
    for part in ["fewer than 30 packets lost at random", "DFCP (29 at loss 0, 29 at loss 0.01)", "CUBIC (29 at loss 0,"]
    {
        assert!(warnings[0].contains(part), "{warnings:?}");
    }
    assert!(drawn("ours", Some(30)).warnings.is_empty());
    assert!(drawn("ours", None).warnings.is_empty());
}

#[test]
fn the_losses_of_flows_which_are_drawn_one_by_one_are_counted_for_each() {
    let four = "[[flows]]\n[[flows]]\n[[flows]]\n[[flows]]\n[[series]]\nlabel = \"DFCP\"";
    let text = include_str!("../testdata/small.toml").replacen("[[series]]\nlabel = \"DFCP\"", four, 1);
    let warnings = drawn_of(&text, Some(119)).warnings;
    assert!(warnings[0].contains("fewer than 30 packets of a flow lost at random"), "{warnings:?}");
    assert!(warnings[0].contains("DFCP (29 at loss 0, 29 at loss 0.01)"), "{warnings:?}");
    assert!(drawn_of(&text, Some(120)).warnings.is_empty());
}

#[test]
fn dfcp_and_its_rivals_have_roles_of_their_own() {
    let roles: Vec<_> = drawn("ours", None).panels[0].series.iter().map(|series| series.role).collect();
    assert_eq!(roles, [report::Role::Dfcp, report::Role::Rival]);
    // A flow with another transport keeps the colour of this transport, even within DFCP's series.
    let both = "[[flows]]\n[[flows]]\ntransport = \"cubic\"\n[[series]]\nlabel = \"DFCP\"";
    let text = include_str!("../testdata/small.toml").replacen("[[series]]\nlabel = \"DFCP\"", both, 1);
    let roles: Vec<_> = drawn_of(&text, None).panels[0].series.iter().map(|series| series.role).collect();
    let [dfcp, rival] = [report::Role::Dfcp, report::Role::Rival];
    assert_eq!(roles, [dfcp, rival, rival, rival]);
}
