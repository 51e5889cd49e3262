//! Resolution of a plan to a scenario.

use super::estimate::estimate;
use super::messages::messages;
use super::quantity::{DURATION_S_MAX, not_negative, ns, positive};
use super::random::draw;
use super::web::web;
use super::{ChangeSpec, FlowSpec, Layout, LinkSpec, Scenario, WalkSpec};
use super::{outages, rates};
use crate::plan::{Bottleneck, Carrier, Discipline, Ends, Flows, Impairments, Kind, Plan, Shape, Spread, Topology};

/// Default queue limit, packets: practically unlimited.
const BUFFER_PACKETS_DEFAULT: usize = 10_000;
/// Default rate of links, Mbit/s, as in the source documents.
const RATE_MBPS_DEFAULT: f64 = 1000.0;
const RTT_MS_DEFAULT: f64 = 10.0;
/// Bytes of a full IP packet, for bandwidth-delay products.
const PACKET_BYTES: f64 = 1500.0;
/// Maximum number of flows: a run with more would take over a day.
const FLOWS_MAX: u32 = 10_000;
const LINKS_MAX: usize = 1_000;
/// Maximum number of steps of a random walk: 10 000 s in steps of 10 ms.
const STEPS_MAX: u64 = 1_000_000;
/// Maximum number of address changes of a flow's sender in a run.
const REBINDS_MAX: usize = 200;
/// Greatest clock drift, ppm: real clocks with a larger one are defective.
const CLOCK_PPM_MAX: i32 = 10_000;

/// Resolves one series of `plan`: its flows use `transport`, unless they have their own.
///
/// # Errors
/// Fails with a sentence about the invalid setting.
pub fn resolve(plan: &Plan, transport: &Carrier) -> Result<Scenario, String> {
    let drawn;
    let (topology, groups): (&Topology, Vec<Flows>) = match plan.topology.get_ref() {
        topology if topology.kind == Shape::Random => {
            let (topology, flows) = draw(topology)?;
            drawn = topology;
            (&drawn, flows)
        }
        topology => (topology, plan.flows.iter().map(|flows| flows.get_ref().clone()).collect()),
    };
    let duration_s = positive("duration_s", plan.run.duration_s, DURATION_S_MAX)?;
    if !(0.0..duration_s).contains(&plan.run.warm_up_s) {
        return Err(format!("warm_up_s is {}, but lies between 0 and the run's {duration_s} s", plan.run.warm_up_s));
    }
    let mut scenario = Scenario {
        nodes: nodes(topology),
        links: Vec::new(),
        flows: Vec::new(),
        changes: Vec::new(),
        walks: Vec::new(),
        rates: Vec::new(),
        outages: Vec::new(),
        spread: spread(plan.spread)?,
        duration_ns: ns(duration_s),
        warm_up_ns: ns(plan.run.warm_up_s),
        bin_ns: plan.metrics.bin_s.map_or(Ok(0), |bin_s| positive("bin_s", bin_s, DURATION_S_MAX).map(ns))?,
        queue_trace_ns: plan
            .metrics
            .queue_trace_ms
            .map_or(Ok(0), |ms| positive("queue_trace_ms", ms, 1e6).map(|ms| ns(ms / 1e3)))?,
    };
    let longest_ms = groups.iter().filter_map(|flows| flows.rtt_ms).fold(rtt_ms(topology), f64::max);
    scenario.links = links(topology, longest_ms, &scenario.nodes)?;
    for group in &groups {
        add_flows(&mut scenario, topology, group, transport)?;
    }
    if scenario.flows.is_empty() {
        return Err("there are no flows; give [[flows]] a count above 0".to_owned());
    }
    rates::add(&mut scenario, plan)?;
    share(&mut scenario)?;
    outages::add(&mut scenario, plan)?;
    add_changes(&mut scenario, plan, topology)?;
    add_walks(&mut scenario, plan)?;
    scenario.check_bound()?;
    let rtts = not_negative("warm_up_rtts", plan.run.warm_up_rtts, 1e6)?;
    scenario.warm_up_ns = scenario.warm_up_ns.max((rtts * scenario.longest_rtt_ns() as f64) as u64);
    if scenario.warm_up_ns >= scenario.duration_ns {
        let s = scenario.warm_up_ns as f64 / 1e9;
        return Err(format!("warm_up_rtts leave out {s} s, but the run has {duration_s} s; make it longer"));
    }
    Ok(scenario)
}

