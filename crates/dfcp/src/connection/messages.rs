//! The application's calls for the messages of a connection.

use dfcp_proto::{Deadline, MessageError, ReceivedMessage};

use crate::connection::shared::{Inner, Shared};

/// Result of looking for a received message.
#[derive(Debug)]
enum NextMessage {
    Here(ReceivedMessage),
    NotYet,
    Never,
}

impl Inner {
    /// Returns the next message. Messages that arrived before the session's end are returned before the end itself. A
    /// peer that has ended has sent all of its messages ([message-13]), and a peer that has not agreed on messages
    /// never sends any.
    fn next_message(&mut self) -> NextMessage {
        let is_over = self.peer_has_ended() || self.closed.is_some() || self.forgotten;
        let Some(mut messages) = self.connection.messages() else { return NextMessage::Never };
        match messages.receive() {
            Some(message) => NextMessage::Here(message),
            None if is_over || !messages.are_taken() => NextMessage::Never,
            None => NextMessage::NotYet,
        }
    }
}

impl Shared {
    /// Queues a message for sending.
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

    /// Waits for a message; `None` if no more can come. A future dropped early has taken nothing.
    pub(crate) async fn receive_message(&self) -> Option<ReceivedMessage> {
        loop {
            let came = self.notifies.opened.notified();
            let next = self.lock().next_message();
            match next {
                NextMessage::Here(message) => return Some(message),
                NextMessage::Never => return None,
                NextMessage::NotYet => came.await,
            }
        }
    }
}
