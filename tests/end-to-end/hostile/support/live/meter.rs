//! Memory, log lines and panics of the process.

use std::alloc::System;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use cap::Cap;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

static PANICS: AtomicU64 = AtomicU64::new(0);

/// Allocator that counts bytes: resident memory also includes freed memory kept by the system's allocator, which depends on the number of
/// processors.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Memory allocated by this process, KiB.
#[must_use]
pub fn memory_kib() -> u64 {
    ALLOCATOR.allocated() as u64 >> 10
}

/// Number of panics of any thread or task since [`Logs::install`].
#[must_use]
pub fn panics() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

/// Counter of log lines of the libraries.
#[derive(Debug, Default)]
pub struct Logs {
    shown: AtomicU64,
}

impl Logs {
    /// Starts counting in the whole process, also panics.
    pub fn install() -> &'static Self {
        static LOGS: OnceLock<Logs> = OnceLock::new();
        let logs = LOGS.get_or_init(|| {
            let previous = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                PANICS.fetch_add(1, Ordering::Relaxed);
                previous(info);
            }));
            Self::default()
        });
        let _installed_before = tracing::subscriber::set_global_default(Counter(logs));
        logs
    }

    /// Lines of level info and above, shown by default.
    #[must_use]
    pub fn shown(&self) -> u64 {
        self.shown.load(Ordering::Relaxed)
    }
}

struct Counter(&'static Logs);

impl Subscriber for Counter {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _span: &Id, _values: &Record<'_>) {}
    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}
    fn event(&self, event: &Event<'_>) {
        if *event.metadata().level() <= Level::INFO {
            self.0.shown.fetch_add(1, Ordering::Relaxed);
        }
    }
    fn enter(&self, _span: &Id) {}
    fn exit(&self, _span: &Id) {}
}
