//! Peeling: an equation with one unknown determines this unknown.
//!
//! The thesis alternates an LT pass over its ten lists and a pass over the LDPC checks until neither gains (§3.10.2). Both passes apply one
//! rule to one kind of equation: an encoding symbol equals the XOR of its neighbours, and a check byte ⊕ its source bytes is zero (which
//! covers both of the thesis's LDPC cases, a missing source byte and a missing check byte). Applying the rule only adds
//! known bytes and never prevents another application, so every order gives the same set. This implementation visits
//! each edge once instead of rescanning lists.

use super::graph::{DegreeClass, SegmentGraph};
use super::precode::{CHECKS_PER_SOURCE_BYTE, PrecodeDraws};
use super::{CHECK_BYTES, INTERMEDIATE_BYTES, SOURCE_BYTES};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

/// Number of equations solved at a time.
const BATCH: usize = 64;

/// Remainder of an encoding symbol: XOR of the indices of its unknown neighbours (bits 16–31), XOR of their values
/// (bits 8–15) and their number (bits 0–7). With one unknown left, these are its index and its value.
#[derive(Debug, Clone, Copy)]
struct Equation(u32);

impl Equation {
    fn new(value: u8) -> Self {
        Self(u32::from(value) << 8)
    }

    fn add_unknown(&mut self, index: u16) {
        self.0 = (self.0 ^ u32::from(index) << 16) + 1;
    }

    fn add_known(&mut self, value: u8) {
        self.0 ^= u32::from(value) << 8;
    }

    /// Removes a neighbour that has become known.
    fn resolve(&mut self, index: u16, value: u8) {
        self.0 = (self.0 ^ (u32::from(index) << 16 | u32::from(value) << 8)) - 1;
    }

    fn unknowns(self) -> u8 {
        (self.0 & 0xff) as u8
    }

    fn value(self) -> u8 {
        (self.0 >> 8 & 0xff) as u8
    }

    fn index(self) -> u16 {
        (self.0 >> 16) as u16
    }
}

/// LDPC check, with about 96 and possibly more than 255 neighbours.
#[derive(Debug, Clone, Copy)]
struct Check {
    unknowns: u32,
    index: u16,
    value: u8,
}

impl Check {
    fn add(&mut self, index: u16, value: u8, known: bool) {
        if known {
            self.value ^= value;
        } else {
            self.unknowns += 1;
            self.index ^= index;
        }
    }
}

/// Equation with one unknown.
#[derive(Debug, Clone, Copy)]
enum Ready {
    Symbol(u32),
    Check(u16),
}

/// Symbols of one degree class of a segment.
#[derive(Debug, Clone, Copy)]
struct Group {
    /// Number of the graph that has the symbols.
    graph: usize,
    class: usize,
    /// Offset of the symbols' first equation in [`Peeler::equations`].
    start: usize,
}

/// For each intermediate byte, the symbols of some groups that combine it. Contains only bytes that were unknown at the
/// time of construction, and symbols that then had two or more unknowns; later steps look up no others.
#[derive(Debug)]
pub(super) struct Adjacency {
    /// Offset of each intermediate byte's symbols in `symbols`, and the end offset.
    starts: Vec<u32>,
    symbols: Vec<u32>,
}

/// One attempt to decode a block: about 3 MB while it runs.
#[derive(Debug)]
pub(super) struct Peeler {
    /// Checks that contain each source byte; empty until the checks are added.
    source_checks: Vec<[u16; CHECKS_PER_SOURCE_BYTE]>,
    checks: Vec<Check>,
    /// Groups of symbols whose equations are in `equations`.
    groups: Vec<Group>,
    equations: Vec<Equation>,
    values: Box<[u8; INTERMEDIATE_BYTES]>,
    known: Box<[bool; INTERMEDIATE_BYTES]>,
    ready: Vec<Ready>,
    known_source_bytes: usize,
}

