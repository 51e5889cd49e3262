//! Statistics for users: the causes of losses.

use super::marks::Point;
use super::model::PathModel;
use super::params::P;

/// Datagrams whose fate is judged together: among fewer, chance makes too much of a difference.
const BATCH: f64 = 250.0;

/// Account of losses: those beyond the path's own, and beyond chance.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// The newest mark up to which all is judged.
    judged_to: Option<Point>,
    judged: Judged,
}

/// Datagrams, how many of them were lost, and how many of these in a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Judged {
    pub(super) sent: f64,
    pub(super) lost: f64,
    pub(super) lost_in_queue: f64,
}

impl Account {
    pub(super) fn judged(&self) -> Judged {
        self.judged
    }

    /// Judges what reports have told of, once that is enough. `own_loss` is the path's own, as far as is known.
    pub(super) fn note(&mut self, model: &PathModel, own_loss: f64, capacity_per_s: f64) {
        let Some(last) = model.marks.last() else { return };
        let first = *self.judged_to.get_or_insert(last);
        let sent = last.sent - first.sent;
        if sent < BATCH {
            return;
        }
        self.judged_to = Some(last);
        let lost = (sent - (last.received - first.received)).max(0.0);
        // The belief errs on the careful side; losses in a short queue are closer to the truth.
        let (own_loss, known) = model.short_loss(capacity_per_s).unwrap_or((own_loss, f64::INFINITY));
        let evidence = 1.0 / (1.0 / sent + 1.0 / known);
        let is_own = lost <= sent * (own_loss + model.doubt(own_loss, evidence, P.burst_max));
        // Of what the queue let through, the path lost its share.
        let in_queue = if is_own { 0.0 } else { ((lost - sent * own_loss) / (1.0 - own_loss)).min(lost) };
        self.judged.sent += sent;
        self.judged.lost += lost;
        self.judged.lost_in_queue += in_queue;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::controller::Mark;
    use dfcp_time::Time;

    /// Marks of `count` datagrams at 1000 per second, of which every `every`th is lost.
    fn pass(model: &mut PathModel, from: u64, count: u64, every: u64) {
        let marks: Vec<Mark> = (from..from + count)
            .filter(|sent| sent % every != 0)
            .map(|sent| Mark {
                sent: sent + 1,
                received: sent - sent / every,
                sent_at: Time::from_ns(sent * 1_000_000),
                arrived_us: (sent * 1_000) as u32,
            })
            .collect();
        marks.chunks(8).for_each(|marks| model.on_marks(marks));
    }

    #[test]
    fn only_losses_beyond_the_paths_own_are_those_of_a_queue() {
        let (mut model, mut account) = (PathModel::default(), Account::default());
        pass(&mut model, 0, 10, 1_000);
        account.note(&model, 0.1, 1_000.0);
        pass(&mut model, 10, 3_000, 10);
        account.note(&model, 0.1, 1_000.0);
        let own = account.judged();
        assert_eq!((own.lost_in_queue, own.lost / own.sent > 0.09), (0.0, true), "{own:?}");
    }

    #[test]
    fn losses_of_a_path_that_loses_nothing_itself_are_those_of_a_queue() {
        let (mut model, mut account) = (PathModel::default(), Account::default());
        pass(&mut model, 0, 10, 1_000);
        account.note(&model, 0.0, 1_000.0);
        pass(&mut model, 10, 3_000, 4);
        account.note(&model, 0.0, 1_000.0);
        let judged = account.judged();
        assert!(judged.lost_in_queue > 0.95 * judged.lost && judged.lost > 700.0, "{judged:?}");
    }
}
