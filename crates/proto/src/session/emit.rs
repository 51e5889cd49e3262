//! The one place where a session's segments become datagrams: numbered, written in place, then sealed or given a CRC.

use dfcp_secure::{SealError, epoch_of};
use dfcp_time::Time;
use dfcp_wire::feedback::{Report, ReportWriter};
use dfcp_wire::segment::{Address, Envelope, KeyEpoch, ReportHeader, Segment};
use dfcp_wire::{DatagramBuffer, Draft, EncodeError, Finished, Trailer};

use crate::error::ConnectionError;
use crate::limits;
use crate::session::{Seal, Session};

/// What an owner other than the sender has to say.
#[derive(Debug)]
pub(super) enum Control {
    /// A segment without payload.
    Bare(Segment),
    /// A segment of the handshake, which has a payload unless it is a bare ACK, and whose time of sending is noted.
    Handshake(Segment),
    /// A report without its records.
    Report(ReportHeader, Report),
}

/// Why a segment did not become a datagram. Each is a fault of this program or its cipher's, and ends the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum EmitError {
    /// It has no room for its payload, or a value is outside its field.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// It could not be sealed.
    #[error(transparent)]
    Seal(#[from] SealError),
}

/// A segment whose header is written.
#[derive(Debug)]
pub(super) struct Numbered<'a> {
    pub(super) number: u64,
    pub(super) draft: Draft<'a, Trailer>,
}

impl Session {
    /// Numbers a segment and writes its header.
    #[inline]
    pub(super) fn begin<'a>(&mut self, segment: &Segment, out: &'a mut DatagramBuffer) -> Numbered<'a> {
        let number =
            if self.is_before_keys(segment) { self.handshake.next_number().into() } else { self.numbers.take() };
        let address = match self.handshake.peer_id {
            Some(id) => Address::Connection(id),
            None => Address::Ports(self.ports.outgoing()),
        };
        let seal = matches!(self.seal, Seal::On(_)).then(|| KeyEpoch::of(epoch_of(number)));
        let draft = segment.begin(&Envelope { address, number: number as u32, seal }, out);
        Numbered { number, draft }
    }

    /// Appends what protects the segment; returns the datagram's length.
    #[inline]
    pub(super) fn complete(&mut self, segment: Numbered<'_>) -> Result<usize, EmitError> {
        match segment.draft.finish() {
            Finished::Complete(length) => Ok(length),
            Finished::ToSeal(datagram) => {
                let Seal::On(protection) = &mut self.seal else { return Err(SealError::Exhausted.into()) };
                Ok(protection.seal(segment.number, datagram)?)
            }
        }
    }

    /// Writes a datagram without data; returns its length.
    pub(super) fn write_control(
        &mut self,
        now: Time,
        control: &Control,
        out: &mut DatagramBuffer,
    ) -> Result<usize, EmitError> {
        let segment = match control {
            Control::Bare(segment) | Control::Handshake(segment) => *segment,
            Control::Report(header, _) => Segment::Report(*header),
        };
        let mut numbered = self.begin(&segment, out);
        match control {
            Control::Bare(_) => {}
            Control::Handshake(_) => {
                self.handshake.on_sent(now, numbered.number as u32);
                let length = self.write_handshake(&segment, numbered.draft.payload_up_to(usize::MAX))?;
                numbered.draft.truncate(length);
            }
            Control::Report(_, report) => {
                let room = usize::from(self.symbol_size).max(limits::REPORT_ROOM_BYTES_MIN);
                let mut writer = ReportWriter::new(numbered.draft.payload_up_to(room), report)?;
                self.recv.write_records(&mut writer, self.ids.unseen());
                let length = writer.finish();
                numbered.draft.truncate(length);
                if self.recv.owes_naming() {
                    self.reporter.owe_another();
                }
                // The last news of a stream that is done with may just have been told.
                self.settle_gone(now);
            }
        }
        self.complete(numbered)
    }

    /// The handshake of a sealed connection has numbers of its own: those of its datagrams begin with the keys
    /// (\[replay-2\]).
    const fn is_before_keys(&self, segment: &Segment) -> bool {
        !segment.can_be_sealed() && !matches!(self.seal, Seal::Off)
    }

    /// Ends the connection, which cannot say what it has to.
    pub(super) fn on_emit_error(&mut self, error: EmitError) {
        debug_assert!(error == EmitError::Seal(SealError::Cipher), "{error}");
        match error {
            EmitError::Encode(error) => {
                self.reset_peer();
                self.close(Some(ConnectionError::CannotEncode(error)));
            }
            EmitError::Seal(_) => self.close(Some(ConnectionError::CipherFailed)),
        }
    }
}
