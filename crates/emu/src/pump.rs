//! Driver: a thread per direction, which reads from one device and writes to the other in real time.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dfcp_netem::{self as netem, Count, LinkChange, PathEvent};
use dfcp_time::{Time, duration_ns};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};
use tokio::sync::Notify;

use crate::device::{Device, Side};
use crate::direction::{Direction, DirectionReport};
use crate::error::Error;
use crate::limits::{PACKET_BYTES_MAX, READING_AGE_MAX, READS_PER_TURN};
use crate::links::{DirectionConfig, LinkReading, Links};
use crate::nat::Nat;
use crate::packet::VNET_BYTES;

/// Timer slack of the threads, ns: by default the kernel may be 50 µs late, to coalesce wake-ups.
const TIMER_SLACK_NS: NonZeroU64 = NonZeroU64::MIN;

/// Lowest `nice` value: the highest priority below real time.
const HIGHEST_PRIORITY: i32 = -20;

/// A direction with its reports.
#[derive(Clone, Debug)]
pub(crate) struct WatchedDirection {
    pub(crate) config: DirectionConfig,
    /// Links to report, with the packets that arrive; `None` for no reports.
    pub(crate) links: Option<Vec<usize>>,
    /// Coalescing time, see [`PathConfig::patience`](crate::PathConfig::patience).
    pub(crate) patience: Duration,
}

/// Readings of a running direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Readings {
    /// Watched links, in the order of the request.
    pub links: Vec<LinkReading>,
    /// Packets that arrived at each pair's host.
    pub delivered: Vec<Count>,
}

/// Control of a running direction.
#[derive(Debug)]
pub(crate) struct Control {
    /// Event descriptor that wakes the thread for a request.
    attention: OwnedFd,
    must_stop: AtomicBool,
    /// Requested changes, each with its link.
    changes: Mutex<Vec<(usize, LinkChange)>>,
    readings: Mutex<Readings>,
}

