use super::resolve::max_min;
use super::*;
use crate::reading::parse;

fn scenario(topology: &str) -> Result<Scenario, String> {
    let text = format!(
        "id = \"t\"\ntitle = \"\"\nsource = \"\"\nquestion = \"\"\n[run]\nduration_s = 5\nwarm_up_s = 1\n{topology}\n\
         [[series]]\nlabel = \"CUBIC\"\ntransport = \"cubic\"\n[metrics]\nplot = [\"jain\"]\n"
    );
    let source = parse("t.toml", &text).map_err(|error| error.message)?;
    resolve(&source.plan, &source.plan.series[0].get_ref().transport)
}

#[test]
fn buffers_in_bandwidth_delay_products_follow_the_longest_round_trip() {
    let two = "[[flows]]\nrtt_ms = 60\n[[flows]]\n";
    let found = scenario(&format!("[topology]\nrate_mbps = 100\nrtt_ms = 12\nbuffer_bdp = 0.5\n{two}")).unwrap();
    // At 100 Mbit/s, 60 ms correspond to 500 packets of 1500 bytes; the plan asks for half of them.
    assert_eq!(found.links[0].queue_packets, 250);
    assert_eq!(found.flows.iter().map(|flow| flow.rtt_ns).collect::<Vec<_>>(), [60_000_000, 12_000_000]);
    assert_eq!(found.flows[0].share_bps, 50_000_000);
}

#[test]
fn a_run_costs_what_its_links_carry_and_little_if_its_flows_end_early() {
    let cost = |flows: &str| scenario(&format!("[topology]\nrate_mbps = 1000\n{flows}")).unwrap().cost();
    assert_eq!(cost("[[flows]]\n"), 5.0);
    assert_eq!(cost("[[flows]]\nbytes = 150000\n[[flows]]\n"), 5.0);
    let both = cost("[[flows]]\nbytes = 150000\n[[flows]]\nbytes = 150000\n");
    assert!((0.0024..0.05).contains(&both), "{both}");
    assert_eq!(cost("[[flows]]\nbytes = 18446744073709551615\n[[flows]]\nbytes = 18446744073709551615\n"), 5.0);
}

/// Returns the error for a flow with this transport; empty if it is valid.
fn complaint_of_messages(transport: &str, flows: &str, topology: &str) -> String {
    let text = format!(
        "id = \"t\"\ntitle = \"\"\nsource = \"\"\nquestion = \"\"\n[run]\nduration_s = 5\nwarm_up_s = 1\n[topology]\n{topology}\n\
         [[flows]]\n{flows}\n[[series]]\nlabel = \"A\"\ntransport = {transport}\n[metrics]\nplot = [\"jain\"]\n"
    );
    parse("t.toml", &text).map_or_else(|error| error.message, |_| String::new())
}

