//! Decodability of a set of received symbols.

use dfcp_fountain::kernel::Kernel;
use dfcp_fountain::random_linear::{BlockShape, Decoder};

/// Returns true if a receiver can decode `k` source symbols from symbols with these ids. A set of `k` symbols fails
/// with probability 1/256; the ids determine which sets fail.
pub(super) fn suffice(kernel: Kernel, k: usize, mut esis: impl Iterator<Item = u32>) -> bool {
    let Ok(shape) = BlockShape::new(k, k) else { return false };
    let mut decoder = Decoder::new(kernel, shape);
    esis.any(|esi| decoder.push(esi, &[0]).is_ok() && decoder.is_complete())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_sets_of_as_many_symbols_as_are_missing_do_not_suffice() {
        let kernel = Kernel::detect();
        let mut failed = Vec::new();
        for (first, second) in (0..6).flat_map(|first| (0..first).map(move |second| (first, second))) {
            let own = (0..6).filter(|&esi| esi != first && esi != second);
            assert!(!suffice(kernel, 6, own.clone().chain([6])) && suffice(kernel, 6, own.clone().chain([6, 7, 8])));
            if !suffice(kernel, 6, own.chain([6, 7])) {
                failed.push((second, first));
            }
        }
        assert_eq!(failed, [(1, 5)]);
    }
}
