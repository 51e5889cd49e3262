//! A relay on loopback that keeps copies, and can change its outward address during a transfer like a NAT.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::local;

/// Number of first datagrams of a session (including its handshake) that are kept, and of latest ones.
const FIRST_MAX: usize = 256;
const LATEST_MAX: usize = 1_024;

/// Maximum number of clients that are distinguished.
const CLIENTS_MAX: usize = 1_024;

/// Copies of forwarded datagrams in both directions.
#[derive(Debug, Default)]
struct Copies {
    first: Vec<Vec<u8>>,
    latest: VecDeque<Vec<u8>>,
}

impl Copies {
    fn keep(&mut self, datagram: &[u8]) {
        if self.first.len() < FIRST_MAX {
            return self.first.push(datagram.to_vec());
        }
        if self.latest.len() == LATEST_MAX {
            self.latest.pop_front();
        }
        self.latest.push_back(datagram.to_vec());
    }
}

/// A relay between clients and a server. Each client has its own outward socket.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    copies: Arc<Mutex<Copies>>,
    orders: mpsc::Sender<()>,
    task: JoinHandle<()>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Outward {
    client: SocketAddr,
    socket: Arc<UdpSocket>,
    reader: JoinHandle<()>,
}

impl Drop for Outward {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Relay {
    /// Starts a relay in front of `server`.
    ///
    /// # Errors
    /// Fails if no socket is available.
    pub async fn start(server: SocketAddr) -> Result<Self> {
        let inward = Arc::new(UdpSocket::bind(local()).await?);
        let address = inward.local_addr()?;
        let copies = Arc::new(Mutex::new(Copies::default()));
        let (orders, order) = mpsc::channel(16);
        let task = tokio::spawn(run(inward, server, Arc::clone(&copies), order));
        Ok(Self { address, copies, orders, task })
    }

    /// Address for clients.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Gives every client another outward address; datagrams to the old ones are lost.
    ///
    /// # Errors
    /// Fails if the relay has ended.
    pub async fn rebind(&self) -> Result<()> {
        Ok(self.orders.send(()).await?)
    }

    /// Copies of the first and the latest datagrams.
    #[must_use]
    pub fn captured(&self) -> Vec<Vec<u8>> {
        let copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        copies.first.iter().chain(&copies.latest).cloned().collect()
    }
}

fn keep(copies: &Mutex<Copies>, datagram: &[u8]) {
    copies.lock().unwrap_or_else(PoisonError::into_inner).keep(datagram);
}

async fn outward(
    inward: &Arc<UdpSocket>,
    client: SocketAddr,
    server: SocketAddr,
    copies: &Arc<Mutex<Copies>>,
) -> std::io::Result<Outward> {
    let socket = Arc::new(UdpSocket::bind(local()).await?);
    socket.connect(server).await?;
    let (from, to, copies) = (Arc::clone(&socket), Arc::clone(inward), Arc::clone(copies));
    let reader = tokio::spawn(async move {
        let mut buffer = [0; 2_048];
        loop {
            // A server that has ended causes an error here, and the relay continues.
            if let Ok(length) = from.recv(&mut buffer).await {
                keep(&copies, &buffer[..length]);
                let _lost_like_any_other = to.send_to(&buffer[..length], client).await;
            }
        }
    });
    Ok(Outward { client, socket, reader })
}

async fn run(inward: Arc<UdpSocket>, server: SocketAddr, copies: Arc<Mutex<Copies>>, mut orders: mpsc::Receiver<()>) {
    let mut clients: VecDeque<Outward> = VecDeque::new();
    let mut buffer = [0; 2_048];
    loop {
        tokio::select! {
            order = orders.recv() => {
                if order.is_none() {
                    return;
                }
                for old in &mut clients {
                    if let Ok(new) = outward(&inward, old.client, server, &copies).await {
                        *old = new;
                    }
                }
            }
            received = inward.recv_from(&mut buffer) => {
                let Ok((length, client)) = received else { continue };
                keep(&copies, &buffer[..length]);
                if !clients.iter().any(|known| known.client == client) {
                    let Ok(new) = outward(&inward, client, server, &copies).await else { continue };
                    if clients.len() == CLIENTS_MAX {
                        clients.pop_front();
                    }
                    clients.push_back(new);
                }
                if let Some(known) = clients.iter().find(|known| known.client == client) {
                    let _lost_like_any_other = known.socket.send(&buffer[..length]).await;
                }
            }
        }
    }
}
