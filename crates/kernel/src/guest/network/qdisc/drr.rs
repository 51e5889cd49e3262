//! drr: deficit round robin.

use super::super::attributes::Attributes;

const TCA_DRR_QUANTUM: u16 = 1;

/// Options of a class. The discipline itself has none.
pub(in super::super) fn class_options(quantum_bytes: u32) -> Vec<u8> {
    Attributes::new().u32(TCA_DRR_QUANTUM, quantum_bytes).into_bytes()
}
