//! Execution of the measurements of a section.

use anyhow::{Context, bail, ensure};

use crate::args::{Args, FlowsRate, Section};
use crate::contenders::Contender;
use crate::namespaces::Network;
use crate::pair::{self, Reports};
use crate::plan::{self, LOSS_PER_MILLE, Step};
use crate::progress::Progress;
use crate::protocol::{Report, Window, Work};
use crate::records::{Failure, Flow, Idle, LossCheck, Opened, Records, RoundTrips};

/// Rate of the datagrams that test the pattern of losses, bit/s: low enough that only nftables drops any.
const LOSS_CHECK_BPS: u64 = 100_000_000;

/// Bytes of an encrypted DFCP packet over IPv4, and of its data.
const PACKET_BYTES: f64 = 1_492.0;
const PAYLOAD_BYTES: f64 = 1_420.0;

/// Maximum mean length of loss bursts. Independent losses of 10 % have 1.11; if whole runs of datagrams were lost, the
/// mean would be dozens.
const LOSS_RUN_MAX: f64 = 1.25;

/// Measures one section into `records`. The namespaces are created for it, and removed afterwards.
///
/// # Errors
/// Fails if something could not be measured.
pub(crate) async fn section(
    args: &Args,
    is_root: bool,
    steps: &[Step],
    progress: &Progress,
    records: &mut Records,
) -> anyhow::Result<()> {
    let Some(first) = steps.first() else { return Ok(()) };
    let network = if is_root && !args.loopback { Network::namespaces()? } else { Network::Loopback };
    let has_loss = first.section == Section::Loss;
    if has_loss {
        network.split_runs()?;
        network.lose(LOSS_PER_MILLE)?;
        let check = loss_check(&network, plan::lead_in(args.seconds()), args.seconds().min(2.0)).await?;
        progress.note(&format!(
            "loss check: {:.1} % of {} datagrams lost, in runs of {:.2}",
            100.0 * check.share(),
            check.datagrams + check.lost,
            check.mean_run()
        ));
        ensure!(check.mean_run() <= LOSS_RUN_MAX, "datagrams are lost in runs: this kernel joins them despite ethtool");
        records.loss_check = Some(check);
    }
    for step in steps {
        if has_loss {
            network.lose(step.loss_per_mille)?;
        }
        let step = Step { work: with_rate(args.flows_rate, step, &records.flows), ..*step };
        let what = step.describe(args.rounds());
        progress.begin(&what);
        let reports = pair::run(&network, step.contender, step.work).await;
        match reports.and_then(|reports| record(&step, reports, records)) {
            Ok(result) => progress.end(&what, &result),
            Err(error) => {
                // The other measurements continue; the program reports the failure at its end.
                let error = format!("{error:#}");
                progress.end(&what, &format!("failed: {error}"));
                records.failures.push(Failure { measurement: what, error });
            }
        }
    }
    Ok(())
}

/// Work of a step, with the rate of each of many DFCP connections.
fn with_rate(rate: FlowsRate, step: &Step, measured: &[Flow]) -> Work {
    let Work::Bulk { connections, lead_in, seconds, rate_bps: None } = step.work else { return step.work };
    if step.section != Section::Flows || !step.contender.is_dfcp() {
        return step.work;
    }
    let all_bps = match rate {
        FlowsRate::Line => None,
        FlowsRate::Fixed(bps) => Some(bps as f64),
        FlowsRate::One if connections == 1 => None,
        FlowsRate::One => {
            let one = |flow: &&Flow| (flow.contender, flow.round, flow.connections) == (step.contender, step.round, 1);
            measured.iter().find(one).map(|flow| flow.goodput_bps() * PACKET_BYTES / PAYLOAD_BYTES)
        }
    };
    let rate_bps = all_bps.map(|bps| (bps / connections as f64) as u64);
    Work::Bulk { connections, lead_in, seconds, rate_bps }
}

/// Sends bare datagrams slowly, and records which are lost.
async fn loss_check(network: &Network, lead_in: f64, seconds: f64) -> anyhow::Result<LossCheck> {
    let work = Work::Bulk { connections: 1, lead_in, seconds, rate_bps: Some(LOSS_CHECK_BPS) };
    let Reports { server: Some(Report::Flow(receiver)), .. } = pair::run(network, Contender::Udp, work).await? else {
        bail!("the blaster's receiver did not report");
    };
    let counter =
        |name| receiver.counter(name).with_context(|| format!("the blaster's receiver does not count {name}"));
    Ok(LossCheck { datagrams: counter("datagrams_received")?, lost: counter("lost")?, runs: counter("loss_runs")? })
}

