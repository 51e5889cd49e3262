//! Attacks on stream credit, and a model that remembers every stream.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const NOW: Time = Time::from_s(9);

const fn limits(bidirectional: u32, one_way: u32) -> StreamLimits {
    StreamLimits { bidirectional, one_way }
}

fn id(opener: Opener, kind: StreamKind, index: u32) -> StreamId {
    StreamId::new(opener, kind, index).unwrap()
}

use Opener::{Acceptor, Initiator};
use StreamKind::{Bidirectional, OneWay};

#[test]
fn stream_0_is_open_at_both_ends_and_costs_nothing() {
    let mut acceptor = StreamIds::new(Role::Acceptor, limits(1, 0));
    let mut initiator = StreamIds::new(Role::Initiator, limits(1, 0));
    for ids in [&mut acceptor, &mut initiator] {
        assert_eq!(ids.see(StreamId::FIRST), Ok(Seen::Known));
        assert!(ids.peer_may_send(StreamId::FIRST) && ids.we_may_send(StreamId::FIRST));
        ids.on_gone(NOW, StreamId::FIRST, false);
        assert_eq!(ids.granted(NOW), limits(1, 0), "nor does its end give any credit");
        ids.on_peer_limits(limits(1, 0));
    }
    assert_eq!((acceptor.unseen(), initiator.unseen()), (limits(1, 0), limits(0, 0)));
    let opened = initiator.open(Bidirectional).unwrap();
    assert_eq!(opened, id(Initiator, Bidirectional, 1));
    assert_eq!(initiator.open(Bidirectional), None);
    assert_eq!(acceptor.see(opened), Ok(Seen::Opens(1..2)));
    assert_eq!(acceptor.open(Bidirectional), Some(id(Acceptor, Bidirectional, 0)));
    assert_eq!(initiator.see(id(Acceptor, Bidirectional, 0)), Ok(Seen::Opens(0..1)));
}

#[test]
fn an_id_beyond_credit_and_one_of_ours_which_is_not_open_are_misbehaviour() {
    let mut ids = StreamIds::new(Role::Acceptor, limits(3, 0));
    let beyond = id(Initiator, Bidirectional, 4);
    let misbehaved = PeerMisbehaved::StreamBeyondCredit { stream: beyond.to_word(), permitted: 3 };
    assert_eq!(ids.see(beyond), Err(misbehaved));
    assert_eq!(ids.see(id(Initiator, Bidirectional, 3)), Ok(Seen::Opens(1..4)), "the one before is the last");
    let other_kind = id(Initiator, OneWay, 0);
    assert_eq!(
        ids.see(other_kind),
        Err(PeerMisbehaved::StreamBeyondCredit { stream: other_kind.to_word(), permitted: 0 }),
        "the kinds have credit of their own"
    );
    let ours = id(Acceptor, Bidirectional, 0);
    assert_eq!(ids.see(ours), Err(PeerMisbehaved::StreamNotOpened { stream: ours.to_word() }));
    ids.on_peer_limits(limits(1, 1));
    assert_eq!(ids.open(Bidirectional), Some(ours));
    assert_eq!(ids.see(ours), Ok(Seen::Known));
}

#[test]
fn more_credit_is_told_once_and_a_kind_without_any_is_never_taken() {
    let mut ids = StreamIds::new(Role::Initiator, limits(0, 0));
    assert!(ids.on_peer_limits(limits(0, 2)));
    assert!(
        !ids.on_peer_limits(limits(0, 2)) && !ids.on_peer_limits(limits(0, 1)),
        "neither again nor an older number"
    );
    assert!(ids.takes(OneWay) && !ids.takes(Bidirectional));
    let opened = [ids.open(OneWay), ids.open(OneWay), ids.open(OneWay)];
    assert_eq!(opened, [Some(id(Initiator, OneWay, 0)), Some(id(Initiator, OneWay, 1)), None]);
    assert!(ids.takes(OneWay), "all are open, but others may be");
    assert!(ids.on_peer_limits(limits(0, 3)));
}

#[test]
fn what_could_not_be_opened_after_all_leaves_no_hole() {
    let mut ids = StreamIds::new(Role::Initiator, limits(0, 0));
    ids.on_peer_limits(limits(3, 0));
    let first = ids.open(Bidirectional);
    ids.close_unused(Bidirectional);
    assert_eq!(ids.open(Bidirectional), first);
    ids.close_unused(Bidirectional);
    // No stream lies below the first one.
    ids.close_unused(Bidirectional);
    assert_eq!(ids.open(Bidirectional), first);
}

#[test]
fn a_one_way_stream_has_the_direction_of_its_opener() {
    let ids = StreamIds::new(Role::Acceptor, limits(1, 1));
    let (ours, theirs) = (id(Acceptor, OneWay, 0), id(Initiator, OneWay, 0));
    assert!(ids.we_may_send(ours) && !ids.peer_may_send(ours));
    assert!(!ids.we_may_send(theirs) && ids.peer_may_send(theirs));
}

