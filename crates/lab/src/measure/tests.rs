use super::*;
use crate::expand::{Choice, Run, expand};
use crate::reading::parse;

fn runs(middle: &str) -> Vec<Run> {
    let text = format!(
        "id = \"t\"\ntitle = \"\"\nsource = \"\"\nquestion = \"\"\n[run]\nduration_s = 3\nwarm_up_s = 1\nseeds = 1\n{middle}\n\
         [[series]]\nlabel = \"CUBIC\"\ntransport = \"cubic\"\n[[series]]\nlabel = \"DFCP\"\ntransport = {{ kind = \"classic\", window_blocks = 8 }}\n\
         [[series]]\nlabel = \"modern\"\ntransport = \"modern\"\n[metrics]\nplot = [\"jain\"]\nbin_s = 0.5\nqueue_trace_ms = 10\n"
    );
    expand(&parse("t.toml", &text).unwrap(), Choice::default()).unwrap()
}

fn measured(middle: &str) -> Vec<Measured> {
    runs(middle).iter().map(|run| measure(&run.scenario, run.seed).unwrap()).collect()
}

#[test]
fn the_same_run_gives_the_same_figures_to_the_last_bit() {
    for run in
        runs("[topology]\nrate_mbps = 20\naccess_mbps = 40\nbuffer_packets = 50\nloss = 0.02\n[[flows]]\ncount = 2\n")
    {
        let text = || serde_json::to_string(&measure(&run.scenario, run.seed).unwrap()).unwrap();
        let first = text();
        assert_eq!(first, text(), "{} with seed {}", run.series, run.seed);
        assert_ne!(first, serde_json::to_string(&measure(&run.scenario, run.seed + 1).unwrap()).unwrap());
        let back: Measured = serde_json::from_str(&first).unwrap();
        assert_eq!(serde_json::to_string(&back).unwrap(), first);
    }
}

#[test]
fn a_link_without_loss_is_filled_and_its_figures_agree_with_each_other() {
    for found in measured(
        "[topology]\nrate_mbps = 20\naccess_mbps = 40\nbuffer_packets = 50\ndiscipline = \"drr\"\n[[flows]]\ncount = 2\n",
    ) {
        let total: f64 = found.flows.iter().map(|flow| flow.goodput_bps).sum();
        assert!(total > 14e6 && total <= found.ceiling_bps * 1.05, "{total}");
        let link = &found.links[0];
        assert!(link.utilisation > 0.9 && link.utilisation <= 1.001, "{link:?}");
        assert!(link.queue_mean_packets <= 50.0 && link.queue_trace.iter().all(|&packets| packets <= 50));
        assert_eq!(link.queue_trace.len(), 300);
        for flow in &found.flows {
            assert_eq!(flow.bins_bps.len(), 6);
            let bins: f64 = flow.bins_bps[2..].iter().sum::<f64>() / 4.0;
            assert!((bins / flow.goodput_bps - 1.0).abs() < 1e-9, "{bins} {}", flow.goodput_bps);
        }
    }
}

#[test]
fn completion_times_are_in_their_natural_order() {
    for found in measured("[topology]\nrate_mbps = 20\nrtt_ms = 20\n[[flows]]\nbytes = 300000\nstart_s = 0.1\n") {
        let flow = &found.flows[0];
        let times = [flow.fct_receive_s, flow.fct_s, flow.fct_connect_s, flow.fct_confirmed_s].map(Option::unwrap);
        assert!(times.is_sorted() && !flow.is_extrapolated, "{times:?}");
        // 300 kB at 20 Mbit/s take 0.12 s. The one-way delay is 10 ms, and the handshake precedes the data.
        assert!(
            times[0] > 0.1 && times[1] - times[0] >= 0.01 && times[2] - times[1] >= 0.01 && times[3] < 1.0,
            "{times:?}"
        );
        assert_eq!(flow.delivered_bytes, 300_000);
    }
}

