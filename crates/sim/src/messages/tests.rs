use std::collections::BTreeSet;
use std::sync::Arc;

use dfcp_netem::{LinkConfig, Loss};
use dfcp_proto::{Config, Rate};

use super::*;
use crate::{Counting, DfcpConfig, FlowConfig, FlowError, FlowId, Nobody, Simulation, Transport};

const ONE_WAY: Duration = Duration::from_millis(25);

fn messages(deadline: Duration) -> Messages {
    Messages { bytes: 1_316, every: Duration::from_millis(4), deadline, target: 0.999, beside_stream: false }
}

fn model(recovery: Recovery, deadline: Duration) -> Transport {
    Transport::Model(ModelConfig { messages: messages(deadline), recovery })
}

fn dfcp() -> DfcpConfig {
    let config = Config::danger_unsealed().with_rate(Rate::Fixed { rate_bps: 98_000_000 });
    DfcpConfig::both(config.with_codec(&Counting).with_send_buffer_bytes(16 << 20))
}

/// Creates a flow over a path of unlimited rate, with loss only in the direction of data.
fn path(transport: Transport, loss: Loss) -> (Simulation<Nobody>, FlowId) {
    let mut simulation = Simulation::new(7, Nobody);
    let link = LinkConfig::default().with_delay(ONE_WAY);
    let forward = vec![simulation.add_link(link.clone().with_loss(loss)).unwrap()];
    let back = vec![simulation.add_link(link).unwrap()];
    let config =
        FlowConfig { start: Time::ZERO, stop: None, rebinds: Vec::new(), bytes: None, forward, back, transport };
    let flow = simulation.add_flow(config).unwrap();
    (simulation, flow)
}

fn report(transport: Transport, loss: Loss, until: Time) -> MessageReport {
    let (mut simulation, flow) = path(transport, loss);
    simulation.run_until(until);
    simulation.flow(flow).messages.unwrap()
}

/// Returns a loss model that loses these datagrams among the first thousand.
fn lost(datagrams: impl IntoIterator<Item = usize>) -> Loss {
    let mut pattern = [false; 1_000];
    datagrams.into_iter().for_each(|datagram| pattern[datagram] = true);
    Loss::Trace(Arc::new(pattern))
}

/// Time at which 40 messages have been submitted, but not the 41st.
const FORTY: Time = Time::from_ms(158);

#[test]
fn without_loss_all_come_in_time_for_one_datagram_each_and_a_half_more_with_fec() {
    for (recovery, datagrams) in [(Recovery::Arq, 40), (Recovery::Fec, 60)] {
        let found = report(model(recovery, ONE_WAY), Loss::None, FORTY);
        // 34 messages are due: numbers 0 to 33, as 33 × 4 ms + 25 ms is less than 158 ms and 34 × 4 ms + 25 ms is not.
        assert_eq!(found, MessageReport { handed_over: 40, due: 34, in_time: 34, late: 0, datagrams }, "{recovery:?}");
        let short = report(model(recovery, ONE_WAY - Duration::from_nanos(1)), Loss::None, FORTY);
        assert_eq!((short.in_time, short.late), (0, 34), "{recovery:?}");
    }
}

#[test]
fn arq_repeats_a_lost_datagram_one_round_trip_after_the_next_one_came() {
    let known = Duration::from_millis(4 + 3 * 25);
    for (deadline, in_time) in [(known, true), (known - Duration::from_nanos(1), false)] {
        let found = report(model(Recovery::Arq, deadline), lost([3]), FORTY);
        assert_eq!(found.datagrams, 41);
        assert_eq!((found.due - found.in_time, found.late), if in_time { (0, 0) } else { (1, 1) }, "{deadline:?}");
    }
    // The message is not sent again: the request arrives when the message is 54 ms old, after its deadline.
    let found = report(model(Recovery::Arq, Duration::from_millis(53)), lost([3]), FORTY);
    assert_eq!((found.datagrams, found.due - found.in_time, found.late), (40, 1, 0));
}

