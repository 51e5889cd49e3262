//! Options that a kernel's configuration must have, and the check for them.

/// Options of `fragment.config`, embedded in the program, which is installed without that file.
pub const FRAGMENT: &str = include_str!("fragment.config");

/// An option in a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked<'text> {
    /// Name of the option, such as `CONFIG_NET`.
    name: &'text str,
    /// Value of the option, such as `y`; `n` is equivalent to absence.
    value: &'text str,
}

/// Parses the option set by a line.
fn option(line: &str) -> Option<Asked<'_>> {
    let line = line.trim();
    if let Some(name) = line.strip_prefix("# CONFIG_").and_then(|rest| rest.strip_suffix(" is not set")) {
        let start = line.len() - name.len() - " is not set".len() - "CONFIG_".len();
        return Some(Asked { name: &line[start..line.len() - " is not set".len()], value: "n" });
    }
    let (name, value) = line.split_once('=')?;
    name.starts_with("CONFIG_").then_some(Asked { name, value })
}

/// Options of a fragment, such as `CONFIG_NET=y`.
#[must_use]
pub fn options(fragment: &str) -> Vec<String> {
    fragment.lines().filter_map(option).map(|asked| format!("{}={}", asked.name, asked.value)).collect()
}

/// Options of a fragment that are missing in a resolved configuration, because the kernel does not know them or a dependency is missing.
pub(super) fn refused(fragment: &str, resolved: &str) -> Vec<String> {
    let resolved: std::collections::BTreeMap<_, _> =
        resolved.lines().filter_map(option).map(|option| (option.name, option.value)).collect();
    let asked = fragment.lines().filter_map(option);
    let refused = asked.filter(|asked| resolved.get(asked.name).copied().unwrap_or("n") != asked.value);
    refused.map(|asked| format!("{}={}", asked.name, asked.value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_was_not_granted_is_named() {
        let fragment =
            "# why CONFIG_X=y\nCONFIG_A=y\nCONFIG_B=n\nCONFIG_C=\"a=b\"\n# CONFIG_D is not set\nCONFIG_E=m\n";
        let granted = "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=\"a=b\"\nCONFIG_E=m\nCONFIG_MORE=y\n";
        assert_eq!(refused(fragment, granted), Vec::<String>::new());
        let other = "CONFIG_AA=y\nCONFIG_B=y\nCONFIG_C=\"a\"\nCONFIG_D=y\nCONFIG_E=y\n";
        assert_eq!(
            refused(fragment, other),
            ["CONFIG_A=y", "CONFIG_B=n", "CONFIG_C=\"a=b\"", "CONFIG_D=n", "CONFIG_E=m"]
        );
        assert_eq!(refused(fragment, "").len(), 3);
    }

    #[test]
    fn the_fragment_asks_for_each_option_once_and_for_what_the_laboratory_uses() {
        let options = options(FRAGMENT);
        let names: std::collections::BTreeSet<_> = options.iter().map(|option| option.split('=').next()).collect();
        assert_eq!(names.len(), options.len());
        for needed in ["UML_TIME_TRAVEL_SUPPORT", "HOSTFS", "NET_SCH_NETEM", "NET_SCH_FQ_CODEL", "VETH", "TCP_CONG_BBR"]
        {
            assert!(options.contains(&format!("CONFIG_{needed}=y")), "{needed}");
        }
        assert_eq!(refused(FRAGMENT, FRAGMENT), Vec::<String>::new());
    }
}
