//! Tests of limits that no peer can observe from outside (`docs/limits.md` names the test of each limit).

use std::time::Duration;

use dfcp_time::Time;

use crate::limits;
use crate::path::arrivals::Arrivals;
use crate::path::in_flight::{Carried, InFlight, Sent};
use crate::path::receiver_flow_control::ReceiverFlowControl;
use crate::session::handshake::Handshake;

#[test]
fn echoes_of_segments_sent_long_ago_tell_no_time() {
    let mut handshake = Handshake::default();
    for number in 0..10_000 {
        handshake.on_sent(Time::from_ms(number.into()), number);
    }
    let remembered = (0..10_000).filter(|&number| handshake.rtt(Time::from_s(20), number).is_some()).count();
    assert_eq!(remembered, limits::ECHOES_MAX);
}

#[test]
fn a_late_datagram_makes_reports_wait_a_quarter_of_a_second_at_the_most() {
    let mut arrivals = Arrivals::default();
    for ms in 0..10_000 {
        arrivals.observe(Time::from_ms(ms), 2 * ms, 1_400);
    }
    let before = arrivals.settles_at();
    for number in 0..5_000 {
        arrivals.observe(Time::from_s(20), 2 * number + 1, 1_400);
    }
    let (before, after) = (before.unwrap(), arrivals.settles_at().unwrap());
    assert_eq!(before, Time::from_ms(9_999));
    assert_eq!(after.since(before), limits::REORDER_DELAY_MAX);
}

#[test]
fn numbers_far_ahead_cost_no_more_than_a_window_and_what_is_older_counts_as_seen() {
    let mut arrivals = Arrivals::default();
    for step in 0..100_000_u64 {
        assert!(arrivals.observe(Time::ZERO + Duration::from_micros(step), step * limits::REPLAY_WINDOW_DATAGRAMS, 1));
    }
    let highest = 99_999 * limits::REPLAY_WINDOW_DATAGRAMS;
    assert!(!arrivals.is_new(highest - limits::REPLAY_WINDOW_DATAGRAMS));
    assert!(arrivals.is_new(highest - limits::REPLAY_WINDOW_DATAGRAMS + 1));
}

#[test]
fn a_peer_which_reports_nothing_fills_the_table_of_datagrams_in_flight_and_then_data_waits() {
    let mut in_flight = InFlight::default();
    let mut number = 0;
    while in_flight.len() < ReceiverFlowControl::default().in_flight_max() {
        let what = Carried::Symbol { stream: dfcp_wire::StreamId::FIRST, block_id: 0 };
        in_flight.push(Sent::new(number, Time::ZERO, what));
        number += 1;
    }
    assert_eq!(number, limits::IN_FLIGHT_MAX as u64);
    assert!(2 * number * size_of::<Sent>() as u64 <= limits::IN_FLIGHT_BYTES_MAX);
    assert!(in_flight.settle(0).is_some() && in_flight.len() < ReceiverFlowControl::default().in_flight_max());
}
