//! Build script that embeds two values in the program for its records: the commit of its source, and a hash of the code
//! that decides results.

/// Source directories of the code that decides the result of a run.
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
