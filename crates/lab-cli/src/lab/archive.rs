//! Command `dfcp lab archive`: packs the records of plans.

use dfcp_lab::archive::{pack, unpack};
use dfcp_lab::read;
use dfcp_terminal::output;

use super::args::ArchiveArgs;
use super::{chosen, lay_out, platforms, sources};

/// Packs the existing records into one file per plan, and reports missing records.
pub(super) fn run(args: &ArchiveArgs) -> anyhow::Result<()> {
    let sources = chosen(sources(&args.plans.which())?, &args.ids)?;
    let platforms = platforms::of(&args.runs.platforms)?;
    for plan in lay_out(&sources, &args.runs, &platforms)? {
        let id = &plan.source.plan.id;
        let mut records = unpack(&args.to, id, &plan.runs)?;
        let fresh = read(&args.runs.results, id)?;
        let has_fresh = plan.runs.iter().any(|run| fresh.contains_key(&run.hash));
        records.extend(fresh);
        if !has_fresh {
            output::note(&format!("{id}: no records, nothing written"));
            continue;
        }
        let packed = pack(&args.to, id, &plan.runs, &records)?;
        let kib = packed.bytes.div_ceil(1024);
        output::note(&format!("{id}: {} records of {} runs, {kib} KiB", packed.records, plan.runs.len()));
    }
    Ok(())
}
