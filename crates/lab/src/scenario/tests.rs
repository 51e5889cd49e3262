use super::resolve::max_min;
use super::*;
use crate::plan::Source;

fn scenario(topology: &str) -> Result<Scenario, String> {
    let text = format!(
        "id = \"t\"\ntitle = \"\"\nsource = \"\"\nquestion = \"\"\n[run]\nduration_s = 5\nwarm_up_s = 1\n{topology}\n\
         [[series]]\nlabel = \"CUBIC\"\ntransport = \"cubic\"\n[metrics]\nplot = [\"jain\"]\n"
    );
    let source = Source::parse("t.toml", &text).map_err(|error| error.message)?;
    resolve(&source.plan, &source.plan.series[0].get_ref().transport)
}

#[test]
fn buffers_in_bandwidth_delay_products_follow_the_longest_round_trip() {
    let two = "[[flows]]\nrtt_ms = 60\n[[flows]]\n";
    let found = scenario(&format!("[topology]\nrate_mbps = 100\nrtt_ms = 12\nbuffer_bdp = 0.5\n{two}")).unwrap();
    // 100 Mbit/s for 60 ms are 500 packets of 1500 bytes.
    assert_eq!(found.links[0].queue_packets, 250);
    assert_eq!(found.flows.iter().map(|flow| flow.rtt_ns).collect::<Vec<_>>(), [60_000_000, 12_000_000]);
    assert_eq!(found.flows[0].share_bps, 50_000_000);
}

#[test]
fn a_parking_lot_has_its_own_values_where_it_gives_them() {
    let found = scenario(
        "[topology]\nkind = \"parking-lot\"\nrate_mbps = 100\nloss = 0.1\n[[topology.bottlenecks]]\nrtt_ms = 10\n\
         [[topology.bottlenecks]]\nrate_mbps = 50\nloss = 0.2\n[[flows]]\n[[flows]]\nover = [2, 2]\n",
    )
    .unwrap();
    assert_eq!(found.links.iter().map(|link| link.rate_bps).collect::<Vec<_>>(), [100_000_000, 50_000_000]);
    assert_eq!(found.links[0].delay_ns, 5_000_000);
    assert_eq!(found.flows.iter().map(|flow| flow.over).collect::<Vec<_>>(), [(0, 1), (1, 1)]);
    assert!((found.flows[0].loss - 0.28).abs() < 1e-12 && (found.flows[1].loss - 0.2).abs() < 1e-12);
    assert_eq!(found.flows[0].share_bps, 25_000_000);
}

#[test]
fn a_graph_connects_what_it_names() {
    let links = "[[topology.links]]\nfrom = \"a\"\nto = \"b\"\nlink = { rate_mbps = 10, rtt_ms = 4 }\n\
                 [[topology.links]]\nfrom = \"b\"\nto = \"c\"\n";
    let found =
        scenario(&format!("[topology]\nkind = \"graph\"\n{links}[[flows]]\nfrom = \"a\"\nto = \"c\"\n")).unwrap();
    assert_eq!(found.nodes, ["a", "b", "c"]);
    assert_eq!(found.flows[0].over, (0, 2));
    let lost = scenario(&format!("[topology]\nkind = \"graph\"\n{links}[[flows]]\nfrom = \"a\"\nto = \"d\"\n"));
    assert!(lost.unwrap_err().contains("there is no node `d`"));
}

#[test]
fn a_random_network_is_drawn_within_its_ranges_and_by_its_number_alone() {
    let random = "[topology]\nkind = \"random\"\nscenario = N\n[topology.random]\nbottlenecks = [2, 5]\nrate_mbps = [100, 1000]\n\
                  rtt_ms = [10, 200]\nloss = [0, 0.01]\nbuffer_bdp = [0.01, 1]\nflows_each = [1, 3]\n";
    let mut counts = std::collections::BTreeSet::new();
    for number in 1..30 {
        let draw = || scenario(&random.replace('N', &number.to_string())).unwrap();
        let found = draw();
        assert_eq!(found, draw());
        counts.insert(found.links.len());
        assert!(
            found.links.iter().all(|link| (99_000_000..=1_001_000_000).contains(&link.rate_bps) && link.loss <= 0.01)
        );
        assert!(found.flows.len() > found.links.len() && found.flows.len() <= 3 * found.links.len() + 1);
    }
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), [2, 3, 4, 5]);
}