#[test]
fn arq_asks_again_after_a_round_trip_and_a_bit_until_the_deadline_is_over() {
    let mut receiver = arq::Receiver::new(messages(Duration::from_millis(300)));
    let began = Time::from_ms(1_000);
    let at = |ms: u64| began + Duration::from_millis(ms);
    let mut asked = Vec::new();
    assert!(receiver.on_data(at(25), 0, began, |number| asked.push(number)));
    assert!(receiver.on_data(at(37), 3, began, |number| asked.push(number)));
    assert_eq!(asked, [1, 2]);
    // The initial RTT of 100 ms and the margin of 10 ms apply.
    assert_eq!(receiver.next_timeout(), Some(at(37 + 110)));
    assert!(receiver.on_data(at(87), 1, began, |_| panic!("nothing is missing beside what was asked for")));
    assert!(!receiver.on_data(at(88), 1, began, |_| panic!("nothing is missing")), "it came twice");
    receiver.handle_timeout(at(147), |number| asked.push(number));
    // The RTT is now known to be 50 ms. The deadline of message 2 is at 308 ms.
    let mut times = Vec::new();
    while let Some(next) = receiver.next_timeout() {
        times.push(next.since(began).as_millis());
        receiver.handle_timeout(next, |number| asked.push(number));
    }
    assert_eq!((asked, times), (vec![1, 2, 2, 2, 2], vec![207, 267]));
    assert!(receiver.on_data(at(320), 2, began, |_| ()), "late, but not twice");
}

#[test]
fn what_is_over_is_not_asked_for() {
    let mut receiver = arq::Receiver::new(messages(Duration::from_millis(40)));
    let mut asked = BTreeSet::new();
    let now = Time::from_ms(4 * 1_000_000 + 25);
    receiver.on_data(now, 1_000_000, Time::ZERO, |number| {
        asked.insert(number);
    });
    // Only the messages submitted within the deadline of 40 ms are requested.
    assert_eq!(asked, (999_997..1_000_000).collect());
}

#[test]
fn any_twenty_of_a_group_rebuild_it_when_its_repairs_come() {
    // Recovery of the first message needs the 19 messages after it.
    let known = Duration::from_millis(19 * 4 + 25);
    for (deadline, in_time) in [(known, true), (known - Duration::from_nanos(1), false)] {
        let found = report(model(Recovery::Fec, deadline), lost([0].into_iter().chain(2..11)), FORTY);
        assert_eq!(found.datagrams, 60);
        assert_eq!((found.due - found.in_time, found.late), if in_time { (0, 0) } else { (1, 1) }, "{deadline:?}");
    }
    // Eleven losses are more than ten repair datagrams can recover: the lost messages stay lost, and no others.
    let found =
        report(model(Recovery::Fec, Duration::from_millis(101)), lost((0..8).chain([20, 22, 29])), Time::from_ms(400));
    assert_eq!((found.due - found.in_time, found.late), (8, 0));
}

#[test]
fn a_group_rebuilds_no_message_twice() {
    let mut receiver = fec::Receiver::new(messages(Duration::from_millis(200)));
    let now = Time::from_ms(100);
    let came = (1..20).flat_map(|number| receiver.on_data(now, number, Time::ZERO)).collect::<Vec<_>>();
    assert_eq!(came, (1..20).collect::<Vec<_>>());
    assert_eq!(receiver.on_repair(now, 0, Time::ZERO), [0]);
    assert!(receiver.on_repair(now, 0, Time::ZERO).is_empty());
    assert!(receiver.on_data(now, 0, Time::ZERO).is_empty());
}

