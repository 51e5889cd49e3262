use proptest::prelude::*;

use super::*;

const WINDOW_BLOCKS: u32 = 12;

#[derive(Clone, Debug)]
enum Step {
    /// Writes this many blocks, and a part of a further one.
    Write(usize),
    /// Sends up to this many segments.
    Send(usize),
    /// Acknowledges the block this far behind the newest one.
    Acknowledge(u32),
    /// Lets this many milliseconds pass.
    Wait(u64),
    /// Takes an RTT sample of this many milliseconds.
    Sample(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (0..4_usize).prop_map(Step::Write),
        4 => (1..150_usize).prop_map(Step::Send),
        3 => (1..WINDOW_BLOCKS + 2).prop_map(Step::Acknowledge),
        3 => (0..250_u64).prop_map(Step::Wait),
        1 => (1..400_u64).prop_map(Step::Sample),
    ]
}

/// Reference model, by search. The first non-empty group wins: the block in a further turn; overtaken blocks; the first
/// block in or before its first turn; the first block that has waited long enough. Returns all blocks that qualify.
fn by_search(sender: &ClassicSender, now: Time, newest: Option<Time>, rtt: &RttEstimator) -> Vec<u32> {
    let all = |wanted: &dyn Fn(&SendQueue) -> bool| -> Vec<u32> {
        let open = sender.queues.iter().enumerate().filter(|(_, queue)| !queue.acknowledged && wanted(queue));
        open.map(|(at, _)| sender.first_id + at as u32).collect()
    };
    let Schedule::OpenLoop { redundancy } = sender.schedule else { unreachable!("all tests are of the open loop") };
    let first_quota = ClassicSender::quota(redundancy);
    let again = all(&|queue| queue.quota > first_quota && queue.segments < queue.quota);
    let overtaken = all(&|queue| {
        queue.segments == queue.quota && newest.is_some_and(|newest| queue.last_sent + overtaken_margin(rtt) <= newest)
    });
    let mut fresh = all(&|queue| queue.segments < queue.quota);
    fresh.truncate(1);
    let mut waited = all(&|queue| now.since(queue.last_sent) >= patience(rtt));
    waited.truncate(1);
    [again, overtaken, fresh, waited].into_iter().find(|blocks| !blocks.is_empty()).unwrap_or_default()
}

/// End of the block's first turn, if it had no further turn and is not acknowledged.
fn first_turn_over(sender: &ClassicSender, id: u32, redundancy: f64) -> Option<Time> {
    let queue = sender.queues.get(id.checked_sub(sender.first_id)? as usize)?;
    (!queue.acknowledged && queue.segments == ClassicSender::quota(redundancy)).then_some(queue.last_sent)
}

proptest! {
    #[test]
    fn an_open_loop_serves_the_block_which_a_search_of_the_window_finds(
        redundancy in prop_oneof![Just(0.0), Just(0.05), Just(0.5)],
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let config = Config::danger_classic().with_schedule(Schedule::OpenLoop { redundancy }).with_window_blocks(WINDOW_BLOCKS);
        let mut sender = ClassicSender::new(&config, State::new(1_000, 2_000, 3_000).unwrap());
        let mut now = Time::from_s(1);
        let mut rtt = RttEstimator::default();
        let mut newest = None;
        sender.establish(now);
        for step in steps {
            match step {
                Step::Write(blocks) => {
                    sender.write(now, &vec![0; blocks * SOURCE_BYTES + 100]);
                }
                Step::Send(segments) => {
                    for _ in 0..segments {
                        sender.fill(now);
                        let silent = sender.is_silent(now, &rtt) && now < sender.last_sent + PROBE_INTERVAL;
                        let expected = if silent { Vec::new() } else { by_search(&sender, now, newest, &rtt) };
                        let Some(segment) = sender.next_segment(now, &rtt) else {
                            prop_assert_eq!(expected, Vec::<u32>::new());
                            break;
                        };
                        prop_assert!(expected.contains(&segment.block_id), "{:?} of {expected:?}", segment);
                        sender.on_sent(now, segment);
                    }
                }
                Step::Acknowledge(behind) => {
                    let id = sender.next_id().saturating_sub(behind);
                    let over = first_turn_over(&sender, id, redundancy);
                    newest = newest.max(over);
                    let sample = if id < sender.next_id() { Ok(over.map(|over| now.since(over))) } else { Err(NeverSent) };
                    prop_assert_eq!(sender.on_ack(now, id), sample);
                }
                Step::Wait(ms) => now += Duration::from_millis(ms),
                Step::Sample(ms) => rtt.sample(Duration::from_millis(ms)),
            }
            let open = sender.queues.iter().filter(|queue| !queue.acknowledged);
            prop_assert_eq!(sender.oldest_sent(), open.map(|queue| queue.last_sent).min());
            let open = sender.queues.iter().filter(|queue| !queue.acknowledged);
            prop_assert_eq!(sender.open_blocks, open.count() as u64);
            prop_assert!(sender.open_loop.places() <= 2 * WINDOW_BLOCKS as usize);
        }
    }
}

