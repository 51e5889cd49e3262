//! Build script: passes the program a hash of the code that determines results on this platform, for its records.

/// Sources of DFCP, of the emulated links, and of the code that runs flows over them.
const TESTBED: [&str; 15] = [
    "../time/src",
    "../fountain/src",
    "../wire/src",
    "../secure/src",
    "../proto/src",
    "../dfcp/src",
    "../netem/src",
    "../emu/src",
    "../flows/src",
    "../lab/src/scenario",
    "../lab/src/course.rs",
    "../lab/src/plan/blocks.rs",
    "../lab/src/plan/carrier.rs",
    "../sim/src/topology.rs",
    "src",
];

fn main() {
    dfcp_provenance::source_hash("DFCP_TESTBED", &TESTBED);
}