fn spread(spread: Spread) -> Result<Spread, String> {
    not_negative("start_rtts", spread.start_rtts, 1e3)?;
    not_negative("rtt in [spread]", spread.rtt, 0.5)?;
    Ok(spread)
}

fn add_walks(scenario: &mut Scenario, plan: &Plan) -> Result<(), String> {
    for walk in plan.walks.iter().map(toml::Spanned::get_ref) {
        let links = scenario.links.len();
        let Some(link) = walk.bottleneck.checked_sub(1).filter(|&link| link < links) else {
            let place = walk.bottleneck;
            return Err(format!("[[walks]] names bottleneck {place}, but they are counted from 1 to {links}"));
        };
        let within = (positive("lowest", walk.lowest, 1e3)?, positive("highest", walk.highest, 1e3)?);
        if within.0 > within.1 {
            return Err(format!("lowest is {} and highest {}; change places", within.0, within.1));
        }
        if scenario.links[link].impairments.has_no_queue() {
            return Err("the rate of a policer does not change; remove [[walks]]".to_owned());
        }
        let every_ns = ns(positive("every_ms", walk.every_ms, 1e6)? / 1e3).max(1);
        if scenario.duration_ns / every_ns > STEPS_MAX {
            return Err(format!("every_ms is {}, which makes more than {STEPS_MAX} steps in the run", walk.every_ms));
        }
        scenario.walks.push(WalkSpec { link, every_ns, within, step: not_negative("step", walk.step, 1e3)? });
    }
    Ok(())
}

/// Checks that the special behaviour of a flow's endpoints fits its transport.
fn check_ends(ends: Ends, carrier: &Carrier) -> Result<(), String> {
    // Batched reception applies to every transport; the other settings need DFCP.
    if (Ends { receive_batch_ms: None, ..ends }) != Ends::default() && !carrier.kind.is_dfcp() {
        return Err(format!("`ends` are those of DFCP; the transport {:?} has none", carrier.name()));
    }
    for (name, mbps) in [("app_mbps", ends.app_mbps), ("read_mbps", ends.read_mbps)] {
        mbps.map(|mbps| positive(name, mbps, 1e6)).transpose()?;
    }
    if ends.on_s.is_some() != ends.off_s.is_some() || ends.on_s.is_some() && ends.app_mbps.is_none() {
        return Err("on_s and off_s belong together, and need app_mbps".to_owned());
    }
    for (name, s) in [("on_s", ends.on_s), ("off_s", ends.off_s)] {
        s.map(|s| positive(name, s, DURATION_S_MAX)).transpose()?;
    }
    not_negative("receive_batch_ms", ends.receive_batch_ms.unwrap_or(0.0), 1e3)?;
    if ends.clock_ppm.is_some_and(|ppm| ppm.abs() > CLOCK_PPM_MAX) {
        return Err(format!("clock_ppm lies between -{CLOCK_PPM_MAX} and {CLOCK_PPM_MAX}"));
    }
    Ok(())
}

/// Checks the ranges of the impairments, and returns them.
fn impairments(all: Impairments) -> Result<Impairments, String> {
    for (name, ms) in [("jitter_ms", all.jitter_ms), ("batch_ms", all.batch_ms), ("reorder_ms", all.reorder_ms)] {
        not_negative(name, ms.unwrap_or(0.0), 1e3)?;
    }
    for (name, share) in [("reorder", all.reorder), ("back_loss", all.back_loss)] {
        not_negative(name, share.unwrap_or(0.0), 1.0)?;
    }
    if all.policer_packets == Some(0) {
        return Err("policer_packets is 0, but a bucket which holds no packet lets none pass".to_owned());
    }
    all.policer_mbps.map(|mbps| positive("policer_mbps", mbps, 1e6)).transpose()?;
    if all.policer_mbps.is_some() && all.policer_packets.is_none() {
        return Err("policer_mbps needs a bucket; add policer_packets".to_owned());
    }
    Ok(all)
}

fn rtt_ms(topology: &Topology) -> f64 {
    topology.rtt_ms.unwrap_or(RTT_MS_DEFAULT)
}

