#![cfg(feature = "quic")] // every case compares DFCP with QUIC

use clap::Parser;
use serde_json::Value;

use super::path::Wire;
use super::waste::Waste;
use super::*;

#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    demo: DemoArgs,
}

fn parse(line: &str) -> Result<DemoArgs, String> {
    let words = std::iter::once("demo").chain(line.split_whitespace());
    Command::try_parse_from(words).map(|command| command.demo).map_err(|error| error.to_string())
}

fn result(transport: Transport, loss: f64, elapsed_s: f64, ending: Ending) -> RunResult {
    RunResult {
        transport,
        path: Path { rate_bps: 100_000_000, rtt: Duration::from_millis(50), loss },
        wire: Wire { sent_bytes: 80_000_000, loss, queue_drops: 0.0123 },
        file_bytes: 64_000_000,
        arrived_bytes: if ending == Ending::Complete { 64_000_000 } else { 1_280_000 },
        elapsed_s,
        ending,
        hash_ok: true,
        waste: None,
        remark: None,
    }
}

fn waste() -> Waste {
    Waste { share: 0.0049, dependent: 3, late: 195, refused: 0, data_datagrams: 40_000, proactive: 25, probe: 2 }
}

/// Results at two loss rates, with every kind of ending.
fn results() -> Vec<RunResult> {
    let cut = |steady_bps| Ending::Cut { steady_bps };
    vec![
        result(Transport::Dfcp, 0.0, 5.4, Ending::Complete),
        result(Transport::QuicBbr, 0.0, 5.7, Ending::Complete),
        result(Transport::QuicCubic, 0.0, 6.4, Ending::Complete),
        RunResult {
            waste: Some(waste()),
            remark: Some("halved its rate".to_owned()),
            ..result(Transport::Dfcp, 0.1, 6.25, Ending::Complete)
        },
        result(Transport::QuicBbr, 0.1, 8.0, cut(1_024_000.0)),
        RunResult {
            arrived_bytes: 0,
            ..result(Transport::QuicCubic, 0.1, 3.0, Ending::Failed { reason: "a < b & timed out".to_owned() })
        },
    ]
}

#[test]
fn without_arguments_it_is_what_the_help_says() {
    let args = parse("").unwrap();
    assert_eq!((args.size, args.rate, args.rtt), (64_000_000, 100_000_000, Duration::from_millis(50)));
    assert_eq!(args.loss, [0.0, 0.01, 0.1, 0.3]);
    assert_eq!(args.output, PathBuf::from("demo-output"));
    // Estimated duration: both DFCP runs near their ceiling, all QUIC runs cut off at the limit, and 2 s for files and
    // hashes.
    let seconds: f64 = args
        .loss
        .iter()
        .map(|&loss| 2.0 * 8.0 * args.size as f64 / args.path(loss).ceiling_bps(loss) + 2.0 * args.limit.as_secs_f64())
        .sum();
    assert!(seconds + 2.0 < 120.0, "{seconds}");
    assert!(args.describe().contains("0 %, 1 %, 10 %, 30 % independent loss"), "{}", args.describe());
}

#[test]
fn arguments_are_understood_or_explained() {
    let args = parse("--size 8MB --loss 5,20% --rate 20mbit --rtt 0 --limit 2s --output x --json").unwrap();
    assert_eq!((args.size, args.rate, args.rtt, args.json), (8_000_000, 20_000_000, Duration::ZERO, true));
    assert_eq!((args.loss, args.limit), (vec![0.05, 0.2], Duration::from_secs(2)));
    for (wrong, hint) in [
        ("--size 0", "1kB"),
        ("--size 1TB", "10GB"),
        ("--loss 80", "0 to 75"),
        ("--loss x", "0 to 75"),
        ("--loss 0,,1", "0 to 75"),
        ("--loss NaN", "0 to 75"),
        ("--rate 1bit", "100kbit"),
        ("--rate fast", "20mbit"),
        ("--rtt 50", "25ms"),
        ("--rtt 3s", "2s"),
        ("--limit 0", "100ms"),
    ] {
        let error = parse(wrong).unwrap_err();
        assert!(error.contains(hint), "{wrong}: {error}");
    }
}