#[test]
fn messages_of_dfcp_are_counted_alike() {
    let transport = Transport::Dfcp(Box::new(dfcp().with_messages(messages(Duration::from_millis(60)))));
    let found = report(transport.clone(), Loss::None, Time::from_ms(2_000));
    assert!(found.handed_over > 450 && found.due == found.handed_over - 15, "{found:?}");
    assert_eq!((found.in_time, found.late), (found.due, 0));
    assert!(found.datagrams >= found.handed_over && found.datagrams < found.handed_over * 2, "{found:?}");
    let lossy = || report(transport.clone(), Loss::bernoulli(0.05), Time::from_ms(20_000));
    let found = lossy();
    assert!(found.in_time as f64 > 0.99 * found.due as f64, "{found:?}");
    assert_eq!(found, lossy(), "a seed decides all");
    // The deadline is shorter than the one-way delay, so all messages are late.
    let hasty = dfcp().with_messages(messages(Duration::from_millis(20)));
    let found = report(Transport::Dfcp(Box::new(hasty)), Loss::None, Time::from_ms(2_000));
    assert_eq!(found.in_time, 0, "{found:?}");
}

#[test]
fn a_stream_beside_messages_gets_the_rest() {
    let beside = Messages { beside_stream: true, ..messages(Duration::from_millis(60)) };
    for (config, least_bytes) in [(beside, 10_000_000), (messages(Duration::from_millis(60)), 0)] {
        let (mut simulation, flow) = path(Transport::Dfcp(Box::new(dfcp().with_messages(config))), Loss::None);
        simulation.run_until(Time::from_ms(2_000));
        let found = simulation.flow(flow);
        let messages = found.messages.unwrap();
        assert!(messages.in_time == messages.due && messages.due > 400, "{messages:?}");
        // Messages that are not due yet may or may not have arrived.
        let of_messages = (messages.in_time * 1_316)..=(messages.handed_over * 1_316);
        let of_stream = found.delivered_bytes - of_messages.start();
        assert_eq!(of_messages.contains(&found.delivered_bytes), least_bytes == 0, "{found:?}");
        assert!(of_stream >= least_bytes, "{of_stream}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_what_to_do() {
    let right = messages(Duration::from_millis(85));
    let over_stream = Messages { beside_stream: true, ..right };
    for (wrong, expected) in [
        (Messages { bytes: 7, ..right }, "messages have 7 bytes, but here they have 8 to 1456; choose another length"),
        (Messages { bytes: 1_457, ..right }, "messages have 1457 bytes, but here they have 8 to 1456"),
        (Messages { every: Duration::ZERO, ..right }, "a message is handed over every 0ns, but 10 µs to 1000 s"),
        (Messages { deadline: Duration::ZERO, ..right }, "the deadline is 0ns, but lies above 0 and not above 60 s"),
        (Messages { deadline: Duration::from_secs(61), ..right }, "the deadline is 61s, but lies above 0"),
        (
            Messages { every: Duration::from_micros(10), deadline: Duration::from_secs(2), ..right },
            "more than 100000 messages are worth something at once; shorten the deadline or send fewer",
        ),
        (Messages { target: f64::NAN, ..right }, "the target is NaN, but lies between 0.5 and 0.999999"),
        (over_stream, "this transport sends messages alone; only DFCP has a stream beside them"),
    ] {
        let complaint = ModelEnd::pair(ModelConfig { messages: wrong, recovery: Recovery::Arq }, None).unwrap_err();
        assert!(complaint.to_string().starts_with(expected), "{complaint}");
    }
    let sized = ModelEnd::pair(ModelConfig { messages: right, recovery: Recovery::Arq }, Some(1)).unwrap_err();
    assert_eq!(sized, MessagesError::Sized);
    assert_eq!(Messages { bytes: 65_536, ..right }.validate_dfcp(), Ok(()));
    let classic = DfcpConfig::both(Config::danger_classic()).with_messages(right);
    let refused = crate::End::pair(Transport::Dfcp(Box::new(classic)), None, 1).unwrap_err();
    assert_eq!(refused, FlowError::Messages(MessagesError::Classic));
}
