//! Parts of a flow that are common to all transports.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::rc::Rc;
use std::time::Instant;

use dfcp_lab::course::{FlowBytes, FlowReading};
use dfcp_lab::scenario::FlowSpec;
use dfcp_lab::trace::FlowColumns;
use dfcp_sim::Node;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::spawn_local;

use crate::clock::Clock;

/// Port of all receivers. It may be the same, as each receiver has its own host.
const PORT: u16 = 4_433;

/// Read and write size, bytes.
const CHUNK_BYTES: usize = 1 << 16;

/// Progress of a flow during a run, as reported by its two ends.
#[derive(Debug)]
pub struct Told {
    pub(crate) clock: Clock,
    delivered_bytes: Cell<u64>,
    pub(crate) started_ns: Cell<u64>,
    pub(crate) first_sent_ns: Cell<Option<u64>>,
    pub(crate) first_received_ns: Cell<Option<u64>>,
    completed_ns: Cell<Option<u64>>,
    pub(crate) confirmed_ns: Cell<Option<u64>>,
    failure: RefCell<Option<String>>,
    pub(crate) waste: Cell<Option<f64>>,
    views: Views,
}

/// Callback by which an end adds its columns to a trace line.
type View = Box<dyn Fn(FlowColumns) -> FlowColumns>;

#[derive(Default)]
struct Views(RefCell<Vec<View>>);

impl std::fmt::Debug for Views {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} views", self.0.borrow().len())
    }
}

impl Told {
    pub(crate) fn new(clock: Clock, start_ns: u64) -> Self {
        Self {
            clock,
            delivered_bytes: Cell::new(0),
            started_ns: Cell::new(start_ns),
            first_sent_ns: Cell::new(None),
            first_received_ns: Cell::new(None),
            completed_ns: Cell::new(None),
            confirmed_ns: Cell::new(None),
            failure: RefCell::new(None),
            waste: Cell::new(None),
            views: Views::default(),
        }
    }

    /// Returns the current columns of the flow for a trace.
    #[must_use]
    pub fn look(&self) -> FlowColumns {
        let row = FlowColumns { delivered_bytes: self.delivered_bytes.get(), ..FlowColumns::default() };
        self.views.0.borrow().iter().fold(row, |row, view| view(row))
    }

    /// Adds an end's columns to the trace.
    pub(crate) fn add_view(&self, view: impl Fn(FlowColumns) -> FlowColumns + 'static) {
        self.views.0.borrow_mut().push(Box::new(view));
    }

    /// Returns the application bytes that arrived in order.
    #[must_use]
    pub fn delivered_bytes(&self) -> u64 {
        self.delivered_bytes.get()
    }

    /// Returns true once the flow is confirmed or has failed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.confirmed_ns.get().is_some() || self.failure.borrow().is_some()
    }

    /// Returns the results of the flow; `received_bytes` is the number of IP bytes at its receiving host.
    #[must_use]
    pub fn reading(&self, received_bytes: u64) -> FlowReading {
        FlowReading {
            bytes: FlowBytes { delivered: self.delivered_bytes.get(), received: received_bytes, messages: None },
            started_ns: self.started_ns.get(),
            first_sent_ns: self.first_sent_ns.get(),
            first_received_ns: self.first_received_ns.get(),
            completed_ns: self.completed_ns.get(),
            confirmed_ns: self.confirmed_ns.get(),
            failure: self.failure.borrow().clone(),
            retransmissions: None,
            timeouts: None,
            waste: self.waste.get(),
            estimate: None,
        }
    }

    fn fail(&self, error: impl Display) {
        self.failure.borrow_mut().get_or_insert_with(|| error.to_string());
    }

    pub(crate) fn note(&self, time: &Cell<Option<u64>>) {
        if time.get().is_none() {
            time.set(Some(self.clock.now_ns()));
        }
    }

    fn delivered(&self, bytes: usize, expected: Option<u64>) {
        self.delivered_bytes.set(self.delivered_bytes.get() + bytes as u64);
        if expected.is_some_and(|expected| self.delivered_bytes.get() >= expected) {
            self.note(&self.completed_ns);
        }
    }
}

