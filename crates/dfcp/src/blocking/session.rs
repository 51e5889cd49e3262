//! Sessions without `async`.

use std::io;
use std::net::ToSocketAddrs;

use dfcp_proto::{Config, ConnectionError, Deadline, MessageError, ReceivedMessage};

use super::{PathWatch, ReadHalf, Stream, WriteHalf, wait};
use crate::carrier::Carrier;
use crate::connect;
use crate::connection::Shared;
use crate::endpoint::Endpoint;
use crate::error::ConnectError;

/// A connection with any number of streams; the blocking twin of [`crate::Session`], which documents the end of a
/// session.
///
/// ```
/// use std::io::{Read, Write};
///
/// use dfcp::blocking::{Listener, Session};
/// use dfcp::{Config, StreamLimits};
///
/// # fn main() -> std::io::Result<()> {
/// let key = dfcp::generate_key()?;
/// let client = Config::client(key.public());
/// let server = Config::server(key).with_streams(StreamLimits { bidirectional: 0, one_way: 10 });
/// let listener = Listener::bind(([127, 0, 0, 1], 0).into(), server)?;
/// let address = listener.local_addr()?;
/// let serving = std::thread::spawn(move || {
///     let session = listener.accept_session()?;
///     let mut lengths = Vec::new();
///     while let Some(mut reader) = session.accept_one_way() {
///         lengths.push(reader.read_to_end(&mut Vec::new())?);
///     }
///     session.close()?;
///     std::io::Result::Ok(lengths)
/// });
///
/// let session = Session::connect(address, client)?;
/// for length in [1, 1_000, 100_000] {
///     let mut writer = session.open_one_way()?;
///     writer.write_all(&vec![7; length])?;
///     writer.finish()?; // returns immediately; `close` waits for all streams
/// }
/// session.close()?;
/// assert_eq!(serving.join().expect("no panic")?, [1, 1_000, 100_000]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Session {
    pub(super) session: crate::Session,
}

impl Session {
    /// Connects to `remote` from a new socket. `remote` is an address, a name with a port, or a list of addresses,
    /// which are tried in turn like in [`crate::Stream::connect`].
    ///
    /// # Errors
    /// Same as [`crate::Session::connect`], or the system cannot start a thread.
    pub fn connect(remote: impl ToSocketAddrs, config: Config) -> Result<Self, ConnectError> {
        Self::connect_over(Carrier::Udp, remote, config)
    }

    /// Like [`connect`](Self::connect), over the given carrier.
    ///
    /// # Errors
    /// Same as [`crate::Session::connect_over`], or the system cannot start a thread.
    pub fn connect_over(carrier: Carrier, remote: impl ToSocketAddrs, config: Config) -> Result<Self, ConnectError> {
        let addresses = remote.to_socket_addrs()?.collect();
        let session = wait(connect::in_turn(addresses, config, |remote, config| async move {
            let endpoint = Endpoint::bind_with_thread(carrier, connect::any_port_towards(remote), None)?;
            endpoint.connect_session(remote, config).await
        }))?;
        Ok(Self { session })
    }

    /// Queues a message; see [`crate::Session::send_message`].
    ///
    /// # Errors
    /// Same as [`crate::Session::send_message`].
    pub fn send_message(&self, message: &[u8], deadline: Deadline) -> Result<(), MessageError> {
        self.session.send_message(message, deadline)
    }

    /// Waits for the next message that arrives in time; `None` as in [`crate::Session::receive_message`].
    #[must_use]
    pub fn receive_message(&self) -> Option<ReceivedMessage> {
        wait(self.session.receive_message())
    }

    /// Opens a bidirectional stream. Waits while the peer's stream limit is reached.
    ///
    /// # Errors
    /// Same as [`crate::Session::open_stream`].
    pub fn open_stream(&self) -> io::Result<Stream> {
        Ok(Stream { stream: wait(self.session.open_stream())? })
    }

    /// Opens a stream on which only this side sends. Waits while the peer's stream limit is reached.
    ///
    /// # Errors
    /// Same as [`crate::Session::open_stream`].
    pub fn open_one_way(&self) -> io::Result<WriteHalf> {
        Ok(WriteHalf { half: wait(self.session.open_one_way())? })
    }

    /// Waits for the next bidirectional stream that the peer opens; `None` as in [`crate::Session::accept_stream`].
    #[must_use]
    pub fn accept_stream(&self) -> Option<Stream> {
        Some(Stream { stream: wait(self.session.accept_stream())? })
    }

    /// Waits for the next stream on which only the peer sends; `None` as in [`crate::Session::accept_stream`].
    #[must_use]
    pub fn accept_one_way(&self) -> Option<ReadHalf> {
        Some(ReadHalf { half: wait(self.session.accept_one_way())? })
    }

    /// Closes the session in order, and waits until the close is complete; see [`crate::Session::close`].
    ///
    /// # Errors
    /// The error that ended the connection before the close was complete.
    pub fn close(&self) -> io::Result<()> {
        wait(self.session.close())
    }

    /// Aborts like [`abort`](Self::abort), with a code for the peer's application; see [`crate::Session::abort_with`].
    pub fn abort_with(&self, code: u32) {
        self.session.abort_with(code);
    }

    /// Waits until the connection is over; see [`crate::Stream::closed`].
    #[must_use]
    pub fn closed(&self) -> Option<ConnectionError> {
        wait(self.session.closed())
    }

    /// Returns a watch on the path's estimates, like [`Stream::watch_path`].
    #[must_use]
    pub fn watch_path(&self) -> PathWatch {
        PathWatch { watch: self.session.watch_path() }
    }

    pub(crate) fn shared(&self) -> &Shared {
        self.session.shared()
    }
}