#[test]
fn a_flow_which_does_not_end_is_extrapolated() {
    for found in measured("[topology]\nrate_mbps = 20\naccess_mbps = 20\n[[flows]]\nbytes = 50000000\n") {
        let flow = &found.flows[0];
        // 50 MB at 20 Mbit/s take 20 s, plus headers and redundancy.
        assert!(flow.is_extrapolated && (20.0..29.0).contains(&flow.fct_s.unwrap()), "{flow:?}");
        assert_eq!(flow.fct_confirmed_s, None);
    }
}

#[test]
fn changes_take_place_when_they_are_due() {
    let change = "[[time]]\nat_s = 1.5\nrate_mbps = 5\n[[time]]\nat_s = 2\nloss = 1\ndelay_ms = 3\n";
    for found in measured(&format!("[topology]\nrate_mbps = 20\naccess_mbps = 20\nbuffer_packets = 20\n{change}")) {
        let bins = &found.flows[0].bins_bps;
        // Loss becomes total at 2 s, the start of bin 4. Packets in flight may still complete blocks in this bin, but
        // not in bin 5.
        assert!(bins[2] > 13e6 && bins[3] < 9e6 && bins[4] < 9e6 && bins[5] == 0.0, "{bins:?}");
    }
}

#[test]
fn a_recorded_rate_is_that_of_the_link() {
    // 12 Mbit/s for half a second and 2.4 Mbit/s for another.
    let fast = (0..500).map(|ms| format!("{ms}\n"));
    let slow = (500..=1_000).step_by(5).map(|ms| format!("{ms}\n"));
    let directory = tempfile::tempdir().unwrap();
    let cell = directory.path().join("cell");
    std::fs::write(&cell, fast.chain(slow).collect::<String>()).unwrap();
    let rates = format!("[[rates]]\nfrom = \"trace\"\nfile = {:?}\n", cell.display().to_string());
    let measured = measured(&format!("{rates}[topology]\naccess_mbps = 100\nrtt_ms = 5\nbuffer_packets = 100\n"));
    // Checked in the bins of CUBIC: blocks of DFCP may take longer than half a second at the slow rate.
    let bins = &measured[0].flows[0].bins_bps;
    assert!([2, 4].iter().all(|&bin| bins[bin] > 9e6 && bins[bin] < 12e6), "{bins:?}");
    assert!([3, 5].iter().all(|&bin| bins[bin] > 1.5e6 && bins[bin] < 3.5e6), "{bins:?}");
}

#[test]
fn losses_at_random_are_counted_while_goodput_counts() {
    let link = "[topology]\nrate_mbps = 20\naccess_mbps = 20\nbuffer_packets = 20\n";
    for found in measured(&format!("{link}loss = 0.02\n")) {
        assert_eq!(found.random_losses, Some(found.links[0].lost));
        assert!(found.links[0].lost > 0, "{:?}", found.links[0]);
    }
    // Drops by a full queue do not count as random losses.
    for found in measured(link) {
        assert_eq!(found.random_losses, None);
    }
    // A loss rate set by a scheduled change counts; losses before the end of the warm-up do not.
    for (change, some) in
        [("at_s = 2\nloss = 0.1\n", true), ("at_s = 0.2\nloss = 0.1\n[[time]]\nat_s = 0.9\nloss = 0\n", false)]
    {
        for found in measured(&format!("[[time]]\n{change}{link}")) {
            assert_eq!(found.random_losses.map(|losses| losses > 0), Some(some), "{change}");
        }
    }
}

#[test]
fn losses_count_from_the_start_where_a_flow_ends_before_the_warm_up() {
    let flows = "[[flows]]\nbytes = 150000\n[[flows]]\n";
    for found in measured(&format!(
        "{flows}[topology]\nrate_mbps = 20\naccess_mbps = 20\nrtt_ms = 4\nloss = 0.02\ndiscipline = \"drr\"\n"
    )) {
        assert!(found.flows[0].fct_connect_s.is_some_and(|end_s| end_s < 1.0), "{:?}", found.flows[0]);
        assert!(found.random_losses > Some(found.links[0].lost), "{:?} {:?}", found.random_losses, found.links[0]);
    }
}