/// Returns the names of a graph's nodes, in the order in which links first mention them.
fn nodes(topology: &Topology) -> Vec<String> {
    let mut nodes: Vec<String> = Vec::new();
    for link in topology.links.iter().map(toml::Spanned::get_ref) {
        for name in [&link.from, &link.to] {
            if !nodes.contains(name) {
                nodes.push(name.clone());
            }
        }
    }
    nodes
}

fn links(topology: &Topology, longest_ms: f64, nodes: &[String]) -> Result<Vec<LinkSpec>, String> {
    let is_graph = topology.kind == Shape::Graph;
    if is_graph == topology.links.is_empty() {
        return Err("[[topology.links]] belong to kind = \"graph\", which needs at least one of them".to_owned());
    }
    if topology.links.len().max(topology.bottlenecks.len()) > LINKS_MAX {
        return Err(format!("there are more than {LINKS_MAX} links; leave some out"));
    }
    if is_graph {
        let place = |name: &str| nodes.iter().position(|node| node == name).unwrap_or(0);
        let links = topology.links.iter().map(toml::Spanned::get_ref);
        let links = links.map(|link| {
            let spec = link_of(topology, &link.link, link.link.rtt_ms.unwrap_or(0.0).max(longest_ms))?;
            Ok(LinkSpec { between: Some((place(&link.from), place(&link.to))), ..spec })
        });
        let links: Vec<LinkSpec> = links.collect::<Result<_, String>>()?;
        check_directions(&links, nodes)?;
        return Ok(links);
    }
    if topology.bottlenecks.is_empty() {
        if topology.kind == Shape::ParkingLot {
            return Err("a parking lot needs [[topology.bottlenecks]], one for each".to_owned());
        }
        return Ok(vec![link_of(topology, &Bottleneck::default(), longest_ms)?]);
    }
    if topology.kind == Shape::Dumbbell && topology.bottlenecks.len() > 1 {
        return Err("a dumbbell has one bottleneck; write kind = \"parking-lot\" for several".to_owned());
    }
    let added_ms: f64 = topology.bottlenecks.iter().filter_map(|bottleneck| bottleneck.get_ref().rtt_ms).sum();
    let bottlenecks = topology.bottlenecks.iter().map(toml::Spanned::get_ref);
    bottlenecks.map(|bottleneck| link_of(topology, bottleneck, longest_ms + added_ms)).collect()
}

/// Checks that a graph's one-way links are unambiguous: at most one link per direction between two nodes, if both
/// directions have one.
fn check_directions(links: &[LinkSpec], nodes: &[String]) -> Result<(), String> {
    for link in links {
        let Some((from, to)) = link.between.filter(|(from, to)| from != to) else { continue };
        let count = |between| links.iter().filter(|other| other.between == Some(between)).count();
        let (there, back) = (count((from, to)), count((to, from)));
        let (from, to) = (&nodes[from], &nodes[to]);
        if there.min(back) > 0 && there.max(back) > 1 {
            return Err(format!(
                "{there} links go from {from} to {to} and {back} from {to} to {from}; name one each way, or all from the same node, \
                 which then go both ways"
            ));
        }
        let own = link.impairments;
        if back > 0 && (link.back_bps.is_some() || own.back_loss.is_some() || own.ways.is_some()) {
            return Err(format!(
                "the links between {from} and {to} go one way each; leave out up_mbps, back_loss and `ways`, or one of the links"
            ));
        }
    }
    Ok(())
}

