//! Build script: passes the program a hash of the code that decides the result of a run on this platform, for its records.

/// Sources of DFCP and of the code that runs in a guest.
const GUEST: [&str; 14] = [
    "../time/src",
    "../fountain/src",
    "../wire/src",
    "../secure/src",
    "../proto/src",
    "../dfcp/src",
    "../flows/src",
    "../lab/src/scenario",
    "../lab/src/course.rs",
    "../lab/src/plan/blocks.rs",
    "../lab/src/plan/carrier.rs",
    "../sim/src/quic/settings.rs",
    "../sim/src/topology.rs",
    "src/guest",
];

fn main() {
    dfcp_provenance::source_hash("DFCP_GUEST", &GUEST);
}