/// A link can be fully utilised by packets that no receiver can use.
#[test]
fn a_link_may_be_full_and_of_no_use() {
    let two = "[[flows]]\ncount = 2\n";
    let filled = measured(&format!(
        "{two}[topology]\nrate_mbps = 20\naccess_mbps = 40\nbuffer_packets = 50\ndiscipline = \"drr\"\n"
    ));
    for found in &filled {
        let link = &found.links[0];
        let goodput: f64 = found.flows.iter().map(|flow| flow.goodput_bps).sum();
        let useful = link.useful.unwrap();
        assert!(useful <= link.utilisation + 0.05 && useful > goodput / 20e6, "{link:?}");
    }
    // With windows of 1000 blocks and 1 % of the usual rate, no block is decoded within this run.
    let flood = &measured(&format!(
        "{two}[topology]\nrate_mbps = 0.2\naccess_mbps = 40\nbuffer_packets = 50\ndiscipline = \"drr\"\n"
    ))[1];
    let link = &flood.links[0];
    assert!(link.utilisation > 0.9 && link.useful.unwrap() < 0.1, "{link:?}");
}

#[test]
fn what_could_arrive_follows_rates_and_losses() {
    let changed = "[[time]]\nat_s = 2\nrate_mbps = 10\n[topology]\nrate_mbps = 20\naccess_mbps = 40\nbuffer_packets = 50\nloss = 0.2\n";
    for found in measured(changed) {
        // After the warm-up the rate is 20 Mbit/s for 1 s and 10 Mbit/s for 1 s; about 20 % of the packets are lost.
        let share = found.possible_bps / (found.ceiling_bps * 0.75);
        assert!((0.75..0.85).contains(&share), "{share}");
    }
}

#[test]
fn a_policed_path_has_no_queue_and_passes_its_rate() {
    let policed = "[topology]\nrate_mbps = 20\naccess_mbps = 100\n[topology.impairments]\npolicer_packets = 20\n";
    for found in measured(policed) {
        let link = &found.links[0];
        assert!(link.queue_mean_ms == 0.0 && link.utilisation < 1.01, "{link:?}");
        assert!(link.utilisation > 0.1, "{link:?}");
    }
    // Classic DFCP sends at the rate of its access link, far above the policed rate.
    let flood = &measured(policed)[1].links[0];
    assert!(flood.utilisation > 0.98 && flood.queue_drops > 3 * flood.offered / 4, "{flood:?}");
}

#[test]
fn gaps_and_queues_are_told_in_time() {
    let stalled = "[[time]]\nat_s = 1.5\nloss = 1\n[[time]]\nat_s = 1.9\nloss = 0\n[topology]\nrate_mbps = 20\naccess_mbps = 40\nbuffer_packets = 50\n";
    for found in measured(stalled) {
        let gap_ms = found.flows[0].longest_gap_ms.unwrap();
        assert!((390.0..1500.0).contains(&gap_ms), "{gap_ms}");
        let link = &found.links[0];
        // 50 full packets take 30 ms at 20 Mbit/s. Classic DFCP keeps the queue full.
        assert!(link.queue_p95_ms <= 30.0 && (link.queue_mean_packets < 49.0 || link.queue_p95_ms > 29.5), "{link:?}");
        let by_mean = link.queue_mean_packets * 0.6;
        assert!((link.queue_mean_ms - by_mean).abs() < 1e-6 * by_mean.max(1.0), "{link:?}");
        assert!(found.start_ms.unwrap() < 1500.0);
    }
}

#[test]
fn what_goes_the_other_way_is_no_part_of_what_flows_have_together() {
    let both = "[topology]\nrate_mbps = 20\naccess_mbps = 40\nbuffer_packets = 50\n[[flows]]\n[[flows]]\nis_back = true\ntransport = \"cubic\"\n";
    for found in measured(both) {
        let own = found.flows[0].goodput_bps;
        // The overload by classic DFCP drops acknowledgements of the other flow.
        let others = found.flows[1].goodput_bps;
        assert!(own > 5e6 && (others > 5e6 || found.links[0].queue_drops > 1_000), "{own} {others}");
        assert_eq!(found.value("aggregate_mbps", None, 1.0), Some(own / 1e6));
    }
}

