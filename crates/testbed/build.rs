//! Build script that embeds a hash of the code that decides results on this platform, for records.

/// Source directories of DFCP, of the emulated links, and of the flows' endpoints.
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
