//! Emulator that runs programs behind an emulated path: two hosts with the kernel's own TCP, and links of [`dfcp_netem`] between them in
//! real time. Linux only; on other systems this crate is empty.
//!
//! ```text
//!   network namespace "near"                                  network namespace "far"
//!   command ── TCP ── TUN ──► frame ─► segments ─► link ─► runs ──► TUN ── TCP ── server
//!                     TUN ◄── runs ◄─ link ◄─ segments ◄─ frame ◄── TUN
//! ```
//!
//! Devices deliver superpackets (`IFF_VNET_HDR` with TSO and USO). A link handles each segment as a separate packet; segments of a
//! superpacket that leave together are joined again.
//!
//! An unprivileged user gets the rights in a user namespace. All programs run in a process namespace whose first process exits with the
//! emulator, for any reason, and ends all of them; networks and devices disappear too.

#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod children;
mod device;
mod direction;
mod error;
mod host_nat;
mod init;
mod lateness;
mod limits;
mod links;
mod namespace;
mod nat;
mod netlink;
mod outside;
mod packet;
mod pairs;
mod pump;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dfcp_netem::{LinkConfig, Schedule};
use rustix::process::Signal;
use tokio::process::Child;
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal as signals};

pub use device::{FAR, NEAR, Place, Side, pair_address};
pub use direction::DirectionReport;
pub use error::Error;
pub use host_nat::HostNat;
pub use init::run as run_init;
pub use lateness::Lateness;
pub use limits::PAIRS_MAX;
pub use links::{DirectionConfig, LinkReading};
pub use outside::is_forwarding;
pub use pairs::{PairConfig, PairNetwork};
pub use pump::Readings;

use children::{Init, end, signal, within};
use device::{Device, HostTables, OUTSIDE};
use limits::{SERVER_START_MAX, SERVER_START_STEP};
use namespace::{Network, allow_ping, gain_rights, has_rights};
use outside::Translation;
use pump::{Pumps, WatchedDirection};

/// Configuration of one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct PathConfig {
    /// Link of the direction.
    pub link: LinkConfig,
    /// Coalescing time: a packet waits up to this long for others due shortly after it.
    pub patience: Duration,
}

/// Command to run, and the path before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Emulation {
    /// Program and arguments, run at the near end. Its exit ends the emulation.
    pub command: Vec<OsString>,
    /// Network behind the path.
    pub far: FarEnd,
    /// Path from near to far.
    pub forward: PathConfig,
    /// Path from far to near.
    pub backward: PathConfig,
    /// Events of the path, from the start of the command on. Rebindings apply to the near end.
    pub schedule: Schedule,
    /// Seed of all random events; the two directions draw differently.
    pub seed: u64,
    /// Command line that only calls [`run_init`].
    pub init: Vec<OsString>,
}

/// Far end of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FarEnd {
    /// Separate network, with a program to run there, if any.
    Network(Option<Vec<OsString>>),
    /// This machine's own network, behind NAT. Requires root.
    Outside,
}

/// Result of an emulation.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Exit status of the command.
    pub status: ExitStatus,
    /// Exit status of the server, if it ended before the command.
    pub server_status: Option<ExitStatus>,
    /// Running time of the command.
    pub elapsed: Duration,
    /// Report of the direction from near to far.
    pub forward: DirectionReport,
    /// Report of the direction from far to near.
    pub backward: DirectionReport,
}

/// Host at one end of the path.
#[derive(Debug)]
struct Host {
    network: Network,
    device: Arc<Device>,
    tables: HostTables,
}

impl Host {
    /// Creates a host in a new network namespace, which the thread enters.
    fn new(place: Place) -> Result<Self, Error> {
        Self::with(|| {
            let device = Device::open(place)?;
            allow_ping();
            Ok(device)
        })
    }

    /// Creates a host with the device that `open` returns.
    fn with(open: impl FnOnce() -> Result<Device, Error>) -> Result<Self, Error> {
        Self::in_network(Network::enter_new()?, open)
    }

    /// This machine as a host.
    fn outside() -> Result<Self, Error> {
        if !has_rights() {
            return Err(Error::OutsideForbidden);
        }
        Self::in_network(Network::own()?, || match Device::open(OUTSIDE) {
            Err(Error::Device { device, reason }) if reason.kind() == io::ErrorKind::ResourceBusy => {
                Err(Error::OutsideInUse(device))
            }
            opened => opened,
        })
    }

    fn in_network(network: Network, open: impl FnOnce() -> Result<Device, Error>) -> Result<Self, Error> {
        let device = Arc::new(open()?);
        Ok(Self { network, device, tables: HostTables::open().map_err(Error::system("read a network's tables"))? })
    }

    fn unread_packets(&mut self) -> Result<u64, Error> {
        let device = self.device.name;
        self.tables.dropped_packets(device).map_err(|source| Error::DeviceLost { device, source })
    }
}