/// Resolves a bottleneck's link. `through_ms` is the longest round-trip time across it, for buffers in bandwidth-delay
/// products.
fn link_of(topology: &Topology, own: &Bottleneck, through_ms: f64) -> Result<LinkSpec, String> {
    let rate_mbps = own.rate_mbps.or(topology.rate_mbps).unwrap_or(RATE_MBPS_DEFAULT);
    let rate_bps = positive("a bottleneck's rate_mbps", rate_mbps, 1e6)? * 1e6;
    // A bottleneck with its own `rate_mbps` has this rate in both directions: the topology's `up_mbps` does not apply.
    let up_mbps = own.up_mbps.or_else(|| topology.up_mbps.filter(|_| own.rate_mbps.is_none()));
    let up_bps = up_mbps.map(|mbps| positive("up_mbps", mbps, 1e6)).transpose()?.map(|mbps| mbps * 1e6);
    let queue_of = |rate_bps: f64| queue_packets(topology, own, rate_bps * through_ms / 1e3 / 8.0 / PACKET_BYTES);
    let queue_packets = queue_of(up_bps.unwrap_or(rate_bps))?;
    let back_queue_packets = queue_of(rate_bps)?;
    let rtt_ms = not_negative("a bottleneck's rtt_ms", own.rtt_ms.unwrap_or(0.0), 1e6)?;
    let discipline = own.discipline.or(topology.discipline).unwrap_or_default();
    Ok(LinkSpec {
        rate_bps: up_bps.unwrap_or(rate_bps).round() as u64,
        back_bps: up_bps.map(|_| rate_bps.round() as u64),
        delay_ns: ns(rtt_ms / 2e3),
        loss: not_negative("loss", own.loss.or(topology.loss).unwrap_or(0.0), 1.0)?,
        loss_burst_packets: own.loss_burst_packets.or(topology.loss_burst_packets).unwrap_or(0.0),
        discipline,
        ce_threshold_ns: ce_threshold_ns(own.ce_threshold_us.or(topology.ce_threshold_us), discipline)?,
        queue_packets,
        back_queue_packets: Some(back_queue_packets).filter(|&packets| packets != queue_packets),
        impairments: impairments(topology.impairments)?,
        between: None,
    })
}

/// Returns the marking threshold, ns. Fails if the discipline is not based on CoDel.
fn ce_threshold_ns(us: Option<f64>, discipline: Discipline) -> Result<Option<u64>, String> {
    let Some(us) = us else { return Ok(None) };
    if !discipline.has_codel() {
        return Err(
            "ce_threshold_us belongs to codel and fq-codel; set one of them as `discipline`, or remove it".to_owned()
        );
    }
    Ok(Some(ns(positive("ce_threshold_us", us, 1e9)? / 1e6)))
}

/// Returns the queue limit, packets, of a direction whose bandwidth-delay product is `bdp_packets`.
fn queue_packets(topology: &Topology, own: &Bottleneck, bdp_packets: f64) -> Result<usize, String> {
    let least = topology.buffer_least_packets.unwrap_or(1);
    let of_bdp = |bdp: f64| {
        let packets = not_negative("buffer_bdp", bdp, 1e3)? * bdp_packets;
        Ok::<_, String>((packets.round().max(1.0) as usize).max(least))
    };
    match (own.buffer_packets, own.buffer_bdp) {
        (Some(packets), None) => Ok(packets),
        (None, Some(bdp)) => of_bdp(bdp),
        (None, None) => match (topology.buffer_packets, topology.buffer_bdp) {
            (Some(packets), None) => Ok(packets),
            (None, Some(bdp)) => of_bdp(bdp),
            (None, None) => Ok(BUFFER_PACKETS_DEFAULT),
            (Some(_), Some(_)) => Err("give buffer_packets or buffer_bdp, not both".to_owned()),
        },
        (Some(_), Some(_)) => Err("give buffer_packets or buffer_bdp, not both".to_owned()),
    }
}

