//! Cases of a message's life: two endpoints, messages of one symbol at 26 Mbit/s with a one-way delay of 25 ms, reports included.

use std::time::Duration;

use anyhow::Result;
use dfcp_proto::Deadline;
use dfcp_protocol_tests::messages::{Losses, MessagesConfig, run};

use super::{Case, counted};

/// Number of counted messages; the handshake is counted as well, a hundredth of the total.
const MESSAGES: u64 = 4_000;

const fn case(name: &'static str, what: &'static str, run: fn(u64) -> Result<()>) -> Case {
    Case { name, unit: "message", what, repetitions: MESSAGES, parts: &[], run }
}

pub(super) const CASES: &[Case] = &[
    case(
        "message",
        "sealed, one in 0.4 ms, worth nothing after 155 ms; handed over, sent, received; both ends and the path",
        |n| live(0.0, 130, n),
    ),
    case("message-loss5", "the same where one datagram in twenty is lost", |n| live(0.05, 130, n)),
    case("message-loss5-35ms", "the same with 35 ms: coded together with its neighbours", |n| live(0.05, 10, n)),
];

fn live(loss: f64, beyond_ms: u64, count: u64) -> Result<()> {
    let within = Duration::from_millis(25 + beyond_ms);
    let config = MessagesConfig {
        losses: Losses::Independent(loss),
        every: Duration::from_micros(400),
        deadline: Deadline::within(within),
        within,
        warm_up: Duration::ZERO,
        count,
        ..MessagesConfig::default()
    };
    counted(|| run(config).map(|_| ()))
}
