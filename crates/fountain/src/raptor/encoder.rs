//! Encoder of a block.

use super::degree::{DEGREES, class_of};
use super::graph::{DegreeClass, SegmentGraph, draw_distinct};
use super::peel::zeroed;
use super::precode::PrecodeDraws;
use super::state::State;
use super::taus88::Taus88;
use super::{Error, INTERMEDIATE_BYTES, SEGMENT_BYTES, SOURCE_BYTES};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Encoder of one block: its source and check bytes, 64 KiB.
#[derive(Debug, Clone)]
pub struct Encoder {
    intermediate: Box<[u8; INTERMEDIATE_BYTES]>,
}

impl Encoder {
    /// Takes at most [`SOURCE_BYTES`] bytes of a block, pads them with zeros and computes the check bytes from the
    /// sender's initial state and the block's ID (thesis §3.8.3).
    ///
    /// # Errors
    /// Fails with [`Error::SourceTooLong`].
    pub fn new(initial: State, block_id: u32, source: &[u8]) -> Result<Self, Error> {
        let mut intermediate: Box<[u8; INTERMEDIATE_BYTES]> = zeroed();
        let Some(begin) = intermediate.get_mut(..source.len()).filter(|_| source.len() <= SOURCE_BYTES) else {
            return Err(Error::SourceTooLong { given_bytes: source.len() });
        };
        begin.copy_from_slice(source);
        let (padded, checks) = intermediate.split_at_mut(SOURCE_BYTES);
        PrecodeDraws::new(initial, block_id).add_into(padded, checks);
        Ok(Self { intermediate })
    }

    /// Returns the block's [`CHECK_BYTES`](super::CHECK_BYTES) check bytes.
    #[must_use]
    pub fn checks(&self) -> &[u8] {
        &self.intermediate[SOURCE_BYTES..]
    }

    /// Returns the source bytes (with padding) followed by the check bytes.
    pub(super) fn intermediate(&self) -> &[u8] {
        self.intermediate.as_slice()
    }

    /// Writes the segment with this graph to `out`, of [`SEGMENT_BYTES`] bytes.
    ///
    /// # Errors
    /// Fails with [`Error::SegmentLength`].
    pub fn write_segment(&self, graph: &SegmentGraph, out: &mut [u8]) -> Result<(), Error> {
        if out.len() != graph.symbols() {
            return Err(Error::SegmentLength { given_bytes: out.len() });
        }
        for class in graph.classes() {
            self.write_class(class, out);
        }
        Ok(())
    }

    /// Writes the same segment as [`Encoder::write_segment`] with the method of the thesis (§3.7.3): for each symbol, draw its degree, draw
    /// its neighbours, add them. Reference for tests and measurements.
    ///
    /// # Errors
    /// Fails with [`Error::SegmentLength`].
    pub fn write_segment_naive(&self, state: State, out: &mut [u8]) -> Result<(), Error> {
        if out.len() != SEGMENT_BYTES {
            return Err(Error::SegmentLength { given_bytes: out.len() });
        }
        let mut generator = Taus88::at(state);
        let mut neighbours = Vec::with_capacity(DEGREES[9]);
        for symbol in out {
            let degree = DEGREES[class_of(generator.next_u32())];
            neighbours.clear();
            draw_distinct(&mut generator, degree, &mut neighbours);
            *symbol = self.add(&neighbours);
        }
        Ok(())
    }

    fn write_class(&self, class: DegreeClass<'_>, out: &mut [u8]) {
        match class.degree {
            1 => self.write_degree::<1>(class, out),
            2 => self.write_degree::<2>(class, out),
            3 => self.write_degree::<3>(class, out),
            4 => self.write_degree::<4>(class, out),
            5 => self.write_degree::<5>(class, out),
            8 => self.write_degree::<8>(class, out),
            9 => self.write_degree::<9>(class, out),
            degree => {
                for (&position, neighbours) in class.positions.iter().zip(class.neighbours.chunks_exact(degree)) {
                    out[usize::from(position)] = self.add(neighbours);
                }
            }
        }
    }

    /// Writes the symbols of one degree, with an unrolled loop: a loop of variable length costs a mispredicted branch per symbol, more than
    /// its additions.
    fn write_degree<const DEGREE: usize>(&self, class: DegreeClass<'_>, out: &mut [u8]) {
        let (neighbours, _) = class.neighbours.as_chunks::<DEGREE>();
        for (&position, neighbours) in class.positions.iter().zip(neighbours) {
            out[usize::from(position)] = self.add(neighbours);
        }
    }

    #[inline]
    fn add(&self, neighbours: &[u16]) -> u8 {
        neighbours.iter().fold(0, |sum, &index| sum ^ self.intermediate[usize::from(index)])
    }
}