fn add_flows(scenario: &mut Scenario, topology: &Topology, group: &Flows, series: &Carrier) -> Result<(), String> {
    if group.count > FLOWS_MAX {
        return Err(format!("{} flows are more than {FLOWS_MAX}; lower `count`", group.count));
    }
    let over = if scenario.nodes.is_empty() {
        let last = scenario.links.len();
        let (from, to) = group.over.unwrap_or((1, last));
        if from == 0 || from > to || to > last {
            return Err(format!("`over` is [{from}, {to}], but bottlenecks are counted from 1 to {last}"));
        }
        (from - 1, to - 1)
    } else {
        let place = |name: &Option<String>| {
            let name = name.as_deref().ok_or("flows of a graph need `from` and `to`, names of nodes")?;
            let place = scenario.nodes.iter().position(|node| node == name);
            place.ok_or_else(|| format!("there is no node `{name}`; nodes are named by [[topology.links]]"))
        };
        (place(&group.from)?, place(&group.to)?)
    };
    let rtt_ms = not_negative("rtt_ms", group.rtt_ms.unwrap_or_else(|| rtt_ms(topology)), 1e6)?;
    let access_mbps = group.access_mbps.or(topology.access_mbps).unwrap_or(RATE_MBPS_DEFAULT);
    let access_bps = (not_negative("access_mbps", access_mbps, 1e6)? * 1e6).round() as u64;
    let jitter_us = not_negative("access_jitter_us", topology.access_jitter_us.unwrap_or(0.0), 1e6)?;
    let start_s = not_negative("start_s", group.start_s, DURATION_S_MAX)?;
    let stagger_s = not_negative("stagger_s", group.stagger_s, DURATION_S_MAX)?;
    let stays_s = group.stays_s.map(|s| positive("stays_s", s, DURATION_S_MAX)).transpose()?;
    if group.is_back && topology.kind == Shape::Graph {
        return Err("flows of a graph go the other way if `from` and `to` change places; remove is_back".to_owned());
    }
    let carrier = group.transport.as_ref().unwrap_or(series);
    check_ends(group.ends, carrier)?;
    let rebinds_ns = rebinds(group, carrier)?;
    let messages = messages(group, carrier)?;
    let web = web(group, carrier, scenario.duration_ns as f64 / 1e9)?;
    let estimate = estimate(scenario, group, over)?;
    for index in 0..group.count {
        scenario.flows.push(FlowSpec {
            label: group.label_of(index),
            transport: carrier.clone(),
            start_ns: ns(start_s + stagger_s * f64::from(index)),
            stop_ns: stays_s.map(|stays_s| ns(start_s + stagger_s * f64::from(index) + stays_s)),
            bytes: group.bytes,
            rtt_ns: ns(rtt_ms / 1e3),
            access_bps,
            jitter_ns: ns(jitter_us / 1e6),
            over,
            is_back: group.is_back,
            rebinds_ns: rebinds_ns.clone(),
            ends: group.ends,
            messages,
            web: web.clone(),
            estimate,
            share_bps: 0,
            loss: 0.0,
        });
    }
    Ok(())
}

/// Returns the times at which the senders of `group` change their addresses, ns.
fn rebinds(group: &Flows, carrier: &Carrier) -> Result<Vec<u64>, String> {
    if !group.rebind_s.is_empty() && (carrier.kind.is_of_messages() || group.web.is_some()) {
        return Err("models of messages and web traffic have no addresses; remove rebind_s".to_owned());
    }
    if !group.rebind_s.is_empty() && carrier.kind == Kind::Classic {
        return Err("classic DFCP has no ports which a NAT could change; remove rebind_s".to_owned());
    }
    if group.rebind_s.len() > REBINDS_MAX {
        return Err(format!("rebind_s has more than {REBINDS_MAX} times; leave some out"));
    }
    let times = group.rebind_s.iter().map(|&s| not_negative("rebind_s", s, DURATION_S_MAX).map(ns));
    let mut times: Vec<u64> = times.collect::<Result<_, _>>()?;
    times.sort_unstable();
    Ok(times)
}

/// Sets each flow's `share_bps` to its max-min fair share, and its `loss` to the total loss of its bottlenecks. In a
/// graph, and over bottlenecks with a different reverse rate, both directions have separate capacity. Flows in the
/// reverse direction over symmetric bottlenecks get the rate of their access links.
fn share(scenario: &mut Scenario) -> Result<(), String> {
    let links = scenario.links.len();
    let back_bps = |link: &LinkSpec| link.back_bps.unwrap_or(link.rate_bps) as f64;
    let there = scenario.links.iter().map(|link| link.carries_bps() as f64);
    let rates_bps = there.chain(scenario.links.iter().map(back_bps)).collect();
    let routes = if scenario.nodes.is_empty() {
        let crosses = |flow: &FlowSpec, link: usize| (flow.over.0..=flow.over.1).contains(&link);
        let way = |flow: &FlowSpec, link: usize| match (flow.is_back, scenario.links[link].back_bps) {
            (false, _) => Some(link),
            (true, back_bps) => back_bps.map(|_| links + link),
        };
        let route = |flow: &FlowSpec| {
            (0..links).filter(|&link| crosses(flow, link)).filter_map(|link| way(flow, link)).collect::<Vec<_>>()
        };
        scenario.flows.iter().map(route).collect()
    } else {
        graph_routes(scenario)?
    };
    let access = |flow: &FlowSpec| if flow.access_bps == 0 { f64::INFINITY } else { flow.access_bps as f64 };
    let shares = max_min(rates_bps, &routes, &scenario.flows.iter().map(access).collect::<Vec<_>>());
    for (flow, (route, share_bps)) in scenario.flows.iter_mut().zip(routes.iter().zip(shares)) {
        flow.share_bps = (share_bps as u64).max(1_000);
        let passes = route.iter().filter(|&&way| way < links).map(|&link| 1.0 - scenario.links[link].loss);
        flow.loss = 1.0 - passes.product::<f64>();
    }
    Ok(())
}