impl Emulation {
    /// Runs the command until it ends. The process must be single-threaded, and enters other namespaces: it can start no more threads, and
    /// should exit.
    ///
    /// SIGTERM and SIGHUP are passed on as SIGTERM. A SIGINT from the terminal reaches the command anyway; any other
    /// SIGINT is passed on.
    ///
    /// # Errors
    /// Fails if the set-up or a device failed; see [`Error`]. All processes inside have ended then, too.
    pub fn run(self) -> Result<Outcome, Error> {
        let is_outside = self.far == FarEnd::Outside;
        // Do this first, while the thread is in this machine's own network.
        let outside = if is_outside { Some(Host::outside()?) } else { None };
        gain_rights()?;
        let mut near = Host::new(NEAR)?;
        if is_outside {
            near.device.lead_out()?;
        }
        let mut far = outside.map_or_else(|| Host::new(FAR), Ok)?;
        let watched = |path: &PathConfig| WatchedDirection {
            config: DirectionConfig::single(path.link.clone()),
            links: None,
            patience: path.patience,
        };
        let ways = [watched(&self.forward), watched(&self.backward)];
        let pumps = Pumps::start(ways, self.seed, [&near.device, &far.device])?;
        let init = Init::start(&self.init)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Error::system("start an event loop"))?;
        // Dropped before the first process ends: dropping starts a process, which is impossible afterwards.
        let translation = if is_outside { Some(Translation::begin(&far.network)?) } else { None };
        let served = runtime.block_on(self.serve(&near, &far.network, &mut far.tables, &pumps))?;
        drop(translation);
        drop(init);
        let [mut forward, mut backward] = pumps.finish()?;
        let served = served.ok_or(Error::Ended)?;
        forward.unread_packets = near.unread_packets()?;
        backward.unread_packets = far.unread_packets()?;
        let Served { status, server_status, elapsed } = served;
        Ok(Outcome { status, server_status, elapsed, forward, backward })
    }

    /// Runs the server and the command, until the latter ends; a failed device ends both without an outcome.
    async fn serve(
        &self,
        near: &Host,
        far: &Network,
        far_tables: &mut HostTables,
        pumps: &Pumps,
    ) -> Result<Option<Served>, Error> {
        let mut requests = Requests::new()?;
        let mut server = match &self.far {
            FarEnd::Network(Some(command)) => Some(children::start(command, far, true)?),
            FarEnd::Network(None) | FarEnd::Outside => None,
        };
        if let Some(server) = &mut server {
            until_it_listens(server, far_tables).await;
        }
        let started = Instant::now();
        let mut command = children::start(&self.command, &near.network, false)?;
        let mut schedule = self.schedule.clone();
        let status = loop {
            while let Some(event) = schedule.pop(started.elapsed()) {
                pumps.make_happen(event)?;
            }
            let next = schedule.next_at().and_then(|at| started.checked_add(at));
            tokio::select! {
                () = until(next) => {}
                status = command.wait() => break status.map_err(Error::system("wait for the command"))?,
                () = pumps.ended.notified() => return Ok(None),
                request = requests.next() => match request {
                    // A SIGINT from the terminal has reached the command as well.
                    Signal::INT if Requests::are_from_terminal() => {}
                    Signal::INT => signal(&command, Signal::INT),
                    _ => match end(&mut command).await {
                        Some(status) => break status,
                        None => signal(&command, Signal::KILL),
                    },
                },
            }
        };
        let elapsed = started.elapsed();
        let Some(server) = &mut server else { return Ok(Some(Served { status, server_status: None, elapsed })) };
        let server_status = server.try_wait().ok().flatten();
        if server_status.is_none() && end(server).await.is_none() {
            tracing::debug!("the server did not end when it was asked to");
        }
        Ok(Some(Served { status, server_status, elapsed }))
    }
}

/// Returns at `instant`, or never.
async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant.into()).await,
        None => std::future::pending().await,
    }
}

/// Results at the end of the command.
struct Served {
    status: ExitStatus,
    server_status: Option<ExitStatus>,
    elapsed: Duration,
}

/// Returns when the server listens, has ended, or takes too long.
async fn until_it_listens(server: &mut Child, tables: &mut HostTables) {
    let started = Instant::now();
    while started.elapsed() < SERVER_START_MAX && !tables.has_listener() {
        if within(SERVER_START_STEP, server).await.is_some() {
            return;
        }
    }
}

/// Signals that ask this process to end.
struct Requests {
    interrupt: SignalStream,
    terminate: SignalStream,
    hang_up: SignalStream,
}

impl Requests {
    fn new() -> Result<Self, Error> {
        let listen = |kind| signals(kind).map_err(Error::system("listen for signals"));
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::INT,
            _ = self.terminate.recv() => Signal::TERM,
            _ = self.hang_up.recv() => Signal::HUP,
        }
    }

    /// True if this process and the command share the terminal's foreground group.
    fn are_from_terminal() -> bool {
        let foreground = File::open("/dev/tty").ok().and_then(|terminal| rustix::termios::tcgetpgrp(terminal).ok());
        foreground == Some(rustix::process::getpgrp())
    }
}
