//! Output of a guest or a tool: its last bytes, their form in an error, and listeners for lines.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::limits::{CONSOLE_BYTES_MAX, CONSOLE_LINE_BYTES_SHOWN, CONSOLE_LINES_SHOWN};

/// Last bytes of an output.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tail(Arc<Mutex<VecDeque<u8>>>);

impl Tail {
    pub(crate) fn add(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = &bytes[bytes.len().saturating_sub(CONSOLE_BYTES_MAX)..];
        let excess = (kept.len() + bytes.len()).saturating_sub(CONSOLE_BYTES_MAX);
        kept.drain(..excess);
        kept.extend(bytes);
    }

    pub(crate) fn text(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.iter().copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Callback for each line of a console, once it is complete.
#[derive(Clone)]
pub struct Listener(Arc<dyn Fn(&str) + Send + Sync>);

impl Listener {
    /// Makes a listener. `hear` receives lines without line ends and without terminal control sequences.
    pub fn new(hear: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hear))
    }

    /// Callback for output in pieces of any length. Lines longer than [`CONSOLE_BYTES_MAX`] are passed on in pieces, too.
    pub(crate) fn hear_pieces(self) -> impl FnMut(&[u8]) + Send + 'static {
        let mut begun = Vec::new();
        move |bytes| {
            begun.extend_from_slice(bytes);
            while let Some(end) = begun.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = begun.drain(..=end).collect();
                (self.0)(readable(&String::from_utf8_lossy(&line)).trim_end());
            }
            if begun.len() > CONSOLE_BYTES_MAX {
                (self.0)(&readable(&String::from_utf8_lossy(&begun)));
                begun.clear();
            }
        }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Listener")
    }
}

/// Removes terminal control sequences (cursor, colours) from a text.
pub(crate) fn readable(output: &str) -> String {
    let mut text = String::with_capacity(output.len());
    for letter in output.chars() {
        match letter {
            '\n' | '\t' => text.push(letter),
            '\r' => {}
            letter if letter.is_control() => text.extend(letter.escape_default()),
            letter => text.push(letter),
        }
    }
    text
}

/// Last non-empty lines of a text, each cut to a readable length.
pub(crate) fn last_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(CONSOLE_LINES_SHOWN)..];
    let cut = |line: &&str| match line.char_indices().map(|(at, _)| at).find(|&at| at > CONSOLE_LINE_BYTES_SHOWN) {
        Some(end) => format!("{}…", &line[..end]),
        None => (*line).to_owned(),
    };
    last.iter().map(cut).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_bytes_are_kept() {
        let tail = Tail::default();
        tail.add(b"begin");
        assert_eq!(tail.text(), "begin");
        tail.add(&[b'x'; CONSOLE_BYTES_MAX - 5]);
        assert!(tail.text().starts_with("beginx") && tail.text().len() == CONSOLE_BYTES_MAX);
        tail.add(b"e");
        assert!(tail.text().starts_with("eginx") && tail.text().ends_with("xe"));
        tail.add(&[b'y'; 3 * CONSOLE_BYTES_MAX]);
        assert_eq!(tail.text(), "y".repeat(CONSOLE_BYTES_MAX));
        tail.add(b"\xff");
        assert!(tail.text().ends_with("y\u{fffd}"));
    }

    #[test]
    fn a_listener_hears_whole_lines_and_no_more_than_a_console_at_once() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&heard);
        let mut hear = Listener::new(move |line| lines.lock().unwrap().push(line.to_owned())).hear_pieces();
        [&b"fir"[..], b"st\r\nsec", b"ond\n\n\x1b[1mth", b"ird"].into_iter().for_each(&mut hear);
        assert_eq!(*heard.lock().unwrap(), ["first", "second", ""]);
        hear(&[b'x'; CONSOLE_BYTES_MAX]);
        let last = heard.lock().unwrap().last().cloned().unwrap();
        assert!(last.starts_with("\\u{1b}[1mthirdx") && last.len() > CONSOLE_BYTES_MAX);
    }

    #[test]
    fn lines_are_shown_without_control_characters_and_cut() {
        assert_eq!(readable("a\u{1b}[31mb\r\n\0\ttab\n"), "a\\u{1b}[31mb\n\\u{0}\ttab\n");
        let long = "ü".repeat(CONSOLE_LINE_BYTES_SHOWN);
        let shown = last_lines(&format!("first\n{}{long}\n\nlast\n", "line\n".repeat(CONSOLE_LINES_SHOWN)));
        assert!(!shown.contains("first") && shown.ends_with("ü…\nlast"), "{shown}");
        assert_eq!(shown.lines().count(), CONSOLE_LINES_SHOWN);
        assert!(shown.len() < CONSOLE_LINE_BYTES_SHOWN + 100, "{shown}");
        assert_eq!(last_lines(" \n"), "");
    }
}
