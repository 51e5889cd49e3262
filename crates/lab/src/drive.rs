//! Stepping of a simulation through a scenario's time and changes.

use dfcp_sim::{FlowId, Observer, Simulation};
use dfcp_time::Time;

use crate::scenario::{Built, ChangeSpec, Scenario};

/// Advances the simulation in steps of `step_ns` up to `end_ns`, and applies the scenario's changes at their times.
/// Ends early once all flows are finished, if every flow has a size. `each` is called with the time in ns, at 0 and
/// after every step; a change shortens the step before it. Returns the end time, ns.
///
/// # Errors
/// Fails with the error of `each`, or with a sentence about an invalid change.
pub(crate) fn drive<O: Observer, E: From<String>>(
    simulation: &mut Simulation<O>,
    (scenario, built): (&Scenario, &Built),
    (step_ns, end_ns): (u64, u64),
    mut each: impl FnMut(&mut Simulation<O>, u64) -> Result<(), E>,
) -> Result<u64, E> {
    let has_sizes = scenario.flows.iter().all(|flow| flow.bytes.is_some());
    let mut changes = scenario.changes.iter().peekable();
    let mut now_ns = 0;
    loop {
        each(simulation, now_ns)?;
        while let Some(change) = changes.next_if(|change| change.at_ns <= now_ns) {
            apply(simulation, scenario, built, change)?;
        }
        if now_ns >= end_ns || has_sizes && built.flows.iter().all(|&flow| is_over(simulation, flow)) {
            return Ok(now_ns);
        }
        let next_change_ns = changes.peek().map_or(u64::MAX, |change| change.at_ns);
        now_ns = ((now_ns / step_ns + 1) * step_ns).min(next_change_ns).min(end_ns);
        simulation.run_until(Time::from_ns(now_ns));
    }
}

fn is_over<O: Observer>(simulation: &Simulation<O>, flow: FlowId) -> bool {
    let report = simulation.flow(flow);
    report.confirmed_at.is_some() || report.failure.is_some()
}

/// Applies `change` to its link immediately.
fn apply<O: Observer>(
    simulation: &mut Simulation<O>,
    scenario: &Scenario,
    built: &Built,
    change: &ChangeSpec,
) -> Result<(), String> {
    let links = if change.is_back { &built.back_links } else { &built.links };
    simulation.change(links[change.link], &change.link_change(scenario)?).map_err(|error| error.to_string())
}
