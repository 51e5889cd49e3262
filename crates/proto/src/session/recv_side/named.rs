//! The place of one stream in reports.

/// Reports which name a stream after each change or question: three copies survive a path that loses many.
pub(super) const COPIES: u8 = 3;

/// One stream's place in reports.
#[derive(Debug, Default)]
pub(super) struct Named {
    /// Reports which are still to name it for its news.
    pub(super) news: u8,
    /// Membership in each of the three queues.
    pub(super) waits_fresh: bool,
    pub(super) waits_again: bool,
    pub(super) waits_open: bool,
    /// The report which has named it last.
    pub(super) report: u32,
}

/// Reason for which a report names a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reason {
    Fresh,
    Again,
    Open,
}