impl Control {
    fn new() -> Result<Self, Error> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let attention = eventfd(0, flags).map_err(|error| Error::system("make an eventfd")(error.into()))?;
        Ok(Self { attention, must_stop: AtomicBool::new(false), changes: Mutex::default(), readings: Mutex::default() })
    }

    pub(crate) fn readings(&self) -> Readings {
        self.readings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn change(&self, link: usize, change: LinkChange) -> Result<(), Error> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).push((link, change));
        self.wake()
    }

    fn stop(&self) -> Result<(), Error> {
        self.must_stop.store(true, Ordering::Release);
        self.wake()
    }

    fn wake(&self) -> Result<(), Error> {
        let written = rustix::io::write(&self.attention, &1_u64.to_ne_bytes());
        written.map(drop).map_err(|error| Error::system("speak to the emulation")(error.into()))
    }

    /// Changes requested since the last call.
    fn take_changes(&self) -> Vec<(usize, LinkChange)> {
        // An empty event only means that no request came in between.
        let _ = rustix::io::read(&self.attention, &mut [0; 8]);
        std::mem::take(&mut *self.changes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Both running directions.
#[derive(Debug)]
pub(crate) struct Pumps {
    /// Controls of the direction from near to far, and of the other one.
    pub(crate) controls: [Arc<Control>; 2],
    /// Notified when a direction ends by itself, which means failure.
    pub(crate) ended: Arc<Notify>,
    nat: Arc<Nat>,
    threads: [JoinHandle<Result<DirectionReport, Error>>; 2],
}

impl Pumps {
    /// Starts emulating between two devices.
    pub(crate) fn start(ways: [WatchedDirection; 2], seed: u64, [near, far]: [&Arc<Device>; 2]) -> Result<Self, Error> {
        let ended = Arc::new(Notify::new());
        let clock = Clock { start: Instant::now() };
        let controls = [Arc::new(Control::new()?), Arc::new(Control::new()?)];
        let nat = Arc::new(Nat::default());
        let start = |side, watched: WatchedDirection, seed, [from, to]: [&Arc<Device>; 2]| {
            let name = if side == Side::Near { "forward" } else { "backward" };
            let control = &controls[usize::from(side == Side::Far)];
            let nat = (Arc::clone(&nat), side);
            // Validate here, so that errors show before anything starts.
            Links::new(&watched.config, seed)?;
            let pump = Pump {
                from: Arc::clone(from),
                to: Arc::clone(to),
                control: Arc::clone(control),
                watched: watched.links,
                clock,
            };
            let end = NotifyAtEnd(Arc::clone(&ended));
            let work = move || {
                let _end = end;
                pump.run(Direction::new(Links::new(&watched.config, seed)?, watched.patience, nat))
            };
            std::thread::Builder::new().name(name.to_owned()).spawn(work).map_err(Error::system("start a thread"))
        };
        let [forward, backward] = ways;
        let forward = start(Side::Near, forward, seed, [near, far])?;
        let backward = start(Side::Far, backward, !seed, [far, near])?;
        Ok(Self { controls, ended, nat, threads: [forward, backward] })
    }

    /// Applies an event now, on a path with one link.
    pub(crate) fn make_happen(&self, event: PathEvent) -> Result<(), Error> {
        match event {
            PathEvent::Change(way, change) => self.controls[usize::from(way == netem::Way::Down)].change(0, change),
            PathEvent::Rebind => {
                self.rebind(0);
                Ok(())
            }
        }
    }

    /// Gives the near host of a route new ports, as after a NAT rebinding.
    pub(crate) fn rebind(&self, route: usize) {
        self.nat.forget(route);
    }

    /// Ends both directions; returns the reports from near to far, and back.
    pub(crate) fn finish(self) -> Result<[DirectionReport; 2], Error> {
        self.controls.iter().try_for_each(|control| control.stop())?;
        let [forward, backward] = self.threads.map(|thread| match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        Ok([forward?, backward?])
    }
}

/// Guard that notifies when dropped, also after a panic.
struct NotifyAtEnd(Arc<Notify>);

impl Drop for NotifyAtEnd {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// Clock: nanoseconds since the emulation's start.
#[derive(Clone, Copy, Debug)]
struct Clock {
    start: Instant,
}

impl Clock {
    fn now(self) -> Time {
        Time::ZERO + self.start.elapsed()
    }
}

struct Pump {
    from: Arc<Device>,
    to: Arc<Device>,
    control: Arc<Control>,
    /// Links to report, with the packets that arrive; `None` for no reports.
    watched: Option<Vec<usize>>,
    clock: Clock,
}

/// Events that ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ready {
    can_read: bool,
    is_asked: bool,
}

impl Pump {
    fn run(self, mut direction: Direction) -> Result<DirectionReport, Error> {
        wake_in_time();
        let lost = |source| Error::DeviceLost { device: self.from.name, source };
        let mut buffer = vec![0; VNET_BYTES + PACKET_BYTES_MAX];
        // Time of the next report, if something has happened since the last one.
        let mut tell_at: Option<Time> = None;
        loop {
            let due = direction.next_time();
            let ready = self.wait(due.into_iter().chain(tell_at).min()).map_err(lost)?;
            if ready.is_asked {
                if self.control.must_stop.load(Ordering::Acquire) {
                    return Ok(direction.report());
                }
                for (link, change) in self.control.take_changes() {
                    direction.change(self.clock.now(), link, &change)?;
                }
            }
            self.release(&mut direction);
            if ready.can_read {
                for _ in 0..READS_PER_TURN {
                    let Some(bytes) = self.from.read(&mut buffer).map_err(lost)? else { break };
                    direction.accept(self.clock.now(), &buffer[..bytes]);
                    // Due packets must not wait for the next 63 reads.
                    self.release(&mut direction);
                }
            }
            self.tell(&mut direction, &mut tell_at);
        }
    }

    /// Reports the watched links periodically while packets move, and once after that.
    fn tell(&self, direction: &mut Direction, tell_at: &mut Option<Time>) {
        let Some(watched) = &self.watched else { return };
        let now = self.clock.now();
        if now < *tell_at.get_or_insert(now) {
            return;
        }
        // A reader must not delay packets: if it holds the lock, the next round comes soon.
        if let Ok(mut readings) = self.control.readings.try_lock() {
            readings.links.clear();
            readings.links.extend(watched.iter().map(|&link| direction.reading(now, link)));
            readings.delivered.clear();
            readings.delivered.extend_from_slice(direction.delivered());
        }
        *tell_at = direction.next_time().map(|_| now + READING_AGE_MAX);
    }

    /// Sends due packets.
    fn release(&self, direction: &mut Direction) {
        if direction.next_time().is_some_and(|due| due <= self.clock.now()) {
            direction.release(|| self.clock.now(), |headers, payload| self.to.write(headers, payload));
        }
    }

    /// Returns when a frame is readable, at `due`, or on a request.
    fn wait(&self, due: Option<Time>) -> io::Result<Ready> {
        let timeout = due.map(|due| timespec(due - self.clock.now()));
        let attention = PollFd::from_borrowed_fd(self.control.attention.as_fd(), PollFlags::IN);
        let mut events = [PollFd::new(&self.from, PollFlags::IN), attention];
        match poll(&mut events, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [device, attention] = events.map(|event| event.revents());
        // A read will return the error.
        Ok(Ready { can_read: !device.is_empty(), is_asked: !attention.is_empty() })
    }
}

/// Raises this thread's priority as far as permitted. A refused setting only makes packets later, which is measured.
///
/// Measured at 300 Mbit/s on a busy machine, the 99th percentile of lateness is 0.1 to 0.2 ms with real-time priority
/// and up to 2.3 ms without. Both threads sleep while the programs have nothing to send, so they do not starve these
/// programs.
fn wake_in_time() {
    if let Err(error) = rustix::thread::set_current_timer_slack(Some(TIMER_SLACK_NS)) {
        tracing::debug!(%error, "timers stay inexact");
    }
    let real_time = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    if set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, real_time).is_ok() {
        return;
    }
    // On Linux this affects only the current thread.
    if let Err(error) = rustix::process::setpriority_process(None, HIGHEST_PRIORITY) {
        tracing::debug!(%error, "other programs may delay the emulation");
    }
}

fn timespec(duration: Duration) -> Timespec {
    let ns = duration_ns(duration);
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}
