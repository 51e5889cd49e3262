//! A rate beyond which the path drops without a queue (\[auto-15\]), as policers and buffers of a few packets do. No delay tells of it, so
//! the window goes by what arrived when too much was sent.

/// Its growth in each round trip while it bounds the window, and after how many of these the growth doubles: the path may have become
/// faster, or the bound may be a product of chance.
const GROWTH: f64 = 0.005;
const GROWTH_DOUBLES_ROUND_TRIPS: f64 = 8.0;
const GROWTH_MAX: f64 = 0.5;
/// A window that uses this part of it is bound by it.
const REACHED_PART: f64 = 0.97;

/// Datagrams per second, if there is one.
#[derive(Debug)]
pub(super) struct UpperBound {
    per_s: f64,
    growth: f64,
    round_trips: f64,
}

impl Default for UpperBound {
    fn default() -> Self {
        Self { per_s: f64::INFINITY, growth: GROWTH, round_trips: 0.0 }
    }
}

impl UpperBound {
    pub(super) fn per_s(&self) -> f64 {
        self.per_s
    }

    pub(super) fn is_known(&self) -> bool {
        self.per_s < f64::INFINITY
    }

    /// Sets the bound: losses were of traffic beyond the path's capacity, `per_s`.
    pub(super) fn on_exceeded(&mut self, per_s: f64) {
        *self = Self { per_s, ..Self::default() };
    }

    /// `round_trips` have passed with a window of `per_s`.
    pub(super) fn relax(&mut self, round_trips: f64, per_s: f64) {
        if per_s < REACHED_PART * self.per_s || !self.is_known() {
            return;
        }
        self.round_trips += round_trips;
        if self.round_trips > GROWTH_DOUBLES_ROUND_TRIPS {
            (self.growth, self.round_trips) = ((2.0 * self.growth).min(GROWTH_MAX), 0.0);
        }
        self.per_s *= 1.0 + (self.growth * round_trips).min(GROWTH_MAX);
    }

    /// Datagrams become longer: `factor` times as many of them.
    pub(super) fn scale(&mut self, factor: f64) {
        self.per_s *= factor;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rises_slowly_at_first_and_only_where_it_bounds() {
        let mut bound = UpperBound::default();
        bound.relax(100.0, 1e9);
        assert_eq!(bound.per_s(), f64::INFINITY);
        bound.on_exceeded(1_000.0);
        (0..100).for_each(|_| bound.relax(1.0, 900.0));
        assert_eq!(bound.per_s(), 1_000.0);
        let after = |bound: &mut UpperBound, round_trips| {
            (0..round_trips).for_each(|_| bound.relax(1.0, bound.per_s()));
            bound.per_s()
        };
        let (soon, later, late) = (after(&mut bound, 8), after(&mut bound, 16), after(&mut bound, 16));
        assert!((1_030.0..1_050.0).contains(&soon) && later < 1_400.0 && late > 1_800.0, "{soon} {later} {late}");
    }
}