impl Peeler {
    /// Starts with no known bytes.
    pub(super) fn new() -> Self {
        Self {
            source_checks: Vec::new(),
            checks: Vec::new(),
            groups: Vec::new(),
            equations: Vec::new(),
            values: zeroed(),
            known: zeroed(),
            ready: Vec::new(),
            known_source_bytes: 0,
        }
    }

    /// Returns the number of known source bytes.
    pub(super) fn known_source_bytes(&self) -> usize {
        self.known_source_bytes
    }

    /// Returns the source bytes, if all are known.
    pub(super) fn into_source(self) -> Option<Vec<u8>> {
        (self.known_source_bytes == SOURCE_BYTES).then(|| self.values[..SOURCE_BYTES].to_vec())
    }

    /// Returns the byte with this index, if it is known.
    #[cfg(test)]
    pub(super) fn known(&self, index: usize) -> Option<u8> {
        self.known[index].then(|| self.values[index])
    }

    /// Adds the symbols of one class of the graph with this number as equations. `symbols` holds all symbols of the
    /// segment, one byte each.
    pub(super) fn add_symbols(&mut self, graph: usize, class: DegreeClass<'_>, number: usize, symbols: &[u8]) {
        self.groups.push(Group { graph, class: number, start: self.equations.len() });
        self.equations.reserve(class.positions.len());
        for (&position, neighbours) in class.positions.iter().zip(class.neighbours.chunks_exact(class.degree)) {
            let mut equation = Equation::new(symbols[usize::from(position)]);
            for &index in neighbours {
                if self.known[usize::from(index)] {
                    equation.add_known(self.values[usize::from(index)]);
                } else {
                    equation.add_unknown(index);
                }
            }
            if equation.unknowns() == 1 {
                self.ready.push(Ready::Symbol(self.equations.len() as u32));
            }
            self.equations.push(equation);
        }
    }

    /// Adds the LDPC checks as equations, once, unless the block is complete without them.
    pub(super) fn add_checks(&mut self, draws: impl FnOnce() -> PrecodeDraws) {
        if self.known_source_bytes == SOURCE_BYTES {
            return;
        }
        self.source_checks = draws().collect();
        self.checks = vec![Check { unknowns: 0, index: 0, value: 0 }; CHECK_BYTES];
        for (source, own_checks) in (0_u16..).zip(&self.source_checks) {
            let (known, value) = (self.known[usize::from(source)], self.values[usize::from(source)]);
            for &check in own_checks {
                self.checks[usize::from(check)].add(source, value, known);
            }
        }
        for number in 0..CHECK_BYTES as u16 {
            let own = SOURCE_BYTES as u16 + number;
            let check = &mut self.checks[usize::from(number)];
            check.add(own, self.values[usize::from(own)], self.known[usize::from(own)]);
            if check.unknowns == 1 {
                self.ready.push(Ready::Check(number));
            }
        }
    }

    /// Returns the number of groups of symbols added.
    pub(super) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Peels until no further byte can be determined, or every source byte is known. `layers` covers all added groups.
    ///
    /// Works in batches, so that the memory accesses of several bytes overlap.
    pub(super) fn run(&mut self, layers: &[Adjacency]) {
        let mut solved = Vec::with_capacity(BATCH);
        while !self.ready.is_empty() && self.known_source_bytes < SOURCE_BYTES {
            self.solve_batch(&mut solved);
            for layer in layers {
                self.resolve_symbols(layer, &solved);
            }
            if !self.checks.is_empty() {
                solved.iter().for_each(|&(index, value)| self.resolve_checks(index, value));
            }
        }
    }

