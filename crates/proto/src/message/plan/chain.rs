//! Loss model of consecutive datagrams on a path with bursty losses: a two-state Markov chain in continuous time, in
//! one state of which every datagram is lost (Gilbert 1960).

/// Loss statistics of a path: loss rate and burst length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LossModel {
    /// Loss rate, 0 to 1.
    pub(crate) share: f64,
    /// Time in which the correlation between two datagrams' losses falls to 1/e, seconds; 0 if losses are independent.
    pub(crate) memory_s: f64,
}

impl LossModel {
    /// Returns the correlation of the losses of two datagrams `gap_s` apart: 0 is none, 1 is full. It is
    /// e^(−gap/memory), approximated by a rational function that gives the same result on all machines.
    pub(crate) fn correlation(&self, gap_s: f64) -> f64 {
        if self.memory_s <= 0.0 {
            return 0.0;
        }
        let x = gap_s / self.memory_s / 8.0;
        let part = 1.0 / (1.0 + x * (1.0 + x / 2.0 * (1.0 + x / 3.0)));
        let square = part * part;
        (square * square) * (square * square)
    }

    /// Returns the loss probability of a datagram sent `gap_s` after another one: if that one was lost, and if it
    /// arrived.
    fn after(&self, gap_s: f64) -> Next {
        let correlation = self.correlation(gap_s);
        let if_arrived = self.share * (1.0 - correlation);
        Next { if_lost: correlation + if_arrived, if_arrived }
    }

    /// Returns the loss probability of a datagram sent `gap_s` after a lost one.
    pub(crate) fn after_loss(&self, gap_s: f64) -> f64 {
        self.after(gap_s).if_lost
    }
}

/// Loss probability of the next datagram, by the fate of the last one.
#[derive(Clone, Copy)]
struct Next {
    if_lost: f64,
    if_arrived: f64,
}

/// Probabilities of 0, 1, 2, … arrivals among the datagrams sent so far, split by the fate of the last datagram.
#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    /// The last datagram was lost.
    if_lost: Vec<f64>,
    /// The last datagram arrived.
    if_arrived: Vec<f64>,
}

impl Arrivals {
    /// Returns the state after the first datagram, which is lost with probability `lost`.
    fn first(lost: f64) -> Self {
        Self { if_lost: vec![lost, 0.0], if_arrived: vec![0.0, 1.0 - lost] }
    }

    /// Adds one datagram, lost with the probabilities of `next`.
    fn step(&mut self, next: Next) {
        let count = self.if_lost.len();
        self.if_lost.push(0.0);
        self.if_arrived.push(0.0);
        for arrived in (0..=count).rev() {
            let (lost, before) = (self.if_lost[arrived], self.if_arrived[arrived]);
            let fewer = arrived.checked_sub(1);
            let from = fewer.map_or((0.0, 0.0), |fewer| (self.if_lost[fewer], self.if_arrived[fewer]));
            self.if_lost[arrived] = lost * next.if_lost + before * next.if_arrived;
            self.if_arrived[arrived] = from.0 * (1.0 - next.if_lost) + from.1 * (1.0 - next.if_arrived);
        }
    }
}

/// Returns, for each count of datagrams from 0 to `count_max`, the probabilities of 0, 1, 2, … arrivals. The datagrams
/// are sent `gap_s` apart; the first is lost with probability `first_lost`.
pub(super) fn arrivals(model: &LossModel, first_lost: f64, gap_s: f64, count_max: usize) -> Vec<Vec<f64>> {
    let next = model.after(gap_s);
    let mut all = vec![vec![1.0]];
    let mut now = Arrivals::first(first_lost);
    for count in 1..=count_max {
        if count > 1 {
            now.step(next);
        }
        all.push(now.if_lost.iter().zip(&now.if_arrived).map(|(lost, arrived)| lost + arrived).collect());
    }
    all
}

