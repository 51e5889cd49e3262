use super::*;
use crate::reading::parse;
use crate::scenario::resolve;

/// Scenario at 12 Mbit/s, where a full packet takes 1 ms, and 40 ms round trip.
fn scenario(rest: &str) -> Scenario {
    let text = format!(
        "id = \"t\"\ntitle = \"\"\nsource = \"\"\nquestion = \"\"\n[run]\nduration_s = 5\nwarm_up_s = 1\n\
         [topology]\nrate_mbps = 12\nrtt_ms = 40\n{rest}[[series]]\nlabel = \"CUBIC\"\ntransport = \"cubic\"\n\
         [metrics]\nplot = [\"jain\"]\n"
    );
    let source = parse("t.toml", &text).unwrap();
    resolve(&source.plan, &source.plan.series[0].get_ref().transport).unwrap()
}

/// Feeds the detector with ticks of 1 ms. In each tick until `until_ms`, 10 packets are offered, `packets` are
/// delivered, and `packets` are dropped.
fn run(scenario: &Scenario, course: &[(u64, u64, u64)]) -> Settled {
    let mut settling = Settling::new(scenario);
    let mut link = LinkReading::default();
    let mut now_ms = 0;
    for &(until_ms, packets, rate_bps) in course {
        while now_ms < until_ms {
            now_ms += 1;
            link.carried_bytes += packets * 1500;
            link.offered += 10;
            link.queue_drops += packets;
            (link.rate_bps, link.capacity_bps) = (rate_bps, rate_bps);
            settling.tick(now_ms * TICK_NS, &link);
        }
    }
    settling.finish(now_ms * TICK_NS)
}

#[test]
fn a_path_is_used_from_the_first_round_trip_on_that_is_nearly_full() {
    let settled = run(&scenario(""), &[(100, 0, 12_000_000), (500, 1, 12_000_000)]);
    // The first window of 40 ticks with 36 full ones lasts from 96 to 136 ms. After another 40 ms, 76 of 1760 packets
    // were dropped.
    assert_eq!(settled.started_ns, Some(96 * TICK_NS));
    assert_eq!(settled.start_dropped, Some(76.0 / 1760.0));
    assert_eq!(settled.recovery_ns, None);
    let never = run(&scenario(""), &[(400, 0, 12_000_000)]);
    assert_eq!(never, Settled { started_ns: None, recovery_ns: None, start_dropped: Some(0.0) });
}

#[test]
fn a_burst_shorter_than_a_round_trip_is_no_start() {
    let settled = run(&scenario(""), &[(20, 1, 12_000_000), (200, 0, 12_000_000), (300, 1, 12_000_000)]);
    assert_eq!(settled.started_ns, Some(196 * TICK_NS));
}

#[test]
fn the_longest_time_after_a_change_counts() {
    let changes = "[[time]]\nat_s = 1\nrate_mbps = 24\n[[time]]\nat_s = 2\nrate_mbps = 12\n";
    // After the first change the link runs at half load until 200 ms later; after the second change it is used
    // immediately.
    let course = [(1000, 1, 12_000_000), (1200, 1, 24_000_000), (2000, 2, 24_000_000), (3000, 1, 12_000_000)];
    let recovery_ns = run(&scenario(changes), &course).recovery_ns;
    assert_eq!(recovery_ns, Some(192 * TICK_NS));
    // A recovery that does not succeed lasts until the next change.
    let course = [(1000, 1, 12_000_000), (2000, 1, 24_000_000), (3000, 1, 12_000_000)];
    assert_eq!(run(&scenario(changes), &course).recovery_ns, Some(1_000 * TICK_NS));
}

#[test]
fn an_outage_is_no_start_and_its_end_is_made_up_for() {
    let outage = "[[outages]]\nat_s = 1\nlasts_s = 0.5\n";
    let scenario = scenario(outage).drawn(1);
    // A first outage lasts until 100 ms; the first window of use contains one tick with capacity. A second outage lasts
    // from 1 to 1.5 s, and the link is used again 200 ms after it.
    let course = [(100, 0, 0), (1000, 1, 12_000_000), (1500, 0, 0), (1700, 0, 12_000_000), (3000, 1, 12_000_000)];
    let settled = run(&scenario, &course);
    assert_eq!((settled.started_ns, settled.recovery_ns), (Some(61 * TICK_NS), Some(196 * TICK_NS)));
}