#[test]
fn figures_follow_their_definitions() {
    let results = results();
    let close = |a: f64, b: f64| (a - b).abs() < 1e-9 * b.abs().max(1.0);
    assert!(close(results[3].goodput_bps(), 8.0 * 64e6 / 6.25));
    assert!(close(results[3].ceiling_share(), 8.0 * 64e6 / 6.25 / (100e6 * 0.9 * 1420.0 / 1476.0)));
    assert_eq!(results[3].overhead(), Some(0.25));
    assert!(results[3].is_verified() && results[3].extrapolated_s().is_none());
    // 62.72 MB are left, at 128 kB/s.
    assert_eq!(results[4].extrapolated_s(), Some(8.0 + 490.0));
    assert!(!results[4].is_verified());
    assert_eq!((results[5].goodput_bps(), results[5].overhead()), (0.0, None));
    let silent = result(Transport::QuicBbr, 0.3, 8.0, Ending::Cut { steady_bps: 0.0 });
    assert_eq!((silent.extrapolated_s(), silent.ceiling_share()), (None, 0.0));
}

#[test]
fn the_table_shows_every_figure_in_columns() {
    let text = result::table(&results());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 1 + 3 + 1 + 3, "{text}");
    for (line, cells) in [
        (1, &["0 %", "DFCP", "1.2 %", "94.8 Mbit/s", "98.6 %", "25.0 %", "5.40 s", "64.0 MB", "ok"][..]),
        (5, &["10 %", "10.0 %", "81.9 Mbit/s", "94.6 %", "0.5 %", "6.25 s"]),
        (6, &["QUIC BBR", "1.02 Mbit/s", "> 8.0 s (8 min 18 s)", "1.28 MB", "ok so far"]),
        (7, &["QUIC CUBIC", "0 bit/s", "failed after 3.0 s", " - ", "0 B"]),
    ] {
        for cell in cells {
            assert!(lines[line].contains(cell), "{cell} in {}", lines[line]);
        }
    }
    // All names of transports start at the same column.
    let column = lines[0].find("transport").unwrap();
    assert!(lines[1][column..].starts_with("DFCP") && lines[7][column..].starts_with("QUIC CUBIC"), "{text}");
    let notes = result::notes(&results());
    for note in ["DFCP at 10 % loss halved its rate.", "QUIC CUBIC at 10 % loss failed: a < b & timed out.", "> : cut"]
    {
        assert!(notes.contains(note), "{note} in {notes}");
    }
}

#[test]
fn json_has_numbers_where_there_are_some() {
    let json = result::json(&results(), FilePath::new("x/goodput.svg"));
    assert_eq!(json["chart"], "x/goodput.svg");
    let runs = json["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 6);
    assert_eq!((&runs[0]["transport"], &runs[0]["ending"]), (&Value::from("dfcp"), &Value::from("complete")));
    assert_eq!((runs[0]["path"]["rtt_ms"].as_f64(), runs[0]["overhead"].as_f64()), (Some(50.0), Some(0.25)));
    let waste = &runs[3]["waste"];
    assert_eq!((waste["late"].as_u64(), waste["proactive"].as_u64()), (Some(195), Some(25)));
    assert_eq!((waste["share"].as_f64(), &runs[4]["waste"]), (Some(0.0049), &Value::Null));
    assert_eq!((runs[4]["ending"].as_str(), runs[4]["extrapolated_completion_s"].as_f64()), (Some("cut"), Some(498.0)));
    assert_eq!((runs[5]["reason"].as_str(), &runs[5]["overhead"]), (Some("a < b & timed out"), &Value::Null));
}

/// Checks that elements nest and attributes are quoted. This suffices for the output of `plot`.
fn assert_well_formed(xml: &str) {
    let mut open = Vec::new();
    let mut rest = xml;
    while let Some(start) = rest.find('<') {
        let text = &rest[..start];
        assert!(!text.contains('>'), "stray > in {text:?}");
        for (at, _) in text.match_indices('&') {
            assert!(["&amp;", "&lt;", "&gt;"].iter().any(|entity| text[at..].starts_with(entity)), "{text:?}");
        }
        let end = start + rest[start..].find('>').expect("an unfinished tag");
        let tag = &rest[start + 1..end];
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "{tag}");
        } else if !tag.ends_with('/') {
            open.push(name);
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} {rest:?}");
}

