//! Text about the packets of one direction.

use dfcp_relay::{Datagrams, DirectionStats};
use dfcp_terminal::units::{human_bytes, human_percent};

/// Formats `990 of 1000 forwarded (1.40 MB), 10 lost (1 %)`, with further outcomes if they occurred.
pub(crate) fn describe(stats: &DirectionStats) -> String {
    let share = |part: Datagrams| part.packets as f64 / stats.received.packets.max(1) as f64;
    let mut text = format!(
        "{} of {} forwarded ({}), {} lost ({})",
        stats.forwarded.packets,
        stats.received.packets,
        human_bytes(stats.forwarded.bytes),
        stats.lost.packets,
        human_percent(share(stats.lost)),
    );
    let rest = [
        (stats.queue_drops, "dropped by the queue"),
        (stats.marked, "marked by the queue (CE)"),
        (stats.blackout_drops, "dropped in outages"),
        (stats.corrupted, "corrupted"),
        (stats.duplicated, "duplicated"),
        (stats.reordered, "reordered"),
        (stats.not_sent, "refused by the kernel"),
        (stats.on_the_way, "still on the way"),
    ];
    for (count, what) in rest.into_iter().filter(|(count, _)| count.packets > 0) {
        text.push_str(&format!(", {} {what}", count.packets));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_happened_is_said() {
        let datagrams = |packets| Datagrams { packets, bytes: 1400 * packets };
        let mut stats =
            DirectionStats { received: datagrams(20), forwarded: datagrams(9), ..DirectionStats::default() };
        stats.lost = datagrams(1);
        assert_eq!(describe(&stats), "9 of 20 forwarded (12.6 kB), 1 lost (5 %)");
        (stats.queue_drops, stats.on_the_way) = (datagrams(8), datagrams(2));
        assert!(describe(&stats).ends_with("(5 %), 8 dropped by the queue, 2 still on the way"));
    }
}
