//! A session which is over. What was received before can still be read, and its figures stay.

use dfcp_time::Time;
use dfcp_wire::DatagramBuffer;
use dfcp_wire::segment::{Reset, ResetReason, Segment};

use crate::error::ConnectionError;
use crate::session::End;
use crate::session::common::Common;
use crate::session::link::EmitError;
use crate::session::open::Open;
use crate::shared::{Timer, Transmit};

/// The rest of a session that has ended.
#[derive(Debug, Default)]
pub(super) struct Closed {
    error: Option<ConnectionError>,
    /// An RST is to be sent once, for this reason (\[rst-4\]).
    reset: Option<ResetReason>,
    /// The open phase, kept for its figures.
    open: Option<Box<Open>>,
}

impl Closed {
    pub(super) fn new(End { error, reset }: End, open: Option<Box<Open>>) -> Self {
        Self { error, reset, open }
    }

    /// Why it is, unless both sides closed it.
    pub(super) fn error(&self) -> Option<&ConnectionError> {
        self.error.as_ref()
    }

    pub(super) fn was_open(&self) -> Option<&Open> {
        self.open.as_deref()
    }

    pub(super) fn next_timeout(&self, now: Time) -> Option<(Time, Timer)> {
        self.reset.is_some().then_some((now, Timer::Reset))
    }

    pub(super) fn next_datagram(
        &mut self,
        now: Time,
        common: &mut Common,
        out: &mut DatagramBuffer,
    ) -> Result<Option<Transmit>, EmitError> {
        let Some(reason) = self.reset.take() else { return Ok(None) };
        let length = common.link.write(&Segment::Reset(Reset { reason }), out)?;
        let remote = common.paths.active().remote();
        Ok(Some(common.on_sent(now, length, None, remote)))
    }
}
