//! Reports for tests: one written by hand, and randomly generated ones.

use dfcp_lab::Form;
use dfcp_lab::report::{Axis, Claim, Figure, Panel, Point, Report, Role, Scale, Series, Table, Tag, Verdict};
use proptest::collection::vec;
use proptest::prelude::*;

/// Report with a zero on a logarithmic axis, bars, and every verdict.
pub(crate) fn small() -> Report {
    let claim = |id: &str, says: &str, tag, measured: &str, verdict| Claim {
        id: id.to_owned(),
        figure: "S1".to_owned(),
        says: says.to_owned(),
        tag,
        measured: measured.to_owned(),
        verdict,
    };
    Report {
        title: "Report <1>".to_owned(),
        host: "two cores & 8 GB".to_owned(),
        version: "0.1.0".to_owned(),
        commit: "0123abc".to_owned(),
        date: "2026-01-01".to_owned(),
        platform: "sim".to_owned(),
        form: Form::Quick,
        figures: vec![
            Figure {
                id: "S1".to_owned(),
                title: "Goodput against loss".to_owned(),
                source: "TH 4.7".to_owned(),
                question: "Who works at 50 %?".to_owned(),
                says: "DFCP works at 50 %, TCP does not.".to_owned(),
                measured: "So it is.".to_owned(),
                x: Axis::linear("Loss", "%"),
                y: Axis::log("Goodput", "Mbit/s"),
                panels: vec![Panel { title: String::new(), series: small_series() }],
                claims: vec![
                    claim("S1.1", "DFCP works at 50 %", Tag::Number, "450 Mbit/s", Verdict::Reproduced),
                    claim("S1.2", "TCP does not", Tag::Statement, "0", Verdict::Differs),
                    claim(
                        "S1.3",
                        "as on Emulab",
                        Tag::Statement,
                        "",
                        Verdict::NotReproducible("it is gone".to_owned()),
                    ),
                    claim("S1.4", "c·(1 − p)", Tag::Derived, "", Verdict::NotRun),
                ],
                warnings: vec!["Some results hang on fewer than 30 packets lost at random.".to_owned()],
                notes: vec!["Intervals are over 5 seeds.".to_owned()],
                parameters: vec![("RTT".to_owned(), "0.5 ms".to_owned())],
            },
            Figure {
                id: "T1".to_owned(),
                title: "A table".to_owned(),
                x: Axis::categories("Flows", &["10 flows", "100 flows"]),
                y: Axis::linear("Normalised goodput", "%").reaching(0.0, 100.0),
                panels: vec![Panel { title: "1 Gbit/s".to_owned(), series: small_series() }],
                ..Figure::default()
            },
        ],
        tables: vec![Table {
            title: "Documents".to_owned(),
            text: "Sources of claims.".to_owned(),
            columns: vec!["key".to_owned(), "document".to_owned()],
            rows: vec![vec!["TH".to_owned(), "Thesis <2014>".to_owned()]],
        }],
        wall_s: 61.0,
    }
}

fn small_series() -> Vec<Series> {
    let series = |label: &str, role, points| Series { label: label.to_owned(), points, role };
    vec![
        series("DFCP", Role::Dfcp, vec![Point::within(0.0, 900.0, 890.0, 905.0), Point::exact(1.0, 450.0)]),
        series(
            "CUBIC",
            Role::Rival,
            vec![Point::exact(0.0, 941.0), Point::exact(1.0, 0.0), Point::exact(0.5, f64::NAN)],
        ),
    ]
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just("Goodput".to_owned()),
        Just("<b>&\"'</b>\u{0}\u{7}\u{ffff}".to_owned()),
        Just("a rather long name with many words which goes on and on until no plot has room for it".to_owned()),
        Just("Wortungetümohnejedelückeundohnejedesleerzeichenundkeinendeinsicht".to_owned()),
        Just("スループット 🚀 ẞ".to_owned()),
        "\\PC{0,12}",
    ]
}

