//! Runs as jobs for other machines: a job is one line of JSON, its result one record.

use serde::{Deserialize, Serialize};

use crate::expand::{Choice, Form, Run, expand};
use crate::measure::MeasureError;
use crate::plan::{PlanError, Point, Source};
use crate::platform::Platform;
use crate::record::{Origin, Record};
use crate::run::one;
use crate::scenario::Scenario;

/// Job that describes a run for another machine. The id alone identifies the run in the same plans; the other fields
/// inform people and schedulers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Id of the job, `PLAN.FORM.REPETITION.HASH`.
    pub id: String,
    /// Label of the series.
    #[serde(default)]
    pub series: String,
    /// Values of the swept parameters.
    #[serde(default)]
    pub point: Point,
    /// Platform that makes the run.
    #[serde(default)]
    pub platform: String,
    /// Estimated cost: simulated seconds × Gbit/s, roughly proportional to CPU time.
    #[serde(default)]
    pub cost: f64,
}

/// Error of looking up or running a job.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The id is malformed.
    #[error(
        "{0} is no job's id; take one that `dfcp lab jobs` prints, like D3.quick.1.0123456789abcdef0123456789abcdef"
    )]
    Id(String),
    /// No plan has this id.
    #[error("there is no plan {0}; give the directory which has it with --plans")]
    Plan(String),
    /// The plan has no run with this hash.
    #[error("plan {plan} has no run {hash} on {platforms}; list the jobs anew with this program and these plans")]
    Run {
        /// Id of the plan.
        plan: String,
        /// Hash of the run's settings and code.
        hash: String,
        /// Platforms that were searched.
        platforms: String,
    },
    /// The record's settings differ from the settings that this program uses for the run.
    #[error("the record of {0} has other settings than that run; make it again")]
    Alien(String),
    /// The plan is invalid.
    #[error(transparent)]
    Expand(#[from] PlanError),
    /// The run is impossible.
    #[error(transparent)]
    Measure(#[from] MeasureError),
}

/// Components of a job id.
struct Id<'id> {
    plan: &'id str,
    form: Form,
    repetition: u32,
    hash: &'id str,
}

impl<'id> Id<'id> {
    fn read(id: &'id str) -> Result<Self, JobError> {
        let wrong = || JobError::Id(id.chars().take(80).flat_map(char::escape_debug).collect());
        let parts: Vec<&str> = id.split('.').collect();
        let [plan, form, repetition, hash] = parts[..] else { return Err(wrong()) };
        let form = match form {
            "full" => Form::Full,
            "quick" => Form::Quick,
            "small" => Form::Small,
            _ => return Err(wrong()),
        };
        let repetition = repetition.parse().ok().filter(|repetition| (1..=REPETITIONS_MAX).contains(repetition));
        let is_hash = hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        Ok(Self { plan, form, repetition: repetition.filter(|_| is_hash).ok_or_else(wrong)?, hash })
    }
}

/// Largest repetition number in an id.
const REPETITIONS_MAX: u32 = 1_000;

/// Formats the id of a run.
fn id_of(plan: &str, form: Form, repetition: u32, hash: &str) -> String {
    let form = match form {
        Form::Full => "full",
        Form::Quick => "quick",
        Form::Small => "small",
    };
    format!("{plan}.{form}.{repetition}.{hash}")
}

impl Job {
    /// Describes `run`, of its plan's `form`, as a job.
    #[must_use]
    pub fn new(run: &Run, form: Form) -> Self {
        Self {
            id: id_of(&run.plan, form, run.repetition, &run.hash),
            series: run.series.clone(),
            point: run.point.clone(),
            platform: run.engine.platform.clone(),
            cost: run.scenario.cost(),
        }
    }
}

/// Finds the run with this id in `sources`. Returns it with its form and the platform, of `platforms`, that makes it.
///
/// # Errors
/// Fails if there is no such run.
pub fn find<'platform>(
    id: &str,
    sources: &[Source],
    platforms: &[&'platform dyn Platform],
) -> Result<(Run, Form, &'platform dyn Platform), JobError> {
    let Id { plan, form, repetition, hash } = Id::read(id)?;
    let source = sources.iter().find(|source| source.plan.id == plan).ok_or_else(|| JobError::Plan(plan.to_owned()))?;
    // Other repetitions differ in seed and hash only, and are derived from the first run of each point.
    for first in expand(source, Choice { form, seeds: Some(1) })? {
        let run = first.repeated(repetition);
        let found = platforms.iter().find_map(|platform| {
            let on = run.on(platform.engine());
            (on.hash == hash).then_some((on, *platform))
        });
        if let Some((run, platform)) = found {
            return Ok((run, form, platform));
        }
    }
    let names: Vec<_> = platforms.iter().map(|platform| platform.engine().platform.as_str()).collect();
    Err(JobError::Run { plan: plan.to_owned(), hash: hash.to_owned(), platforms: names.join(", ") })
}

