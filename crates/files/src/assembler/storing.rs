//! Processing of the frames of a file that is being stored.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use dfcp_framing::error::{Failure, FailureCode};
use dfcp_framing::files::{Confirmed, Entry, ToReceiver};
use dfcp_framing::names::RelativeName;

use super::allowance::Reserved;
use super::current::{Current, Storing};
use super::prefix::{Prefix, Ready};
use super::{Assembler, Content, out_of_place, shown};
use crate::error::TransferError;
use crate::limits::CHECKPOINT_INTERVAL;
use crate::store::{Beginning, Checkpoint, Completed, Resumed, Unpublished};

/// Journals the progress of files in a separate thread, since journalling waits for the disk.
#[derive(Debug)]
pub(super) struct Checkpoints {
    last: Instant,
    writing: Option<JoinHandle<()>>,
}

impl Assembler {
    /// Reserves the announced bytes of a file that starts, and starts the verification of its beginning if it is
    /// resumed.
    pub(super) fn begin_storing(
        &mut self,
        stream: usize,
        (name, entry): (&RelativeName, &Entry),
        resumed: Option<Resumed>,
    ) -> Result<(Reserved, Option<Box<Prefix>>), Failure> {
        let known_bytes = resumed.as_ref().map_or(0, |resumed| resumed.offset);
        self.allowance.begin(&entry.name, known_bytes);
        let reserved = self.allowance.reserve(entry.size_hint_bytes.saturating_sub(known_bytes))?;
        let Some(resumed) = resumed else { return Ok((reserved, None)) };
        let prefix =
            self.may_verify(name, &resumed).and_then(|()| Prefix::begin(resumed, stream, Arc::clone(&self.poke)));
        match prefix {
            Ok(prefix) => Ok((reserved, Some(Box::new(prefix)))),
            Err(failure) => {
                self.allowance.release(reserved);
                Err(failure)
            }
        }
    }

    /// Limits how often a file's beginning is verified. Several sessions or streams of one sender can take a file from
    /// each other, and each takeover reads it again.
    fn may_verify(&mut self, name: &RelativeName, resumed: &Resumed) -> Result<(), Failure> {
        let key = resumed.key(name).map_err(|error| Failure::from_io("look up the unfinished file", &error))?;
        if self.readings.may_read(&key) {
            return Ok(());
        }
        let sentence = "it was begun too often in this session: send it again in another one";
        Err(Failure::new(FailureCode::FileSystem, sentence))
    }

    /// Processes the next frame of a file that is being stored.
    pub(super) fn storing(&mut self, frame: &ToReceiver, mut storing: Box<Storing>) -> Result<Current, TransferError> {
        let taken = match frame {
            ToReceiver::Data(data) => self.data(data, &mut storing)?,
            ToReceiver::Copy { start, len } if storing.basis.is_some() => self.copy(*start, *len, &mut storing)?,
            ToReceiver::Tree(values) if storing.prefix.is_some() => {
                if let Some(prefix) = &mut storing.prefix {
                    prefix.take(values)?;
                }
                self.compare(&mut storing)
            }
            ToReceiver::Again { start } if storing.prefix.is_some() => {
                if let Some(prefix) = &mut storing.prefix {
                    prefix.again(*start)?;
                }
                Ok(())
            }
            ToReceiver::FileEnd { .. } | ToReceiver::FileAbort(_) => return self.end(frame, *storing),
            frame => return Err(out_of_place(frame)),
        };
        match taken {
            Ok(()) => Ok(Current::Storing(storing)),
            Err(failure) => {
                let index = storing.file.index;
                self.give_up(*storing, failure)?;
                Ok(Current::Draining(index))
            }
        }
    }

