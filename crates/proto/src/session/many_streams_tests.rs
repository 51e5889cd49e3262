//! Cost of many simultaneous streams: the work of a session must grow with the data carried, independently of the
//! number of open streams.

use std::time::Duration;

use dfcp_wire::{StreamId, StreamKind, StreamLimits};

use super::*;
use crate::config::{Config, Rate};
use crate::connection::Connection;
use crate::endpoint::{Endpoint, Handle, Routed};
use crate::error::StreamError;
use crate::shared::events::StreamEvent;
use crate::shared::{DATAGRAM_BUFFER_BYTES, Read};

const STEP: Duration = Duration::from_millis(1);
const MESSAGE: [u8; 4] = *b"four";

/// One end of the connection, and the datagrams in flight towards it.
struct Side {
    endpoint: Endpoint,
    address: SocketAddr,
    connection: Option<(Handle, Connection)>,
    arriving: Vec<Vec<u8>>,
    /// Number of streams whose peer's half was read to its end.
    read: usize,
    /// Number of streams whose own half the peer has confirmed.
    finished: usize,
}

impl Side {
    fn new(address: SocketAddr, accept: Option<Config>) -> Self {
        let endpoint = Endpoint::new(address.port(), accept.map(Into::into), [address.port() as u8; 32]);
        Self { endpoint, address, connection: None, arriving: Vec::new(), read: 0, finished: 0 }
    }

    fn connection(&mut self) -> &mut Connection {
        &mut self.connection.as_mut().unwrap().1
    }

    /// Processes arrived datagrams and runs the application, which reads streams to their ends. With `answers`, it then
    /// writes an answer on each of them. Returns the datagrams to send.
    fn step(&mut self, now: Time, peer: SocketAddr, answers: bool) -> Vec<Vec<u8>> {
        let mut out = [0; DATAGRAM_BUFFER_BYTES];
        let mut sent = Vec::new();
        for mut datagram in std::mem::take(&mut self.arriving) {
            match self.endpoint.handle_datagram(now, peer, &datagram, &mut out) {
                Routed::Connection(_, origin) => self.connection().handle_datagram(now, origin, &mut datagram),
                Routed::Opened(handle, connection) => self.connection = Some((handle, connection)),
                Routed::Reply(length) => sent.push(out[..length].to_vec()),
                Routed::Dropped => panic!("dropped"),
            }
        }
        let Some((_, connection)) = &mut self.connection else { return sent };
        connection.handle_timeout(now);
        while let Some(event) = connection.streams().poll_event() {
            match event {
                StreamEvent::Readable(id) => self.read += usize::from(read(now, connection, id, answers)),
                StreamEvent::Finished(_) => self.finished += 1,
                StreamEvent::Opened(_) => {
                    while let Some(id) = connection.streams().accept() {
                        self.read += usize::from(read(now, connection, id, answers));
                    }
                }
                StreamEvent::Gone { .. } => {}
                StreamEvent::Stopped { .. } | StreamEvent::Available | StreamEvent::Writable(_) => panic!("{event:?}"),
            }
        }
        // A driver calls these for each datagram.
        let _asked = (connection.sending(), connection.next_timeout(now));
        while let Some(transmit) = connection.poll_transmit(now, &mut out) {
            sent.push(out[..transmit.length].to_vec());
            let _asked = connection.next_timeout(now);
        }
        sent
    }

    /// Number of visits to streams so far, on the sending and the receiving side.
    fn visits(&mut self) -> u64 {
        let crate::connection::Inner::Modern(session) = &self.connection().inner else { panic!("it is classic") };
        session.common.streams.send.visits() + session.common.streams.recv.visits()
    }
}

/// Reads the available bytes of a stream. At its end, writes a reply if `answers` is set. Returns true if the end was
/// reached.
fn read(now: Time, connection: &mut Connection, id: StreamId, answers: bool) -> bool {
    let mut streams = connection.streams();
    loop {
        match streams.read(now, id, &mut [0; 16]) {
            Ok(Read::Bytes(_)) => {}
            Ok(Read::Blocked) | Err(StreamError::Ended) => return false,
            Ok(Read::End) => break,
            Err(error) => panic!("{error}"),
        }
    }
    if answers {
        write(now, connection, id);
    }
    true
}

fn write(now: Time, connection: &mut Connection, id: StreamId) {
    let mut streams = connection.streams();
    assert_eq!(streams.write(now, id, &MESSAGE), Ok(MESSAGE.len()));
    streams.flush(id);
    streams.finish(now, id);
}

/// Opens `count` streams at once, which carry four bytes in each direction. Returns the visits to streams at both ends,
/// and the number of datagrams sent.
fn work(count: usize) -> (u64, usize) {
    let streams = StreamLimits { bidirectional: 16_384, one_way: 0 };
    let config = Config { streams, rate: Rate::Fixed { rate_bps: 100_000_000 }, ..Config::danger_unsealed() };
    let mut now = Time::from_s(1);
    let [client_at, server_at]: [SocketAddr; 2] = [([192, 0, 2, 1], 1).into(), ([192, 0, 2, 2], 2).into()];
    let (mut client, mut server) = (Side::new(client_at, None), Side::new(server_at, Some(config.clone())));
    client.connection = Some(client.endpoint.connect(now, server_at, config).unwrap());
    let (mut datagrams, mut has_opened) = (0, false);
    for _ in 0..60_000 {
        let (up, down) = (client.step(now, server.address, false), server.step(now, client.address, true));
        datagrams += up.len() + down.len();
        (server.arriving, client.arriving) = (up, down);
        now += STEP;
        if !has_opened && client.connection().state() == State::Established {
            has_opened = true;
            for _ in 0..count {
                let id = client.connection().streams().open(StreamKind::Bidirectional).unwrap();
                write(now, client.connection(), id);
            }
        }
        if [client.read, client.finished, server.read, server.finished] == [count; 4] {
            return (client.visits() + server.visits(), datagrams);
        }
    }
    panic!("{count} streams: {} were read at the client, {} at the server", client.read, server.read);
}

#[test]
fn eight_times_as_many_streams_are_about_eight_times_the_work() {
    let ((few, few_datagrams), (many, many_datagrams)) = (work(1_000), work(8_000));
    println!("1000 streams: {few} visits, {few_datagrams} datagrams; 8000: {many}, {many_datagrams}");
    assert!(many <= 10 * few, "{few} visits of 1000 streams, {many} of 8000");
    assert!(
        many_datagrams <= 10 * few_datagrams,
        "{few_datagrams} datagrams of 1000 streams, {many_datagrams} of 8000"
    );
}
