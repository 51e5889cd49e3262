//! Scenarios that the testbed refuses, each with a sentence. A scenario is never changed silently.

use dfcp_flows::congestion;
use dfcp_lab::plan::{Carrier, Ends, Kind, Pace};
use dfcp_lab::scenario::{FlowSpec, Scenario};
use dfcp_sim::{Transport, tcp};

use crate::host::Host;
use crate::limits::{FLOWS_MAX, RATE_BPS_MAX};

/// TCP window that cannot limit a flow at [`RATE_BPS_MAX`], bytes.
const WINDOW_BYTES_FREE: u32 = 16 << 20;

/// Returns the reason for which `host` cannot run a scenario; `None` if it can.
pub(crate) fn refusal(scenario: &Scenario, host: &Host) -> Option<String> {
    refusal_of_network(scenario).or_else(|| scenario.flows.iter().find_map(|flow| refusal_of_flow(flow, host)))
}

fn refusal_of_network(scenario: &Scenario) -> Option<String> {
    if !scenario.nodes.is_empty() {
        return Some("the testbed has bottlenecks in a row between senders and receivers, but no graphs".to_owned());
    }
    if scenario.flows.len() > FLOWS_MAX {
        return Some(format!("the testbed runs up to {FLOWS_MAX} flows at a time"));
    }
    if mixes_ecn(scenario) {
        return Some("the hosts of the testbed have ECN for all flows of TCP or for none".to_owned());
    }
    let fastest_bps = scenario.fastest_bps();
    (fastest_bps > RATE_BPS_MAX).then(|| {
        let (fastest, most) = (fastest_bps as f64 / 1e6, RATE_BPS_MAX / 1_000_000);
        format!("the testbed holds links up to {most} Mbit/s in real time, not {fastest} Mbit/s; use --small")
    })
}

/// Returns true if some TCP flows use ECN and others do not. All flows share the kernel's setting of the network
/// namespace. DCTCP is independent of this setting.
fn mixes_ecn(scenario: &Scenario) -> bool {
    let mut asks = scenario.flows.iter().map(|flow| &flow.transport).filter(|carrier| carrier.kind.may_have_ecn());
    let first = asks.next().map(Carrier::has_ecn);
    asks.any(|carrier| Some(carrier.has_ecn()) != first)
}

fn refusal_of_flow(flow: &FlowSpec, host: &Host) -> Option<String> {
    let carrier = &flow.transport;
    let why = match flow {
        _ if flow.is_back && !flow.rebinds_ns.is_empty() => {
            "the testbed's NAT is at its near end; a sender of the far end (is_back) keeps its address"
        }
        _ if flow.stop_ns.is_some() => "hosts are not switched off on the testbed",
        _ if flow.messages.is_some() || carrier.kind.is_of_messages() => "flows of messages run on the simulator alone",
        _ if flow.web.is_some() => "web traffic runs on the simulator alone",
        _ if flow.estimate.is_some() => "estimators watch the simulator alone",
        _ if flow.ends != Ends::default() => "ends are as fast as they can be on the testbed, and have one clock",
        _ if flow.access_bps == 0 && is_at_line_rate(carrier) => {
            "a sender at the rate of its line needs one with a rate on the testbed; set access_mbps"
        }
        _ if carrier.kind.is_tcp() => return refusal_of_tcp(flow, host),
        _ => return None,
    };
    Some(why.to_owned())
}

fn is_at_line_rate(carrier: &Carrier) -> bool {
    match carrier.rate {
        Some(pace) => pace == Pace::Line,
        // Parameters of thesis table 3.2 set a rate of their own.
        None => carrier.kind == Kind::Classic && carrier.parameters.is_empty(),
    }
}

fn refusal_of_tcp(flow: &FlowSpec, host: &Host) -> Option<String> {
    let carrier = &flow.transport;
    let Ok(Transport::Tcp(config)) = dfcp_flows::transport(flow) else { return None };
    let Some(name) = congestion(&config).filter(|_| carrier.kind != Kind::Newreno2008) else {
        return Some(format!("no kernel of today has the TCP {}", carrier.name()));
    };
    if !host.congestion.iter().any(|other| other == name) {
        let kernel = &host.release;
        return Some(format!("this host's kernel, {kernel}, has no TCP {name}; load it (modprobe tcp_{name})"));
    }
    if let Some(hz) = carrier.clock_hz.filter(|&hz| hz != host.clock_hz) {
        let has = host.clock_hz;
        return Some(format!("the clock of this host's kernel has {has} ticks per second, and the plan's {hz}"));
    }
    let why = match carrier {
        _ if carrier.initial_ssthresh_segments.is_some() => "the kernel gives no slow-start threshold to a connection",
        // The kernel derives the window from the socket buffer and the overhead of each packet, so an exact limit
        // cannot be set.
        _ if carrier.max_window_bytes.is_some_and(|bytes| bytes < WINDOW_BYTES_FREE) => {
            "the kernel has no exact bound of the window"
        }
        _ if config.initial_window_segments != tcp::Config::modern(config.congestion).initial_window_segments => {
            "the testbed has the kernel's initial window alone"
        }
        _ if config.congestion == tcp::Congestion::Cubic && host.has_hystart.is_some_and(|on| on != config.hystart) => {
            "HyStart is set for all of this host (/sys/module/tcp_cubic/parameters/hystart), and differs from the plan's"
        }
        _ => return None,
    };
    Some(why.to_owned())
}

