//! The random linear fountain beside raptorq, reed-solomon-simd and memcpy, on one core:
//! `cargo bench -p dfcp-fountain --bench codec [-- --quick] [-- --json]`.
//!
//! Codecs and cases alternate in short runs, so that a change of clock frequency or other load affects all of them.
//! Each figure is the 90th percentile of its runs: other load can only slow a run down, and it affects codecs, which
//! compute, much more than a copy.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "a benchmark measures time, prints, and stops at the first mistake"
)]

mod codecs;

use std::{process::ExitCode, time::Duration};

use codecs::{BATCH, Codec, Memcpy, Ours, RaptorQ, ReedSolomonSimd, Work};
use dfcp_fountain::kernel::Kernel;

pub(crate) const K: usize = 45;
pub(crate) const SYMBOL_SIZE: usize = 1420;

const USAGE: &str = "usage: codec [--quick] [--json]\n\
    --quick  fewer runs, about 3 s in all instead of 20 s\n\
    --json   one JSON object instead of the table";

/// Column of the table.
struct Case {
    name: &'static str,
    encode: bool,
    /// Number of repair symbols made, or number of source symbols lost and replaced by repair symbols.
    symbols: usize,
    /// Required speed, as a multiple of raptorq's.
    target: Option<f64>,
    /// Required share of memcpy's rate, percent.
    share_target: Option<f64>,
}

const CASES: [Case; 9] = [
    Case { name: "enc 5%", encode: true, symbols: 2, target: Some(5.0), share_target: Some(36.0) },
    Case { name: "enc 20%", encode: true, symbols: 9, target: Some(5.0), share_target: Some(12.0) },
    Case { name: "enc 25%", encode: true, symbols: 12, target: Some(5.0), share_target: None },
    Case { name: "enc 100%", encode: true, symbols: 45, target: Some(1.3), share_target: Some(2.3) },
    Case { name: "dec 0%", encode: false, symbols: 0, target: None, share_target: Some(90.0) },
    Case { name: "dec 5%", encode: false, symbols: 2, target: Some(10.0), share_target: Some(25.0) },
    Case { name: "dec 20%", encode: false, symbols: 9, target: Some(10.0), share_target: Some(10.0) },
    Case { name: "dec 50%", encode: false, symbols: 23, target: Some(4.0), share_target: Some(4.0) },
    Case { name: "dec 100%", encode: false, symbols: 45, target: None, share_target: None },
];

const DEFINITIONS: &str = "\
Block: K = 45 source symbols of 1420 B, one thread. GB/s = 10^9 bytes of the block per second; runs in turns, of which
        a tenth are faster.
enc p%: set-up, all source symbols copied out, and p % of K repair symbols (2, 9, 12, 45); 25 % is what 20 % loss needs,
        and 100 % what 50 % loss needs.
dec p%: set-up to the block in one piece, p % of the source symbols lost (2, 9, 23, 45) and replaced by repair symbols.
memcpy: the block copied once, in the same turns.";

struct Options {
    quick: bool,
    json: bool,
}

fn main() -> ExitCode {
    let mut options = Options { quick: false, json: false };
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--quick" => options.quick = true,
            "--json" => options.json = true,
            "--bench" => {} // from cargo
            _ => {
                eprintln!("unknown argument {argument}\n{USAGE}");
                return ExitCode::FAILURE;
            }
        }
    }
    let mut codecs: Vec<Box<dyn Codec>> = vec![Box::new(Memcpy), Box::new(RaptorQ), Box::new(ReedSolomonSimd)];
    codecs.extend(Kernel::available().map(|kernel| Box::new(Ours::new(kernel)) as Box<dyn Codec>));
    let rates = measure(&codecs, &options);
    let names: Vec<_> = codecs.iter().map(|codec| codec.name()).collect();
    if options.json {
        print_json(&names, &rates);
    } else {
        print_table(&names, &rates);
    }
    ExitCode::SUCCESS
}