    /// Restarts a file that has changed at the sender. The part received so far is dropped, so that two versions never
    /// mix.
    pub(super) fn anew(&mut self, stream: usize, entry: &Entry, current: Current) -> Result<Current, TransferError> {
        let basis = match current {
            Current::Storing(storing) => {
                let Storing { reserved, slot, basis, .. } = *storing;
                self.allowance.release(reserved);
                if slot.lock().take().is_none() {
                    self.file_failed(entry.index, &shown(entry), taken())?;
                    return Ok(Current::Draining(entry.index));
                }
                basis
            }
            Current::Writing { reserved, .. } => {
                self.allowance.release(reserved);
                self.file_failed(entry.index, &shown(entry), passed_on())?;
                return Ok(Current::Draining(entry.index));
            }
            Current::Draining(index) => return Ok(Current::Draining(index)),
            Current::Comparing { .. } | Current::Nothing | Current::Ended => None,
        };
        self.begin_or_refuse(stream, entry, Beginning::New, basis)
    }

    /// Processes the result of a worker thread.
    ///
    /// # Errors
    /// Fails as [`Assembler::handle`] does.
    pub(crate) fn ready(&mut self, ready: Ready) -> Result<(), TransferError> {
        match ready {
            Ready::Beginning(stream) => self.compared(stream),
            Ready::Basis(index) => {
                self.based(index);
                self.take_up_waiting()
            }
        }
    }

    fn compared(&mut self, stream: usize) -> Result<(), TransferError> {
        let Some(current) = self.streams.get_mut(stream) else { return Ok(()) };
        let mut storing = match std::mem::take(current) {
            Current::Storing(storing) => storing,
            // The file to which the result belongs has ended.
            other => {
                *current = other;
                return Ok(());
            }
        };
        self.streams[stream] = match self.compare(&mut storing) {
            Ok(()) => Current::Storing(storing),
            Err(failure) => {
                let index = storing.file.index;
                self.give_up(*storing, failure)?;
                Current::Draining(index)
            }
        };
        Ok(())
    }

    fn compare(&mut self, storing: &mut Storing) -> Result<(), Failure> {
        let Some(prefix) = &mut storing.prefix else { return Ok(()) };
        prefix.advance(storing.slot.lock().as_mut().ok_or_else(taken)?)?;
        self.answers.extend(prefix.answers(storing.file.index));
        Ok(())
    }

    fn data(&mut self, data: &[u8], storing: &mut Storing) -> Result<Result<(), Failure>, TransferError> {
        if let Err(failure) = self.allowance.take(&mut storing.reserved, data.len() as u64) {
            return Ok(Err(failure));
        }
        let mut slot = storing.slot.lock();
        let Some(staged) = &mut *slot else { return Ok(Err(taken())) };
        if let Some(prefix) = &mut storing.prefix {
            match prefix.write(data, staged)? {
                Ok(false) => {}
                written => return Ok(written.map(drop)),
            }
        }
        Ok(staged.write(data))
    }

    /// Copies bytes of the older version to the file.
    fn copy(&mut self, start: u64, len: u32, storing: &mut Storing) -> Result<Result<(), Failure>, TransferError> {
        if let Err(failure) = self.allowance.take(&mut storing.reserved, len.into()) {
            return Ok(Err(failure));
        }
        let Some(basis) = &mut storing.basis else { return Ok(Ok(())) };
        storing.copied_bytes += u64::from(len);
        let mut slot = storing.slot.lock();
        let Some(staged) = &mut *slot else { return Ok(Err(taken())) };
        Ok(basis.copy(start, len, |data| staged.write(data))?)
    }

    fn end(&mut self, frame: &ToReceiver, storing: Storing) -> Result<Current, TransferError> {
        let Storing { file, entry, slot, reserved, prefix, copied_bytes, .. } = storing;
        self.allowance.release(reserved);
        match frame {
            ToReceiver::FileEnd { len, hash } => {
                let is_settled = prefix.as_ref().is_none_or(|prefix| prefix.is_settled());
                if !is_settled {
                    return Err(out_of_place(frame));
                }
                let resumed_bytes = prefix.map_or(0, |prefix| prefix.len());
                let staged = slot.lock().take();
                let over = self.readings.over();
                let finished = staged
                    .ok_or_else(taken)
                    .and_then(|staged| self.target.finish(staged, (&file.name, &entry), (*len, hash), over));
                match finished {
                    Ok(completed) => {
                        let content = Content { resumed_bytes, copied_bytes, ..Content::new(*len, hash) };
                        let (confirmed, unpublished) = match completed {
                            Completed::New(finished) => (Confirmed::Stored, Unpublished::File(finished)),
                            Completed::Adopted(both) => (Confirmed::Stored, Unpublished::Adopted(both)),
                            Completed::Unchanged(existing) => (Confirmed::Unchanged, Unpublished::Unchanged(existing)),
                        };
                        self.await_disk(file.receipt(content, confirmed), unpublished)?;
                    }
                    Err(failure) => self.file_failed(file.index, &file.name.to_string(), failure)?,
                }
            }
            ToReceiver::FileAbort(sentence) => self.given_up(&file, sentence)?,
            frame => return Err(out_of_place(frame)),
        }
        Ok(Current::Nothing)
    }

