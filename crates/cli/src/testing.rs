//! Helpers common to this crate's tests.

use std::io::{self, Write};
use std::net::Ipv4Addr;

use dfcp::{Config, Listener, Stream};

/// Writer that fails like a full disk after this number of bytes.
#[derive(Debug)]
pub(crate) struct Full(pub(crate) usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        if taken == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Connects two plaintext ends over loopback, with message support if `messages` is true. The classic profile has no
/// messages.
pub(crate) async fn pair(messages: bool) -> (Stream, Stream) {
    let config = || Config::danger_unsealed().with_messages(messages);
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into(), config()).unwrap();
    let to = listener.local_addr().unwrap();
    let (here, there) = tokio::join!(Stream::connect(to, config()), listener.accept());
    (here.unwrap(), there.unwrap())
}
