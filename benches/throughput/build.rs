//! Build script: passes the program the commit it was built from, for its records.

fn main() {
    dfcp_provenance::commit("DFCP_COMMIT");
}
