//! Platforms as records name them.

/// A platform as records know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    /// Its name: `sim`, `kernel-6.12.117`, or `testbed-6.18.44`.
    pub platform: String,
    /// Hash of the platform's code, which decides a run together with the scenario and the seed.
    pub hash: String,
}

/// The simulator's name.
pub(crate) const SIM: &str = "sim";

impl Engine {
    /// The simulator's engine.
    #[must_use]
    pub fn sim() -> Self {
        Self { platform: SIM.to_owned(), hash: env!("DFCP_ENGINE").to_owned() }
    }

    /// True for the simulator.
    #[must_use]
    pub fn is_sim(&self) -> bool {
        self.platform == SIM
    }

    /// Label of a series beside other platforms: the simulator's has the plan's label.
    #[must_use]
    pub fn label(&self, series: &str) -> String {
        if self.is_sim() { series.to_owned() } else { format!("{series}, {}", self.platform) }
    }
}