/// On a path of 10 ms, the open loop notices after one round trip that a block did not decode. Waiting for the end of
/// the window would take far longer.
#[test]
fn a_block_which_was_overtaken_is_served_again_before_new_ones() {
    let config =
        Config::danger_classic().with_schedule(Schedule::OpenLoop { redundancy: 0.05 }).with_window_blocks(100);
    let mut sender = ClassicSender::new(&config, State::new(1_000, 2_000, 3_000).unwrap());
    let mut rtt = RttEstimator::default();
    rtt.sample(Duration::from_millis(10));
    let mut now = Time::from_s(1);
    sender.establish(now);
    sender.write(now, &vec![0; 10 * SOURCE_BYTES]);
    let send = |sender: &mut ClassicSender, now: &mut Time| {
        let segment = sender.next_segment(*now, &rtt).unwrap();
        sender.on_sent(*now, segment);
        *now += Duration::from_micros(100);
        segment.block_id
    };
    let quota = ClassicSender::quota(0.05);
    for _ in 0..3 * quota {
        send(&mut sender, &mut now);
    }
    // Block 1 is acknowledged, block 0 is not. Block 1 was sent 4.7 ms later, which exceeds the margin.
    now = Time::from_s(1) + Duration::from_millis(20);
    assert_eq!(sender.on_ack(now, 1).unwrap().map(|sample| sample < Duration::from_millis(12)), Some(true));
    let served: Vec<u32> = (0..4).map(|_| send(&mut sender, &mut now)).collect();
    assert_eq!(served, [0, 0, 0, 3]);
    // The block then waits again, until another one overtakes it.
    assert_eq!(send(&mut sender, &mut now), 3);
}

/// \[classic-7\], and the documents' sender, which floods on.
#[test]
fn a_flood_stops_when_nothing_is_heard_unless_it_is_endless() {
    let sent_in_ten_seconds = |endless| {
        let classic = crate::ClassicSettings { endless, ..Default::default() };
        let config = Config::danger_classic().with_classic(classic).with_window_blocks(1);
        let mut sender = ClassicSender::new(&config, State::new(1_000, 2_000, 3_000).unwrap());
        let rtt = RttEstimator::default();
        sender.establish(Time::from_s(1));
        sender.write(Time::from_s(1), &vec![0; SOURCE_BYTES]);
        let mut sent = 0;
        for ms in 1_000..11_000 {
            let now = Time::from_ms(ms);
            if let Some(segment) = sender.next_segment(now, &rtt) {
                sender.on_sent(now, segment);
                sent += 1;
            }
        }
        sent
    };
    assert_eq!(sent_in_ten_seconds(true), 10_000);
    let stopped = sent_in_ten_seconds(false);
    assert!((2_000..2_200).contains(&stopped), "{stopped} segments");
}
