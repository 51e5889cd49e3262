//! Summary of all rounds, as text and as JSON.

use serde::Serialize;
use serde_json::{Value, json};

use super::measure::{Figures, Protection};
use crate::args::PerfLocalArgs;

/// Difference of repair shares above which two results are not comparable: a repair datagram costs more than a source datagram, at both
/// ends.
const REPAIR_DIFFERENCE_MAX: f64 = 0.01;

/// Median and range of a value over the rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Spread {
    median: f64,
    min: f64,
    max: f64,
}

impl Spread {
    /// Computes the statistics of the values; `None` without values. The median of an even number of values is the mean
    /// of the middle two.
    fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let half = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 { sorted[half] } else { f64::midpoint(sorted[half - 1], sorted[half]) };
        Some(Self { median, min, max })
    }

    /// Formats the median, with the range if there was more than one round.
    fn describe(this: Option<Self>, rounds: usize, show: impl Fn(f64) -> String) -> String {
        match this {
            None => "-".to_owned(),
            Some(Self { median, .. }) if rounds == 1 => show(median),
            Some(Self { median, min, max }) => format!("{} ({}–{})", show(median), show(min), show(max)),
        }
    }
}

/// Ratios of encrypted to plaintext, per round and overall.
#[derive(Debug, Clone, PartialEq)]
struct Ratio {
    rounds: Vec<f64>,
    spread: Spread,
}

impl Ratio {
    /// Computes the ratios of two series; `None` unless every round has both values.
    fn of(sealed: &[f64], plaintext: &[f64]) -> Option<Self> {
        let is_complete = sealed.len() == plaintext.len() && plaintext.iter().all(|value| *value > 0.0);
        let rounds: Vec<_> = sealed.iter().zip(plaintext).map(|(sealed, plaintext)| sealed / plaintext).collect();
        let spread = Spread::of(&rounds).filter(|_| is_complete)?;
        Some(Self { rounds, spread })
    }

    fn json(this: Option<&Self>) -> Value {
        this.map_or(Value::Null, |Self { rounds, spread: Spread { median, min, max } }| {
            json!({ "rounds": rounds, "median": median, "min": min, "max": max })
        })
    }
}

/// Results of all rounds with one protection.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Summary {
    protection: Protection,
    rounds: usize,
    goodput_bps: Option<Spread>,
    cpu_ns: Option<Spread>,
    data_datagrams: u64,
    repair_datagrams: u64,
    wasted: u64,
    /// Ratios of encrypted to plaintext: goodput, and CPU time per datagram.
    ratios: [Option<Ratio>; 2],
}

impl Summary {
    fn of(protection: Protection, measured: &[Figures]) -> Self {
        let goodputs_bps = goodputs_bps(measured, protection);
        let cpus_ns = cpus_ns(measured, protection);
        let ratios = match protection {
            Protection::Plaintext => [None, None],
            Protection::Sealed(_) => [
                Ratio::of(&goodputs_bps, &self::goodputs_bps(measured, Protection::Plaintext)),
                Ratio::of(&cpus_ns, &self::cpus_ns(measured, Protection::Plaintext)),
            ],
        };
        let own = || rounds_of(measured, protection);
        let wasted = own().filter_map(|figures| figures.measured.path?.waste());
        Self {
            protection,
            rounds: goodputs_bps.len(),
            goodput_bps: Spread::of(&goodputs_bps),
            cpu_ns: Spread::of(&cpus_ns),
            data_datagrams: own().map(Figures::data_datagrams).sum(),
            repair_datagrams: own().map(Figures::repair_datagrams).sum(),
            wasted: wasted.map(|waste| waste.dependent + waste.late + waste.refused).sum(),
            ratios,
        }
    }

    fn waste_share(&self) -> f64 {
        self.share(self.wasted)
    }

    fn repair_share(&self) -> f64 {
        self.share(self.repair_datagrams)
    }

    fn share(&self, datagrams: u64) -> f64 {
        if self.data_datagrams == 0 { 0.0 } else { (datagrams as f64 / self.data_datagrams as f64).min(1.0) }
    }

    fn row(&self) -> [String; COLUMNS.len()] {
        let quotient = |value: f64| format!("{value:.2}");
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        let ratio = |index: usize| {
            let spread = self.ratios[index].as_ref().map(|ratio| ratio.spread);
            Spread::describe(spread, self.rounds, quotient)
        };
        [
            self.protection.name().to_owned(),
            Spread::describe(self.goodput_bps, self.rounds, |bps| format!("{:.0}", bps / 1e6)),
            Spread::describe(self.cpu_ns, self.rounds, |ns| format!("{ns:.0}")),
            self.data_datagrams.to_string(),
            percent(self.repair_share()),
            percent(self.waste_share()),
            ratio(0),
            ratio(1),
        ]
    }

