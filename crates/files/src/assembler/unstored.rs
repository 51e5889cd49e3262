//! Processing of files that are not stored, but passed on or compared with an existing file.

use dfcp_framing::error::{EXISTS, Failure, FailureCode};
use dfcp_framing::files::{Confirmed, ToReceiver};

use super::allowance::Reserved;
use super::{Assembler, Content, Current, Receiving, out_of_place};
use crate::EntryKind;
use crate::error::TransferError;
use crate::store::{Existing, Unpublished};
use crate::target::Writing;

impl Assembler {
    /// Processes the next frame of a file that is passed on to an output stream.
    pub(super) fn writing(
        &mut self,
        frame: &ToReceiver,
        file: Receiving,
        mut writing: Box<Writing>,
        mut reserved: Reserved,
    ) -> Result<Current, TransferError> {
        if let ToReceiver::Data(data) = frame {
            let taken = self.allowance.take(&mut reserved, data.len() as u64);
            return match taken.and_then(|()| writing.write(data)) {
                Ok(()) => Ok(Current::Writing { file, writing, reserved }),
                Err(failure) => {
                    self.allowance.release(reserved);
                    self.file_failed(file.index, &file.name.to_string(), failure)?;
                    Ok(Current::Draining(file.index))
                }
            };
        }
        self.allowance.release(reserved);
        match frame {
            ToReceiver::FileEnd { len, hash } => match writing.finish(*len, hash) {
                Ok(()) => {
                    let content = Some(Content::new(*len, hash));
                    self.answer(file.index, &file.name.to_string(), EntryKind::File, content, Ok(Confirmed::Stored));
                    self.settle(file.index)?;
                }
                Err(failure) => self.file_failed(file.index, &file.name.to_string(), failure)?,
            },
            ToReceiver::FileAbort(sentence) => self.given_up(&file, sentence)?,
            frame => return Err(out_of_place(frame)),
        }
        Ok(Current::Nothing)
    }

    /// Processes the next frame of a file that exists already. Equal content is confirmed as unchanged.
    pub(super) fn comparing(
        &mut self,
        frame: &ToReceiver,
        file: Receiving,
        existing: Box<Existing>,
        received: u64,
    ) -> Result<Current, TransferError> {
        let differs = || Failure::new(FailureCode::Exists, EXISTS);
        match frame {
            ToReceiver::Data(data) => {
                let received = received.saturating_add(data.len() as u64);
                if received <= existing.len() {
                    return Ok(Current::Comparing { file, existing, received });
                }
                self.file_failed(file.index, &file.name.to_string(), differs())?;
                return Ok(Current::Draining(file.index));
            }
            ToReceiver::FileEnd { len, hash } => {
                match existing.is_identical(received, *len, hash, self.readings.over()) {
                    Ok(true) => {
                        let receipt = file.receipt(Content::new(*len, hash), Confirmed::Unchanged);
                        self.await_disk(receipt, Unpublished::Unchanged(existing))?;
                    }
                    Ok(false) => self.file_failed(file.index, &file.name.to_string(), differs())?,
                    // The session has ended, and the file was only to be compared.
                    Err(_) if self.readings.over().is_set() => {}
                    Err(error) => {
                        let failure = Failure::from_io("read the file that exists", &error);
                        self.file_failed(file.index, &file.name.to_string(), failure)?;
                    }
                }
            }
            ToReceiver::FileAbort(sentence) => self.given_up(&file, sentence)?,
            frame => return Err(out_of_place(frame)),
        }
        Ok(Current::Nothing)
    }
}
