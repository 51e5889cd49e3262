//! Measurements as tables for people.

use std::collections::BTreeSet;

use crate::contenders::Contender;
use crate::records::{Flow, Records};
use crate::statistics::{Spread, quotients};
use crate::targets::Target;

/// A table with a title; the first column is left-aligned, the others right.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Table {
    title: &'static str,
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// Notes below the table.
    notes: Vec<String>,
}

impl Table {
    fn show(&self) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
            cells.chain([self.head[column].chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let line = |cells: Vec<&str>| {
            let cells = cells.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        let rows = self.rows.iter().map(|row| line(row.iter().map(String::as_str).collect()));
        let head = [self.title.to_owned(), line(self.head.clone())];
        head.into_iter().chain(rows).chain(self.notes.iter().cloned()).collect::<Vec<_>>().join("\n")
    }
}

/// All available tables, below each other.
pub(crate) fn all(records: &Records, targets: &[Target]) -> String {
    let tables = [
        bulk(&records.bulk),
        loss(records),
        flows(&records.flows),
        pingpong(records),
        connections(records),
        memory(records),
        self::targets(targets),
    ];
    let shown = tables.iter().filter(|table| !table.rows.is_empty()).map(Table::show);
    shown.collect::<Vec<_>>().join("\n\n")
}

/// A figure per round.
type Figures = Vec<(u32, f64)>;

fn figures(flows: &[&Flow], figure: impl Fn(&Flow) -> Option<f64>) -> Figures {
    flows.iter().filter_map(|flow| Some((flow.round, figure(flow)?))).collect()
}

fn spread(figures: &Figures) -> Option<Spread> {
    Spread::of(figures.iter().map(|&(_, value)| value))
}

fn gigabits(flow: &Flow) -> Option<f64> {
    Some(flow.goodput_bps() / 1e9)
}

/// Distinct values, in order of first appearance.
fn distinct<T: Copy + Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = BTreeSet::new();
    values.filter(|&value| seen.insert(value)).collect()
}

fn select(flows: &[Flow], keep: impl Fn(&Flow) -> bool) -> Vec<&Flow> {
    flows.iter().filter(|flow| keep(flow)).collect()
}

fn bulk(flows: &[Flow]) -> Table {
    let of = |contender: Contender| select(flows, |flow| flow.contender == contender);
    let goodputs = |contender| figures(&of(contender), gigabits);
    let row = |contender: Contender| {
        let own = of(contender);
        let show = |figure: fn(&Flow) -> Option<f64>, decimals| Spread::show(spread(&figures(&own, figure)), decimals);
        let to = |other: Option<Contender>, figure: fn(&Flow) -> Option<f64>| {
            let other = other.filter(|&other| other != contender);
            let quotient = other.and_then(|other| quotients(&figures(&own, figure), &figures(&of(other), figure)));
            Spread::show(quotient, 2)
        };
        vec![
            contender.name().to_owned(),
            Spread::show(spread(&goodputs(contender)), 2),
            show(Flow::sender_cpu_per_gb, 2),
            show(Flow::receiver_cpu_per_gb, 2),
            show(Flow::sender_ns_per_datagram, 0),
            show(Flow::receiver_ns_per_datagram, 0),
            show(|flow| flow.extra_share().map(|share| 100.0 * share), 1),
            show(Flow::drops_per_second, 0),
            to(Some(Contender::Quinn), gigabits),
            to(Some(Contender::Quinn), Flow::cpu_per_gb_of_both),
            to(contender.ceiling(), gigabits),
        ]
    };
    Table {
        title: "One flow, no loss: median (range) of the rounds",
        head: vec![
            "",
            "Gbit/s",
            "CPU s/GB tx",
            "CPU s/GB rx",
            "ns/datagram tx",
            "ns/datagram rx",
            "extra %",
            "drops/s",
            "× quinn",
            "CPU × quinn",
            "× ceiling",
        ],
        rows: distinct(flows.iter().map(|flow| flow.contender)).into_iter().map(row).collect(),
        notes: vec![
            "Goodput is application bytes at the receiver; of 1472 bytes in a blaster's datagram, 1464 (udp) or 1448 (udp-aes).".to_owned(),
            "extra: datagrams sent as repair (DFCP), sent again (quinn), lost (blasters). drops: by the receiver's UDP sockets for want of room, in runs.".to_owned(),
            "ceiling: udp-aes, for dfcp-unsealed udp.".to_owned(),
        ],
    }
}

fn loss(records: &Records) -> Table {
    let flows = &records.loss;
    let at = |contender: Contender, per_mille: u32| {
        select(flows, |flow| flow.contender == contender && flow.loss_per_mille == per_mille)
    };
    let row = |contender: Contender| {
        let losses = distinct(flows.iter().map(|flow| flow.loss_per_mille).filter(|&per_mille| per_mille > 0));
        let lossy = losses.first().map_or_else(Vec::new, |&per_mille| at(contender, per_mille));
        let quinn = losses.first().map_or_else(Vec::new, |&per_mille| at(Contender::Quinn, per_mille));
        let (clean_bps, lossy_bps) = (figures(&at(contender, 0), gigabits), figures(&lossy, gigabits));
        vec![
            contender.name().to_owned(),
            Spread::show(spread(&clean_bps), 3),
            Spread::show(spread(&lossy_bps), 3),
            Spread::show(quotients(&lossy_bps, &clean_bps), 3),
            Spread::show(spread(&figures(&lossy, Flow::cpu_per_gb_of_both)), 2),
            Spread::show(spread(&figures(&lossy, |flow| flow.extra_share().map(|share| 100.0 * share))), 1),
            Spread::show(quotients(&lossy_bps, &figures(&quinn, gigabits)), 2),
        ]
    };
    let check = records.loss_check.map(|check| {
        format!(
            "Without segmentation offload in both columns. Datagrams which nothing but nftables drops: {:.2} % lost, in runs of {:.2}.",
            100.0 * check.share(),
            check.mean_run()
        )
    });
    Table {
        title: "One flow, 10 % of the datagrams lost one by one",
        head: vec![
            "",
            "Gbit/s at 0 %",
            "Gbit/s at 10 %",
            "10 % / 0 %",
            "CPU s/GB at 10 %",
            "extra %",
            "× quinn at 10 %",
        ],
        rows: distinct(flows.iter().map(|flow| flow.contender)).into_iter().map(row).collect(),
        notes: check.into_iter().collect(),
    }
}

fn flows(flows: &[Flow]) -> Table {
    let at = |contender: Contender, connections: usize| {
        select(flows, |flow| flow.contender == contender && flow.connections == connections)
    };
    let row = |(contender, connections): (Contender, usize)| {
        let own = at(contender, connections);
        let goodputs = figures(&own, gigabits);
        let rate = own.first().and_then(|flow| flow.rate_bps).filter(|_| contender.is_dfcp());
        let rate = rate.map(|bps| format!("{:.1} Mbit/s", bps as f64 / 1e6));
        vec![
            contender.name().to_owned(),
            connections.to_string(),
            rate.unwrap_or_else(|| if contender.is_dfcp() { "line".to_owned() } else { "-".to_owned() }),
            Spread::show(spread(&goodputs), 2),
            Spread::show(quotients(&goodputs, &figures(&at(contender, 1), gigabits)), 2),
            Spread::show(spread(&figures(&own, Flow::cpu_per_gb_of_both)), 2),
            Spread::show(spread(&figures(&own, |flow| flow.extra_share().map(|share| 100.0 * share))), 1),
        ]
    };
    let pairs = distinct(flows.iter().map(|flow| (flow.contender, flow.connections)));
    let mut pairs: Vec<_> = pairs.into_iter().collect();
    pairs.sort_unstable();
    Table {
        title: "Many flows at once, from one socket to one socket: goodput of all together",
        head: vec!["", "connections", "rate of each", "Gbit/s", "× one", "CPU s/GB", "extra %"],
        rows: pairs.into_iter().map(row).collect(),
        notes: Vec::new(),
    }
}

fn pingpong(records: &Records) -> Table {
    let row = |contender: Contender| {
        let own: Vec<_> = records.pingpong.iter().filter(|record| record.contender == contender).collect();
        let show = |figure: fn(&crate::protocol::Latency) -> f64| {
            Spread::show(Spread::of(own.iter().map(|record| figure(&record.latency))), 1)
        };
        vec![
            contender.name().to_owned(),
            own.iter().map(|record| record.latency.messages).sum::<u64>().to_string(),
            show(|latency| latency.p50_us),
            show(|latency| latency.p90_us),
            show(|latency| latency.p99_us),
            show(|latency| latency.p999_us),
            show(|latency| latency.max_us),
        ]
    };
    Table {
        title: "Round trip of 64 bytes, µs",
        head: vec!["", "messages", "50 %", "90 %", "99 %", "99.9 %", "max"],
        rows: distinct(records.pingpong.iter().map(|record| record.contender)).into_iter().map(row).collect(),
        notes: Vec::new(),
    }
}

fn connections(records: &Records) -> Table {
    let row = |(contender, at_a_time): (Contender, usize)| {
        let own =
            records.connections.iter().filter(|record| (record.contender, record.at_a_time) == (contender, at_a_time));
        let per_second = Spread::of(own.map(super::records::Opened::per_second));
        vec![contender.name().to_owned(), at_a_time.to_string(), Spread::show(per_second, 0)]
    };
    let mut pairs = distinct(records.connections.iter().map(|record| (record.contender, record.at_a_time)));
    pairs.sort_unstable();
    Table {
        title: "Connections opened, used for one byte each way, and closed",
        head: vec!["", "at a time", "per second"],
        rows: pairs.into_iter().map(row).collect(),
        notes: Vec::new(),
    }
}

fn memory(records: &Records) -> Table {
    let row = |contender: Contender| {
        let own: Vec<_> = records.memory.iter().filter(|record| record.contender == contender).collect();
        let kib = |values: Vec<f64>| Spread::show(Spread::of(values.into_iter().map(|bytes| bytes / 1_024.0)), 1);
        vec![
            contender.name().to_owned(),
            own.first().map_or_else(String::new, |record| record.server.connections.to_string()),
            kib(own.iter().map(|record| record.server.per_connection_bytes()).collect()),
            kib(own.iter().map(|record| record.client.per_connection_bytes()).collect()),
        ]
    };
    Table {
        title: "Resident memory of an idle connection, KiB",
        head: vec!["", "connections", "server", "client"],
        rows: distinct(records.memory.iter().map(|record| record.contender)).into_iter().map(row).collect(),
        notes: Vec::new(),
    }
}

fn targets(targets: &[Target]) -> Table {
    Table {
        title: "Targets",
        head: vec!["", "target", "measured", "verdict"],
        rows: targets.iter().map(Target::row).collect(),
        notes: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::tests::flow;
    use crate::targets;

    #[test]
    fn columns_line_up() {
        let rows = vec![vec!["a".to_owned(), "1".to_owned()], vec!["µµµ".to_owned(), "1000".to_owned()]];
        let table = Table { title: "T", head: vec!["", "n"], rows, notes: vec!["N".to_owned()] };
        assert_eq!(table.show(), "T\n        n\na       1\nµµµ  1000\nN");
    }

    #[test]
    fn bulk_has_ratios_to_quinn_and_to_the_ceiling() {
        let flows = [
            flow(Contender::DfcpSealed, 1, 4.0, 1.0),
            flow(Contender::Quinn, 1, 1.0, 1.0),
            flow(Contender::UdpAes, 1, 8.0, 1.0),
        ];
        let table = bulk(&flows);
        assert_eq!(table.rows.len(), 3);
        let sealed = &table.rows[0];
        assert_eq!(sealed[..4], ["dfcp-sealed", "4.00", "1.00", "1.00"]);
        assert_eq!(sealed[8..], ["4.00", "0.25", "0.50"]);
        assert_eq!(table.rows[1][8..], ["-", "-", "0.12"]);
    }

    #[test]
    fn loss_is_related_to_the_same_contender_without() {
        let lossy = |contender, gigabit| Flow { loss_per_mille: 100, ..flow(contender, 1, gigabit, 1.0) };
        let loss = vec![
            flow(Contender::DfcpSealed, 1, 2.0, 1.0),
            lossy(Contender::DfcpSealed, 1.5),
            lossy(Contender::Quinn, 0.5),
        ];
        let table = self::loss(&Records { loss, ..Records::default() });
        assert_eq!(table.rows[0][..4], ["dfcp-sealed", "2.000", "1.500", "0.750"]);
        assert_eq!(table.rows[0][6], "3.00");
        assert_eq!(table.rows[1][1], "-");
    }

    #[test]
    fn flows_are_related_to_one_of_the_same_contender() {
        let many = |connections, gigabit| Flow { connections, ..flow(Contender::DfcpSealed, 1, gigabit, 1.0) };
        let table = flows(&[many(10, 1.0), many(1, 2.0)]);
        assert_eq!(table.rows[0][1..5], ["1", "line", "2.00", "1.00"]);
        assert_eq!(table.rows[1][1..5], ["10", "line", "1.00", "0.50"]);
    }

    #[test]
    fn without_records_there_are_targets_alone() {
        let records = Records::default();
        let shown = all(&records, &targets::targets(&records));
        assert!(shown.starts_with("Targets\n") && shown.contains("not measured"), "{shown}");
    }
}
