//! Flows: what sends and what receives over real sockets.

mod dfcp;
mod first_data;
#[cfg(feature = "quic")]
mod quic;
mod tcp;

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::rc::Rc;

use dfcp_lab::course::{FlowBytes, FlowReading};
use dfcp_lab::plan::Carrier;
use dfcp_lab::scenario::FlowSpec;
use dfcp_lab::trace::FlowColumns;
use dfcp_sim::{Node, Transport};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::spawn_local;

use super::clock::Clock;
use super::network::Network;

/// Where receivers listen: each has a host of its own.
const PORT: u16 = 4_433;

/// What is written or read at once.
const CHUNK_BYTES: usize = 1 << 16;

/// What the ends of a flow tell while a run lasts.
#[derive(Debug)]
pub(super) struct Told {
    clock: Clock,
    delivered_bytes: Cell<u64>,
    started_ns: Cell<u64>,
    first_sent_ns: Cell<Option<u64>>,
    first_received_ns: Cell<Option<u64>>,
    completed_ns: Cell<Option<u64>>,
    confirmed_ns: Cell<Option<u64>>,
    failure: RefCell<Option<String>>,
    waste: Cell<Option<f64>>,
    views: Views,
}

/// What ends add to a line of a trace.
type View = Box<dyn Fn(FlowColumns) -> FlowColumns>;

#[derive(Default)]
struct Views(RefCell<Vec<View>>);

impl std::fmt::Debug for Views {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} views", self.0.borrow().len())
    }
}

impl Told {
    fn new(clock: Clock, start_ns: u64) -> Self {
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

    /// How the flow stands now, as far as its ends know.
    pub(super) fn look(&self) -> FlowColumns {
        let row = FlowColumns { delivered_bytes: self.delivered_bytes.get(), ..FlowColumns::default() };
        self.views.0.borrow().iter().fold(row, |row, view| view(row))
    }

    /// From now on, an end adds to it what it knows.
    fn add_view(&self, view: impl Fn(FlowColumns) -> FlowColumns + 'static) {
        self.views.0.borrow_mut().push(Box::new(view));
    }

    /// Application bytes which arrived in order.
    pub(super) fn delivered_bytes(&self) -> u64 {
        self.delivered_bytes.get()
    }

    /// Whether nothing more comes.
    pub(super) fn is_over(&self) -> bool {
        self.confirmed_ns.get().is_some() || self.failure.borrow().is_some()
    }

    /// What is known of the flow; the host of its receiver got `received_bytes` of IP packets.
    pub(super) fn reading(&self, received_bytes: u64) -> FlowReading {
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

    fn note(&self, time: &Cell<Option<u64>>) {
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

/// A flow's ends in the network.
struct Ends<'run> {
    network: &'run Network,
    sender: Node,
    receiver: Node,
    spec: &'run FlowSpec,
    told: Rc<Told>,
    #[cfg(feature = "quic")]
    seed: u64,
}

impl Ends<'_> {
    /// What `make` makes in the namespace of `host`: sockets, which stay there.
    fn at<T>(&self, host: Node, what: &str, make: impl FnOnce() -> io::Result<T>) -> Result<T, String> {
        let made = self.network.enter(host, make).map_err(|error| error.to_string())?;
        made.map_err(|error| format!("cannot set up {what}: {error}"))
    }

    fn receiver_address(&self) -> SocketAddr {
        SocketAddrV4::new(self.network.address(self.receiver), PORT).into()
    }

    fn sender_address(&self) -> SocketAddr {
        SocketAddrV4::new(self.network.address(self.sender), 0).into()
    }

    /// Runs one of the ends; what it fails by is the flow's failure.
    fn run<E: Display>(&self, end: impl Future<Output = Result<(), E>> + 'static) {
        let told = Rc::clone(&self.told);
        spawn_local(async move {
            if let Err(error) = end.await {
                told.fail(error);
            }
        });
    }
}

/// Sets up a flow, which starts at its time. `hosts` are its sender and receiver.
///
/// # Errors
/// One sentence about what cannot be set up.
pub(super) fn start(
    network: &Network,
    hosts: (Node, Node),
    spec: &FlowSpec,
    #[cfg_attr(not(feature = "quic"), expect(unused_variables, reason = "QUIC's alone"))] seed: u64,
    clock: Clock,
) -> Result<Rc<Told>, String> {
    let told = Rc::new(Told::new(clock, spec.start_ns));
    let ends = Ends {
        network,
        sender: hosts.0,
        receiver: hosts.1,
        spec,
        told: Rc::clone(&told),
        #[cfg(feature = "quic")]
        seed,
    };
    if spec.bytes.is_some() {
        first_data::watch(&ends)?;
    }
    match transport(spec)? {
        Transport::Tcp(config) => tcp::start(&ends, &config)?,
        Transport::Dfcp(config) => dfcp::start(&ends, *config)?,
        #[cfg(feature = "quic")]
        Transport::Quic(config) => quic::start(&ends, config)?,
        #[cfg(not(feature = "quic"))]
        Transport::Quic(_) => return Err("this program was built without QUIC".to_owned()),
        Transport::Model(_) => {
            return Err("models of messages run on the simulator alone; use --platform sim".to_owned());
        }
        Transport::Web(_) => {
            return Err("web traffic runs on the simulator alone; use --platform sim".to_owned());
        }
    }
    Ok(told)
}

/// What carries a flow: as in the simulator, but with symbols which are really coded.
pub(super) fn transport(spec: &FlowSpec) -> Result<Transport, String> {
    let is_coded = spec.transport.kind.is_dfcp().then_some(true);
    Carrier { codec: is_coded, ..spec.transport.clone() }.transport(spec.share_bps, spec.loss)
}

/// Writes as many bytes as the flow has, or without end.
async fn write(writer: &mut (impl AsyncWrite + Unpin), bytes: Option<u64>) -> io::Result<()> {
    let chunk = vec![0; CHUNK_BYTES];
    let mut left = bytes.unwrap_or(u64::MAX);
    while left > 0 {
        let part = left.min(CHUNK_BYTES as u64) as usize;
        writer.write_all(&chunk[..part]).await?;
        // Without end it is not counted down.
        left -= if bytes.is_some() { part as u64 } else { 0 };
    }
    Ok(())
}

/// Reads until the end. `each` is called behind everything that arrived.
async fn read<R: AsyncRead + Unpin>(
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