/// Access to the hosts of flows.
pub trait Hosts {
    /// Runs `f` with the current thread at `host`: sockets opened by `f` belong to that host.
    ///
    /// # Errors
    /// Fails with a sentence if the thread cannot enter the host.
    fn enter<T>(&self, host: Node, f: impl FnOnce() -> T) -> Result<T, String>;

    /// Returns the address of a host.
    fn address(&self, host: Node) -> Ipv4Addr;
}

/// Environment of the flows: hosts and clocks.
#[derive(Debug)]
pub struct Surroundings<'run, H> {
    /// Hosts of the flows.
    pub hosts: &'run H,
    /// Clock of the run.
    pub clock: Clock,
    /// Clock of DFCP's endpoints.
    pub now: fn() -> Instant,
    /// True if network devices limit senders to their access rate and make sockets wait. Otherwise TCP is configured
    /// with that rate (`SO_MAX_PACING_RATE`), and so is DFCP at line rate: no host can send faster than its device.
    pub has_devices: bool,
}

/// Ends of a flow in the network.
pub(crate) struct Ends<'run, H> {
    pub(crate) surroundings: Surroundings<'run, H>,
    pub(crate) sender: Node,
    pub(crate) receiver: Node,
    pub(crate) spec: &'run FlowSpec,
    pub(crate) told: Rc<Told>,
    #[cfg(feature = "quic")]
    pub(crate) seed: u64,
}

impl<H: Hosts> Ends<'_, H> {
    /// Calls `make` at `host`, which owns the sockets it opens.
    pub(crate) fn at<T>(&self, host: Node, what: &str, make: impl FnOnce() -> io::Result<T>) -> Result<T, String> {
        let made = self.surroundings.hosts.enter(host, make)?;
        made.map_err(|error| format!("cannot set up {what}: {error}"))
    }

    /// Returns the rate to configure at the sender if no device limits it, bit/s of IP packets.
    pub(crate) fn device_bps(&self) -> Option<u64> {
        let access_bps = self.spec.access_bps;
        (!self.surroundings.has_devices && access_bps > 0).then_some(access_bps)
    }

    pub(crate) fn receiver_address(&self) -> SocketAddr {
        SocketAddrV4::new(self.surroundings.hosts.address(self.receiver), PORT).into()
    }

    pub(crate) fn sender_address(&self) -> SocketAddr {
        SocketAddrV4::new(self.surroundings.hosts.address(self.sender), 0).into()
    }

    /// Runs one end of the flow as a task. An error of the end is the flow's failure.
    pub(crate) fn run<E: Display>(&self, end: impl Future<Output = Result<(), E>> + 'static) {
        let told = Rc::clone(&self.told);
        spawn_local(async move {
            if let Err(error) = end.await {
                told.fail(error);
            }
        });
    }
}

/// Writes `bytes` bytes, or endlessly if that is `None`.
pub(crate) async fn write(writer: &mut (impl AsyncWrite + Unpin), bytes: Option<u64>) -> io::Result<()> {
    let chunk = vec![0; CHUNK_BYTES];
    let mut left = bytes.unwrap_or(u64::MAX);
    while left > 0 {
        let part = left.min(CHUNK_BYTES as u64) as usize;
        writer.write_all(&chunk[..part]).await?;
        // An endless flow is not counted down.
        left -= if bytes.is_some() { part as u64 } else { 0 };
    }
    Ok(())
}

/// Reads to the end of the stream. `each` is called after each read.
pub(crate) async fn read<R: AsyncRead + Unpin>(
    reader: &mut R,
    told: &Told,
    bytes: Option<u64>,
    each: impl Fn(&R),
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = reader.read(&mut chunk).await?;
        if count == 0 {
            return Ok(());
        }
        told.delivered(count, bytes);
        each(reader);
    }
}