#[test]
fn a_flow_is_measured_while_it_is_there() {
    let comes_and_goes = "[topology]\nrate_mbps = 20\naccess_mbps = 40\nbuffer_packets = 50\n[[flows]]\n[[flows]]\nstart_s = 1\nstays_s = 1\ntransport = \"newreno\"\n";
    for found in measured(comes_and_goes) {
        assert_eq!((found.flows[0].stopped_s, found.flows[1].stopped_s), (None, Some(2.0)));
        // Bins of 0.5 s from 1 s on: two flows are present in two bins, then a single flow, for which Jain's index is
        // 1.
        let jain = found.jain_of_bins(1.0);
        assert_eq!(jain.len(), 4);
        assert!(jain[0] < 1.0 && jain[1] < 1.0 && jain[2..] == [1.0, 1.0], "{jain:?}");
        assert!(found.flows[1].bins_bps[4..].iter().all(|&bps| bps == 0.0));
    }
}

/// Runs each series once over 20 Mbit/s and 50 ms, and returns its label and its message results.
fn messages(topology: &str) -> Vec<(String, crate::metrics::MessagesMeasured)> {
    let series = [("DFCP", "oracle"), ("FEC", "fec-20-10"), ("ARQ", "arq"), ("Bound", "message-bound")];
    let series = series.map(|(label, name)| format!("[[series]]\nlabel = \"{label}\"\ntransport = \"{name}\"\n"));
    let text = format!(
        "id = \"t\"\ntitle = \"\"\nsource = \"\"\nquestion = \"\"\n[run]\nduration_s = 12\nwarm_up_s = 2\nseeds = 1\n\
         [topology]\nrate_mbps = 20\nrtt_ms = 50\n{topology}\n[[flows]]\nmessages = {{ bytes = 1000, every_ms = 4, deadline_ms = 120 }}\n\
         {}[metrics]\nplot = [\"in_time_percent\"]\n",
        series.concat()
    );
    let runs = expand(&parse("t.toml", &text).unwrap(), Choice::default()).unwrap();
    let one = |run: &Run| measure(&run.scenario, run.seed).unwrap().flows[0].messages.unwrap();
    runs.iter().map(|run| (run.series.clone(), one(run))).collect()
}

#[test]
fn without_loss_messages_cost_what_is_sent_in_advance() {
    for (series, found) in messages("") {
        let each = found.datagrams_each.unwrap();
        let (in_time, least, most) = match series.as_str() {
            "DFCP" => (1.0, 1.0, 1.05),
            "FEC" => (1.0, 1.498, 1.502),
            "ARQ" => (1.0, 1.0, 1.0),
            // The target of 0.999 permits one message in 1000 to be late.
            _ => (0.999, 0.999, 0.999),
        };
        assert!((found.in_time - in_time).abs() < 1e-9, "{series}: {found:?}");
        assert!((least - 1e-9..=most + 1e-9).contains(&each), "{series}: {found:?}");
        if series == "Bound" {
            assert_eq!((found.due, found.late, found.ip_bytes_each), (0, None, None));
        } else {
            assert!((2_499..=2_501).contains(&found.due) && found.late == Some(0.0), "{series}: {found:?}");
            assert!(found.ip_bytes_each.unwrap() >= 1_044.0 * least, "{series}: {found:?}");
        }
    }
}

#[test]
fn with_loss_each_does_what_it_can() {
    let found = messages("loss = 0.1");
    let of = |label: &str| found.iter().find(|(series, _)| series == label).unwrap().1;
    let (dfcp, fec, arq, bound) = (of("DFCP"), of("FEC"), of("ARQ"), of("Bound"));
    assert!(dfcp.in_time > 0.995 && dfcp.datagrams_each < fec.datagrams_each, "{dfcp:?}");
    assert!(dfcp.datagrams_each > bound.datagrams_each && bound.in_time < 0.9991, "{bound:?}");
    // The deadline permits one retransmission, which is lost with the same probability as the original.
    assert!((0.985..0.995).contains(&arq.in_time) && (1.08..1.12).contains(&arq.datagrams_each.unwrap()), "{arq:?}");
    assert!(arq.ip_bytes_each.unwrap() > 1_044.0 * arq.datagrams_each.unwrap(), "what is asked for counts: {arq:?}");
    assert!(fec.in_time > 0.99, "{fec:?}");
}

