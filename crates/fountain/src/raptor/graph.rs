//! Graph of a segment: for each symbol, the intermediate bytes that the symbol combines.

use super::degree::{DEGREES, class_of};
use super::state::State;
use super::taus88::Taus88;
use super::{INTERMEDIATE_BYTES, SEGMENT_BYTES};
use alloc::vec;
use alloc::vec::Vec;

/// Degrees and neighbours of all symbols of a segment, drawn from the segment's state (thesis §3.7.3).
///
/// Symbols are sorted by degree, like the thesis's ten lists (§3.10.2), so that loops over them have constant bounds. A graph takes about
/// 20 kB: two bytes for each of 1420 positions and about 8340 neighbours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentGraph {
    state: State,
    /// Symbols of each degree class.
    counts: [u16; DEGREES.len()],
    /// Position of each symbol in the segment, sorted by class and ascending within a class.
    positions: Vec<u16>,
    /// Neighbours of each symbol, in the order of `positions`; as many as its degree, in the order drawn.
    neighbours: Vec<u16>,
}

/// Symbols of one degree in a [`SegmentGraph`].
#[derive(Debug, Clone, Copy)]
pub(super) struct DegreeClass<'a> {
    pub(super) degree: usize,
    /// Index of each symbol in the segment.
    pub(super) positions: &'a [u16],
    /// Indices of intermediate bytes: `degree` indices for each of `positions`.
    pub(super) neighbours: &'a [u16],
}

impl SegmentGraph {
    /// Draws the graph of the segment with this state. Takes the time of about 10 000 draws of the generator.
    #[must_use]
    pub fn new(state: State) -> Self {
        Self::with_symbols(state, SEGMENT_BYTES)
    }

    /// Draws the graph of the first `symbols` symbols only, for tests with an exact ε.
    pub(super) fn with_symbols(state: State, symbols: usize) -> Self {
        let mut generator = Taus88::at(state);
        let mut classes = Vec::with_capacity(symbols);
        let mut drawn = Vec::with_capacity(symbols * 6 + DEGREES[9]);
        let mut counts = [0_u16; DEGREES.len()];
        for _ in 0..symbols {
            let class = class_of(generator.next_u32());
            draw_distinct(&mut generator, DEGREES[class], &mut drawn);
            counts[class] += 1;
            classes.push(class);
        }
        let (positions, neighbours) = sort_by_class(&classes, &counts, &drawn);
        Self { state: state.canonical(), counts, positions, neighbours }
    }

    /// Returns the state that draws this graph, in canonical form.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns the intermediate indices (0 ..= 65 535) combined by the symbol at `position` (0 .. 1420) of the segment,
    /// in the order drawn; `None` beyond the segment's end.
    #[must_use]
    pub fn neighbours(&self, position: usize) -> Option<&[u16]> {
        self.classes().find_map(|class| {
            let nth = class.positions.iter().position(|&held| usize::from(held) == position)?;
            class.neighbours.chunks_exact(class.degree).nth(nth)
        })
    }

    /// Returns the number of symbols in the graph.
    pub(super) fn symbols(&self) -> usize {
        self.positions.len()
    }

    /// Returns the symbols of each degree, ascending.
    pub(super) fn classes(&self) -> impl Iterator<Item = DegreeClass<'_>> {
        (0..DEGREES.len()).map(|class| self.class(class))
    }

    /// Returns the symbols whose degree is `DEGREES[class]`.
    pub(super) fn class(&self, class: usize) -> DegreeClass<'_> {
        let (mut position, mut neighbour) = (0, 0);
        for (&degree, &count) in DEGREES.iter().zip(&self.counts[..class]) {
            position += usize::from(count);
            neighbour += usize::from(count) * degree;
        }
        let (degree, count) = (DEGREES[class], usize::from(self.counts[class]));
        DegreeClass {
            degree,
            positions: &self.positions[position..][..count],
            neighbours: &self.neighbours[neighbour..][..count * degree],
        }
    }
}

/// Appends `degree` distinct intermediate indices to `drawn`; a repeated draw is dropped and drawn again.
///
/// The loop ends: the generator's states are valid, so its outputs have a long period.
#[inline]
pub(super) fn draw_distinct(generator: &mut Taus88, degree: usize, drawn: &mut Vec<u16>) {
    let first = drawn.len();
    while drawn.len() - first < degree {
        let index = modulo_intermediate(generator.next_u32());
        // Without an early exit the comparisons can use vector instructions.
        if !drawn[first..].iter().fold(false, |found, &taken| found | (taken == index)) {
            drawn.push(index);
        }
    }
}

/// Returns `draw` modulo n, the number of intermediate bytes.
#[inline]
pub(super) fn modulo_intermediate(draw: u32) -> u16 {
    const { assert!(INTERMEDIATE_BYTES == 1 << 16, "the low 16 bits are the remainder modulo n") };
    (draw & 0xffff) as u16
}

/// Sorts positions and neighbours from segment order into class order.
fn sort_by_class(classes: &[usize], counts: &[u16; DEGREES.len()], drawn: &[u16]) -> (Vec<u16>, Vec<u16>) {
    let mut next_position = [0_usize; DEGREES.len()];
    let mut next_neighbour = [0_usize; DEGREES.len()];
    for class in 1..DEGREES.len() {
        let before = usize::from(counts[class - 1]);
        next_position[class] = next_position[class - 1] + before;
        next_neighbour[class] = next_neighbour[class - 1] + before * DEGREES[class - 1];
    }
    let mut positions = vec![0; classes.len()];
    let mut neighbours = vec![0; drawn.len()];
    let mut rest = drawn;
    for (position, &class) in (0_u16..).zip(classes) {
        let (own, later) = rest.split_at(DEGREES[class]);
        rest = later;
        positions[next_position[class]] = position;
        next_position[class] += 1;
        let start = next_neighbour[class];
        neighbours[start..start + own.len()].copy_from_slice(own);
        next_neighbour[class] += own.len();
    }
    (positions, neighbours)
}
