use dfcp_lab::Level;
use dfcp_lab::plan::Source;
use dfcp_lab::reading::parse;

use super::*;

fn plan() -> Source {
    let text = r#"
        id = "small"
        title = "Small"
        source = "ours"
        question = "Does it work?"
        run = { seeds = 5, duration_s = 1, warm_up_s = 0.1 }
        topology = { rate_mbps = 1000, access_mbps = 1000, rtt_ms = 4, buffer_packets = 20 }
        series = [{ label = "DFCP", transport = { kind = "classic", window_blocks = 4 } }, { label = "CUBIC", transport = "cubic" }]
        sweep = [{ parameter = "loss", values = [0, 0.01, 0.02] }]
        metrics = { plot = ["goodput_mbps"] }
    "#;
    parse("small.toml", text).unwrap()
}

fn summary(mean: f64, sd: Option<f64>, random_losses: Option<u64>) -> Option<Summary> {
    let has_few_losses = random_losses.is_some_and(|losses| losses < FEW_LOSSES);
    Some(Summary { mean, sd, runs: if sd.is_some() { 5 } else { 1 }, random_losses, has_few_losses })
}

fn overview(series: &[&str], rows: Vec<Vec<Option<Summary>>>) -> Overview {
    let row =
        |(at, cells)| Row { levels: vec![Level::Number(f64::from(at) / 100.0)], flow: None, flow_label: None, cells };
    Overview {
        metric: "goodput_mbps".to_owned(),
        label: "goodput".to_owned(),
        unit: "Mbit/s".to_owned(),
        parameters: vec!["loss".to_owned()],
        series: series.iter().map(|series| (*series).to_owned()).collect(),
        rows: (0u8..).zip(rows).map(row).collect(),
    }
}

#[test]
fn a_row_for_each_point_and_a_column_for_each_series() {
    let rows = vec![
        vec![summary(943.7, Some(1.24), None), summary(941.0, Some(0.0), None)],
        vec![summary(890.0, Some(0.4), Some(30)), summary(12.34, Some(3.456), Some(29))],
        vec![summary(450.0, Some(2.0), Some(300)), None],
    ];
    let expected = "\
small: Small
Does it work?

goodput, Mbit/s (mean ± standard deviation of 5 runs)
        DFCP
loss  modern          CUBIC
   0  944 ±1   941 ±0
0.01  890 ±0  12.3 ±3.5 !29
0.02  450 ±2     –
!n: in one of its runs only n packets were lost at random, fewer than 30. Another seed may give
another result, and a longer run gives a surer one.
";
    let lines = text(&plan().plan, &[overview(&["DFCP modern", "CUBIC"], rows)]);
    assert_eq!(lines.join("\n"), expected);
}

#[test]
fn no_line_is_wider_than_a_terminal_and_no_column_is_lost() {
    let labels: Vec<String> = (1..=12).map(|at| format!("DFCP, optimal redundancy {at}")).collect();
    let labels: Vec<&str> =
        labels.iter().map(String::as_str).chain(["Wortungetüm".repeat(12).leak() as &str]).collect();
    let row = vec![summary(943.7, Some(12.4), Some(3)); labels.len()];
    let lines = table(&overview(&labels, vec![row.clone(), row]));
    assert!(lines.iter().all(|line| length(line) <= 100), "{lines:#?}");
    assert_eq!(lines.iter().map(|line| line.matches("944 ±12 !3").count()).sum::<usize>(), 2 * labels.len());
    let text = lines.join("\n");
    assert!((1..=12).all(|at| text.contains(&at.to_string())) && text.contains("Wortungetüm"), "{text}");
    // Every block of a wide table repeats the columns of the parameters.
    assert!(lines.iter().filter(|line| line.starts_with("0.01")).count() > 1, "{text}");
}

#[test]
fn one_run_has_no_spread_and_flows_have_rows_of_their_own() {
    let mut overview = overview(&["A"], vec![vec![summary(1.0, None, None)], vec![summary(2.0, None, None)]]);
    for (row, flow) in overview.rows.iter_mut().zip(1..) {
        row.flow = Some(flow);
    }
    let lines = table(&overview);
    assert_eq!(lines[0], "goodput, Mbit/s (one run each)");
    assert_eq!(lines[1..], ["loss  flow     A", "   0     1  1.00", "0.01     2  2.00"]);
}

#[test]
fn a_label_cannot_steer_the_terminal() {
    let lines = table(&overview(&["A\u{1b}[2J"], vec![vec![summary(1.0, None, None)]]));
    assert!(lines.iter().all(|line| !line.contains('\u{1b}')), "{lines:?}");
}

#[test]
fn programs_get_the_same_figures() {
    let rows = vec![vec![summary(12.5, Some(3.5), Some(29)), None]];
    let values = values(&plan().plan, &[overview(&["A", "B"], rows)]);
    let expected = json!({ "plan": "small", "value": {
        "metric": "goodput_mbps", "unit": "Mbit/s", "point": { "loss": 0.0 }, "series": "A",
        "flow": null, "flow_label": null,
        "summary": { "mean": 12.5, "sd": 3.5, "runs": 5, "random_losses": 29, "has_few_losses": true },
    }});
    assert_eq!(values, [expected]);
}
