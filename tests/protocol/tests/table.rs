//! The loss × RTT table in small, as a snapshot: a change of performance is a readable diff. In full: `cargo run --release -p
//! dfcp-protocol-tests --bin table`.

use std::fmt::Write;

use dfcp_protocol_tests::table::Cell;

#[test]
fn goodput_over_loss_and_rtt() {
    let mut text = String::from("Mbit/s  RTT ms  loss %  ceiling %  useful %\n");
    for rtt_ms in [1, 50] {
        for loss in [0.0, 0.01, 0.1] {
            let row = Cell { loss, rtt_ms, rate_bps: 20_000_000, seed: 1, quick: true, unsealed: false }.run().unwrap();
            assert!(row.useful_percent >= 99.0, "{row:?}");
            writeln!(
                text,
                "{:6}  {:6}  {:6}  {:9.1}  {:8.1}",
                row.rate_mbit, row.rtt_ms, row.loss_percent, row.ceiling_percent, row.useful_percent
            )
            .unwrap();
        }
    }
    insta::assert_snapshot!(text);
}
