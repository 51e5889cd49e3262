//! Explicit Congestion Notification (RFC 3168): marks are counted and reported. The sender does not react to them yet.

use std::net::SocketAddr;

use dfcp_wire::feedback::{self, Record, Records};

use crate::stats::EcnStats;

/// ECN field of a datagram's IP packet (RFC 3168 §5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ecn {
    /// The sender does not support ECN, or a node on the path has cleared the field.
    #[default]
    NotCapable,
    /// ECT(0) or ECT(1): queues may mark the packet instead of dropping it. DFCP sends ECT(0).
    Capable,
    /// CE: a queue on the path has marked the packet.
    CongestionExperienced,
}

/// Source address and ECN field of a received datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin {
    /// Address that the datagram came from.
    pub remote: SocketAddr,
    /// ECN field of the datagram's IP packet.
    pub ecn: Ecn,
}

impl From<SocketAddr> for Origin {
    fn from(remote: SocketAddr) -> Self {
        Self { remote, ecn: Ecn::NotCapable }
    }
}

/// ECN counters of both directions. `None` for most sessions, which never see a mark.
#[derive(Debug, Default)]
pub(crate) struct Marks(Option<Box<Counted>>);

#[derive(Debug, Default)]
struct Counted {
    /// Marks on the peer's datagrams.
    received: EcnStats,
    /// Marks on our datagrams, as the peer reports them.
    reported: EcnStats,
}

impl Marks {
    /// Counts a new datagram's mark.
    pub(crate) fn count(&mut self, ecn: Ecn) {
        if ecn == Ecn::NotCapable {
            return;
        }
        let received = &mut self.0.get_or_insert_default().received;
        let count = if ecn == Ecn::Capable { &mut received.ect } else { &mut received.ce };
        *count += 1;
    }

    /// Returns the counts for a report; `None` until a marked datagram arrives (\[report-17\]).
    pub(crate) fn record(&self) -> Option<feedback::EcnCounts> {
        let EcnStats { ce, ect } = self.received();
        (ce > 0 || ect > 0).then_some(feedback::EcnCounts { ce: ce as u32, ect: ect as u32 })
    }

    /// Takes in the counts of a report, which covers `received` datagrams. False counts are ignored: decreasing ones,
    /// and those above `received` (\[report-17\]).
    pub(crate) fn on_report(&mut self, records: &Records<'_>, received: u64) {
        let told = records.clone().find_map(|record| match record {
            Record::Ecn(counts) => Some(counts),
            _ => None,
        });
        let Some(told) = told else { return };
        let onto = |before: u64, told: u32| before + u64::from(told.wrapping_sub(before as u32));
        let before = self.reported();
        let after = EcnStats { ce: onto(before.ce, told.ce), ect: onto(before.ect, told.ect) };
        if after != before && after.ce + after.ect <= received {
            self.0.get_or_insert_default().reported = after;
        }
    }

    /// Returns the marks on the peer's datagrams.
    pub(crate) fn received(&self) -> EcnStats {
        self.0.as_ref().map(|counted| counted.received).unwrap_or_default()
    }

    /// Returns the marks on our datagrams, as the peer reports them.
    pub(crate) fn reported(&self) -> EcnStats {
        self.0.as_ref().map(|counted| counted.reported).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use dfcp_wire::feedback::{Report, ReportWriter};

    use super::*;

    /// Returns the counts after a report with these wire values.
    fn after(before: EcnStats, (ce, ect): (u32, u32), received: u64) -> (u64, u64) {
        let mut out = [0; 256];
        let mut writer = ReportWriter::new(&mut out, &Report::default()).unwrap();
        assert!(writer.ecn(feedback::EcnCounts { ce, ect }));
        let length = writer.finish();
        let (_, records) = feedback::decode(&out[..length]).unwrap();
        let mut marks = Marks(Some(Box::new(Counted { reported: before, ..Counted::default() })));
        marks.on_report(&records, received);
        (marks.reported().ce, marks.reported().ect)
    }

    #[test]
    fn a_lying_peer_s_counts_change_nothing() {
        let before = EcnStats { ce: 3, ect: 90 };
        assert_eq!(after(before, (4, 95), 100), (4, 95), "an honest one's");
        for (told, what) in [
            ((2, 95), "marks that are taken back"),
            ((4, 89), "a count which falls"),
            ((11, 90), "more than have come"),
            ((u32::MAX, u32::MAX), "all there are"),
            ((0, 0), "a new beginning"),
        ] {
            assert_eq!(after(before, told, 100), (3, 90), "{what}");
        }
    }

    #[test]
    fn counts_go_on_where_their_fields_begin_anew() {
        let before = EcnStats { ce: u64::from(u32::MAX), ect: 7 << 32 };
        assert_eq!(after(before, (4, 5), 1 << 40), ((1 << 32) + 4, (7 << 32) + 5));
    }
}
