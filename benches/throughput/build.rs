//! Tells the program from which commit it was built, for its records.

fn main() {
    dfcp_provenance::commit("DFCP_COMMIT");
}
