//! Build script: passes the program the commit it was built from, and a hash of the code that decides the result of a run, for its records.

/// Sources of the code that makes runs.
const ENGINE: [&str; 17] = [
    "../time/src",
    "../fountain/src",
    "../wire/src",
    "../proto/src",
    "../netem/src",
    "../sim/src",
    "../estimate/src",
    "src/bound.rs",
    "src/scenario",
    "src/course.rs",
    "src/dynamics.rs",
    "src/estimation.rs",
    "src/drive.rs",
    "src/measure.rs",
    "src/plan/blocks.rs",
    "src/plan/carrier.rs",
    "src/plan/kind.rs",
];

fn main() {
    dfcp_provenance::commit("DFCP_COMMIT");
    dfcp_provenance::source_hash("DFCP_ENGINE", &ENGINE);
}
