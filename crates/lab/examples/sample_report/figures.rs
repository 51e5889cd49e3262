//! Invented figures that resemble the published ones, with every kind of plot and every verdict.

use dfcp_lab::report::{Axis, Claim, Figure, Panel, Point, Role, Series, Tag, Verdict};

pub(crate) fn all() -> Vec<Figure> {
    vec![
        redundancy(),
        loss(),
        round_trip(),
        buffer(),
        occupancy(),
        shares(),
        table(),
        start_up(),
        completion(),
        missing(),
    ]
}

/// Returns points at `xs` with values `ys`, and an interval of ± `spread` relative to each value.
fn around(xs: &[f64], ys: &[f64], spread: f64) -> Vec<Point> {
    xs.iter().zip(ys).map(|(&x, &y)| Point::within(x, y, y * (1.0 - spread), y * (1.0 + spread))).collect()
}

fn series(label: &str, role: Role, points: Vec<Point>) -> Series {
    Series { label: label.to_owned(), points, role }
}

fn panel(title: &str, series: Vec<Series>) -> Panel {
    Panel { title: title.to_owned(), series }
}

fn claim(id: &str, figure: &str, says: &str, tag: Tag, measured: &str, verdict: Verdict) -> Claim {
    Claim {
        id: id.to_owned(),
        figure: figure.to_owned(),
        says: says.to_owned(),
        tag,
        measured: measured.to_owned(),
        verdict,
    }
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn redundancy() -> Figure {
    let xs = [0.0, 5.0, 10.0, 20.0, 35.0, 50.0];
    Figure {
        id: "V6".to_owned(),
        title: "Goodput against redundancy".to_owned(),
        source: "PH 5a".to_owned(),
        says: "50 % redundancy lowers the rate by at most 33 %; the decrease is not linear.".to_owned(),
        measured: "By 33.3 %, along 1/(1 + ε).".to_owned(),
        x: Axis::linear("Redundancy ε", "%"),
        y: Axis::linear("Goodput", "Mbit/s"),
        panels: vec![panel(
            "",
            vec![series("DFCP classic", Role::Dfcp, around(&xs, &[944.0, 899.0, 858.0, 787.0, 699.0, 629.0], 0.01))],
        )],
        claims: vec![claim("V6.1", "V6", "at most 33 % less at 50 %", Tag::Number, "33.3 %", Verdict::Reproduced)],
        ..Figure::default()
    }
}

fn loss() -> Figure {
    let xs = [0.0, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 50.0];
    let dfcp = [900.0, 899.0, 895.0, 890.0, 882.0, 855.0, 810.0, 720.0, 630.0, 450.0];
    let modern = [938.0, 937.0, 933.0, 928.0, 919.0, 890.0, 843.0, 749.0, 655.0, 467.0];
    let cubic = [941.0, 740.0, 380.0, 261.0, 120.0, 31.0, 8.3, 0.9, 0.11, 0.0];
    let new_reno = [941.0, 870.0, 480.0, 313.0, 160.0, 48.0, 16.5, 1.4, 0.08, 0.0];
    let quic = [921.0, 915.0, 903.0, 890.0, 868.0, 790.0, 610.0, 12.0, 1.1, 0.02];
    let one = panel(
        "RTT 0.5 ms",
        vec![
            series("DFCP classic", Role::Dfcp, around(&xs, &dfcp, 0.004)),
            series("DFCP modern", Role::Dfcp, around(&xs, &modern, 0.004)),
            series("TCP CUBIC", Role::Rival, around(&xs, &cubic, 0.15)),
            series("TCP NewReno", Role::Rival, around(&xs, &new_reno, 0.18)),
            series("QUIC BBR", Role::Rival, around(&xs, &quic, 0.05)),
        ],
    );
    let ten = |ys: &[f64]| ys.iter().map(|y| y * 0.062).collect::<Vec<f64>>();
    let two = panel(
        "RTT 10 ms",
        vec![
            series("DFCP classic", Role::Dfcp, around(&xs, &dfcp, 0.004)),
            series("DFCP modern", Role::Dfcp, around(&xs, &modern, 0.004)),
            series("TCP CUBIC", Role::Rival, around(&xs, &ten(&cubic), 0.22)),
            series("TCP NewReno", Role::Rival, around(&xs, &ten(&new_reno), 0.2)),
        ],
    );
    Figure {
        id: "S1".to_owned(),
        title: "Goodput against packet loss".to_owned(),
        source: "TH 4.7 / 4.8, FC 9a / 9b, PH 6a".to_owned(),
        question: "How much is delivered over a path which loses packets at random?".to_owned(),
        says:
            "The difference shows at 0.1 % already; at 1 % DFCP is 3 times as fast as NewReno and 6 times as fast as \
               CUBIC, at 10 % more than 250 times as fast as either. DFCP still works at 50 %, TCP does not."
                .to_owned(),
        measured:
            "At 1 % loss and 0.5 ms, 890 Mbit/s against 313 of NewReno and 261 of CUBIC: 2.8 and 3.4 times. TCP of \
                   today recovers better than the kernel of the documents."
                .to_owned(),
        x: Axis::log("Packet loss", "%"),
        y: Axis::log("Goodput", "Mbit/s"),
        panels: vec![one, two],
        claims: loss_claims(),
        warnings: vec![
            "Some results hang on fewer than 30 packets lost at random in a run: TCP CUBIC (8 at loss 50).".to_owned(),
        ],
        notes: vec![
            "The documents do not state the round-trip time; 0.5 ms is what their ratio at 1 % implies.".to_owned(),
            "Intervals are 95 % confidence intervals over 5 seeds.".to_owned(),
        ],
        parameters: pairs(&[
            ("Topology", "dumbbell, one pair"),
            ("Bottleneck", "1 Gbit/s, 1000 packets"),
            ("Loss", "independent, forward direction"),
            ("Redundancy", "the least which decodes"),
            ("Duration", "60 s, the first 15 s left out"),
            ("Seeds", "1 to 5"),
        ]),
    }
}

fn loss_claims() -> Vec<Claim> {
    let ratio = "the kernel of the documents recovers from loss worse than any TCP that can still be run";
    vec![
        claim("S1.1", "S1", "difference visible at 0.1 %", Tag::Number, "899 against 740 Mbit/s", Verdict::Reproduced),
        claim("S1.2", "S1", "at 1 %: DFCP/NewReno ≈ 3", Tag::Number, "2.8", Verdict::Reproduced),
        claim("S1.3", "S1", "at 1 %: DFCP/CUBIC ≈ 6", Tag::Number, "3.4", Verdict::Differs),
        claim(
            "S1.4",
            "S1",
            "at 10 %: DFCP > 250 × both",
            Tag::Number,
            "49 and 98 ×",
            Verdict::NotReproducible(ratio.to_owned()),
        ),
        claim(
            "S1.5",
            "S1",
            "NewReno above CUBIC under random loss",
            Tag::Statement,
            "yes, at 0.1 to 20 %",
            Verdict::Reproduced,
        ),
        claim("S1.6", "S1", "testbed and Emulab alike", Tag::Statement, "", Verdict::NotRun),
    ]
}

fn round_trip() -> Figure {
    let xs = [0.0, 5.0, 10.0, 20.0, 50.0, 80.0, 100.0];
    Figure {
        id: "S3".to_owned(),
        title: "Goodput against round-trip time".to_owned(),
        source: "TH 4.9 / 4.10, FC 10a / 10b".to_owned(),
        says: "Up to 10 ms TCP is slightly above DFCP, which pays for the code; beyond it DFCP is clearly above."
            .to_owned(),
        measured: "TCP leads by 4 % up to 10 ms and falls to 198 Mbit/s at 100 ms.".to_owned(),
        x: Axis::linear("Round-trip time", "ms"),
        y: Axis::linear("Goodput", "Mbit/s"),
        panels: vec![panel(
            "",
            vec![
                series(
                    "DFCP classic",
                    Role::Dfcp,
                    around(&xs, &[900.0, 900.0, 900.0, 899.0, 897.0, 894.0, 892.0], 0.003),
                ),
                series("TCP CUBIC", Role::Rival, around(&xs, &[941.0, 940.0, 936.0, 880.0, 396.0, 248.0, 198.0], 0.03)),
                series(
                    "TCP NewReno",
                    Role::Rival,
                    around(&xs, &[941.0, 940.0, 930.0, 860.0, 390.0, 246.0, 197.0], 0.03),
                ),
                series("Ceiling", Role::Rival, vec![Point::exact(0.0, 945.0), Point::exact(100.0, 945.0)]),
            ],
        )],
        claims: vec![claim(
            "S3.1",
            "S3",
            "TCP ≈ 200 Mbit/s per flow at 100 ms",
            Tag::Number,
            "198 Mbit/s with a window of 2.5 MB",
            Verdict::Reproduced,
        )],
        ..Figure::default()
    }
}

fn buffer() -> Figure {
    let xs = [10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0];
    Figure {
        id: "S4".to_owned(),
        title: "Performance utilisation against buffer size".to_owned(),
        source: "TH 4.11 = PH 7a".to_owned(),
        says: "With 50 packets: CUBIC 92 %, NewReno 79 %, DFCP 100 %.".to_owned(),
        measured: "With 50 packets: CUBIC 83 %, NewReno 80 %, DFCP 100 %.".to_owned(),
        x: Axis::log("Buffer", "packets"),
        y: Axis::linear("Performance utilisation", "%").reaching(0.0, 100.0),
        panels: vec![panel(
            "",
            vec![
                series("DFCP classic", Role::Dfcp, around(&xs, &[100.0; 7], 0.002)),
                series("TCP CUBIC", Role::Rival, around(&xs, &[61.0, 70.0, 83.0, 91.0, 96.0, 99.0, 100.0], 0.03)),
                series("TCP NewReno", Role::Rival, around(&xs, &[52.0, 66.0, 80.0, 85.0, 92.0, 98.0, 100.0], 0.03)),
            ],
        )],
        claims: vec![claim("S4.1", "S4", "50 packets: CUBIC 92 %", Tag::Number, "83 %", Verdict::Differs)],
        ..Figure::default()
    }
}

/// Queue lengths over time, as an example of long curves.
fn occupancy() -> Figure {
    let sawtooth = |low: f64, high: f64, period_s: f64| -> Vec<Point> {
        let at = |index: u32| {
            let time_s = f64::from(index) * 0.01;
            let part = (time_s % period_s) / period_s;
            let ripple = (f64::from(index * 7919 % 97) / 97.0 - 0.5) * 20.0;
            let y = (low + (high - low) * part.powf(0.6) + ripple).clamp(0.0, 1000.0);
            Point::within(time_s, y, (y - 30.0).max(0.0), (y + 30.0).min(1000.0))
        };
        (0..6000).map(at).collect()
    };
    Figure {
        id: "S5".to_owned(),
        title: "Queue length over time".to_owned(),
        source: "PH 7b".to_owned(),
        says: "Mean occupancy: DFCP 95 %, CUBIC 75 %, Reno 58 %. DFCP varies by a few per cent.".to_owned(),
        measured: "95, 74 and 60 %.".to_owned(),
        x: Axis::linear("Time", "s"),
        y: Axis::linear("Queue length", "packets").reaching(0.0, 1000.0),
        panels: vec![panel(
            "",
            vec![
                series("DFCP classic", Role::Dfcp, sawtooth(945.0, 990.0, 0.7)),
                series("TCP CUBIC", Role::Rival, sawtooth(420.0, 1000.0, 8.1)),
                series("TCP NewReno", Role::Rival, sawtooth(20.0, 1000.0, 13.0)),
            ],
        )],
        ..Figure::default()
    }
}

fn shares() -> Figure {
    let xs = [10.0, 20.0, 40.0, 60.0, 80.0, 100.0];
    let flat = |value: f64| around(&xs, &[value; 6], 0.004);
    let discipline = |name: &str, second: &[f64]| {
        let first: Vec<f64> = second.iter().map(|share| 938.0 - share).collect();
        panel(
            name,
            vec![
                series("DFCP, flow 1", Role::Dfcp, flat(450.0)),
                series("DFCP, flow 2", Role::Dfcp, flat(449.0)),
                series("CUBIC, flow 1", Role::Rival, around(&xs, &first, 0.02)),
                series("CUBIC, flow 2", Role::Rival, around(&xs, second, 0.05)),
            ],
        )
    };
    Figure {
        id: "S6".to_owned(),
        title: "Two flows with different round-trip times".to_owned(),
        source: "TH 4.12 / 4.13".to_owned(),
        says: "CUBIC is equal below 20 ms, then flow 2 sinks and flow 1 rises. DFCP is equal everywhere.".to_owned(),
        measured: "As documented where the window of TCP is limited to 2.5 MB.".to_owned(),
        x: Axis::linear("Round-trip time of flow 2", "ms"),
        y: Axis::linear("Goodput", "Mbit/s"),
        panels: vec![
            discipline("WFQ", &[469.0, 468.0, 420.0, 330.0, 248.0, 198.0]),
            discipline("DRR", &[469.0, 467.0, 424.0, 331.0, 247.0, 199.0]),
            discipline("DropTail", &[469.0, 380.0, 240.0, 160.0, 110.0, 80.0]),
        ],
        ..Figure::default()
    }
}

fn table() -> Figure {
    let names = [
        "0.1 G\u{a0}× 10",
        "0.1 G\u{a0}× 50",
        "0.1 G\u{a0}× 100",
        "1 G\u{a0}× 10",
        "1 G\u{a0}× 50",
        "1 G\u{a0}× 100",
        "10\u{a0}G\u{a0}× 10",
        "10\u{a0}G\u{a0}× 50",
        "10\u{a0}G\u{a0}× 100",
    ];
    let bars = |values: [f64; 9]| -> Vec<Point> {
        values.iter().enumerate().map(|(at, &y)| Point::within(at as f64, y, y - 1.5, (y + 1.5).min(100.0))).collect()
    };
    Figure {
        id: "S10".to_owned(),
        title: "Normalised aggregate goodput of many flows".to_owned(),
        source: "TH table 4.1".to_owned(),
        says: "CUBIC/DFCP 98/100, 100/100, 100/100; 96/100, 98/100, 99/100; 22/100, 95/100, 96/100.".to_owned(),
        measured: "Within 3 points of every cell with the window of the documents' kernel.".to_owned(),
        x: Axis::categories("Bottleneck × flows", &names),
        y: Axis::linear("Normalised aggregate goodput", "%").reaching(0.0, 100.0),
        panels: vec![panel(
            "",
            vec![
                series("DFCP classic", Role::Dfcp, bars([100.0, 100.0, 99.8, 99.9, 100.0, 100.0, 98.7, 99.1, 99.4])),
                series("TCP CUBIC", Role::Rival, bars([97.1, 99.6, 100.0, 95.0, 98.2, 98.9, 21.4, 94.3, 96.6])),
            ],
        )],
        claims: vec![claim(
            "S10.1",
            "S10",
            "10 flows at 10 G: 22 against 100 %",
            Tag::Number,
            "21.4 and 98.7 %",
            Verdict::Reproduced,
        )],
        ..Figure::default()
    }
}

fn start_up() -> Figure {
    let climb = |top: f64, rate: f64| -> Vec<Point> {
        (0..50).map(|bin| Point::exact(f64::from(bin) * 0.1, top * (1.0 - (-f64::from(bin) * rate).exp()))).collect()
    };
    Figure {
        id: "F1b".to_owned(),
        title: "The first five seconds at 100 ms".to_owned(),
        source: "FL 3b".to_owned(),
        says: "DFCP is at full rate at once; the TCPs climb slowly and settle considerably lower.".to_owned(),
        measured: "As said.".to_owned(),
        x: Axis::linear("Time", "s"),
        y: Axis::linear("Goodput", "Mbit/s"),
        panels: vec![panel(
            "",
            vec![
                series("DFCP classic", Role::Dfcp, climb(892.0, 2.0)),
                series("TCP CUBIC", Role::Rival, climb(198.0, 0.2)),
                series("TCP NewReno", Role::Rival, climb(197.0, 0.15)),
            ],
        )],
        ..Figure::default()
    }
}

fn completion() -> Figure {
    let names = ["DFCP classic", "DFCP modern", "TCP CUBIC", "TCP NewReno", "QUIC CUBIC", "QUIC BBR"];
    let roles = [Role::Dfcp, Role::Dfcp, Role::Rival, Role::Rival, Role::Rival, Role::Rival];
    let values = [51.3, 152.0, 604.0, 611.0, 402.0, 400.0];
    let bars =
        names.iter().zip(roles).zip(values).map(|((name, role), value)| {
            series(name, role, vec![Point::within(0.0, value, value * 0.97, value * 1.04)])
        });
    Figure {
        id: "F3a".to_owned(),
        title: "Completion time of 150 kB at 100 ms".to_owned(),
        source: "FL 5a".to_owned(),
        says: "Several orders of magnitude between DFCP and TCP as the round-trip time grows.".to_owned(),
        measured: "A factor of 12, counted from the first packet sent to the last received.".to_owned(),
        x: Axis::categories("", &["from connect to the last byte"]),
        y: Axis::log("Flow completion time", "ms"),
        panels: vec![panel("", bars.collect())],
        claims: vec![claim(
            "F3a.1",
            "F3a",
            "several orders of magnitude between DFCP and TCP",
            Tag::Statement,
            "a factor of 12",
            Verdict::Differs,
        )],
        ..Figure::default()
    }
}

/// A figure without runs.
fn missing() -> Figure {
    Figure {
        id: "S13".to_owned(),
        title: "Network utilisation in random networks".to_owned(),
        source: "PH thesis 3.4".to_owned(),
        says: "With 90 % probability DFCP is above 80 %.".to_owned(),
        measured: String::new(),
        x: Axis::linear("Network utilisation", "%").reaching(0.0, 100.0),
        y: Axis::linear("Share of networks", "%").reaching(0.0, 100.0),
        panels: vec![panel("", vec![series("DFCP classic", Role::Dfcp, vec![Point::exact(80.0, f64::NAN)])])],
        claims: vec![claim("S13.1", "S13", "DFCP > 80 % with 90 % probability", Tag::Number, "", Verdict::NotRun)],
        ..Figure::default()
    }
}
