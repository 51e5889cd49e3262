//! Commands that a page shows together.

/// This comment before a block says that it is run.
const RUN: &str = "<!-- run -->";

/// A `sh` block of a page.
#[derive(Debug)]
pub(crate) struct Block {
    /// Its lines, each with its number on the page; one that ends with a backslash has the next one in it.
    pub(crate) lines: Vec<(usize, String)>,
    /// It is complete in itself, and [`RUN`] stands before it.
    pub(crate) is_run: bool,
}

impl Block {
    /// The blocks of a page.
    pub(crate) fn all(page: &str) -> Vec<Self> {
        let mut blocks = Vec::new();
        let mut before = "";
        let mut lines = page.lines().enumerate();
        while let Some((_, line)) = lines.next() {
            if line == "```sh" {
                let inside = lines.by_ref().take_while(|(_, line)| *line != "```");
                blocks.push(Self { lines: joined(inside), is_run: before == RUN });
            }
            before = line;
        }
        blocks
    }
}

fn joined<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<(usize, String)> {
    let mut joined: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (index, line) in lines {
        let text = line.strip_suffix('\\').unwrap_or(line);
        match joined.last_mut() {
            Some((_, last)) if goes_on => last.push_str(text),
            _ => joined.push((index + 1, text.to_owned())),
        }
        goes_on = text.len() < line.len();
    }
    joined
}
