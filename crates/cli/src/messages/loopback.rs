//! Both ends of a connection over loopback, for tests: messages need a session.

use std::net::Ipv4Addr;

use dfcp::{Config, Listener, Stream};

/// Two ends with messages, or without.
pub(crate) async fn pair(messages: bool) -> (Stream, Stream) {
    let config = || Config::danger_unsealed().with_messages(messages);
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into(), config()).unwrap();
    let to = listener.local_addr().unwrap();
    let (here, there) = tokio::join!(Stream::connect(to, config()), listener.accept());
    (here.unwrap(), there.unwrap())
}