    /// Determines the bytes of some equations, marks them as known and moves them into `solved`.
    fn solve_batch(&mut self, solved: &mut Vec<(u16, u8)>) {
        solved.clear();
        for ready in self.ready.drain(self.ready.len().saturating_sub(BATCH)..) {
            let (unknowns, index, value) = match ready {
                Ready::Symbol(symbol) => {
                    let equation = self.equations[symbol as usize];
                    (u32::from(equation.unknowns()), equation.index(), equation.value())
                }
                Ready::Check(check) => {
                    let check = self.checks[usize::from(check)];
                    (check.unknowns, check.index, check.value)
                }
            };
            // Another equation of the batch may have determined the byte.
            if unknowns == 1 && !self.known[usize::from(index)] {
                self.values[usize::from(index)] = value;
                self.known[usize::from(index)] = true;
                self.known_source_bytes += usize::from(usize::from(index) < SOURCE_BYTES);
                solved.push((index, value));
            }
        }
    }

    fn resolve_symbols(&mut self, layer: &Adjacency, solved: &[(u16, u8)]) {
        let (equations, ready) = (self.equations.as_mut_slice(), &mut self.ready);
        for &(index, value) in solved {
            for &symbol in layer.of(index) {
                let equation = &mut equations[symbol as usize];
                equation.resolve(index, value);
                if equation.unknowns() == 1 {
                    ready.push(Ready::Symbol(symbol));
                }
            }
        }
    }

    fn resolve_checks(&mut self, index: u16, value: u8) {
        match self.source_checks.get(usize::from(index)).copied() {
            Some(numbers) => numbers.into_iter().for_each(|number| self.resolve_check(number, index, value)),
            None => self.resolve_check(index - SOURCE_BYTES as u16, index, value),
        }
    }

    fn resolve_check(&mut self, number: u16, index: u16, value: u8) {
        let check = &mut self.checks[usize::from(number)];
        check.unknowns -= 1;
        check.index ^= index;
        check.value ^= value;
        if check.unknowns == 1 {
            self.ready.push(Ready::Check(number));
        }
    }
}

impl Adjacency {
    /// Covers the groups of `peeler` from number `first` on. `graphs` holds the graphs of the added symbols, under the
    /// same numbers.
    pub(super) fn new(peeler: &Peeler, first: usize, graphs: &[Arc<SegmentGraph>]) -> Self {
        let groups = &peeler.groups[first..];
        let mut starts = vec![0_u32; INTERMEDIATE_BYTES + 1];
        for_each_open_edge(peeler, groups, graphs, |index, _| starts[usize::from(index)] += 1);
        let mut total = 0;
        for start in &mut starts {
            total += *start;
            *start = total;
        }
        // Each start is now the end of its range, and moves down to the beginning while the range is filled.
        let mut symbols = vec![0_u32; total as usize];
        for_each_open_edge(peeler, groups, graphs, |index, symbol| {
            let start = &mut starts[usize::from(index)];
            *start -= 1;
            symbols[*start as usize] = symbol;
        });
        Self { starts, symbols }
    }

    fn of(&self, index: u16) -> &[u32] {
        let index = usize::from(index);
        &self.symbols[self.starts[index] as usize..self.starts[index + 1] as usize]
    }
}

/// Calls `visit` with (intermediate index, symbol) for each unknown neighbour of each symbol in `groups` that has two
/// or more unknowns.
fn for_each_open_edge(
    peeler: &Peeler,
    groups: &[Group],
    graphs: &[Arc<SegmentGraph>],
    mut visit: impl FnMut(u16, u32),
) {
    for group in groups {
        let class = graphs[group.graph].class(group.class);
        let equations = &peeler.equations[group.start..][..class.positions.len()];
        let symbols = group.start as u32..;
        for ((equation, symbol), neighbours) in
            equations.iter().zip(symbols).zip(class.neighbours.chunks_exact(class.degree))
        {
            if equation.unknowns() > 1 {
                for &index in neighbours.iter().filter(|&&index| !peeler.known[usize::from(index)]) {
                    visit(index, symbol);
                }
            }
        }
    }
}

/// Returns an array of default values on the heap, without a copy on the stack.
pub(super) fn zeroed<T: Copy + Default, const N: usize>() -> Box<[T; N]> {
    let slice = vec![T::default(); N].into_boxed_slice();
    let Ok(array) = slice.try_into() else { unreachable!("the slice has N elements") };
    array
}