/// Records the reports, and returns a short description.
fn record(step: &Step, reports: Reports, records: &mut Records) -> anyhow::Result<String> {
    let (contender, round) = (step.contender, step.round);
    match (step.work, reports.server, reports.client) {
        (Work::Bulk { connections, rate_bps, .. }, Some(Report::Flow(receiver)), Report::Flow(sender)) => {
            let flow = flow(step, connections, rate_bps, sender, receiver)?;
            let result = format!("{:.2} Gbit/s", flow.goodput_bps() / 1e9);
            match step.section {
                Section::Loss => records.loss.push(flow),
                Section::Flows => records.flows.push(flow),
                _ => records.bulk.push(flow),
            }
            Ok(result)
        }
        (Work::PingPong { .. }, _, Report::Latency(latency)) => {
            let result = format!("median {:.0} µs, 99 % below {:.0} µs", latency.p50_us, latency.p99_us);
            records.pingpong.push(RoundTrips { contender, round, latency });
            Ok(result)
        }
        (Work::Connections { at_a_time, .. }, _, Report::Connections(result)) => {
            let opened = Opened { contender, round, at_a_time, result };
            let result = format!("{:.0} per second", opened.per_second());
            records.connections.push(opened);
            Ok(result)
        }
        (Work::Idle { .. }, Some(Report::Memory(server)), Report::Memory(client)) => {
            let result = format!("{:.1} KiB per connection", server.per_connection_bytes() / 1_024.0);
            records.memory.push(Idle { contender, round, server, client });
            Ok(result)
        }
        (work, server, client) => bail!("{work:?} does not end in {server:?} and {client:?}"),
    }
}

fn flow(
    step: &Step,
    connections: usize,
    rate_bps: Option<u64>,
    sender: Window,
    receiver: Window,
) -> anyhow::Result<Flow> {
    ensure!(receiver.bytes > 0, "nothing arrived while it was measured, try more --seconds");
    let (contender, round, loss_per_mille) = (step.contender, step.round, step.loss_per_mille);
    Ok(Flow { contender, round, connections, loss_per_mille, rate_bps, sender, receiver })
}

impl Step {
    fn describe(&self, rounds: u32) -> String {
        let detail = match (self.section, self.work) {
            (Section::Loss, _) => format!(", {} % loss", self.loss_per_mille / 10),
            (_, Work::Bulk { connections, .. }) if self.section == Section::Flows => {
                format!(", {connections} connections")
            }
            (_, Work::Connections { at_a_time, .. }) => format!(", {at_a_time} at a time"),
            _ => String::new(),
        };
        let section = match self.section {
            Section::Bulk => "bulk",
            Section::Loss => "loss",
            Section::Flows => "flows",
            Section::Pingpong => "pingpong",
            Section::Connections => "connections",
            Section::Memory => "memory",
        };
        format!("{section} {}/{rounds}  {}{detail}", self.round, self.contender)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::tests::flow;

    fn rate_of_ten(rate: FlowsRate, contender: Contender, measured: &[Flow]) -> Option<u64> {
        let work = Work::Bulk { connections: 10, lead_in: 0.0, seconds: 1.0, rate_bps: None };
        let step = Step { section: Section::Flows, round: 2, contender, work, loss_per_mille: 0 };
        match with_rate(rate, &step, measured) {
            Work::Bulk { rate_bps, .. } => rate_bps,
            _ => None,
        }
    }

    #[test]
    fn many_connections_share_what_one_reached_in_the_same_round() {
        let one = [flow(Contender::DfcpSealed, 1, 9.0, 1.0), flow(Contender::DfcpSealed, 2, 1.42, 1.0)];
        assert_eq!(rate_of_ten(FlowsRate::One, Contender::DfcpSealed, &one), Some(149_200_000));
        assert_eq!(rate_of_ten(FlowsRate::One, Contender::DfcpSealed, &one[..1]), None);
        assert_eq!(rate_of_ten(FlowsRate::One, Contender::Quinn, &one), None);
        assert_eq!(rate_of_ten(FlowsRate::Line, Contender::DfcpSealed, &one), None);
        assert_eq!(rate_of_ten(FlowsRate::Fixed(20_000_000), Contender::DfcpSealed, &[]), Some(2_000_000));
    }
}
