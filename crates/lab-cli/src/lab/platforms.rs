//! Selection of the platforms that execute runs.

#[cfg(target_os = "linux")]
use std::path::Path;
use std::sync::Arc;

#[cfg(target_os = "linux")]
use anyhow::Context;
#[cfg(target_os = "linux")]
use dfcp_kernel::{Cache, Kernel, KernelPlatform};
use dfcp_lab::{Platform, Sim};
#[cfg(target_os = "linux")]
use dfcp_terminal::output;
#[cfg(target_os = "linux")]
use dfcp_testbed::{Host, TestbedPlatform};

use super::args::{self, PlatformsArg};

/// Platforms, in the order of display.
pub(super) type Platforms = Vec<Box<dyn Platform>>;

/// Returns the requested platforms without duplicates.
///
/// # Errors
/// Fails if a platform is unavailable.
pub(super) fn of(which: &PlatformsArg) -> anyhow::Result<Arc<Platforms>> {
    let mut all: Platforms = Vec::new();
    let mut add = |platform: Box<dyn Platform>| {
        if !all.iter().any(|other| other.engine() == platform.engine()) {
            all.push(platform);
        }
    };
    for name in &which.platform {
        match name {
            args::Platform::Sim => add(Box::<Sim>::default()),
            #[cfg(target_os = "linux")]
            args::Platform::Kernel => kernels(&which.kernel)?.into_iter().for_each(|kernel| add(Box::new(kernel))),
            #[cfg(target_os = "linux")]
            args::Platform::Testbed => add(Box::new(testbed()?)),
        }
    }
    Ok(Arc::new(all))
}

/// Returns one requested platform; `name` selects a kernel.
///
/// # Errors
/// Fails if the platform is unavailable.
pub(super) fn one(
    platform: args::Platform,
    #[cfg_attr(not(target_os = "linux"), expect(unused_variables, reason = "there are no kernels"))] name: Option<&str>,
) -> anyhow::Result<Box<dyn Platform>> {
    Ok(match platform {
        args::Platform::Sim => Box::<Sim>::default(),
        #[cfg(target_os = "linux")]
        args::Platform::Kernel => Box::new(kernel(name)?),
        #[cfg(target_os = "linux")]
        args::Platform::Testbed => Box::new(testbed()?),
    })
}

/// Returns this machine as a real-time platform.
#[cfg(target_os = "linux")]
fn testbed() -> anyhow::Result<TestbedPlatform> {
    let program = std::env::current_exe().context("cannot find this program, which makes the runs")?;
    Ok(TestbedPlatform::new(Host::here().map_err(anyhow::Error::msg)?, program, super::TESTBED_RUN))
}

/// Returns the requested kernels, or the newest one that was built.
#[cfg(target_os = "linux")]
fn kernels(names: &[String]) -> anyhow::Result<Vec<KernelPlatform>> {
    if names.is_empty() { Ok(vec![kernel(None)?]) } else { names.iter().map(|name| kernel(Some(name))).collect() }
}

/// Returns the kernel with this release or path, or the newest one that was built.
///
/// # Errors
/// Fails if there is no such kernel.
#[cfg(target_os = "linux")]
pub(super) fn kernel(name: Option<&str>) -> anyhow::Result<KernelPlatform> {
    let program = std::env::current_exe().context("cannot find this program, which guests run")?;
    // A path contains a slash, and a release never does.
    let kernel = match name.filter(|name| name.contains('/')) {
        Some(path) => Kernel::at(Path::new(path))?,
        None => Cache::of_user()?.find(name)?,
    };
    let platform = KernelPlatform::new(kernel, program);
    Ok(match std::env::var("DFCP_LOG") {
        Ok(filter) => platform.with_events(filter, |seed, line| output::note(&format!("seed {seed}: {line}"))),
        Err(_) => platform,
    })
}
