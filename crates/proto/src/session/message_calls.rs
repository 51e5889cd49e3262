//! The application's calls on the messages of a session (`spec/protocol.md` §3.2).

use dfcp_time::Time;

use crate::message::{Deadline, MessageError, ReceivedMessage};
use crate::session::common::Common;
use crate::session::open::messages::path_view;
use crate::session::{Phase, Session};

/// The messages of a session ([`Connection::messages`](crate::Connection::messages)): unordered units of bytes. Each
/// message is delivered once and in time, or not at all (`spec/protocol.md` \[message-1\]).
#[derive(Debug)]
pub struct Messages<'a>(pub(crate) &'a mut Session);

impl Messages<'_> {
    /// Queues a message of 0 to 262 144 bytes. The fewest datagrams are sent that deliver it in time with the
    /// deadline's target probability. A message past its deadline is neither sent any further nor waited for.
    ///
    /// # Errors
    /// [`MessageError::TooLong`]; [`MessageError::Full`] if the queue has no room; [`MessageError::NotOpen`] before the
    /// handshake is complete; [`MessageError::Ended`] after the session's end; [`MessageError::NotTaken`] unless both
    /// ends permit messages.
    pub fn send(&mut self, now: Time, message: &[u8], deadline: Deadline) -> Result<(), MessageError> {
        let Session { common, phase } = &mut *self.0;
        match phase {
            Phase::Open(_) => {}
            Phase::Opening(_) => return Err(MessageError::NotOpen),
            Phase::Closed(_) => return Err(MessageError::Ended),
        }
        let path = path_view(common);
        let Some(messages) = &mut common.messages else { return Err(MessageError::NotTaken) };
        let streams = &mut common.streams.send;
        messages.send.send(now, message, deadline, &path, || streams.draw_secret())?;
        self.0.has_to_send();
        Ok(())
    }

    /// Returns the next message that arrived in time, in order of arrival. [`Event::Message`](crate::Event::Message)
    /// signals that there may be one.
    pub fn receive(&mut self) -> Option<ReceivedMessage> {
        let Common { messages: Some(messages), streams, .. } = &mut self.0.common else { return None };
        messages.recv.read(streams.recv.memory())
    }

    /// Returns true once the session is open, if both ends permit messages.
    #[must_use]
    pub fn are_taken(&self) -> bool {
        self.0.common.messages.is_some()
    }
}