#[test]
fn messages_which_make_no_sense_are_refused_with_what_to_do() {
    let right = "messages = { bytes = 1316, every_ms = 4, deadline_ms = 85 }";
    for transport in ["\"modern\"", "\"fec-20-10\"", "\"arq\"", "\"message-bound\""] {
        assert_eq!(complaint_of_messages(transport, right, ""), "", "{transport}");
        for (from, to, part) in [
            ("bytes = 1316", "bytes = 7", "messages have 7 bytes, but here they have 8 to "),
            ("every_ms = 4", "every_ms = nan", "every_ms is NaN, but lies between 0 and"),
            ("every_ms = 4", "every_ms = 0.001", "but 10 µs to 1000 s are possible"),
            ("deadline_ms = 85", "deadline_ms = -1", "deadline_ms is -1, but lies between 0 and"),
            ("deadline_ms = 85", "deadline_ms = 1e5", "not above 60 s; choose another one"),
            ("deadline_ms = 85", "deadline_ms = 85, target_percent = 100", "the target is 1, but lies between"),
            ("messages", "bytes = 1\nmessages", "a flow of messages has no end; leave out its bytes"),
        ] {
            let found = complaint_of_messages(transport, &right.replacen(from, to, 1), "");
            assert!(found.contains(part), "{transport} {to}: {found}");
        }
    }
    let beside = right.replace(" }", ", beside_stream = true }");
    assert_eq!(complaint_of_messages("\"modern\"", &beside, ""), "");
    assert!(complaint_of_messages("\"arq\"", &beside, "").contains("only DFCP has a stream beside them"));
    assert!(complaint_of_messages("\"cubic\"", right, "").contains("\"cubic\" has no messages; use modern, "));
    assert!(complaint_of_messages("\"classic\"", right, "").contains("\"classic\" has no messages"));
    assert!(complaint_of_messages("\"arq\"", "", "").contains("add [flows.messages] below its [[flows]]"));
    let option = |kind: &str| format!("{{ kind = \"{kind}\", window_blocks = 1 }}");
    for kind in ["arq", "message-bound"] {
        assert!(complaint_of_messages(&option(kind), right, "").contains("has no option `window_blocks`"));
    }
    for (flows, topology) in
        [(format!("count = 2\n{right}"), ""), (right.to_owned(), "loss = 0.1\nloss_burst_packets = 3")]
    {
        let found = complaint_of_messages("\"message-bound\"", &flows, topology);
        assert!(found.contains("message-bound is of one flow over bottlenecks in a row"), "{found}");
    }
}

