//! Platforms as named in records.

/// A platform and the version of its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    /// Name of the platform: `sim`, `kernel-6.12.117`, or `testbed-6.18.44`.
    pub platform: String,
    /// Hash of the platform's code, which decides the result of a run together with the scenario and the seed.
    pub hash: String,
}

/// Name of the simulator.
pub(crate) const SIM: &str = "sim";

impl Engine {
    /// Engine of the simulator.
    #[must_use]
    pub fn sim() -> Self {
        Self { platform: SIM.to_owned(), hash: env!("DFCP_ENGINE").to_owned() }
    }

    /// True for the simulator.
    #[must_use]
    pub fn is_sim(&self) -> bool {
        self.platform == SIM
    }

    /// Label of a series next to other platforms; on the simulator, the label in the plan.
    #[must_use]
    pub fn label(&self, series: &str) -> String {
        if self.is_sim() { series.to_owned() } else { format!("{series}, {}", self.platform) }
    }
}