fn any_value() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => 0.0..1000.0f64,
        2 => Just(0.0),
        1 => -50.0..0.0f64,
        1 => 1e-7..1e-3f64,
        1 => 1e6..1e12f64,
        1 => prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(5e-324), Just(f64::MAX), Just(f64::MIN)],
        1 => any::<f64>(),
    ]
}

/// Points that are mostly within the usual range, so that plots resemble real ones.
fn any_points() -> impl Strategy<Value = Vec<Point>> {
    let usual = (0.0..100.0f64, 0.1..1000.0f64).prop_map(|(x, y)| Point::within(x, y, y * 0.9, y * 1.1));
    let category = (0..12u32, 0.0..1000.0f64).prop_map(|(x, y)| Point::exact(f64::from(x), y));
    let wild = (any_value(), any_value(), any_value(), any_value()).prop_map(|(x, y, a, b)| Point::within(x, y, a, b));
    prop_oneof![vec(usual, 0..100), vec(category, 0..12), vec(wild, 0..12)]
}

fn any_axis() -> impl Strategy<Value = Axis> {
    let scale = prop_oneof![
        Just(Scale::Linear),
        Just(Scale::Log),
        vec(any_text(), 0..14).prop_map(Scale::Categories),
        (1..40u32).prop_map(|count| Scale::Categories((0..count).map(|name| name.to_string()).collect())),
    ];
    let reach = proptest::option::weighted(0.2, (any_value(), any_value()));
    (any_text(), any_text(), scale, reach).prop_map(|(label, unit, scale, reach)| Axis { label, unit, scale, reach })
}

fn any_series() -> impl Strategy<Value = Series> {
    let role = prop_oneof![Just(Role::Dfcp), Just(Role::Rival), Just(Role::Bound)];
    (any_text(), any_points(), role).prop_map(|(label, points, role)| Series { label, points, role })
}

fn any_figure() -> impl Strategy<Value = Figure> {
    let panel = (any_text(), vec(any_series(), 0..12)).prop_map(|(title, series)| Panel { title, series });
    let verdict = prop_oneof![
        Just(Verdict::Reproduced),
        Just(Verdict::Differs),
        Just(Verdict::NotRun),
        any_text().prop_map(Verdict::NotReproducible)
    ];
    let claim =
        (any_text(), any_text(), any_text(), any_text(), verdict).prop_map(|(id, figure, says, measured, verdict)| {
            Claim { id, figure, says, tag: Tag::Statement, measured, verdict }
        });
    let texts = (any_text(), any_text(), any_text(), any_text(), any_text());
    let lists = (vec(any_text(), 0..3), vec((any_text(), any_text()), 0..3), (any_text(), vec(any_text(), 0..2)));
    (texts, any_axis(), any_axis(), vec(panel, 0..4), vec(claim, 0..3), lists).prop_map(
        |((id, title, source, says, measured), x, y, panels, claims, (notes, parameters, (question, warnings)))| {
            Figure { id, title, source, question, says, measured, x, y, panels, claims, warnings, notes, parameters }
        },
    )
}

fn any_table() -> impl Strategy<Value = Table> {
    let rows = vec(vec(any_text(), 0..3), 0..3);
    (any_text(), any_text(), vec(any_text(), 0..3), rows).prop_map(|(title, text, columns, rows)| Table {
        title,
        text,
        columns,
        rows,
    })
}

pub(crate) fn any_report() -> impl Strategy<Value = Report> {
    (
        any_text(),
        any_text(),
        prop_oneof![Just(Form::Full), Just(Form::Quick), Just(Form::Small)],
        vec(any_figure(), 0..3),
        vec(any_table(), 0..2),
        any_value(),
    )
        .prop_map(|(title, host, form, figures, tables, wall_s)| Report {
            title,
            host,
            form,
            figures,
            tables,
            wall_s,
            ..Report::default()
        })
}
