use std::time::Duration;

use dfcp::Cipher;
use dfcp_files::transport::{DataDatagrams, PathSample, Wasted};
use serde_json::Value;

use super::measure::{Figures, Protection};
use super::{protections, table};
use crate::args::PerfLocalArgs;
use crate::perf::Measured;

const SEALED: Protection = Protection::Sealed(Cipher::Aes128Gcm);

/// Result of one second that delivered `bytes` in `datagrams`. One tenth of the datagrams is wasted; with plaintext,
/// one fifth is repair.
fn figures(protection: Protection, round: u32, bytes: u64, datagrams: u64, cpu: Option<Duration>) -> Figures {
    let path = PathSample {
        data_datagrams: match protection {
            Protection::Sealed(_) => DataDatagrams { source: datagrams, ..DataDatagrams::default() },
            Protection::Plaintext => {
                let repair = datagrams / 5;
                DataDatagrams { source: datagrams - repair, repair, ..DataDatagrams::default() }
            }
        },
        wasted: Wasted { late: datagrams / 10, ..Wasted::default() },
        bytes_acknowledged: bytes,
        ..PathSample::default()
    };
    Figures {
        protection,
        round,
        measured: Measured { bytes, seconds: 1.0, path: Some(path), ..Measured::default() },
        cpu,
    }
}

/// Three rounds of 1 s. Plaintext has 1, 2 and 4 GB/s, at 1000 ns of CPU time per datagram. Encryption has 1/2, 3/4 and
/// 1/4 of these rates, at `sealed_cpu` per round. If it is `None`, CPU times are unavailable.
fn three_rounds(sealed_cpu: Option<Duration>) -> Vec<Figures> {
    let rounds = [(1, 1_000, 500), (2, 2_000, 1_500), (3, 4_000, 1_000)];
    let measured = rounds.into_iter().flat_map(|(round, plaintext_mb, sealed_mb)| {
        let plaintext_cpu = sealed_cpu.map(|_| Duration::from_secs(1));
        [
            figures(SEALED, round, sealed_mb * 1_000_000, 1_000_000, sealed_cpu),
            figures(Protection::Plaintext, round, plaintext_mb * 1_000_000, 1_000_000, plaintext_cpu),
        ]
    });
    measured.collect()
}

fn args(rounds: u32) -> PerfLocalArgs {
    PerfLocalArgs { duration: Duration::from_secs(1), rounds, cipher: Vec::new(), json: true }
}

fn json(measured: &[Figures]) -> Value {
    table::json(&args(3), measured, &table::summaries(measured))
}

#[test]
fn ratios_are_those_of_the_rounds_not_of_the_medians() {
    let json = json(&three_rounds(Some(Duration::from_secs(2))));
    let [plaintext, sealed] = &json["summary"].as_array().unwrap()[..] else { panic!("not two: {json}") };
    assert_eq!((&plaintext["protection"], &sealed["protection"]), (&"plaintext".into(), &"AES-128-GCM".into()));
    // The ratio of the medians alone would be a half: 8 by 16 Gbit/s.
    assert_eq!(
        (plaintext["goodput_bps"]["median"].as_f64(), sealed["goodput_bps"]["median"].as_f64()),
        (Some(16e9), Some(8e9))
    );
    let ratio = &sealed["ratio_to_plaintext"];
    assert_eq!(ratio["goodput"]["rounds"], serde_json::json!([0.5, 0.75, 0.25]));
    assert_eq!(ratio["goodput"]["min"], 0.25);
    assert_eq!(ratio["goodput"]["median"], 0.5);
    assert_eq!(ratio["goodput"]["max"], 0.75);
    assert_eq!(ratio["cpu_per_data_datagram"]["median"], 2.0);
    assert_eq!(sealed["cpu_ns_per_data_datagram"]["max"], 2000.0);
    assert_eq!((&sealed["data_datagrams"], &sealed["waste_share"]), (&3_000_000.into(), &0.1.into()));
    assert!(plaintext["ratio_to_plaintext"].is_null());
    assert_eq!(json["measurements"].as_array().unwrap().len(), 6);
}

#[test]
fn the_median_of_an_even_number_is_between_the_middle_two() {
    let two = json(&three_rounds(None)[..4]);
    let sealed = &two["summary"][1];
    assert_eq!(sealed["ratio_to_plaintext"]["goodput"]["median"], 0.625);
    assert_eq!(sealed["goodput_bps"]["median"], 8e9);
}

#[test]
fn the_table_has_a_line_for_each_protection_and_a_range_from_two_rounds_on() {
    let measured = three_rounds(Some(Duration::from_secs(2)));
    let text = table::table(&table::summaries(&measured));
    let lines: Vec<_> = text
        .lines()
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>())
        .collect();
    let [head, plaintext, sealed] = &lines[..] else { panic!("not three lines: {text}") };
    assert_eq!(head.len(), 8);
    assert_eq!(plaintext[..3], ["plaintext", "16000 (8000–32000)", "1000 (1000–1000)"]);
    assert_eq!(plaintext[3..], ["3000000", "20.0 %", "10.0 %", "-", "-"]);
    assert_eq!(sealed[4..], ["0.0 %", "10.0 %", "0.50 (0.25–0.75)", "2.00 (2.00–2.00)"]);
    let once = table::table(&table::summaries(&measured[..2]));
    assert!(once.contains("0.50") && !once.contains('('), "{once}");
}

#[test]
fn a_comparison_of_unequal_repair_says_so() {
    let notes = |measured: &[Figures]| table::notes(&table::summaries(measured));
    let measured = three_rounds(None);
    assert!(notes(&measured).contains("AES-128-GCM: repaired 0.0 %, plaintext 20.0 %"));
    assert!(!notes(&measured[1..2]).contains("repaired"));
    let equal = [figures(SEALED, 1, 1, 100, None), Figures { protection: Protection::Plaintext, ..measured[0] }];
    assert!(!notes(&equal).contains("repaired"));
}

#[test]
fn a_system_without_cpu_times_leaves_them_out_and_says_so() {
    let measured = three_rounds(None);
    let json = json(&measured);
    let sealed = &json["summary"][1];
    assert!(
        sealed["cpu_ns_per_data_datagram"].is_null() && sealed["ratio_to_plaintext"]["cpu_per_data_datagram"].is_null()
    );
    assert!(json["measurements"][0]["cpu_seconds"].is_null());
    let summaries = table::summaries(&measured);
    assert!(table::notes(&summaries).contains("does not tell"));
    assert!(!table::notes(&table::summaries(&three_rounds(Some(Duration::from_secs(1))))).contains("does not tell"));
    assert!(measured[0].describe().contains("4.00 Gbit/s") && !measured[0].describe().contains("CPU"));
}

#[test]
fn each_cipher_is_measured_once_a_round_and_no_encryption_last() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let asked = [Cipher::ChaCha20Poly1305, Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305];
    let [chacha, aes] = [Cipher::ChaCha20Poly1305, Cipher::Aes256Gcm].map(Protection::Sealed);
    assert_eq!(runtime.block_on(protections(&asked)).unwrap(), [chacha, aes, Protection::Plaintext]);
}
