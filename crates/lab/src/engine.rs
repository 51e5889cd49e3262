//! Identity of the platform and code that made a run.

/// A platform and the version of its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    /// Name of the platform, for example `sim`, `kernel-6.12.117`, or `testbed-6.18.44`.
    pub platform: String,
    /// Hash of the platform's code. Code, scenario and seed together decide the result of a run.
    pub hash: String,
}

/// Name of the simulator as a platform.
pub(crate) const SIM: &str = "sim";

impl Engine {
    /// Returns the engine of the simulator in this program.
    #[must_use]
    pub fn sim() -> Self {
        Self { platform: SIM.to_owned(), hash: env!("DFCP_ENGINE").to_owned() }
    }

    /// Returns true for the simulator.
    #[must_use]
    pub fn is_sim(&self) -> bool {
        self.platform == SIM
    }

    /// Returns the label of a series, with the platform appended unless it is the simulator.
    #[must_use]
    pub fn label(&self, series: &str) -> String {
        if self.is_sim() { series.to_owned() } else { format!("{series}, {}", self.platform) }
    }
}
