use proptest::prelude::*;

use crate::queue::tests::{Item, drain, fill, numbers, queue, unlimited, widest_gap};
use crate::queue::{Discipline, Drr};
use crate::{Queue, QueueLimit};

fn drr(quantum_bytes: u32, weights: &[u16]) -> Queue<Item> {
    unlimited(Discipline::Drr(Drr { quantum_bytes, weights: weights.to_vec() }))
}

/// Quantum 500. Packet sizes of flow 0: 200, 750, 20; flow 1: 500, 500; flow 2: 200, 600, 100; flow 3: 50, 700, 180.
///
/// Round 1. Flow 0: counter 500, sends 200, keeps 300 (< 750). Flow 1: sends 500, keeps 0. Flow 2: sends 200, keeps 300
/// (< 600). Flow 3: sends 50, keeps 450 (< 700). Round 2. Flow 0: counter 800, sends 750 and 20, is empty. Flow 1:
/// counter 500, sends 500, is empty. Flow 2: counter 800, sends 600 and 100, is empty. Flow 3: counter 950, sends 700
/// and 180, is empty.
#[test]
fn a_schedule_worked_out_by_hand() {
    let mut queue = drr(500, &[]);
    let packets = [
        [(0, 200), (0, 750), (0, 20)].as_slice(), // #0 to #2
        &[(1, 500), (1, 500)],                    // #3, #4
        &[(2, 200), (2, 600), (2, 100)],          // #5 to #7
        &[(3, 50), (3, 700), (3, 180)],           // #8 to #10
    ];
    assert_eq!(fill(&mut queue, &packets.concat()), [0; 0]);
    assert_eq!(numbers(&drain(&mut queue)), [0, 3, 5, 8, 1, 2, 4, 6, 7, 9, 10]);
}

/// Quantum 300. Packet sizes of flow 0: 500, 100; flow 1: 200, 200, 200.
///
/// Round 1. Flow 0: counter 300 (< 500), sends nothing. Flow 1: counter 300, sends 200, keeps 100. Round 2. Flow 0:
/// counter 600, sends 500 and 100, is empty. Flow 1: counter 400, sends 200 and 200, is empty.
#[test]
fn a_packet_above_the_quantum_waits_for_the_next_round() {
    let mut queue = drr(300, &[]);
    fill(&mut queue, &[(0, 500), (0, 100), (1, 200), (1, 200), (1, 200)]);
    assert_eq!(numbers(&drain(&mut queue)), [2, 0, 1, 3, 4]);
}

/// Quantum 100, weights 2 and 1, and 1 for flow 2 beyond the list. Of packets of 100 bytes, flow 0 sends two for each
/// one of another flow.
#[test]
fn weights_multiply_the_quantum() {
    let mut queue = drr(100, &[2, 1]);
    fill(&mut queue, &[[(0, 100); 4].as_slice(), &[(1, 100); 3], &[(2, 100); 3]].concat());
    let flows: Vec<u64> = drain(&mut queue).iter().map(|item| item.flow).collect();
    assert_eq!(flows, [0, 0, 1, 2, 0, 0, 1, 2, 1, 2]);
}

/// Queue of three packets. Flow 0 has one packet of 600 bytes and flow 1 two of 100. A packet of 40 bytes of flow 2
/// evicts flow 0's only packet, so that flow 0's turn in the round is skipped.
#[test]
fn a_flow_whose_packets_were_all_dropped_is_passed_over() {
    let mut queue = queue(Discipline::Drr(Drr { quantum_bytes: 100, weights: vec![] }), QueueLimit::packets(3));
    assert_eq!(fill(&mut queue, &[(0, 600), (1, 100), (1, 100), (2, 40)]), [0]);
    assert_eq!(numbers(&drain(&mut queue)), [1, 3, 2]);
    // The next packet of flow 0 starts with a counter of zero: 100 after its first visit, 200 after the second.
    assert_eq!(fill(&mut queue, &[(0, 200), (1, 90), (1, 90)]), [0; 0]);
    assert_eq!(numbers(&drain(&mut queue)), [1, 0, 2]);
}

proptest! {
    /// The paper's fairness theorem: while two flows are backlogged, the bytes that they send per unit of weight differ
    /// by at most 2 Max + Quantum over any interval, where Max is the largest packet (so 3 Max for a quantum of Max).
    #[test]
    fn what_busy_flows_send_differs_by_the_theorem_at_most(
        weights in prop::collection::vec(1u16..4, 2..5),
        quantum_bytes in 64u32..3000,
        sizes in prop::collection::vec((any::<prop::sample::Index>(), 1u32..=1500), 50..300),
    ) {
        let packets: Vec<_> =
            sizes.iter().map(|(flow, size_bytes)| (flow.index(weights.len()) as u64, *size_bytes)).collect();
        let mut queue = drr(quantum_bytes, &weights);
        prop_assert_eq!(fill(&mut queue, &packets), Vec::<usize>::new());
        let (gap, scale) = widest_gap(&drain(&mut queue), &weights);
        let max_bytes = packets.iter().map(|&(_, size_bytes)| size_bytes).max().unwrap_or(0);
        let bound = 2 * i64::from(max_bytes) + i64::from(quantum_bytes);
        prop_assert!(gap <= bound * scale, "{gap} / {scale} > {bound}");
    }
}
