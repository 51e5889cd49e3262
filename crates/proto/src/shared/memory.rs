//! Memory that all connections accepted by one endpoint share, and the part of a single connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits;

/// Memory for received blocks, over all connections accepted by one endpoint.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    bytes_max: u64,
    used_bytes: AtomicU64,
}

impl MemoryBudget {
    pub(crate) fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { bytes_max, used_bytes: AtomicU64::new(0) })
    }

    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Returns the bytes taken or reserved.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        self.bytes_max - self.used_bytes()
    }

    /// Returns the bytes kept for reserves only, so that blocks which are never finished do not keep newcomers out.
    fn kept_bytes(&self) -> u64 {
        self.bytes_max / limits::RESERVES_MEMORY_SHARE
    }

    /// Takes `bytes` if at least `left_bytes` are free afterwards. Returns true on success.
    fn take(&self, bytes: u64, left_bytes: u64) -> bool {
        let used = |used: u64| {
            let after = used.checked_add(bytes)?;
            (after.checked_add(left_bytes)? <= self.bytes_max).then_some(after)
        };
        self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, used).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Memory of one connection: an exclusive reserve for the block that the connection needs next, and a share of the rest
/// that never exceeds the memory left free. One connection alone takes half of the rest, and n greedy connections leave
/// one part in n + 1, until only the memory for further reserves is free. Dropping the reservation gives all memory
/// back.
#[derive(Debug, Default)]
pub(crate) struct MemoryReservation {
    /// `None` for a connection opened by this side, to which only its own limits apply.
    budget: Option<Arc<MemoryBudget>>,
    reserve_bytes: u64,
    reserve_used_bytes: u64,
    shared_bytes: u64,
}

impl MemoryReservation {
    /// Reserves `reserve_bytes`. Returns `None` if the budget has less.
    pub(crate) fn open(budget: &Arc<MemoryBudget>, reserve_bytes: u64) -> Option<Self> {
        let taken = budget.take(reserve_bytes, 0);
        taken.then(|| Self { budget: Some(Arc::clone(budget)), reserve_bytes, ..Self::default() })
    }

    /// Takes `bytes` of the shared memory. Returns true on success.
    pub(crate) fn take(&mut self, bytes: u64) -> bool {
        if let Some(budget) = &self.budget
            && !budget.take(bytes, self.shared_bytes.saturating_add(bytes).max(budget.kept_bytes()))
        {
            return false;
        }
        self.shared_bytes = self.shared_bytes.saturating_add(bytes);
        true
    }

    /// Gives back `bytes` of the shared memory.
    pub(crate) fn give_back(&mut self, bytes: u64) {
        let bytes = bytes.min(self.shared_bytes);
        self.shared_bytes -= bytes;
        if let Some(budget) = &self.budget {
            budget.give_back(bytes);
        }
    }

    /// Takes `bytes` of the reserve. Returns true on success.
    pub(crate) fn take_reserve(&mut self, bytes: u64) -> bool {
        let free = self.reserve_bytes - self.reserve_used_bytes;
        let fits = self.budget.is_some() && bytes <= free;
        self.reserve_used_bytes += if fits { bytes } else { 0 };
        fits
    }

    /// Frees the whole reserve.
    pub(crate) fn release_reserve(&mut self) {
        self.reserve_used_bytes = 0;
    }

    /// Returns the largest number of bytes that [`take`](Self::take) would grant now.
    pub(crate) fn room_bytes(&self) -> u64 {
        self.budget.as_ref().map_or(u64::MAX, |budget| {
            let free = budget.free_bytes();
            (free.saturating_sub(self.shared_bytes) / 2).min(free.saturating_sub(budget.kept_bytes()))
        })
    }

    #[cfg(test)]
    pub(crate) fn shared_bytes(&self) -> u64 {
        self.shared_bytes
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.give_back(self.reserve_bytes + self.shared_bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_connection_takes_half_and_leaves_the_rest_to_others() {
        let budget = MemoryBudget::new(1_000);
        let mut greedy = MemoryReservation::open(&budget, 0).unwrap();
        while greedy.take(1) {}
        assert_eq!((greedy.shared_bytes(), budget.free_bytes()), (500, 500));
        let mut second = MemoryReservation::open(&budget, 0).unwrap();
        while second.take(1) {}
        assert_eq!((second.shared_bytes(), budget.free_bytes()), (250, 250));
        drop(greedy);
        assert_eq!(budget.used_bytes(), 250);
    }

    #[test]
    fn a_reserve_is_nobody_elses_and_opened_only_if_it_is_there() {
        let budget = MemoryBudget::new(1_000);
        let mut first = MemoryReservation::open(&budget, 400).unwrap();
        let _second = MemoryReservation::open(&budget, 400).unwrap();
        assert!(MemoryReservation::open(&budget, 400).is_none());
        assert!(first.take_reserve(300) && !first.take_reserve(101) && first.take_reserve(100));
        assert_eq!(budget.used_bytes(), 800, "the reserve was counted from the first");
        first.release_reserve();
        assert!(first.take_reserve(400));
    }

    #[test]
    fn without_a_budget_only_other_limits_apply() {
        let mut own = MemoryReservation::default();
        assert!(own.take(u64::MAX) && own.take(1));
        assert_eq!(own.room_bytes(), u64::MAX);
        assert!(!own.take_reserve(0), "there is no reserve to fall back on, and no need of one");
    }

    proptest! {
        /// For any sequence of calls, the budget is never exceeded, equals the sum of all holdings, and ends at zero.
        #[test]
        fn the_budget_is_never_exceeded(steps in proptest::collection::vec((0_usize..4, 0_u8..4, 0_u64..400), 0..200)) {
            let budget = MemoryBudget::new(2_000);
            let mut reservations: [Option<MemoryReservation>; 4] = Default::default();
            let mut model = [(0, 0); 4];
            for (who, what, bytes) in steps {
                let free = 2_000 - model.iter().map(|(reserve, shared)| reserve + shared).sum::<u64>();
                match (&mut reservations[who], what) {
                    (slot @ None, _) => {
                        *slot = MemoryReservation::open(&budget, bytes);
                        prop_assert_eq!(slot.is_some(), bytes <= free);
                        model[who].0 = if slot.is_some() { bytes } else { 0 };
                    }
                    (slot @ Some(_), 0) => (*slot, model[who]) = (None, (0, 0)),
                    (Some(reservation), 1) => {
                        let bytes = bytes.min(model[who].1);
                        reservation.give_back(bytes);
                        model[who].1 -= bytes;
                    }
                    (Some(reservation), _) => {
                        let fits = bytes + (model[who].1 + bytes).max(500) <= free;
                        prop_assert_eq!(reservation.room_bytes() >= bytes, fits || bytes == 0);
                        prop_assert_eq!(reservation.take(bytes), fits);
                        model[who].1 += if fits { bytes } else { 0 };
                    }
                }
                let used = model.iter().map(|(reserve, shared)| reserve + shared).sum::<u64>();
                prop_assert_eq!(budget.used_bytes(), used);
                prop_assert!(used <= 2_000);
            }
            drop(reservations);
            prop_assert_eq!(budget.used_bytes(), 0);
        }
    }
}
