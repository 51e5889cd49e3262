//! Test pair of connections over loopback: messages need a session.

use std::net::Ipv4Addr;

use dfcp::{Config, Listener, Stream};

/// Connects two ends, with or without message support.
pub(crate) async fn pair(messages: bool) -> (Stream, Stream) {
    let config = || Config::danger_unsealed().with_messages(messages);
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into(), config()).unwrap();
    let to = listener.local_addr().unwrap();
    let (here, there) = tokio::join!(Stream::connect(to, config()), listener.accept());
    (here.unwrap(), there.unwrap())
}