/// Returns the links of a graph that each flow's data crosses. Index n + i stands for the reverse direction of link i,
/// where n is the number of links.
fn graph_routes(scenario: &Scenario) -> Result<Vec<Vec<usize>>, String> {
    let layout = Layout::of(scenario)?;
    let links = layout.links.len();
    let place = |edge| {
        let there = layout.links.iter().position(|&(there, _)| there == edge);
        there.or_else(|| layout.links.iter().position(|&(_, back)| back == edge).map(|link| links + link))
    };
    let route = |flow| layout.routes(flow).map(|[there, _]| there.into_iter().filter_map(place).collect());
    (0..scenario.flows.len()).map(route).collect()
}

/// Computes max-min fair shares by progressive filling (Bertsekas and Gallager, “Data Networks”, §6.5.2): all rates
/// grow together, and each flow stops when one of its links or its access link is full. For one link, this gives the
/// three cases of the PhD summary, §4.2.
pub(super) fn max_min(mut left: Vec<f64>, routes: &[Vec<usize>], access: &[f64]) -> Vec<f64> {
    let mut shares: Vec<Option<f64>> = vec![None; routes.len()];
    loop {
        let mut open = vec![0.0; left.len()];
        let is_open = |flow: &usize| shares[*flow].is_none();
        for flow in (0..routes.len()).filter(is_open) {
            routes[flow].iter().for_each(|&link| open[link] += 1.0);
        }
        let levels: Vec<f64> = left.iter().zip(&open).map(|(left, open)| left / open).collect();
        let level_of = |flow: usize| routes[flow].iter().map(|&link| levels[link]).fold(access[flow], f64::min);
        let Some(level) = (0..routes.len()).filter(is_open).map(level_of).min_by(f64::total_cmp) else {
            return shares.into_iter().flatten().collect();
        };
        // Links that fill at the same level may differ in the last bits by rounding.
        let stop: Vec<usize> =
            (0..routes.len()).filter(is_open).filter(|&flow| level_of(flow) <= level * (1.0 + 1e-9)).collect();
        for flow in stop {
            shares[flow] = Some(level);
            routes[flow].iter().for_each(|&link| left[link] = (left[link] - level).max(0.0));
        }
    }
}

fn add_changes(scenario: &mut Scenario, plan: &Plan, topology: &Topology) -> Result<(), String> {
    if let Some(from_s) = topology.loss_from_s {
        let at_ns = ns(not_negative("loss_from_s", from_s, DURATION_S_MAX)?);
        let lossy = (0..scenario.links.len()).filter(|&link| scenario.links[link].loss > 0.0);
        scenario.changes =
            lossy.map(|link| ChangeSpec { at_ns, link, own_loss: true, ..ChangeSpec::default() }).collect();
    }
    for change in plan.time.iter().map(toml::Spanned::get_ref) {
        let links = scenario.links.len();
        let Some(link) = change.bottleneck.checked_sub(1).filter(|&link| link < links) else {
            return Err(format!(
                "[[time]] names bottleneck {}, but they are counted from 1 to {links}",
                change.bottleneck
            ));
        };
        if change.rate_mbps.is_some() && scenario.links[link].impairments.has_no_queue() {
            return Err("the rate of a policer does not change; remove rate_mbps from [[time]]".to_owned());
        }
        let rate = change.rate_mbps.map(|mbps| positive("rate_mbps", mbps, 1e6)).transpose()?;
        let delay = change.delay_ms.map(|ms| not_negative("delay_ms", ms, 1e6)).transpose()?;
        scenario.changes.push(ChangeSpec {
            at_ns: ns(not_negative("at_s", change.at_s, DURATION_S_MAX)?),
            link,
            rate_bps: rate.map(|mbps| (mbps * 1e6).round() as u64),
            delay_ns: delay.map(|ms| ns(ms / 1e3)),
            loss: change.loss.map(|loss| not_negative("loss", loss, 1.0)).transpose()?,
            ..ChangeSpec::default()
        });
    }
    scenario.changes.sort_by_key(|change| change.at_ns);
    Ok(())
}