#[test]
fn messages_are_set_by_name_where_there_are_some() {
    let with = |lines: &str| complaint_of_messages("\"arq\"", lines, "").replace('\n', " ");
    let swept = |parameter: &str, value: &str| {
        with(&format!(
            "messages = {{ bytes = 9, every_ms = 4, deadline_ms = 85 }}\n[[sweep]]\nparameter = \"{parameter}\"\nvalues = [{value}]"
        ))
    };
    for (parameter, value) in
        [("message_bytes", "8"), ("message_every_ms", "0.5"), ("deadline_ms", "30"), ("target_percent", "99")]
    {
        assert_eq!(swept(parameter, value), "", "{parameter}");
        assert_ne!(swept(parameter, "-1"), "", "{parameter}");
    }
    let text = "[topology]\n[[sweep]]\nparameter = \"deadline_ms\"\nvalues = [30]";
    assert!(scenario(text).unwrap_err().contains("no flows have any; add [flows.messages] below [[flows]]"));
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
    // Thesis §4.6: two bottlenecks in a row, one flow crosses both.
    close(max_min(vec![1000.0, 500.0], &[vec![0, 1], vec![0], vec![1]], &without_limit), &[250.0, 750.0, 250.0]);
    close(max_min(vec![900.0, 900.0], &[vec![0, 1], vec![0], vec![1]], &without_limit), &[450.0; 3]);
    // PhD summary §4.2: access links below and above the fair share.
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

#[test]
fn the_warm_up_lasts_as_many_round_trips_as_asked_for_where_that_is_longer() {
    let of = |rtt_ms: u32| {
        let plan = "[spread]\nrtt = 0.02\n[topology]\nrtt_ms = N\n".replace('N', &rtt_ms.to_string());
        scenario(&plan.replace("[spread]", "warm_up_rtts = 20\n[spread]")).map(|found| found.warm_up_ns)
    };
    assert_eq!(of(10), Ok(1_000_000_000));
    assert_eq!(of(100), Ok(2_000_000_000));
    assert!(of(500).unwrap_err().contains("warm_up_rtts leave out 10 s, but the run has 5 s"));
}

#[test]
fn a_buffer_in_bandwidth_delay_products_has_its_least_size() {
    let of = |bdp: f64| {
        let plan = format!("[topology]\nrate_mbps = 12\nrtt_ms = 10\nbuffer_bdp = {bdp}\nbuffer_least_packets = 16\n");
        scenario(&plan).unwrap().links[0].queue_packets
    };
    assert_eq!([0.2, 1.0, 4.0].map(of), [16, 16, 40]);
}

#[test]
fn the_seed_draws_starts_and_round_trips_within_their_bounds() {
    let plan = "[spread]\nstart_rtts = 1\nrtt = 0.02\n[topology]\nrtt_ms = 100\n[[flows]]\ncount = 50\nstart_s = 0.5\n";
    let found = scenario(plan).unwrap();
    let drawn = found.drawn(7);
    assert_eq!(drawn, found.drawn(7));
    assert_ne!(drawn, found.drawn(8));
    assert_eq!(drawn, drawn.drawn(9), "drawn again, it stays");
    let of = |value: fn(&FlowSpec) -> u64| drawn.flows.iter().map(value).collect::<std::collections::BTreeSet<_>>();
    let (starts, rtts) = (of(|flow| flow.start_ns), of(|flow| flow.rtt_ns));
    assert!(starts.len() == 50 && starts.iter().all(|start_ns| (500_000_000..600_000_000).contains(start_ns)));
    assert!(rtts.len() == 50 && rtts.iter().all(|rtt_ns| (98_000_000..=102_000_000).contains(rtt_ns)));
    assert!(*starts.first().unwrap() < 510_000_000 && *starts.last().unwrap() > 590_000_000);
}

#[test]
fn a_walk_keeps_within_its_bounds_and_goes_everywhere() {
    let plan = "[topology]\nrate_mbps = 50\n[[walks]]\nevery_ms = 10\nlowest = 0.2\nhighest = 1\nstep = 0.2\n";
    let found = scenario(plan).unwrap();
    assert!(found.changes.is_empty());
    let drawn = found.drawn(3);
    assert_eq!(drawn.changes.len(), 500);
    assert_ne!(drawn.changes, found.drawn(4).changes);
    let rates: Vec<u64> = drawn.changes.iter().filter_map(|change| change.rate_bps).collect();
    assert!(rates.iter().all(|rate_bps| (10_000_000..=50_000_000).contains(rate_bps)));
    assert!(rates.windows(2).all(|pair| pair[0].abs_diff(pair[1]) <= 10_000_000));
    assert!(*rates.iter().min().unwrap() < 12_000_000 && *rates.iter().max().unwrap() > 48_000_000);
    assert!(scenario(&plan.replace("highest = 1", "highest = 0.1")).unwrap_err().contains("change places"));
    assert!(
        scenario(&plan.replace("every_ms = 10", "every_ms = 0.001")).unwrap_err().contains("more than 1000000 steps")
    );
}

#[test]
fn impairments_are_on_the_way_there_and_losses_of_the_way_back_on_that_alone() {
    let found = scenario(
        "[topology]\nrate_mbps = 10\n[topology.impairments]\njitter_ms = 2\nbatch_ms = 4\nreorder = 0.01\nback_loss = 0.2\n",
    );
    let layout = Layout::of(&found.unwrap()).unwrap();
    let (there, back) = layout.links[0];
    let config = |edge: dfcp_sim::Edge| layout.graph.edges().nth(edge.index()).unwrap().2.clone();
    let (there, back) = (config(there), config(back));
    assert_eq!((there.jitter.as_millis(), there.batch.as_millis()), (2, 4));
    assert_eq!((there.reorder, there.reorder_delay.as_millis()), (0.01, 5));
    assert_eq!(there.loss, dfcp_netem::Loss::None);
    assert_eq!(back.loss, dfcp_netem::Loss::bernoulli(0.2));
    assert!(back.jitter.is_zero() && back.batch.is_zero() && back.reorder == 0.0);
}

#[test]
fn a_policer_stands_in_for_the_queue() {
    let policed = "[topology]\nrate_mbps = 10\n[topology.impairments]\npolicer_packets = 4\n";
    let layout = Layout::of(&scenario(policed).unwrap()).unwrap();
    let there = layout.graph.edges().nth(layout.links[0].0.index()).unwrap().2.clone();
    assert_eq!(there.rate_bps, None);
    assert_eq!(there.policer.map(|policer| (policer.rate_bps, policer.bucket_bytes)), Some((10_000_000, 6_000)));
    let changed = scenario(&format!("[[time]]\nat_s = 1\nrate_mbps = 5\n{policed}"));
    assert!(changed.unwrap_err().contains("the rate of a policer does not change"));
    assert!(scenario(&policed.replace('4', "0")).unwrap_err().contains("a bucket which holds no packet"));
}

#[test]
fn a_flow_which_goes_the_other_way_shares_no_bottleneck_there() {
    let found = scenario("[topology]\nrate_mbps = 10\n[[flows]]\n[[flows]]\nis_back = true\n").unwrap();
    assert_eq!(found.flows[0].share_bps, 10_000_000);
    let layout = Layout::of(&found).unwrap();
    let (there, back) = layout.links[0];
    let [own_there, own_back] = layout.routes(1).unwrap();
    assert!(own_there.contains(&back) && own_back.contains(&there));
    assert!(layout.routes(0).unwrap()[0].contains(&there));
}

#[test]
fn flows_stay_for_their_time_each_from_its_own_start() {
    let found = scenario("[topology]\n[[flows]]\ncount = 3\nstart_s = 1\nstagger_s = 0.5\nstays_s = 2\n").unwrap();
    let times: Vec<_> = found.flows.iter().map(|flow| (flow.start_ns, flow.stop_ns)).collect();
    let ms = |ms: u64| ms * 1_000_000;
    assert_eq!(times, [(1000, 3000), (1500, 3500), (2000, 4000)].map(|(from, to)| (ms(from), Some(ms(to)))));
}

#[test]
fn ends_are_those_of_dfcp() {
    let with = |ends: &str, transport: &str| {
        scenario(&format!("[topology]\n[[flows]]\nends = {{ {ends} }}\ntransport = \"{transport}\"\n"))
    };
    assert!(with("app_mbps = 5, on_s = 1, off_s = 2, clock_ppm = -100, lie = 'losses'", "modern").is_ok());
    assert!(with("receive_batch_ms = 1", "cubic").is_ok());
    for (ends, transport, why) in [
        ("read_mbps = 5", "cubic", "`ends` are those of DFCP"),
        ("on_s = 1, off_s = 1", "modern", "need app_mbps"),
        ("app_mbps = 5, on_s = 1", "modern", "belong together"),
        ("app_mbps = 0", "modern", "app_mbps is 0"),
        ("clock_ppm = 20000", "modern", "clock_ppm lies between"),
        ("receive_memory_kib = 1", "modern", "receive_memory_kib: "),
    ] {
        let message = with(ends, transport).unwrap_err();
        assert!(message.contains(why), "{ends}: {message}");
    }
}

/// Returns the link configurations of link `place`: forward and reverse.
fn ways_of(scenario: &Scenario, place: usize) -> [dfcp_netem::LinkConfig; 2] {
    let layout = Layout::of(scenario).unwrap();
    let (there, back) = layout.links[place];
    [there, back].map(|edge| layout.graph.edges().nth(edge.index()).unwrap().2.clone())
}

#[test]
fn up_is_datas_direction_and_each_way_has_the_buffer_of_its_rate() {
    let plan = "[topology]\nrate_mbps = 0.6\nup_mbps = 12\nrtt_ms = 100\nbuffer_bdp = 1\n[[flows]]\n[[flows]]\nis_back = true\n";
    let found = scenario(plan).unwrap();
    let [there, back] = ways_of(&found, 0);
    assert_eq!((there.rate_bps, back.rate_bps), (Some(12_000_000), Some(600_000)));
    assert_eq!((there.queue.packets, back.queue.packets), (Some(100), Some(5)));
    assert_eq!(found.flows.iter().map(|flow| flow.share_bps).collect::<Vec<_>>(), [12_000_000, 600_000]);
    // A bottleneck's own `rate_mbps` applies to both directions, unless the bottleneck also sets `up_mbps`.
    let row = scenario(
        "[topology]\nkind = \"parking-lot\"\nup_mbps = 5\n[[topology.bottlenecks]]\nrate_mbps = 3\n[[topology.bottlenecks]]\nrate_mbps = 3\nup_mbps = 2\n\
         [[topology.bottlenecks]]\n",
    );
    let rates: Vec<_> = row.unwrap().links.iter().map(|link| (link.rate_bps, link.back_bps)).collect();
    assert_eq!(rates, [(3_000_000, None), (2_000_000, Some(3_000_000)), (5_000_000, Some(1_000_000_000))]);
    let scaled = found.scaled(0.5);
    assert_eq!((scaled.links[0].back_bps, scaled.links[0].back_queue_packets), (Some(300_000), Some(3)));
    assert!(scenario("[topology]\nup_mbps = 0\n").unwrap_err().contains("up_mbps is 0"));
}

#[test]
fn two_links_between_the_same_nodes_in_opposite_directions_go_one_way_each() {
    let link = |from: &str, to: &str, mbps: u32| {
        format!(
            "[[topology.links]]\nfrom = \"{from}\"\nto = \"{to}\"\nlink = {{ rate_mbps = {mbps}, rtt_ms = 20, loss = 0.0{mbps} }}\n"
        )
    };
    let flows = "[[flows]]\nfrom = \"a\"\nto = \"b\"\n[[flows]]\nfrom = \"b\"\nto = \"a\"\n";
    let graph = |links: &[String]| scenario(&format!("[topology]\nkind = \"graph\"\n{}{flows}", links.concat()));
    let found = graph(&[link("a", "b", 9), link("b", "a", 2)]).unwrap();
    let layout = Layout::of(&found).unwrap();
    assert_eq!(layout.graph.edges().count(), 2 + 4 * found.flows.len());
    let [a, b] = [0, 1].map(|place| ways_of(&found, place));
    assert_eq!((a[0].rate_bps, a[1].rate_bps), (Some(9_000_000), Some(2_000_000)));
    assert_eq!((b[0].rate_bps, b[1].rate_bps), (Some(2_000_000), Some(9_000_000)));
    assert_eq!((&a[0].loss, &a[1].loss), (&dfcp_netem::Loss::bernoulli(0.09), &dfcp_netem::Loss::bernoulli(0.02)));
    // Data crosses one link, and acknowledgements the other. Shares follow the link of the data.
    let [there, back] = layout.routes(0).unwrap();
    assert!(there.contains(&layout.links[0].0) && back.contains(&layout.links[1].0));
    assert_eq!(found.flows.iter().map(|flow| flow.share_bps).collect::<Vec<_>>(), [9_000_000, 2_000_000]);
    // Two parallel links with the same direction are both bidirectional.
    let found = graph(&[link("a", "b", 9), link("a", "b", 2)]).unwrap();
    assert_eq!(ways_of(&found, 0).map(|way| way.rate_bps), [Some(9_000_000); 2]);
    for (links, part) in [
        (vec![link("a", "b", 9), link("a", "b", 3), link("b", "a", 2)], "2 links go from a to b and 1 from b to a"),
        (vec![link("a", "b", 9).replace("rtt_ms", "up_mbps = 4, rtt_ms"), link("b", "a", 2)], "go one way each"),
    ] {
        let message = graph(&links).unwrap_err();
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn impairments_are_on_the_ways_that_are_said() {
    let of = |ways: &str| {
        let found = scenario(&format!(
            "[topology]\nrate_mbps = 10\n[topology.impairments]\nbatch_ms = 4\npolicer_packets = 9\npolicer_mbps = 3\n{ways}\n"
        ));
        ways_of(&found.unwrap(), 0).map(|way| !way.batch.is_zero() && way.policer.is_some())
    };
    assert_eq!(of(""), [true, false]);
    assert_eq!(of("ways = \"down\""), [false, true]);
    assert_eq!(of("ways = \"both\""), [true, true]);
}

#[test]
fn a_policer_with_a_rate_of_its_own_stands_in_front_of_the_queue() {
    let policed = "[topology]\nrate_mbps = 10\n[topology.impairments]\npolicer_packets = 4\npolicer_mbps = 6\n";
    let found = scenario(&format!("[[time]]\nat_s = 1\nrate_mbps = 5\n{policed}")).unwrap();
    let [there, back] = ways_of(&found, 0);
    assert_eq!((there.rate_bps, there.policer.map(|policer| policer.rate_bps)), (Some(10_000_000), Some(6_000_000)));
    assert_eq!(back.policer, None);
    assert_eq!(found.flows[0].share_bps, 6_000_000);
    assert_eq!(found.scaled(0.5).links[0].impairments.policer_mbps, Some(3.0));
    let alone = policed.replace("policer_packets = 4\n", "");
    assert!(scenario(&alone).unwrap_err().contains("add policer_packets"));
}

#[test]
fn an_outage_is_two_changes_of_each_way() {
    let plan = "[topology]\n[[outages]]\nat_s = 2\nlasts_s = 0.5\n[[outages]]\nat_s = 1\nlasts_s = 0.5\n";
    let found = scenario(plan).unwrap();
    let drawn = found.drawn(1);
    assert_eq!((drawn.clone(), drawn.outages.len()), (drawn.drawn(2), 0));
    let changes: Vec<_> =
        drawn.changes.iter().map(|change| (change.at_ns / 1_000_000, change.is_back, change.outage)).collect();
    let at = |ms: u64, is_out: bool| [(ms, false, Some(is_out)), (ms, true, Some(is_out))];
    assert_eq!(changes, [at(1_000, true), at(1_500, false), at(2_000, true), at(2_500, false)].concat());
    let mut state = LinkState::all(&drawn)[0];
    state.change(&drawn.changes[0]);
    assert_eq!((state.rate_bps, state.capacity_bps(&drawn.links[0])), (1_000_000_000, 0));
    for (lines, part) in [
        (plan.replace("at_s = 2", "at_s = 1.4"), "lasts until that at 1.4 s begins; join them"),
        (plan.replace("lasts_s = 0.5", "lasts_s = 0"), "lasts_s is 0"),
        (plan.replace("at_s = 2", "at_s = 2\nbottleneck = 2"), "counted from 1 to 1"),
    ] {
        assert!(scenario(&lines).unwrap_err().contains(part), "{part}");
    }
}

#[test]
fn new_addresses_are_those_of_transports_which_have_some() {
    let with = |transport: &str| {
        scenario(&format!("[topology]\n[[flows]]\nrebind_s = [3, 1.5]\ntransport = \"{transport}\"\n"))
    };
    assert_eq!(with("modern").unwrap().flows[0].rebinds_ns, [1_500_000_000, 3_000_000_000]);
    assert!(with("cubic").is_ok() && with("quic-cubic").is_ok());
    assert!(with("classic").unwrap_err().contains("no ports"));
    let text = "[topology]\n[[flows]]\nrebind_s = [-1]\n";
    assert!(scenario(text).unwrap_err().contains("rebind_s is -1"));
    let messages = "rebind_s = [1]\nmessages = { bytes = 1316, every_ms = 4, deadline_ms = 85 }";
    assert!(complaint_of_messages("\"arq\"", messages, "").contains("remove rebind_s"));
    assert_eq!(complaint_of_messages("\"modern\"", messages, ""), "");
}