/// Executes the run with this id.
///
/// # Errors
/// Fails if there is no such run, or the run is impossible.
pub fn make(id: &str, sources: &[Source], platforms: &[&dyn Platform]) -> Result<Record, JobError> {
    let (run, form, platform) = find(id, sources, platforms)?;
    Ok(one(&run, form, platform, &Origin::here())?)
}

/// Checks a record from another machine: it must belong to a run of `sources` on one of `platforms`, and have the
/// settings that this program would record.
///
/// # Errors
/// Fails if the record does not match.
pub fn check(record: &Record, sources: &[Source], platforms: &[&dyn Platform]) -> Result<(), JobError> {
    let id = id_of(&record.plan, record.form, record.repetition, &record.hash);
    let (run, form, _) = find(&id, sources, platforms)?;
    let ours = Record::new(&run, form, record.measured.clone(), &Origin::here(), 0.0);
    // Labels do not change results, and may have been added to a plan after the record was made.
    let has_same_settings = serde_json::from_value(record.scenario.clone())
        .is_ok_and(|scenario: Scenario| scenario.without_labels() == run.scenario.without_labels());
    let is_same = (ours.schema, ours.seed, &ours.series, &ours.point, &ours.platform)
        == (record.schema, record.seed, &record.series, &record.point, &record.platform)
        && has_same_settings;
    if is_same { Ok(()) } else { Err(JobError::Alien(id)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::Sim;
    use crate::reading::parse;

    fn source() -> Source {
        let text = "id = \"t\"\ntitle = \"\"\nsource = \"\"\nquestion = \"\"\n[run]\nseeds = 2\nduration_s = 1\nwarm_up_s = 0\n[topology]\n\
                    rate_mbps = 10\n[[flows]]\n[[series]]\nlabel = \"A\"\ntransport = \"cubic\"\n[[sweep]]\nparameter = \"loss\"\nvalues = [0, 0.01]\n\
                    [metrics]\nplot = [\"goodput_mbps\"]\n";
        parse("t.toml", text).unwrap()
    }

    #[test]
    fn a_job_is_the_run_that_it_was_listed_as() {
        let (source, sim) = (source(), Sim::default());
        let sources = [source];
        let runs = expand(&sources[0], Choice { form: Form::Quick, seeds: Some(3) }).unwrap();
        for run in &runs {
            let job = Job::new(run, Form::Quick);
            let (found, form, _) = find(&job.id, &sources, &[&sim]).unwrap();
            assert_eq!((&found, form), (run, Form::Quick), "{}", job.id);
        }
        let record = make(&Job::new(&runs[4], Form::Quick).id, &sources, &[&sim]).unwrap();
        assert_eq!((record.hash.as_str(), record.repetition), (runs[4].hash.as_str(), 2));
        assert!(check(&record, &sources, &[&sim]).is_ok());
    }

    #[test]
    fn what_is_no_job_of_ours_is_said_in_one_sentence() {
        let (sources, sim) = ([source()], Sim::default());
        let none = "0".repeat(32);
        for id in [
            "",
            "t",
            "t.quick.1",
            "t.slow.1.0",
            "../t.quick.1.ff",
            &format!("t.quick.0.{none}"),
            &format!("t.quick.1001.{none}"),
        ] {
            assert!(matches!(make(id, &sources, &[&sim]), Err(JobError::Id(_))), "{id}");
        }
        assert!(matches!(make(&format!("u.quick.1.{none}"), &sources, &[&sim]), Err(JobError::Plan(_))));
        assert!(matches!(make(&format!("t.quick.1.{none}"), &sources, &[&sim]), Err(JobError::Run { .. })));
    }

    /// A record from another machine is untrusted: one with other settings is refused.
    #[test]
    fn a_record_with_other_settings_is_not_taken() {
        let (sources, sim) = ([source()], Sim::default());
        let run = expand(&sources[0], Choice { form: Form::Full, seeds: None }).unwrap().remove(0);
        let honest = make(&Job::new(&run, Form::Full).id, &sources, &[&sim]).unwrap();
        let lies: [fn(&mut Record); 6] = [
            |record| record.plan = "../../etc/passwd".to_owned(),
            |record| record.seed += 1,
            |record| record.series = "B".to_owned(),
            |record| record.scenario["duration_ns"] = 1.into(),
            |record| record.repetition = 2,
            |record| record.platform = "kernel-9".to_owned(),
        ];
        for lie in lies {
            let mut record = honest.clone();
            lie(&mut record);
            assert!(check(&record, &sources, &[&sim]).is_err(), "{record:?}");
        }
    }
}
