//! Time steps of a scenario.

use dfcp_sim::{FlowId, Observer, Simulation};
use dfcp_time::Time;

use crate::scenario::{Built, ChangeSpec, Scenario};

/// Advances the time of `scenario` in steps of `step_ns` up to `end_ns`, or until every flow has a size and has finished. Changes are
/// applied at their times. `each` is called at time 0 and after every step (shortened by a change), with the time in ns. Returns the end
/// time.
///
/// # Errors
/// Fails with the error of `each`, or with one sentence about an invalid change.
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

/// Applies `change` now.
fn apply<O: Observer>(
    simulation: &mut Simulation<O>,
    scenario: &Scenario,
    built: &Built,
    change: &ChangeSpec,
) -> Result<(), String> {
    let links = if change.is_back { &built.back_links } else { &built.links };
    simulation.change(links[change.link], &change.link_change(scenario)?).map_err(|error| error.to_string())
}