    fn json(&self) -> Value {
        let [goodput, cpu] = &self.ratios;
        json!({
            "protection": self.protection.name(), "goodput_bps": self.goodput_bps,
            "cpu_ns_per_data_datagram": self.cpu_ns, "data_datagrams": self.data_datagrams,
            "repair_share": self.repair_share(), "waste_share": self.waste_share(),
            "ratio_to_plaintext": match self.protection {
                Protection::Plaintext => Value::Null,
                Protection::Sealed(_) => json!({
                    "goodput": Ratio::json(goodput.as_ref()), "cpu_per_data_datagram": Ratio::json(cpu.as_ref()),
                }),
            },
        })
    }
}

fn rounds_of(measured: &[Figures], protection: Protection) -> impl Iterator<Item = &Figures> {
    measured.iter().filter(move |figures| figures.protection == protection)
}

fn goodputs_bps(measured: &[Figures], protection: Protection) -> Vec<f64> {
    rounds_of(measured, protection).map(|figures| figures.measured.goodput_bps()).collect()
}

fn cpus_ns(measured: &[Figures], protection: Protection) -> Vec<f64> {
    rounds_of(measured, protection).filter_map(Figures::cpu_ns_per_datagram).collect()
}

/// Returns the summaries per protection: plaintext first, as the baseline, then the ciphers in order of measurement.
pub(super) fn summaries(measured: &[Figures]) -> Vec<Summary> {
    let mut protections = vec![Protection::Plaintext];
    for figures in measured {
        if !protections.contains(&figures.protection) {
            protections.push(figures.protection);
        }
    }
    protections.into_iter().map(|protection| Summary::of(protection, measured)).collect()
}

const COLUMNS: [&str; 8] =
    ["protection", "goodput, Mbit/s", "CPU, ns/datagram", "datagrams", "repair", "waste", "goodput ratio", "CPU ratio"];

/// Formats a text table with one line per protection, in aligned columns.
pub(super) fn table(summaries: &[Summary]) -> String {
    let rows: Vec<_> = [COLUMNS.map(str::to_owned)].into_iter().chain(summaries.iter().map(Summary::row)).collect();
    let widths: [usize; COLUMNS.len()] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default());
    let line = |row: &[String; COLUMNS.len()]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Formats legend and caveats, one line each.
pub(super) fn notes(summaries: &[Summary]) -> String {
    let mut lines: Vec<_> = [
        "Medians over the rounds, and their range. Everything counts both ends together: encoding and decoding, encrypting",
        "and decrypting, and the system's network stack as far as it works in this program's name.",
        "goodput: what the receiving end read. CPU: by data datagrams sent; handshake and end are left out.",
        "repair: repair datagrams of all data datagrams; nothing is lost on loopback but what the receiving end is too slow",
        "to take. waste: those which arrived and were not needed. ratio: encrypted by plaintext in the same round.",
    ]
    .map(str::to_owned)
    .to_vec();
    if summaries.iter().all(|summary| summary.cpu_ns.is_none()) {
        lines.push("CPU time: this system does not tell it.".to_owned());
    }
    let plaintext = summaries.iter().find(|summary| summary.protection == Protection::Plaintext);
    for (summary, plaintext) in summaries.iter().filter_map(|summary| Some((summary, plaintext?))) {
        if (summary.repair_share() - plaintext.repair_share()).abs() > REPAIR_DIFFERENCE_MAX {
            lines.push(format!(
                "{}: repaired {:.1} %, plaintext {:.1} %; the ratios show that difference, too, not encryption alone.",
                summary.protection.name(),
                100.0 * summary.repair_share(),
                100.0 * plaintext.repair_share(),
            ));
        }
    }
    lines.join("\n")
}

/// Returns the JSON of every measurement and the summaries. Unavailable values are null.
pub(super) fn json(args: &PerfLocalArgs, measured: &[Figures], summaries: &[Summary]) -> Value {
    json!({
        "duration_s": args.duration.as_secs_f64(), "rounds": args.rounds,
        "measurements": measured.iter().map(measurement).collect::<Vec<_>>(),
        "summary": summaries.iter().map(Summary::json).collect::<Vec<_>>(),
    })
}

/// Returns the JSON of one measurement. Fields shared with `perf client` have the same names.
fn measurement(figures: &Figures) -> Value {
    let Figures { protection, round, measured, cpu } = figures;
    json!({
        "round": round, "protection": protection.name(), "bytes": measured.bytes, "seconds": measured.seconds,
        "goodput_bps": measured.goodput_bps(), "cpu_seconds": cpu.map(|cpu| cpu.as_secs_f64()),
        "cpu_ns_per_data_datagram": figures.cpu_ns_per_datagram(), "data_datagrams": figures.data_datagrams(),
        "repair_datagrams": figures.repair_datagrams(), "path": measured.path, "waste": measured.path.and_then(|path| path.waste()),
    })
}
