//! The record of a build, written beside the kernel.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::limits::BUILD_INFO_BYTES_MAX;

/// Name of the file.
pub(crate) const FILE: &str = "build.json";

/// The record of a kernel's build: `build.json` beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BuildInfo {
    /// The kernel's release, as `6.12.117`.
    pub release: String,
    /// Debian's package of its source, as `linux-source-6.12`.
    pub package: String,
    /// The package's version, as `6.12.117-1~deb12u1`.
    pub package_version: String,
    /// Hash of the source package, the options and the way of building: hex digits.
    pub hash: String,
    /// The options asked for, as `CONFIG_NET=y`.
    pub options: Vec<String>,
    /// The compiler, as it names itself.
    pub compiler: String,
    /// Duration of the whole build, seconds.
    pub seconds: f64,
}

impl BuildInfo {
    /// The record of the kernel in this directory; `None` if it is missing or damaged.
    pub(crate) fn read(directory: &Path) -> Option<Self> {
        let mut text = String::new();
        let file = File::open(directory.join(FILE)).ok()?;
        file.take(BUILD_INFO_BYTES_MAX).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }
}
