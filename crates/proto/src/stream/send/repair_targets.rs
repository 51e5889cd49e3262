//! Cache of the targets of proactive repair. Each target is a sum over a binomial distribution, and a report can
//! require thousands of them.

use crate::limits::SYMBOLS_PER_BLOCK_MAX;
use crate::stream::send::plan;

/// Number of steps of p̂ between 0 and 1. The cache is cleared when p̂ moves to another step.
const LOSS_STEPS: f64 = 512.0;

/// Targets for one value of p̂, by the number of missing symbols. 0 means not computed yet.
#[derive(Debug, Default)]
pub(crate) struct RepairTargets {
    step: u32,
    by_missing: Vec<u32>,
}

impl RepairTargets {
    /// Returns [`plan::proactive_in_flight`] with `p` rounded up to the next step.
    pub(crate) fn get(&mut self, missing: u32, p: f64) -> u32 {
        let step = (p * LOSS_STEPS).ceil() as u32;
        if step != self.step {
            self.step = step;
            self.by_missing.fill(0);
        }
        let compute = || plan::proactive_in_flight(missing, f64::from(step) / LOSS_STEPS);
        let place = missing as usize;
        if place > SYMBOLS_PER_BLOCK_MAX {
            return compute();
        }
        if place >= self.by_missing.len() {
            self.by_missing.resize(place + 1, 0);
        }
        let Some(target) = self.by_missing.get_mut(place) else { return compute() };
        if *target == 0 {
            *target = compute();
        }
        *target
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_what_would_be_computed() {
        let mut targets = RepairTargets::default();
        for p in [0.0, 0.1, 0.1, 0.5, 0.1] {
            for missing in [1, 45, 256, 1] {
                let step = (p * LOSS_STEPS).ceil() / LOSS_STEPS;
                assert_eq!(targets.get(missing, p), plan::proactive_in_flight(missing, step), "{missing} at {p}");
            }
        }
    }
}