/// Joint probability of lost source symbols and arrived repair symbols. Each [`step`](Self::step) adds one repair
/// symbol.
pub(super) struct Joint<'a> {
    model: &'a LossModel,
    repair_gap_s: f64,
    /// Probabilities by lost source symbols, then by arrived repair symbols. Each pair splits them: last symbol lost,
    /// last symbol arrived.
    cells: Vec<Vec<(f64, f64)>>,
}

impl<'a> Joint<'a> {
    /// Starts with `sources` source symbols sent `source_gap_s` apart. Repair symbols follow `repair_gap_s` apart; the
    /// first one `repair_gap_s` after the last source symbol.
    pub(super) fn new(model: &'a LossModel, sources: usize, source_gap_s: f64, repair_gap_s: f64) -> Self {
        let next = model.after(source_gap_s);
        let mut now = Arrivals::first(model.share);
        (1..sources).for_each(|_| now.step(next));
        let cells = (0..=sources).map(|lost| vec![(now.if_lost[sources - lost], now.if_arrived[sources - lost])]);
        Self { model, repair_gap_s, cells: cells.collect() }
    }

    /// Adds one repair symbol.
    pub(super) fn step(&mut self) {
        let next = self.model.after(self.repair_gap_s);
        for row in &mut self.cells {
            row.push((0.0, 0.0));
            for arrived in (0..row.len()).rev() {
                let (lost, before) = row[arrived];
                let from = arrived.checked_sub(1).map_or((0.0, 0.0), |fewer| row[fewer]);
                row[arrived] = (
                    lost * next.if_lost + before * next.if_arrived,
                    from.0 * (1.0 - next.if_lost) + from.1 * (1.0 - next.if_arrived),
                );
            }
        }
    }

    /// Calls `f` with lost source symbols, arrived repair symbols, and the probability of this pair.
    pub(super) fn for_each(&self, mut f: impl FnMut(usize, usize, f64)) {
        for (lost, row) in self.cells.iter().enumerate() {
            for (arrived, cell) in row.iter().enumerate() {
                f(lost, arrived, cell.0 + cell.1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn independent_losses_are_binomial() {
        let model = LossModel { share: 0.2, memory_s: 0.0 };
        let of_four = &arrivals(&model, model.share, 0.001, 4)[4];
        let expected = [0.0016, 0.0256, 0.1536, 0.4096, 0.4096];
        assert!(of_four.iter().zip(expected).all(|(is, should)| (is - should).abs() < 1e-12), "{of_four:?}");
        let mut joint = Joint::new(&model, 2, 0.004, 0.001);
        joint.step();
        let mut sum = 0.0;
        joint.for_each(|lost, arrived, p| {
            sum += p;
            if (lost, arrived) == (1, 1) {
                assert!((p - 0.32 * 0.8).abs() < 1e-12);
            }
        });
        assert!((sum - 1.0).abs() < 1e-12);
    }

    #[test]
    fn in_bursts_neighbours_share_their_fate_and_those_far_apart_do_not() {
        let model = LossModel { share: 0.05, memory_s: 0.02 };
        assert!((model.correlation(0.02) - (-1.0_f64).exp()).abs() < 2e-3);
        assert!(model.after_loss(0.0) > 0.999 && (model.after_loss(10.0) - 0.05).abs() < 1e-3);
        let both_lost = |gap_s| arrivals(&model, model.share, gap_s, 2)[2][0];
        assert!((both_lost(0.0) - 0.05).abs() < 1e-9 && (both_lost(10.0) - 0.0025).abs() < 1e-4);
        let mean = |gap_s| {
            arrivals(&model, model.share, gap_s, 9)[9].iter().enumerate().map(|(n, p)| n as f64 * p).sum::<f64>()
        };
        assert!([0.0, 0.003, 1.0].into_iter().all(|gap_s| (mean(gap_s) - 9.0 * 0.95).abs() < 1e-9));
    }
}
