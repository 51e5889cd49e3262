//! Parser for the subset of shell syntax that the pages use.

/// Spelling of `dfcp` in a checkout.
const IN_A_CHECKOUT: &str = "cargo run --release -- ";

/// Returns the words of each `dfcp ..` command in a line, without machine labels, assignments, `sudo` and pipes.
pub(crate) fn commands(line: &str) -> Vec<Vec<String>> {
    let line = line.replace(IN_A_CHECKOUT, "dfcp ");
    let is_before = |word: &String| word.ends_with(':') || word.contains('=') || word == "sudo";
    simple_commands(&line)
        .into_iter()
        .map(|words| words.into_iter().skip_while(is_before).collect::<Vec<_>>())
        .filter(|words| words.first().is_some_and(|word| word == "dfcp"))
        .collect()
}

/// Splits a line into the words between operators. A redirection target counts as a separate command.
fn simple_commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars().chain(['\n']) {
        if quote == Some(c) {
            quote = None;
            continue;
        }
        let ends = quote.is_none() && (c.is_whitespace() || "|&;<>".contains(c));
        if ends {
            commands.last_mut().unwrap().extend(word.take());
            if !c.is_whitespace() {
                commands.push(Vec::new());
            }
        } else if quote.is_none() && c == '#' && word.is_none() {
            break;
        } else if quote.is_none() && (c == '\'' || c == '"') {
            quote = Some(c);
            word.get_or_insert_default();
        } else {
            word.get_or_insert_default().push(c);
        }
    }
    commands
}