/// Measures the rate of each codec in each case, GB/s.
fn measure(codecs: &[Box<dyn Codec>], options: &Options) -> Vec<Vec<Option<f64>>> {
    // Runs much shorter than a time slice of the scheduler are rarely interrupted.
    let (rounds, run) = (if options.quick { 35 } else { 251 }, Duration::from_millis(1));
    let block: Vec<u8> = (0..K * SYMBOL_SIZE).map(|i| ((i * 7919) >> 3) as u8).collect();
    let mut works: Vec<Vec<Option<Work<'_>>>> = CASES.iter().map(|case| prepare(case, codecs, &block)).collect();
    let mut rates = vec![vec![vec![]; codecs.len()]; CASES.len()];
    for round in 0..=rounds {
        for (work, rates) in works.iter_mut().flatten().zip(rates.iter_mut().flatten()) {
            let Some(work) = work else { continue };
            let (mut time, mut blocks) = (Duration::ZERO, 0);
            while time < run {
                time += work();
                blocks += BATCH;
            }
            // The first round only warms up.
            if round > 0 {
                rates.push(f64::from(blocks) * block.len() as f64 / time.as_nanos() as f64);
            }
        }
    }
    rates.into_iter().map(|rates| rates.into_iter().map(exceeded_by_a_tenth).collect()).collect()
}

fn prepare<'a>(case: &Case, codecs: &[Box<dyn Codec>], block: &'a [u8]) -> Vec<Option<Work<'a>>> {
    // 7 and K have no common factor, so this spreads the losses.
    let lost: Vec<_> = (0..case.symbols).map(|i| i * 7 % K).collect();
    codecs
        .iter()
        .map(|codec| if case.encode { Some(codec.encode(block, case.symbols)) } else { codec.decode(block, &lost) })
        .collect()
}

fn exceeded_by_a_tenth(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() * 9 / 10).copied()
}

/// Returns the ratio of the fastest kernel (the last codec) to raptorq (the second).
fn ratio(rates: &[Option<f64>]) -> Option<f64> {
    Some((*rates.last()?)? / (*rates.get(1)?)?)
}

/// Returns the rate of a codec in percent of memcpy's (the first codec).
fn share(rates: &[Option<f64>], codec: usize) -> Option<f64> {
    Some(100.0 * rates[codec]? / rates[0]?)
}

fn print_table(names: &[&str], rates: &[Vec<Option<f64>>]) {
    println!("{DEFINITIONS}\n");
    print_row("GB/s", CASES.iter().map(|case| case.name.to_owned()));
    for (c, name) in names.iter().enumerate() {
        print_row(name, rates.iter().map(|rates| format_or_dash(rates[c], 3)));
    }
    println!();
    print_row("% of memcpy", CASES.iter().map(|case| case.name.to_owned()));
    for (c, name) in names.iter().enumerate().skip(1) {
        print_row(name, rates.iter().map(|rates| format_or_dash(share(rates, c), 1)));
    }
    print_targets(|case| case.share_target, rates.iter().map(|rates| share(rates, names.len() - 1)));
    println!();
    print_row("ours / raptorq", CASES.iter().map(|case| case.name.to_owned()));
    print_row("measured", rates.iter().map(|rates| format_or_dash(ratio(rates), 1)));
    print_targets(|case| case.target, rates.iter().map(|rates| ratio(rates)));
}

/// Prints the targets of the figures, with `met` or `MISSED` for each.
fn print_targets(target: impl Fn(&Case) -> Option<f64>, figures: impl Iterator<Item = Option<f64>>) {
    print_row("target, at least", CASES.iter().map(|case| format_or_dash(target(case), 1)));
    let verdict = |(case, figure)| match (target(case), figure) {
        (Some(target), Some(figure)) => (if figure >= target { "met" } else { "MISSED" }).to_owned(),
        _ => "–".to_owned(),
    };
    print_row("", CASES.iter().zip(figures).map(verdict));
}

fn print_row(name: &str, cells: impl Iterator<Item = String>) {
    let cells: String = cells.map(|cell| format!("{cell:>10}")).collect();
    println!("{name:<20}{cells}");
}

fn format_or_dash(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
}

fn print_json(names: &[&str], rates: &[Vec<Option<f64>>]) {
    let number = |value: Option<f64>| value.map_or_else(|| "null".to_owned(), |value| format!("{value:.4}"));
    let case = |(case, rates): (&Case, &Vec<Option<f64>>)| {
        let codecs: Vec<_> =
            names.iter().zip(rates).map(|(name, rate)| format!("\"{name}\":{}", number(*rate))).collect();
        format!(
            "{{\"case\":\"{}\",\"symbols\":{},\"gb_per_s\":{{{}}},\"ours_over_raptorq\":{},\"target\":{},\
             \"share_target\":{}}}",
            case.name,
            case.symbols,
            codecs.join(","),
            number(ratio(rates)),
            number(case.target),
            number(case.share_target)
        )
    };
    let cases: Vec<_> = CASES.iter().zip(rates).map(case).collect();
    println!("{{\"k\":{K},\"symbol_bytes\":{SYMBOL_SIZE},\"cases\":[{}]}}", cases.join(","));
}
