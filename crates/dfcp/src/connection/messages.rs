//! What an application does with the messages of a connection.

use dfcp_proto::{Deadline, MessageError, ReceivedMessage};

use crate::connection::shared::Shared;

impl Shared {
    /// Hands a message over.
    pub(crate) fn send_message(&self, message: &[u8], deadline: Deadline) -> Result<(), MessageError> {
        let mut inner = self.lock();
        let now = inner.tick(self.clock.now());
        if inner.forgotten {
            return Err(MessageError::Ended);
        }
        let mut messages = inner.connection.messages().ok_or(MessageError::NotTaken)?;
        messages.send(now, message, deadline)?;
        self.wake_driver_if_due(&mut inner, now);
        Ok(())
    }

    /// Waits for a message; `None` if none will come. Nothing is taken when the future is dropped before.
    pub(crate) async fn receive_message(&self) -> Option<ReceivedMessage> {
        loop {
            let came = self.opened.notified();
            {
                let mut inner = self.lock();
                if let Some(message) = inner.connection.messages().and_then(|mut messages| messages.receive()) {
                    return Some(message);
                }
                if inner.closed.is_some() || inner.forgotten {
                    return None;
                }
            }
            came.await;
        }
    }
}