#[test]
fn streams_without_room_count_as_never_seen() {
    let mut ids = StreamIds::new(Role::Acceptor, limits(9, 9));
    let last = id(Initiator, OneWay, 7);
    assert_eq!(ids.see(last), Ok(Seen::Opens(0..8)));
    ids.unsee(id(Initiator, OneWay, 5));
    assert_eq!(ids.unseen(), limits(1, 5));
    assert_eq!(ids.see(last), Ok(Seen::Opens(5..8)));
}

#[test]
fn a_storm_of_resets_gets_its_burst_and_then_what_a_second_permits() {
    let mut ids = StreamIds::new(Role::Acceptor, limits(10, 0));
    let mut index = 1;
    for millisecond in 0..2_000 {
        let now = NOW + Duration::from_millis(millisecond);
        // The peer opens and resets streams as fast as permitted.
        while index <= ids.granted(now).bidirectional {
            ids.see(id(Initiator, Bidirectional, index)).unwrap();
            ids.on_gone(now, id(Initiator, Bidirectional, index), true);
            index += 1;
        }
    }
    assert_eq!(index - 1, 10 + STREAM_RESETS_BURST + 2 * STREAM_RESETS_PER_S - 1);
    ids.on_gone(NOW, id(Initiator, Bidirectional, 1), false);
    assert_eq!(ids.granted(NOW).bidirectional, index, "one that was read waits for nothing");
}

#[test]
fn no_credit_passes_the_last_id() {
    let mut ids = StreamIds::new(Role::Acceptor, limits(u32::MAX, u32::MAX));
    assert_eq!(ids.granted(NOW), limits(STREAM_INDEX_MAX, STREAM_INDEX_MAX + 1));
    ids.on_peer_limits(limits(u32::MAX, u32::MAX));
    let last = id(Initiator, Bidirectional, STREAM_INDEX_MAX);
    assert_eq!(ids.see(last), Ok(Seen::Opens(1..STREAM_INDEX_MAX + 1)));
    ids.on_gone(NOW, last, false);
    assert_eq!(ids.granted(NOW).bidirectional, STREAM_INDEX_MAX);
    ids.ours.one_way.next = STREAM_INDEX_MAX;
    assert_eq!(ids.open(OneWay), StreamId::new(Acceptor, OneWay, STREAM_INDEX_MAX));
    assert_eq!(ids.open(OneWay), None);
}

proptest! {
    /// Model: the sets of the peer's open streams and of the gone ones.
    #[test]
    fn the_peer_has_its_credit_and_one_more_for_each_stream_that_is_gone(
        start in (0_u32..6, 0_u32..6), is_initiator: bool,
        steps in prop::collection::vec((0_u8..5, 0_u32..12, any::<bool>(), any::<bool>()), 0..200)
    ) {
        let (role, us, peer) =
            if is_initiator { (Role::Initiator, Initiator, Acceptor) } else { (Role::Acceptor, Acceptor, Initiator) };
        let first = u32::from(!is_initiator);
        let mut ids = StreamIds::new(role, limits(start.0, start.1));
        let (mut open, mut gone, mut permitted, mut ours) = (BTreeSet::new(), [0, 0], [0, 0], [0, 0]);
        let mut now = NOW;
        for (what, index, is_one_way, by_reset) in steps {
            let (kind, of_kind) = if is_one_way { (OneWay, 1) } else { (Bidirectional, 0) };
            let name = id(peer, kind, index);
            // Wait longer than any reset delays credit: held-back credit has its own test.
            now += Duration::from_secs(1);
            let before_first = !is_one_way && index < first;
            match what {
                0 => {
                    permitted[of_kind] = permitted[of_kind].max(index);
                    ids.on_peer_limits(if is_one_way { limits(0, index) } else { limits(index, 0) });
                }
                1 => {
                    let own_first = if is_one_way { 0 } else { u32::from(is_initiator) };
                    let expected = (ours[of_kind] < permitted[of_kind]).then(|| id(us, kind, own_first + ours[of_kind]));
                    prop_assert_eq!(ids.open(kind), expected);
                    ours[of_kind] += u32::from(expected.is_some());
                }
                2 => if open.remove(&name) {
                    gone[of_kind] += 1;
                    ids.on_gone(now, name, by_reset);
                },
                _ => {
                    let credit = [start.0, start.1][of_kind] + gone[of_kind];
                    let lowest = if is_one_way { 0 } else { first };
                    let next = [ids.unseen().bidirectional, ids.unseen().one_way][of_kind];
                    match ids.see(name) {
                        Ok(Seen::Known) => prop_assert!(index < next || before_first),
                        Ok(Seen::Opens(range)) => {
                            prop_assert_eq!(range.clone(), next..index + 1);
                            prop_assert!(index < lowest + credit);
                            for index in range {
                                prop_assert!(open.insert(id(peer, kind, index)), "none is opened twice");
                            }
                        }
                        Err(misbehaved) => {
                            prop_assert!(index >= lowest + credit);
                            prop_assert_eq!(misbehaved, PeerMisbehaved::StreamBeyondCredit { stream: name.to_word(), permitted: credit });
                        }
                    }
                }
            }
            let granted = ids.granted(now);
            prop_assert_eq!([granted.bidirectional, granted.one_way], [start.0 + gone[0], start.1 + gone[1]]);
        }
    }
}
