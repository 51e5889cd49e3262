//! Costs that a peer can cause with messages. (`attacks --only messages` prints the table.)

use std::sync::{Mutex, PoisonError};

use dfcp_end_to_end_tests::messages::{Attack, Cost, attack};

/// Datagrams per attack: two thirds of a second, more than tables and buffers hold.
const DATAGRAMS: u64 = 60_000;

/// Serializes the tests: the memory of the whole process is measured.
static ALONE: Mutex<()> = Mutex::new(());

fn cost(kind: Attack) -> Cost {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let cost = attack(kind, DATAGRAMS).expect("messages can be made");
    assert_eq!(cost.breach(), None, "{cost:?}");
    cost
}

#[test]
fn what_is_never_finished_or_never_read_stays_within_the_limits() {
    let honest = cost(Attack::Honest);
    assert_eq!((honest.delivered, honest.dropped), (DATAGRAMS, 0), "nothing was tested: {honest:?}");
    for kind in [
        Attack::Unread,
        Attack::Unfinished,
        Attack::Groups,
        Attack::UnfinishedSmall,
        Attack::GroupsSmall,
        Attack::KnownLong,
    ] {
        let cost = cost(kind);
        // Groups have no messages in common (\[message-5\]).
        let dropped_max = if kind == Attack::Groups { DATAGRAMS } else { 64 };
        assert!(cost.error.is_none() && cost.dropped <= dropped_max, "{cost:?}");
        // The bookkeeping of small pieces is charged as well.
        assert!(cost.memory_kib > 1_000, "nothing was tested: {cost:?}");
    }
    let known = cost(Attack::Known);
    assert!(
        known.delivered == DATAGRAMS && known.memory_kib < 600,
        "20 bytes of each of 16 384, and 9 for its id: {known:?}"
    );
    let leaps = cost(Attack::Leaps);
    assert!(leaps.delivered == DATAGRAMS && leaps.memory_kib < 300, "{leaps:?}");
    let longest = cost(Attack::Years);
    assert_eq!((longest.delivered, longest.dropped), (DATAGRAMS, 0), "{longest:?}");
    let shortest = cost(Attack::NoLifetime);
    assert_eq!((shortest.delivered, shortest.dropped), (1, 0), "late, and not refused: {shortest:?}");
    for (kind, delivered) in [(Attack::Replayed, 1), (Attack::Old, 4), (Attack::FarAhead, 0)] {
        let cost = cost(kind);
        assert_eq!(cost.delivered, delivered, "{cost:?}");
        assert!(cost.memory_kib < 4 << 10, "{cost:?}");
    }
}

#[test]
fn who_claims_all_gets_nothing_more_and_who_claims_nothing_gets_what_it_is_owed() {
    let all = cost(Attack::ClaimsAll);
    assert!(all.error.as_ref().is_some_and(|error| error.contains("has not received")), "{all:?}");
    assert!(all.drawn_bytes < 100_000, "{all:?}");
    let (none, silent) = (cost(Attack::ClaimsNone), cost(Attack::Silent));
    assert!(none.drawn_bytes > 100_000, "nothing was tested: {none:?}");
    assert!(silent.drawn_bytes <= 1 << 20, "{silent:?}");
}
