use proptest::prelude::*;

use super::*;

const WINDOW_BLOCKS: u32 = 12;

#[derive(Clone, Debug)]
enum Step {
    /// Writes so many blocks, and a part of one.
    Write(usize),
    /// Sends up to so many segments.
    Send(usize),
    /// Acknowledges a block so far behind the newest one.
    Acknowledge(u32),
    /// Lets so many ms pass.
    Wait(u64),
    /// Takes a sample of the RTT, in ms.
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

/// The rule as it reads: the first block which has segments left, otherwise the first which has waited.
fn first_by_search(sender: &ClassicSender, now: Time, patience: Duration) -> Option<u32> {
    let first = |wanted: &dyn Fn(&SendQueue) -> bool| {
        sender
            .queues
            .iter()
            .position(|queue| !queue.acknowledged && wanted(queue))
            .map(|at| sender.first_id + at as u32)
    };
    first(&|queue| queue.segments < queue.quota).or_else(|| first(&|queue| now.since(queue.last_sent) >= patience))
}

proptest! {
    #[test]
    fn an_open_loop_serves_the_block_which_a_search_of_the_window_finds(
        redundancy in prop_oneof![Just(0.0), Just(0.05), Just(0.5)],
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let config = Config {
            schedule: Schedule::OpenLoop { redundancy },
            content: Content::Counted,
            window_blocks: WINDOW_BLOCKS,
            ..Config::danger_classic()
        };
        let mut sender = ClassicSender::new(&config, State::new(1_000, 2_000, 3_000).unwrap());
        let mut now = Time::from_s(1);
        let mut rtt = RttEstimator::default();
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
                        let expected = first_by_search(&sender, now, patience(&rtt)).filter(|_| !silent);
                        let segment = sender.next_segment(now, &rtt);
                        prop_assert_eq!(segment.map(|segment| segment.block_id), expected);
                        let Some(segment) = segment else { break };
                        sender.on_sent(now, segment);
                    }
                }
                Step::Acknowledge(behind) => {
                    sender.on_ack(now, sender.next_id().saturating_sub(behind));
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
