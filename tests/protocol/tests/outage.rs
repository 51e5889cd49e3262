//! Outages in the middle of a transfer: whatever is in flight is lost, and nobody hears of it.

use std::time::Duration;

use dfcp_netem::{LinkConfig, QueueLimit};
use dfcp_proto::{Policy, Rate};
use dfcp_protocol_tests::Pair;
use dfcp_testkit::{Job, LinksConfig, sealed};
use dfcp_time::Time;

const MBIT: u64 = 1_000_000;
const BYTES: u64 = 10_000_000;

/// With an automatic rate everything which may be in flight may be lost: what asks for its fate goes beyond that limit ([silence-2]).
#[test]
fn an_automatic_rate_goes_on_after_an_outage() {
    for (rate_mbps, outage_ms) in [(20, 100), (20, 500), (20, 2_000), (200, 30), (200, 500)] {
        for only_data in [true, false] {
            let link = LinkConfig::default()
                .with_delay(Duration::from_millis(10))
                .with_rate_bps(rate_mbps * MBIT)
                .with_queue(QueueLimit::packets(100));
            let path = LinksConfig { forward: link.clone(), backward: link, interface_bps: 1_000 * MBIT };
            let client = sealed().with_rate(Rate::auto(Policy::Fair));
            let mut pair = Pair::over(1, path, (client, Job::send(BYTES)), (sealed(), Job::send(0))).unwrap();
            // Half of the transfer is over then.
            let begin = Time::from_s(1) + Duration::from_millis(BYTES * 8 / rate_mbps / 2_000);
            let end = begin + Duration::from_millis(outage_ms);
            let last_data = std::rc::Rc::new(std::cell::Cell::new(Time::ZERO));
            let seen = std::rc::Rc::clone(&last_data);
            pair.tap = Box::new(move |now, packet| {
                let is_data = packet.from == dfcp_testkit::client_address();
                if is_data && packet.bytes.len() > 1_000 {
                    seen.set(now);
                }
                if (is_data || !only_data) && now >= begin && now < end { Vec::new() } else { vec![packet] }
            });
            pair.run(Time::from_s(120)).unwrap_or_else(|error| panic!("{rate_mbps} Mbit/s, {outage_ms} ms: {error:#}"));
            // The outage, half as long again as the transfer, and a second for what doubles its waits.
            let most = Duration::from_millis(BYTES * 8 / rate_mbps / 1_000 * 3 / 2 + 2 * outage_ms + 1_000);
            let took = last_data.get().since(Time::from_s(1));
            assert!(took < most, "{rate_mbps} Mbit/s, {outage_ms} ms, data alone: {only_data}: {took:?}");
        }
    }
}
