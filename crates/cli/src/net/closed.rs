//! Whether the machine at an address says that nothing listens there.
//!
//! A system answers a datagram to a closed port by ICMP ("port unreachable"), which only a connected socket is told of. The
//! connection's own socket is not connected, because either end of a connection may move to another address; so a socket of
//! its own asks, and only while a connection is being opened. What it hears cannot touch an open connection.
//!
//! Nothing proves who sent an ICMP message. An attacker off the path has to guess the port of the asking socket, several
//! times over, before the real listener answers the handshake; all he gains is that the attempt ends.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::UdpSocket;
#[cfg(test)]
use tokio::time::timeout;
use tokio::time::{Instant, timeout_at};

use crate::limits::{CLOSED_PORT_INTERVAL, CLOSED_PORT_REFUSALS, CLOSED_PORT_SPAN};

/// No segment is so short: a listener drops it.
const QUESTION: [u8; 1] = [0];

/// The refusals so far.
#[derive(Debug, Default)]
struct Refusals {
    count: u32,
    first: Option<Instant>,
}

impl Refusals {
    /// One more; whether they are believed now.
    fn add(&mut self, now: Instant) -> bool {
        self.count = self.count.saturating_add(1);
        let first = *self.first.get_or_insert(now);
        self.count >= CLOSED_PORT_REFUSALS && now.duration_since(first) >= CLOSED_PORT_SPAN
    }
}

/// Returns once the machine at `address` has refused often enough, and for long enough; never if it does not, or if it
/// cannot be asked.
pub(super) async fn refused(address: SocketAddr) {
    if let Err(error) = ask(address, CLOSED_PORT_INTERVAL, &mut Refusals::default()).await {
        tracing::debug!(%error, %address, "cannot ask whether anything listens there");
        std::future::pending::<()>().await;
    }
}

async fn ask(address: SocketAddr, interval: Duration, refusals: &mut Refusals) -> io::Result<()> {
    let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(address).await?;
    loop {
        let next = Instant::now() + interval;
        let mut answer = socket.send(&QUESTION).await;
        loop {
            if let Err(error) = &answer {
                let is_refusal =
                    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset);
                if is_refusal && refusals.add(Instant::now()) {
                    return Ok(());
                }
            }
            // Whatever else comes is no business of this socket's.
            match timeout_at(next, socket.recv(&mut [0; 1])).await {
                Ok(received) => answer = received,
                Err(_next_is_due) => break,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::tests::own_loopback;

    /// Longer than anything here takes: a test that hangs must fail.
    const PATIENCE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn refusals_are_believed_when_they_are_many_and_go_on() {
        let mut burst = Refusals::default();
        let now = Instant::now();
        assert!((0..100).all(|_| !burst.add(now)), "all at once, as a forger sends them");
        assert!(burst.add(now + CLOSED_PORT_SPAN));
        let mut rare = Refusals::default();
        assert!(!rare.add(now) && !rare.add(now + CLOSED_PORT_SPAN), "two only");
        assert!(rare.add(now + CLOSED_PORT_SPAN));
    }

    #[tokio::test]
    async fn a_closed_port_refuses_and_an_open_one_does_not() {
        let address = own_loopback(20_431);
        let open = UdpSocket::bind(address).await.unwrap();
        let interval = Duration::from_millis(1);
        let mut refusals = Refusals::default();
        // Twenty questions, none of which is answered.
        let asked = async {
            for _ in 0..20 {
                open.recv(&mut [0; 8]).await.unwrap();
            }
        };
        tokio::select! {
            outcome = ask(address, interval, &mut refusals) => panic!("{outcome:?}"),
            asked = timeout(PATIENCE, asked) => asked.unwrap(),
        }
        assert_eq!(refusals.count, 0);
        drop(open);
        // As if the first refusal was long ago.
        let long_ago = Instant::now().checked_sub(CLOSED_PORT_SPAN).unwrap();
        let mut refusals = Refusals { count: 0, first: Some(long_ago) };
        timeout(PATIENCE, ask(address, interval, &mut refusals)).await.unwrap().unwrap();
        assert_eq!(refusals.count, CLOSED_PORT_REFUSALS);
    }
}