#[test]
fn in_an_outage_nothing_is_possible_and_afterwards_all_is_again() {
    // CUBIC waits for its retransmission timeout: of 3 s, only 1 s remains after the outage.
    let out =
        "[topology]\nrate_mbps = 20\naccess_mbps = 40\nbuffer_packets = 50\n[[outages]]\nat_s = 1.2\nlasts_s = 0.5\n";
    let whole = measured(&out.replace("lasts_s = 0.5", "lasts_s = 0.001"));
    for (found, whole) in measured(out).iter().zip(&whole) {
        let share = found.possible_bps / whole.possible_bps;
        assert!((share - 0.75).abs() < 0.01, "{share}");
        let bin = found.flows[0].bins_bps[3];
        assert!(found.flows[0].longest_gap_ms >= Some(490.0) && bin < whole.flows[0].bins_bps[3], "{bin}");
        assert!(found.recovery_ms.is_some(), "an end of an outage is a change that is made up for");
        assert_eq!(found.flows[0].failure, None);
    }
    assert!(measured(out)[2].flows[0].goodput_bps > 0.9 * 0.75 * whole[2].flows[0].goodput_bps);
}

#[test]
fn after_a_new_address_dfcp_and_quic_go_on_and_tcp_ends() {
    let plan = |flows: &str| {
        format!(
            "id = \"t\"\ntitle = \"\"\nsource = \"\"\nquestion = \"\"\n[run]\nduration_s = 3\nwarm_up_s = 1\nseeds = 1\n\
             [topology]\nrate_mbps = 20\naccess_mbps = 40\nbuffer_packets = 50\n{flows}\n[[series]]\nlabel = \"CUBIC\"\ntransport = \"cubic\"\n\
             [[series]]\nlabel = \"modern\"\ntransport = \"modern\"\n[[series]]\nlabel = \"QUIC\"\ntransport = \"quic-cubic\"\n\
             [metrics]\nplot = [\"jain\"]\nbin_s = 0.5\n"
        )
    };
    let measured = |flows: &str| {
        let runs = expand(&parse("t.toml", &plan(flows)).unwrap(), Choice::default()).unwrap();
        runs.iter().map(|run| measure(&run.scenario, run.seed).unwrap().flows.remove(0)).collect::<Vec<_>>()
    };
    let (moved, still) = (measured("[[flows]]\nrebind_s = [1.5, 2]\n"), measured("[[flows]]\n"));
    let tcp = &moved[0];
    assert!(tcp.failure.as_ref().is_some_and(|why| why.contains("address changed")), "{:?}", tcp.failure);
    assert!(tcp.bins_bps[2] > 15e6 && tcp.bins_bps[4..].iter().all(|&bps| bps == 0.0), "{:?}", tcp.bins_bps);
    for (moved, still) in moved.iter().zip(&still).skip(1) {
        assert_eq!(moved.failure, None);
        assert!(moved.goodput_bps > 0.9 * still.goodput_bps, "{} {}", moved.goodput_bps, still.goodput_bps);
        // Packets in flight in the reverse direction are lost by the address change, so the runs differ.
        assert_ne!(moved.bins_bps, still.bins_bps);
    }
}

#[test]
fn a_slow_way_back_does_not_slow_down_data() {
    let plan = "[topology]\nrate_mbps = 0.4\nup_mbps = 20\naccess_mbps = 40\nbuffer_packets = 50\n";
    for found in measured(plan) {
        assert!(found.flows[0].goodput_bps > 0.5 * 20e6, "{}", found.flows[0].goodput_bps);
        assert!((found.ceiling_bps / 20e6 - 0.95).abs() < 0.03);
    }
}