#[cfg(test)]
mod tests {
    use dfcp_lab::reading::parse;
    use dfcp_lab::{Choice, expand};

    use super::*;

    fn refused(topology: &str, transport: &str) -> Option<String> {
        let text = format!(
            "id = \"t\"\ntitle = \"\"\nsource = \"ours\"\nquestion = \"\"\n[run]\n[topology]\n{topology}\n[[series]]\nlabel = \"A\"\n\
             transport = {transport}\n[metrics]\nplot = [\"jain\"]\n"
        );
        let runs = expand(&parse("t.toml", &text).unwrap(), Choice::default()).unwrap();
        let host = Host {
            release: "6.1".to_owned(),
            congestion: vec!["cubic".to_owned(), "reno".to_owned()],
            has_hystart: Some(true),
            clock_hz: 250,
        };
        refusal(&runs[0].scenario, &host)
    }

    /// Topology with rates below the limit.
    const SLOW: &str = "rate_mbps = 10\naccess_mbps = 100\n";

    #[test]
    fn what_the_testbed_cannot_do_is_refused_in_words() {
        for (topology, transport, part) in [
            ("", "\"cubic\"", "up to 200 Mbit/s in real time, not 1000 Mbit/s; use --small"),
            ("rate_mbps = 10\naccess_mbps = 300", "\"cubic\"", "not 300 Mbit/s"),
            ("rate_mbps = 10\naccess_mbps = 0", "{ kind = \"modern\", rate = \"line\" }", "set access_mbps"),
            ("rate_mbps = 10\naccess_mbps = 0", "\"classic\"", "set access_mbps"),
            ("SLOW[[flows]]\ncount = 101", "\"cubic\"", "up to 100 flows"),
            ("SLOW", "\"cubic-2008\"", "no kernel of today has the TCP cubic-2008"),
            ("SLOW", "\"newreno-2008\"", "no kernel of today has the TCP newreno-2008"),
            ("SLOW", "\"tahoe\"", "no kernel of today has the TCP tahoe"),
            ("SLOW", "\"bbr\"", "6.1, has no TCP bbr; load it (modprobe tcp_bbr)"),
            ("SLOW", "{ kind = \"cubic\", initial_ssthresh_segments = 10 }", "slow-start threshold"),
            ("SLOW", "{ kind = \"cubic\", initial_window_segments = 2 }", "initial window"),
            ("SLOW", "{ kind = \"cubic\", max_window_bytes = 100000 }", "no exact bound"),
            (
                "SLOW[[flows]]\n[[flows]]\ntransport = \"cubic\"",
                "{ kind = \"cubic\", ecn = true }",
                "have ECN for all flows of TCP or for none",
            ),
            ("SLOW", "\"dctcp\"", "6.1, has no TCP dctcp; load it (modprobe tcp_dctcp)"),
            ("SLOW", "{ kind = \"cubic\", hystart = false }", "HyStart is set for all"),
            ("SLOW", "{ kind = \"cubic\", clock_hz = 1000 }", "has 250 ticks per second, and the plan's 1000"),
            ("SLOW[[flows]]\nis_back = true\nrebind_s = [1]", "\"modern\"", "keeps its address"),
            ("SLOW[[flows]]\nstays_s = 1", "\"cubic\"", "not switched off"),
            ("SLOW[[flows]]\nmessages = { bytes = 9, every_ms = 4, deadline_ms = 9 }", "\"modern\"", "simulator alone"),
            ("SLOW[[flows]]\nweb = { connection_bytes = 9, page_every_s = 4 }", "\"cubic\"", "web traffic runs on"),
            ("SLOW[[flows]]\nestimate = {}", "\"cubic\"", "estimators watch"),
            ("SLOW[[flows]]\nends = { clock_ppm = 100 }", "\"modern\"", "one clock"),
        ] {
            let why = refused(&topology.replace("SLOW", SLOW), transport).unwrap_or_default();
            assert!(why.contains(part) && !why.contains('\n'), "{topology} {transport}: {why}");
        }
    }

    #[test]
    fn what_it_can_do_is_not() {
        let timed = "{ kind = \"cubic\", clock_hz = 250 }";
        for transport in [
            "\"cubic\"",
            "{ kind = \"newreno\", ecn = true }",
            timed,
            "\"newreno\"",
            "\"modern\"",
            "\"classic\"",
            "\"quic-cubic\"",
        ] {
            for more in
                ["discipline = \"wfq\"", "discipline = \"fq-codel\"\nbuffer_packets = 20\n[[flows]]\nis_back = true"]
            {
                assert_eq!(refused(&format!("{SLOW}{more}"), transport), None, "{transport}");
            }
        }
        let impairments = "impairments = { jitter_ms = 2, batch_ms = 4, reorder = 0.1, policer_packets = 9, policer_mbps = 5, back_loss = 0.2, ways = \"both\" }";
        let more = "up_mbps = 4\n[[outages]]\nat_s = 1\nlasts_s = 1\n[[flows]]\nrebind_s = [2]";
        assert_eq!(refused(&format!("{SLOW}{impairments}\n{more}"), "\"cubic\""), None);
    }
}