    fn give_up(&mut self, storing: Storing, failure: Failure) -> Result<(), TransferError> {
        let Storing { file, reserved, slot, .. } = storing;
        self.allowance.release(reserved);
        if let Some(staged) = slot.lock().take()
            && staged.has_failed()
        {
            // The content stored so far is as valid as that of an interrupted session, so the sender can resume the
            // file once writing works again.
            self.checkpoints.wait();
            staged.leave();
        }
        self.file_failed(file.index, &file.name.to_string(), failure)
    }

    /// Journals the progress of all files in progress, if due.
    pub(crate) fn checkpoint(&mut self, now: Instant) {
        if !self.checkpoints.is_due(now) {
            return;
        }
        let mut due = Vec::new();
        for current in &self.streams {
            let Current::Storing(storing) = current else { continue };
            let Some(staged) = &mut *storing.slot.lock() else { continue };
            match staged.checkpoint() {
                Ok(checkpoint) => due.extend(checkpoint),
                Err(error) => tracing::warn!(%error, "it is not written down how far a file has come"),
            }
        }
        if due.is_empty() {
            return;
        }
        // After a crash, a file can be found only if the names of its directories were flushed.
        if let Err(error) = self.target.flush_names(&mut self.changed) {
            tracing::warn!(%error, "it is not written down how far files have come");
            return;
        }
        self.checkpoints.write(due);
    }

    /// Leaves all files in progress for resumption by the sender's next session.
    pub(super) fn leave_unfinished(&mut self) {
        self.checkpoints.wait();
        // Drop waiting entries first: removing their temporary files requires that the directories are still writable.
        self.batch.clear();
        for current in &mut self.streams {
            if let Current::Storing(storing) = std::mem::take(current)
                && let Some(staged) = storing.slot.lock().take()
            {
                staged.leave();
            }
        }
    }
}

impl Checkpoints {
    pub(super) fn new() -> Self {
        Self { last: Instant::now(), writing: None }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = now.saturating_duration_since(self.last) >= CHECKPOINT_INTERVAL
            && self.writing.as_ref().is_none_or(JoinHandle::is_finished);
        if is_due {
            self.wait();
            self.last = now;
        }
        is_due
    }

    fn write(&mut self, due: Vec<Checkpoint>) {
        let write = move || {
            for checkpoint in due {
                if let Err(error) = checkpoint.write() {
                    tracing::warn!(%error, "it is not written down how far a file has come");
                }
            }
        };
        match std::thread::Builder::new().name("checkpoint".to_owned()).spawn(write) {
            Ok(thread) => self.writing = Some(thread),
            Err(error) => tracing::warn!(%error, "it is not written down how far files have come"),
        }
    }

    fn wait(&mut self) {
        if let Some(thread) = self.writing.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that writes journals has failed; please report this as a bug");
        }
    }
}

/// Failure of a file whose beginning has already been passed on.
fn passed_on() -> Failure {
    let sentence =
        "it changed while it was sent, and what the receiver has passed on cannot be taken back: send it again";
    Failure::new(FailureCode::Mismatch, sentence)
}

/// Failure of a file that another session has taken over.
fn taken() -> Failure {
    Failure::new(FailureCode::Stopped, "another session of the same sender goes on with it")
}
