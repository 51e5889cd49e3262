//! Command blocks of a page.

/// Comment that marks the next block as runnable.
const RUN: &str = "<!-- run -->";

/// `sh` block of a page.
#[derive(Debug)]
pub(crate) struct Block {
    /// Lines with their numbers; a line ending in a backslash includes the next one.
    pub(crate) lines: Vec<(usize, String)>,
    /// True if [`RUN`] precedes the block, which is then self-contained.
    pub(crate) is_run: bool,
}

impl Block {
    /// All blocks of a page.
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
