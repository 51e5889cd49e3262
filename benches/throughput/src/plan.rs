//! Measurements of each section, and their duration.

use crate::args::{Args, Section};
use crate::contenders::Contender::{
    self, DfcpSealed, DfcpThreads, DfcpUnsealed, Quinn, Quinn1, QuinnDefault, Tcp, TcpLarge, Udp, UdpAes,
};
use crate::limits;
use crate::protocol::Work;

/// Dropped datagrams per thousand in the section `loss`.
pub(crate) const LOSS_PER_MILLE: u32 = 100;

/// Numbers of concurrent attempts in the section `connections`.
const AT_A_TIME: [usize; 2] = [1, 32];

/// Time for starting and ending two processes, s.
const STARTING_SECONDS: f64 = 0.3;

/// Contenders with connections.
const CONNECTED: [Contender; 8] = [DfcpSealed, DfcpUnsealed, DfcpThreads, Quinn, Quinn1, QuinnDefault, Tcp, TcpLarge];

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) section: Section,
    /// Number of the round, from 1.
    pub(crate) round: u32,
    pub(crate) contender: Contender,
    pub(crate) work: Work,
    pub(crate) loss_per_mille: u32,
}

/// All measurements of a section in order: every round contains each of them once.
pub(crate) fn steps(args: &Args, section: Section) -> Vec<Step> {
    let of_one_round = variants(args, section);
    let step = |round, (contender, work, loss_per_mille)| Step { section, round, contender, work, loss_per_mille };
    (1..=args.rounds()).flat_map(|round| of_one_round.iter().map(move |&variant| step(round, variant))).collect()
}

/// Duration of the measurements, s.
pub(crate) fn planned_seconds(steps: &[Step]) -> f64 {
    steps.iter().map(|step| step.work.planned_seconds() + STARTING_SECONDS).sum()
}

/// Lead-in of a flow for a measurement of this length, s.
pub(crate) fn lead_in(seconds: f64) -> f64 {
    limits::LEAD_IN_MAX.as_secs_f64().min(seconds / 4.0)
}

fn variants(args: &Args, section: Section) -> Vec<(Contender, Work, u32)> {
    let seconds = args.seconds();
    let bulk = |connections| Work::Bulk { connections, lead_in: lead_in(seconds), seconds, rate_bps: None };
    let chosen = |possible: &[Contender], default: &[Contender]| args.contenders_among(possible, default);
    let each = |contenders: Vec<Contender>, work: &[(Work, u32)]| -> Vec<(Contender, Work, u32)> {
        let with = |&(work, loss): &(Work, u32)| contenders.iter().map(move |&contender| (contender, work, loss));
        work.iter().flat_map(with).collect()
    };
    match section {
        Section::Bulk => {
            let all = [DfcpSealed, DfcpUnsealed, DfcpThreads, Quinn, Quinn1, QuinnDefault, Tcp, TcpLarge, Udp, UdpAes];
            let default = [DfcpSealed, DfcpUnsealed, DfcpThreads, Quinn, Quinn1, Tcp, TcpLarge, Udp, UdpAes];
            each(chosen(&all, &default), &[(bulk(1), 0)])
        }
        Section::Loss => {
            let possible = [DfcpSealed, DfcpUnsealed, DfcpThreads, Quinn, Quinn1, QuinnDefault, Udp, UdpAes];
            let contenders = chosen(&possible, &[DfcpSealed, DfcpUnsealed, Quinn, Quinn1]);
            each(contenders, &[(bulk(1), 0), (bulk(1), LOSS_PER_MILLE)])
        }
        Section::Flows => {
            let contenders = chosen(&CONNECTED, &[DfcpSealed, Quinn]);
            let work: Vec<_> = args.flows.iter().map(|&flows| (bulk(flows), 0)).collect();
            each(contenders, &work)
        }
        Section::Pingpong => {
            let possible = [DfcpSealed, DfcpUnsealed, DfcpThreads, Quinn, Quinn1, QuinnDefault, Tcp, Udp];
            let contenders = chosen(&possible, &[DfcpSealed, DfcpThreads, Quinn, Quinn1, Tcp, Udp]);
            each(contenders, &[(Work::PingPong { messages: args.messages, seconds }, 0)])
        }
        Section::Connections => {
            let work = AT_A_TIME.map(|at_a_time| (Work::Connections { seconds, at_a_time }, 0));
            each(chosen(&CONNECTED, &[DfcpSealed, Quinn]), &work)
        }
        Section::Memory => {
            let contenders = chosen(&CONNECTED, &[DfcpSealed, Quinn]);
            each(contenders, &[(Work::Idle { connections: args.idle }, 0)])
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn args(line: &str) -> Args {
        Args::try_parse_from(format!("throughput {line}").split_whitespace()).unwrap()
    }

    #[test]
    fn contenders_take_turns() {
        let steps = steps(&args("--rounds 2 --contenders quinn,udp"), Section::Bulk);
        let order: Vec<_> = steps.iter().map(|step| (step.round, step.contender)).collect();
        assert_eq!(order, [(1, Quinn), (1, Udp), (2, Quinn), (2, Udp)]);
    }

    #[test]
    fn loss_comes_with_its_own_reference() {
        let steps = steps(&args("--rounds 1 --contenders dfcp-sealed"), Section::Loss);
        assert_eq!(steps.iter().map(|step| step.loss_per_mille).collect::<Vec<_>>(), [0, LOSS_PER_MILLE]);
        assert_eq!(steps[0].work, steps[1].work);
    }

    #[test]
    fn each_number_of_flows_is_measured_by_every_contender() {
        let steps = steps(&args("--rounds 1 --flows 1,10 --contenders tcp,quinn"), Section::Flows);
        let order = steps.iter().map(|step| match step.work {
            Work::Bulk { connections, .. } => (connections, step.contender),
            _ => (0, step.contender),
        });
        assert_eq!(order.collect::<Vec<_>>(), [(1, Quinn), (1, Tcp), (10, Quinn), (10, Tcp)]);
    }

    #[test]
    fn who_has_no_connections_is_left_out() {
        let args = args("--contenders udp");
        assert!(steps(&args, Section::Memory).is_empty() && steps(&args, Section::Flows).is_empty());
        assert!(!steps(&args, Section::Pingpong).is_empty());
    }

    #[test]
    fn a_short_measurement_has_a_short_lead_in() {
        assert_eq!((lead_in(0.2), lead_in(2.0), lead_in(60.0)), (0.05, 0.5, 1.0));
        let steps = steps(&args("--rounds 3 --seconds 4 --contenders udp"), Section::Bulk);
        assert!((planned_seconds(&steps) - 15.9).abs() < 1e-9);
    }
}
