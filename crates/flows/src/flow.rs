//! A flow: what is the same whatever carries it.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::rc::Rc;
use std::time::Instant;

use dfcp_lab::course::{FlowBytes, FlowReading};
use dfcp_lab::plan::{Carrier, Kind, Pace};
use dfcp_lab::scenario::FlowSpec;
use dfcp_lab::trace::FlowColumns;
use dfcp_sim::{Node, Transport};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::spawn_local;

use crate::clock::Clock;
#[cfg(feature = "quic")]
use crate::quic;
use crate::{dfcp, first_data, tcp};

/// Port of all receivers: each has a host of its own.
const PORT: u16 = 4_433;

/// Bytes written or read at once.
const CHUNK_BYTES: usize = 1 << 16;

/// Progress that the ends of a flow report while a run lasts.
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

/// Columns that ends add to a line of a trace.
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

    /// Present state of the flow, as far as its ends know.
    #[must_use]
    pub fn look(&self) -> FlowColumns {
        let row = FlowColumns { delivered_bytes: self.delivered_bytes.get(), ..FlowColumns::default() };
        self.views.0.borrow().iter().fold(row, |row, view| view(row))
    }

    /// Adds an end's view, from now on.
    pub(crate) fn add_view(&self, view: impl Fn(FlowColumns) -> FlowColumns + 'static) {
        self.views.0.borrow_mut().push(Box::new(view));
    }

    /// Application bytes which arrived in order.
    #[must_use]
    pub fn delivered_bytes(&self) -> u64 {
        self.delivered_bytes.get()
    }

    /// True once the flow is confirmed or has failed: nothing more comes.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.confirmed_ns.get().is_some() || self.failure.borrow().is_some()
    }

    /// Results of the flow; the host of its receiver got `received_bytes` of IP packets.
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

/// The hosts of flows.
pub trait Hosts {
    /// Runs `f` with the thread at a host: sockets which `f` opens stay there.
    ///
    /// # Errors
    /// One sentence: the thread could not get there.
    fn enter<T>(&self, host: Node, f: impl FnOnce() -> T) -> Result<T, String>;

    /// The address of a host.
    fn address(&self, host: Node) -> Ipv4Addr;
}

/// Hosts and clocks of the flows.
#[derive(Debug)]
pub struct Surroundings<'run, H> {
    /// Hosts of the flows.
    pub hosts: &'run H,
    /// The run's clock, whose time 0 is its start.
    pub clock: Clock,
    /// Clock of DFCP's endpoints.
    pub now: fn() -> Instant,
    /// A sender's network device takes no more than its access link carries, and lets sockets wait. Without such devices, TCP is told
    /// that rate (`SO_MAX_PACING_RATE`), and DFCP which sends at the rate of its line, too: no host can send faster than its device.
    pub has_devices: bool,
}

/// A flow's ends in the network.
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
    /// Calls `make`, which makes sockets, at `host`, where they stay.
    pub(crate) fn at<T>(&self, host: Node, what: &str, make: impl FnOnce() -> io::Result<T>) -> Result<T, String> {
        let made = self.surroundings.hosts.enter(host, make)?;
        made.map_err(|error| format!("cannot set up {what}: {error}"))
    }

    /// The rate that the sender has to be told because its device does not hold it back, bit/s of IP packets.
    pub(crate) fn device_bps(&self) -> Option<u64> {
        device_bps(self.spec, self.surroundings.has_devices)
    }

    pub(crate) fn receiver_address(&self) -> SocketAddr {
        SocketAddrV4::new(self.surroundings.hosts.address(self.receiver), PORT).into()
    }

    pub(crate) fn sender_address(&self) -> SocketAddr {
        SocketAddrV4::new(self.surroundings.hosts.address(self.sender), 0).into()
    }

    /// Runs one of the ends; what it fails by is the flow's failure.
    pub(crate) fn run<E: Display>(&self, end: impl Future<Output = Result<(), E>> + 'static) {
        let told = Rc::clone(&self.told);
        spawn_local(async move {
            if let Err(error) = end.await {
                told.fail(error);
            }
        });
    }
}

/// Sets up a flow, which starts at its time. `endpoints` are its sender and receiver.
///
/// # Errors
/// One sentence about what cannot be set up.
pub fn start<H: Hosts>(
    surroundings: Surroundings<'_, H>,
    endpoints: (Node, Node),
    spec: &FlowSpec,
    #[cfg_attr(not(feature = "quic"), expect(unused_variables, reason = "QUIC's alone"))] seed: u64,
) -> Result<Rc<Told>, String> {
    let told = Rc::new(Told::new(surroundings.clock, spec.start_ns));
    let ends = Ends {
        surroundings,
        sender: endpoints.0,
        receiver: endpoints.1,
        spec,
        told: Rc::clone(&told),
        #[cfg(feature = "quic")]
        seed,
    };
    if spec.bytes.is_some() {
        first_data::watch(&ends)?;
    }
    match transport_at(spec, ends.device_bps())? {
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

/// Transport of a flow: as in the simulator, but with symbols which are really coded.
///
/// # Errors
/// One sentence about an option which the transport does not have.
pub fn transport(spec: &FlowSpec) -> Result<Transport, String> {
    transport_at(spec, None)
}

fn device_bps(spec: &FlowSpec, has_devices: bool) -> Option<u64> {
    (!has_devices && spec.access_bps > 0).then_some(spec.access_bps)
}

/// The transport, told the rate of the device if it sends at the rate of its line.
fn transport_at(spec: &FlowSpec, device_bps: Option<u64>) -> Result<Transport, String> {
    let is_dfcp = spec.transport.kind.is_dfcp();
    let mut carrier = Carrier { codec: is_dfcp.then_some(true), ..spec.transport.clone() };
    let own = carrier.rate.or_else(|| (carrier.kind == Kind::Classic).then_some(Pace::Line));
    // Parameters of the thesis have a rate of their own.
    let told_bps = device_bps.filter(|_| is_dfcp && own == Some(Pace::Line) && carrier.parameters.is_empty());
    if let Some(bps) = told_bps {
        carrier.rate = Some(Pace::Mbps(bps as f64 / 1e6));
    }
    let mut transport = carrier.transport(spec.share_bps, spec.loss)?;
    if let (Transport::Dfcp(config), Some(_)) = (&mut transport, told_bps) {
        // The breaker does not act on a line, however much is lost.
        config.sender.breaker = false;
    }
    Ok(spec.movable(transport))
}

/// Writes as many bytes as the flow has, or without end.
pub(crate) async fn write(writer: &mut (impl AsyncWrite + Unpin), bytes: Option<u64>) -> io::Result<()> {
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
