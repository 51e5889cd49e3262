//! States derived from a connection's initial state.

use super::state::State;
use super::taus88::Taus88;

/// Purpose of a derived state, which separates the states of the precode from those of segments.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    /// LDPC precode of the block with this ID.
    Precode,
    /// Reusable segment state of the sender with this number.
    Segment,
}

/// Returns the state that both endpoints derive from an initial state for `number` (spec: “Derived states”).
///
/// Each word is hashed with the number, not added to it: generators of neighbouring numbers must not be correlated, and the generator
/// itself is linear.
pub(super) fn derived(initial: State, purpose: Purpose, number: u32) -> State {
    let salts: [u32; 3] = match purpose {
        Purpose::Precode => [0x9e37_79b9, 0x3c6e_f372, 0xdaa6_6d2b],
        Purpose::Segment => [0x78dd_e6e4, 0x1715_609d, 0xb54c_da56],
    };
    let words = initial.words();
    let mixed = core::array::from_fn(|word| mix(words[word] ^ mix(number ^ salts[word])));
    State::of_running(Taus88::warmed_up(mixed).state())
}

/// 32-bit finaliser of `MurmurHash3`: a bijection in which each input bit changes each output bit with probability one half.
fn mix(mut word: u32) -> u32 {
    word ^= word >> 16;
    word = word.wrapping_mul(0x85eb_ca6b);
    word ^= word >> 13;
    word = word.wrapping_mul(0xc2b2_ae35);
    word ^ (word >> 16)
}
