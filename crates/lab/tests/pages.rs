//! Tests that the documentation matches the plans.

use std::fs;
use std::path::Path;

#[path = "../examples/pages/pages.rs"]
mod pages;

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn pages_say_what_the_plans_and_the_compared_points_say() {
    for (path, page) in pages::of_plans(&root(), &dfcp_lab::reading::builtin().unwrap()).unwrap() {
        let written = fs::read_to_string(root().join(path)).unwrap();
        assert!(written == page, "{path} is old; write it anew: cargo run --release -p dfcp-lab --example pages");
        assert!(page.len() <= 8000, "{path} is longer than a screen: {} bytes", page.len());
    }
}

/// The legend has a row for every document key, note number and plan letter.
#[test]
fn the_legend_explains_the_abbreviations() {
    let sources = dfcp_lab::reading::builtin().unwrap();
    let page = dfcp_lab::experiments(&sources);
    let words = |text: &str| text.split(|c: char| !c.is_alphanumeric()).map(str::to_owned).collect::<Vec<_>>();
    let documents = sources
        .iter()
        .flat_map(|source| words(&source.plan.source))
        .filter(|word| word.len() == 2 && word != "II" && word.bytes().all(|letter| letter.is_ascii_uppercase()));
    let traps = words(&page).into_iter().filter(|word| {
        word.strip_prefix('N')
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()))
    });
    let plans = sources.iter().map(|source| source.plan.id[..1].to_owned());
    for key in documents.chain(traps).chain(plans) {
        assert!(page.contains(&format!("\n| `{key}` | ")), "{key} has no explanation");
    }
}

/// The example in `docs/plans.md` must be a valid plan.
#[test]
fn the_example_of_the_guide_is_a_plan() {
    let guide = include_str!("../../../docs/plans.md");
    let text = guide.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let source = dfcp_lab::reading::parse("docs/plans.md", text).unwrap();
    assert_eq!(source.plan.id, "my-link");
}

/// The guide must show how to write a transport with options.
#[test]
fn the_guide_shows_both_forms_of_a_transport() {
    let guide = include_str!("../../../docs/plans.md");
    let plan = guide.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let forms: Vec<&str> = guide.split('`').filter(|code| code.starts_with("transport = ")).collect();
    assert!(forms.iter().any(|form| form.contains("kind = ")), "no table with its key `kind`: {forms:?}");
    for form in forms {
        let text = plan.replace("transport = \"modern\"", form);
        assert!(text.contains(form), "{form}");
        dfcp_lab::reading::parse("docs/plans.md", &text).unwrap();
    }
}

#[path = "../examples/mobile_trace/model.rs"]
mod model;

/// Plans B1 to B3 measure with this trace, so a change of the generator would change their results.
#[test]
fn the_shipped_trace_is_what_its_generator_makes() {
    let shipped = include_str!("../plans/mobile.trace");
    let made = model::trace(&model::SHIPPED, model::SHIPPED_SEED);
    assert!(
        shipped == made,
        "make it anew: cargo run -p dfcp-lab --example mobile_trace > crates/lab/plans/mobile.trace"
    );
    let trace = dfcp_netem::DeliveryTrace::parse(shipped).unwrap();
    assert_eq!(trace.period(), std::time::Duration::from_secs(60));
    let bins: Vec<f64> = trace
        .bins(std::time::Duration::from_secs(1), trace.period())
        .map(|packets| packets as f64 * 12_000.0 / 1e6)
        .collect();
    assert!(bins.iter().all(|mbps| (0.9..4.3).contains(mbps)), "{bins:?}");
    assert_ne!(shipped, model::trace(&model::SHIPPED, model::SHIPPED_SEED + 1));
}
