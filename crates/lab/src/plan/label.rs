//! Labels of flows, used in figures, tables and claims.

use toml::Spanned;

use super::claim::FlowName;
use super::flows::Flows;
use super::model::Plan;
use super::{PlanError, Source};

/// Greatest length of a label, characters: longer ones do not fit into legends.
const LABEL_CHARS_MAX: usize = 40;

impl Flows {
    /// Returns the label of flow `place` in this group; numbered if the group has several flows.
    pub(crate) fn label_of(&self, place: u32) -> Option<String> {
        let label = self.label.as_ref()?;
        Some(if self.count > 1 { format!("{label} {}", place + 1) } else { label.clone() })
    }
}

impl Plan {
    /// Returns the label of each flow, in order. Empty if the number of flows varies between runs, so that an index
    /// does not identify a flow.
    pub(crate) fn flow_labels(&self) -> Vec<Option<String>> {
        if self.has_varied_counts() {
            return Vec::new();
        }
        let groups = self.flows.iter().map(Spanned::get_ref);
        groups.flat_map(|flows| (0..flows.count).map(|place| flows.label_of(place))).collect()
    }

    /// Returns the index of a flow, from 0; `None` if no flow has this label.
    pub(crate) fn place_of(&self, flow: &FlowName) -> Option<usize> {
        match flow {
            FlowName::Number(number) => Some(number.saturating_sub(1)),
            FlowName::Label(label) => self.flow_labels().iter().position(|own| own.as_ref() == Some(label)),
        }
    }

    fn has_varied_counts(&self) -> bool {
        let swept = self.sweep.iter().map(|axis| &axis.get_ref().parameter);
        let set = self.series.iter().flat_map(|series| series.get_ref().set.keys());
        let shorter = self.quick.set.keys().chain(self.small.set.keys());
        let is_count = |name: &String| name == "flows" || name.starts_with("flows") && name.ends_with(".count");
        swept.chain(set).chain(shorter).any(is_count)
    }
}

/// Checks that the labels of flows are unique, and that claims refer to existing flows.
pub(super) fn check_labels(source: &Source) -> Result<(), PlanError> {
    let plan = &source.plan;
    let mut taken: Vec<&str> = Vec::new();
    for flows in &plan.flows {
        let Some(label) = &flows.get_ref().label else { continue };
        let fault = match label.chars().count() {
            0 => Some("the label of these flows is empty; write one, or leave `label` out".to_owned()),
            count if count > LABEL_CHARS_MAX => {
                Some(format!("the label of these flows has more than {LABEL_CHARS_MAX} characters; shorten it"))
            }
            _ if label.chars().any(char::is_control) => Some("a label is one line of text".to_owned()),
            _ if taken.contains(&label.as_str()) => {
                Some(format!("the label \"{label}\" is taken; give these flows another"))
            }
            _ => None,
        };
        if let Some(fault) = fault {
            return Err(source.error(flows.span().start, fault));
        }
        taken.push(label);
    }
    for claim in &plan.claims {
        let named = [&claim.get_ref().flow, &claim.get_ref().to_flow].into_iter().flatten();
        if let Some(unknown) = named.into_iter().find(|flow| plan.place_of(flow).is_none()) {
            return Err(source.error(claim.span().start, no_flow(plan, unknown)));
        }
    }
    Ok(())
}

fn no_flow(plan: &Plan, unknown: &FlowName) -> String {
    if plan.has_varied_counts() {
        return format!("{unknown} has no place, because numbers of flows are varied; choose it by number");
    }
    let known: Vec<String> = plan.flow_labels().into_iter().flatten().map(|label| format!("\"{label}\"")).collect();
    match known.is_empty() {
        true => format!("there is no {unknown}; give its [[flows]] that `label`, or choose it by number"),
        false => format!("there is no {unknown}; choose one of {}, or a number", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expand::{Choice, Run, expand};
    use crate::reading::parse;

    const LABELLED: &str = "id = \"t\"\ntitle = \"\"\nsource = \"ours\"\nquestion = \"\"\n[run]\nduration_s = 1\nwarm_up_s = 0\n\
         [topology]\nrate_mbps = 10\n[[flows]]\nlabel = \"ours\"\n[[flows]]\nlabel = \"rival\"\ncount = 2\ntransport = \"cubic\"\n\
         [[series]]\nlabel = \"A\"\ntransport = \"modern\"\n[metrics]\nplot = [\"goodput_mbps\"]\n\
         [[claims]]\nid = \"1\"\nsays = \"\"\ntag = \"D\"\nkind = \"value\"\nseries = \"A\"\nflow = \"rival 2\"\nwithin = [1, 9]\n";

    fn complaint(from: &str, to: &str) -> String {
        assert!(LABELLED.contains(from), "{from}");
        parse("t.toml", &LABELLED.replacen(from, to, 1)).unwrap_err().to_string()
    }

    fn runs(text: &str) -> Vec<Run> {
        expand(&parse("t.toml", text).unwrap(), Choice { seeds: Some(1), ..Choice::default() }).unwrap()
    }

    #[test]
    fn flows_are_found_by_label_or_place() {
        let plan = parse("t.toml", LABELLED).unwrap().plan;
        let label = |label: &str| plan.place_of(&FlowName::Label(label.to_owned()));
        assert_eq!(
            [label("ours"), label("rival 1"), label("rival 2"), label("rival")],
            [Some(0), Some(1), Some(2), None]
        );
        assert_eq!(plan.place_of(&FlowName::Number(2)), Some(1));
        assert_eq!(plan.claims[0].get_ref().flow, Some(FlowName::Label("rival 2".to_owned())));
    }

    #[test]
    fn a_label_decides_nothing() {
        let named = &runs(LABELLED)[0];
        let labels: Vec<_> = named.scenario.flows.iter().map(|flow| flow.label.as_deref()).collect();
        assert_eq!(labels, [Some("ours"), Some("rival 1"), Some("rival 2")]);
        let plain = LABELLED.replace("label = \"ours\"\n", "").replace("\"rival 2\"", "3");
        let other = &runs(&plain.replace("label = \"rival\"\n", ""))[0];
        assert_eq!((&named.hash, named.seed), (&other.hash, other.seed));
        assert_ne!(named.scenario, other.scenario);
    }

    #[test]
    fn labels_that_say_nothing_are_refused() {
        for (from, to, part) in [
            ("label = \"rival\"", "label = \"ours\"", "line 12: the label \"ours\" is taken"),
            ("label = \"ours\"", "label = \"\"", "label of these flows is empty"),
            ("label = \"ours\"", "label = \"a\\nb\"", "a label is one line"),
            ("label = \"ours\"", &format!("label = \"{}\"", "x".repeat(41)), "more than 40 characters"),
            (
                "\"rival 2\"",
                "\"rival 3\"",
                "there is no flow \"rival 3\"; choose one of \"ours\", \"rival 1\", \"rival 2\"",
            ),
            ("[metrics]", "[[sweep]]\nparameter = \"flows1.count\"\nvalues = [1, 2]\n[metrics]", "choose it by number"),
        ] {
            let told = complaint(from, to);
            assert!(told.contains(part), "{told}");
        }
        let longest = LABELLED.replace("label = \"ours\"", &format!("label = \"{}\"", "x".repeat(LABEL_CHARS_MAX)));
        assert!(parse("t.toml", &longest).is_ok());
    }
}