#[test]
fn nonsense_is_refused_with_the_next_step() {
    for (topology, part) in [
        ("[topology]\nkind = \"parking-lot\"", "needs [[topology.bottlenecks]]"),
        ("[topology]\nkind = \"graph\"", "needs at least one"),
        ("[topology]\nkind = \"random\"", "needs [topology.random]"),
        ("[topology]\nbuffer_packets = 1\nbuffer_bdp = 1", "not both"),
        ("[topology]\nloss = 1.5", "loss is 1.5"),
        ("[topology]\nloss = nan", "loss is NaN"),
        ("[topology]\nloss = 0.5\nloss_burst_packets = 0.5", "bursts"),
        ("[topology]\n[[flows]]\ncount = 0", "no flows"),
        ("[topology]\n[[flows]]\nover = [1, 2]", "counted from 1 to 1"),
        ("[topology]\n[[time]]\nat_s = 1\nbottleneck = 2", "counted from 1 to 1"),
        ("[topology]\n[[flows]]\ncount = 100000", "lower `count`"),
    ] {
        let message = scenario(topology).unwrap_err();
        assert!(message.contains(part), "{topology}: {message}");
    }
}

#[test]
fn shares_are_max_min_fair() {
    let close = |shares: Vec<f64>, expected: &[f64]| {
        assert_eq!(shares.len(), expected.len());
        assert!(shares.iter().zip(expected).all(|(share, expected)| (share - expected).abs() < 1e-6), "{shares:?}");
    };
    let without_limit = [f64::INFINITY; 3];
    // TH 4.6: two bottlenecks in a row, one flow over both.
    close(max_min(vec![1000.0, 500.0], &[vec![0, 1], vec![0], vec![1]], &without_limit), &[250.0, 750.0, 250.0]);
    close(max_min(vec![900.0, 900.0], &[vec![0, 1], vec![0], vec![1]], &without_limit), &[450.0; 3]);
    // PH 4.2: access links below and above the share.
    let one = vec![vec![0]; 4];
    close(max_min(vec![1000.0], &one, &[100.0, 200.0, 1000.0, 1000.0]), &[100.0, 200.0, 350.0, 350.0]);
    close(max_min(vec![1000.0], &one, &[100.0; 4]), &[100.0; 4]);
    close(max_min(vec![1000.0], &[], &[]), &[]);
}

#[test]
fn a_scenario_is_read_as_it_was_written() {
    let flows = "[[flows]]\ntransport = { kind = \"classic\", redundancy = \"optimal\", parameters = { Inctokens = 5 } }\n\
                 [[flows]]\nstart_s = 1\ntransport = { kind = \"modern\", rate = 12.5 }\n[[flows]]\nbytes = 7\n\
                 transport = { kind = \"modern\", rate = \"line\" }\n[[time]]\nat_s = 2\nloss = 0.1\n";
    for topology in [
        format!("[topology]\nloss = 0.01\nloss_from_s = 1\naccess_jitter_us = 3\n{flows}"),
        "[topology]\nkind = \"graph\"\n[[topology.links]]\nfrom = \"a\"\nto = \"b\"\n[[flows]]\nfrom = \"a\"\nto = \"b\"\n"
            .to_owned(),
    ] {
        let written = scenario(&topology).unwrap();
        let text = serde_json::to_string(&written).unwrap();
        assert_eq!(serde_json::from_str::<Scenario>(&text).unwrap(), written, "{text}");
    }
}