#[test]
fn the_chart_is_well_formed_and_shows_every_value() {
    let svg = plot::chart(&results());
    assert_well_formed(&svg);
    for text in [
        ">Goodput of 64.0 MB over 100 Mbit/s with 50 ms round-trip time<",
        ">Goodput, Mbit/s<",
        ">Packet loss each way, independent<",
        ">DFCP<",
        ">QUIC BBR<",
        ">QUIC CUBIC<",
        ">0 %<",
        ">10 %<",
        ">94.8<",
        ">89.8<",
        ">80<",
        ">81.9<",
        ">1.02<",
        ">0<",
        ">ceiling of the path<",
        ">QUIC BBR at 10 %: cut after 8 s; the goodput until then, start-up left out.<",
        ">QUIC CUBIC at 10 %: failed.<",
    ] {
        assert!(svg.contains(text), "{text} in {svg}");
    }
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
}

#[test]
fn a_chart_of_anything_is_well_formed() {
    let mut alone = result(Transport::QuicCubic, 0.75, 0.0, Ending::Complete);
    alone.path.rate_bps = 1;
    let twice = [0.1, 0.1].map(|loss| result(Transport::Dfcp, loss, 8.0, Ending::Complete)).to_vec();
    let extremes = [
        vec![],
        twice,
        vec![alone],
        vec![result(Transport::Dfcp, 0.0, 1e-9, Ending::Complete)],
        vec![result(Transport::Dfcp, 0.3, 8.0, Ending::Cut { steady_bps: 0.0 })],
    ];
    for results in extremes {
        let svg = plot::chart(&results);
        assert_well_formed(&svg);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}

#[test]
fn only_verified_work_is_a_success() {
    let mut all = results();
    assert!(verdict(&all).is_ok(), "QUIC may be cut or fail");
    all[4].hash_ok = false;
    assert!(verdict(&all).unwrap_err().to_string().contains("QUIC BBR at 10 % loss delivered something"));
    let cut = [result(Transport::Dfcp, 0.3, 20.0, Ending::Cut { steady_bps: 1e6 })];
    assert!(verdict(&cut).unwrap_err().to_string().contains("1.28 MB of 64.0 MB"));
    let cut = [result(Transport::DfcpAuto, 0.3, 20.0, Ending::Cut { steady_bps: 1e6 })];
    assert!(verdict(&cut).unwrap_err().to_string().starts_with("DFCP auto at 30 % loss delivered 1.28 MB"));
    let failed = [result(Transport::Dfcp, 0.3, 20.0, Ending::Failed { reason: "reset".to_owned() })];
    assert_eq!(verdict(&failed).unwrap_err().to_string(), "DFCP at 30 % loss failed: reset");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_transport_delivers_a_small_file_over_a_lossy_path() {
    let dir = tempfile::tempdir().unwrap();
    let source = Source::create(dir.path().join("file"), 50_000).unwrap();
    let path = Path { rate_bps: 100_000_000, rtt: Duration::from_millis(2), loss: 0.05 };
    let limit = Duration::from_secs(60);
    let [bbr, cubic] = [Controller::Bbr, Controller::Cubic].map(|controller| Quic::new(controller).unwrap());
    for result in [
        transfer::transfer(&Dfcp::Told, &path, &source, limit, |_| {}).await.unwrap(),
        transfer::transfer(&Dfcp::Auto, &path, &source, limit, |_| {}).await.unwrap(),
        transfer::transfer(&bbr, &path, &source, limit, |_| {}).await.unwrap(),
        transfer::transfer(&cubic, &path, &source, limit, |_| {}).await.unwrap(),
    ] {
        assert!(result.is_verified(), "{result:?}");
        assert!(result.wire.sent_bytes > 50_000 && result.remark.is_none(), "{result:?}");
        assert_eq!(result.waste.is_some(), result.transport.is_dfcp(), "{result:?}");
    }
}
