//! Escaping of a peer's text, so that it cannot control a terminal.

use std::path::Path;

/// Escapes every control or invisible character of `text`, so that a name or sentence from a peer can neither imitate a
/// line of this program nor look like another name.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || is_invisible(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Like [`printable`], for a name that may not be UTF-8: other bytes are shown as `\xe9`.
pub fn printable_bytes(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        shown += &printable(chunk.valid());
        for byte in chunk.invalid() {
            shown += &format!("\\x{byte:02x}");
        }
    }
    shown
}

/// Like [`printable_bytes`], for a local path.
pub fn printable_path(path: &Path) -> String {
    printable_bytes(path.as_os_str().as_encoded_bytes())
}

/// Returns true for characters that reorder, break or join the text around them, or are invisible: the general
/// categories Cf, Zl and Zp, and the property Default_Ignorable_Code_Point of Unicode 17. Variation selectors have that
/// property, so names with emoji may show an escape sequence; otherwise two different names could look the same.
const fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{34f}'
            | '\u{600}'..='\u{605}'
            | '\u{61c}'
            | '\u{6dd}'
            | '\u{70f}'
            | '\u{890}'..='\u{891}'
            | '\u{8e2}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{110bd}'
            | '\u{110cd}'
            | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_says_cannot_steer_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\nc\u{202e}d é日"), "a\\u{1b}[2Jb\\nc\\u{202e}d é日");
    }

    #[test]
    fn what_does_not_show_is_escaped() {
        let hidden = [
            '\u{ad}',
            '\u{34f}',
            '\u{61c}',
            '\u{180e}',
            '\u{200b}',
            '\u{200c}',
            '\u{200d}',
            '\u{200e}',
            '\u{200f}',
            '\u{2028}',
            '\u{202a}',
            '\u{2060}',
            '\u{2061}',
            '\u{2064}',
            '\u{2066}',
            '\u{206f}',
            '\u{3164}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{fff9}',
            '\u{1d173}',
            '\u{e0041}',
        ];
        for character in hidden {
            let escaped = character.escape_default();
            assert_eq!(printable(&format!("a{character}b")), format!("a{escaped}b"));
        }
        let shown = "naïve é e\u{301} – ‘日本’ العربية हिन्दी 🦦\u{a0}";
        assert_eq!(printable(shown), shown);
    }

    #[test]
    fn names_that_differ_are_shown_differently() {
        assert_eq!(printable_bytes(b"caf\xe9 \xff\xfe\n"), r"caf\xe9 \xff\xfe\n");
        assert_eq!(printable_bytes("日本".as_bytes()), "日本");
    }
}