/// Runs two flows per transport over a link with the given TOML settings.
fn marked(link: &str, transports: &[&str]) -> Vec<Measured> {
    let series: String = transports
        .iter()
        .enumerate()
        .map(|(place, transport)| format!("[[series]]\nlabel = \"{place}\"\ntransport = {transport}\n"))
        .collect();
    let text = format!(
        "id = \"t\"\ntitle = \"\"\nsource = \"\"\nquestion = \"\"\n[run]\nduration_s = 8\nwarm_up_s = 3\nseeds = 1\n[topology]\n\
         rate_mbps = 20\naccess_mbps = 100\nrtt_ms = 10\nbuffer_packets = 1000\n{link}\n[[flows]]\ncount = 2\n{series}\
         [metrics]\nplot = [\"marked_percent\"]\n"
    );
    let runs = expand(&parse("t.toml", &text).unwrap(), Choice::default()).unwrap();
    runs.iter().map(|run| measure(&run.scenario, run.seed).unwrap()).collect()
}

#[test]
fn a_queue_marks_flows_with_ecn_and_drops_none_of_their_packets() {
    let ecn = "{ kind = \"cubic\", ecn = true }";
    for link in ["discipline = \"codel\"", "discipline = \"fq-codel\"", "discipline = \"red\""] {
        let [with, without] = &marked(link, &[ecn, "\"cubic\""])[..] else { panic!("two series") };
        let value = |found: &Measured, name: &str| found.value(name, None, 3.0).unwrap();
        assert!(value(with, "marks") > 5.0 && value(with, "drops") == 0.0, "{link}: {:?}", with.links);
        let share = 100.0 * with.links[0].marks as f64 / with.links[0].offered as f64;
        assert_eq!(value(with, "marked_percent"), share);
        assert_eq!(with.flows.iter().filter_map(|flow| flow.retransmissions).sum::<u64>(), 0, "{link}");
        assert!(value(without, "marks") == 0.0 && value(without, "drops") > 5.0, "{link}: {:?}", without.links);
    }
}

/// DCTCP fills the link with a shorter queue than CUBIC.
#[test]
fn dctcp_keeps_a_shorter_queue_than_cubic() {
    let [dctcp, cubic] = &marked("discipline = \"codel\"\nce_threshold_us = 2500", &["\"dctcp\"", "\"cubic\""])[..]
    else {
        panic!("two series")
    };
    for found in [dctcp, cubic] {
        assert!(found.value("normalised_percent", None, 3.0) > Some(95.0), "{found:?}");
    }
    let queue = |found: &Measured| found.links[0].queue_mean_packets;
    assert!(queue(dctcp) < 0.7 * queue(cubic), "{} {}", queue(dctcp), queue(cubic));
    assert!(dctcp.links[0].marks > 0 && dctcp.links[0].queue_drops == 0, "{:?}", dctcp.links);
}

/// The path has 20 ms. A queue of CUBIC adds to them, and so does one that acknowledgements fill on the way back, which
/// `queue_ms` does not show.
#[test]
fn the_round_trip_has_the_queues_of_both_ways() {
    let round_trips = |links: &str| {
        let of_run = |found: &Measured| (found.flows[0].rtt_ms, found.links[0].queue_mean_ms);
        let topology = format!("[topology]\n{links}\naccess_mbps = 40\nrtt_ms = 20\nbuffer_packets = 50");
        measured(&topology).iter().map(of_run).collect::<Vec<_>>()
    };
    let even = round_trips("rate_mbps = 10");
    let [(Some(cubic_ms), cubic_queue_ms), (classic_ms, _), (Some(modern_ms), modern_queue_ms)] = even[..] else {
        panic!("{even:?}")
    };
    assert!(classic_ms.is_none_or(|classic_ms| classic_ms >= 20.0), "{classic_ms:?}");
    assert!((cubic_ms - 20.0 - cubic_queue_ms).abs() < 10.0 && cubic_queue_ms > 10.0, "{even:?}");
    assert!((modern_ms - 20.0 - modern_queue_ms).abs() < 5.0, "{even:?}");
    // Of 833 full packets in a second half are acknowledged, in 52 bytes each: 173 kbit/s.
    let uneven = round_trips("up_mbps = 10\nrate_mbps = 0.1");
    assert!(uneven[0].0.is_some_and(|ms| ms > 20.0 + uneven[0].1 + 50.0), "{uneven:?}");
}
