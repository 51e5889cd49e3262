//! Generator of the synthetic mobile trace `crates/lab/plans/mobile.trace`: `cargo run -p dfcp-lab --example
//! mobile_trace > crates/lab/plans/mobile.trace`. An optional argument sets another seed.
#![expect(clippy::print_stdout, reason = "a program that prints a trace")]

mod model;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seed = std::env::args().nth(1).map_or(Ok(model::SHIPPED_SEED), |seed| seed.parse())?;
    print!("{}", model::trace(&model::SHIPPED, seed));
    Ok(())
}
