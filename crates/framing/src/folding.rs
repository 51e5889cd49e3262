//! Folding of names for comparison like in file systems that ignore some differences.
//!
//! FAT, exFAT, NTFS, APFS, HFS+, and ext4 and F2FS in directories with `casefold`, ignore case. FAT and Windows drop
//! dots and spaces at the end. HFS+ and `casefold` ignore invisible code points. NTFS reads the text after a colon as
//! the name of a stream of the file. FAT gives each file a second name of 8 and 3 characters. Through such a
//! difference, a peer's name must not reach a file with another name. The file system that will store a name is
//! unknown, so a name that is reserved on any file system is reserved on all.

/// Returns a component in lower case, without ignorable code points and without trailing dots and spaces.
pub fn folded(component: &[u8]) -> Vec<u8> {
    let mut folded = Vec::with_capacity(component.len());
    for chunk in component.utf8_chunks() {
        for c in chunk.valid().chars().filter(|c| !is_ignorable(*c)).flat_map(char::to_lowercase) {
            folded.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
        folded.extend_from_slice(chunk.invalid());
    }
    while folded.last().is_some_and(|last| matches!(last, b'.' | b' ')) {
        folded.pop();
    }
    folded
}

/// Returns true if a component can be, on some file system, the generated short name (8.3) of a long name that starts
/// with a dot and `prefix` and ends with a dot and `suffix`: `PREFIX~1.SUF`, or with the first two letters and four
/// digits of a checksum, `PR12AB~1.SUF` (Linux `vfat` and Windows). `prefix` and `suffix` are in lower case.
pub(crate) fn is_short_name_of(folded: &[u8], prefix: &[u8], suffix: &[u8]) -> bool {
    let Some(dot) = folded.iter().rposition(|byte| *byte == b'.') else { return false };
    let (base, extension) = (&folded[..dot], &folded[dot + 1..]);
    let Some(tilde) = base.iter().rposition(|byte| *byte == b'~') else { return false };
    let number = &base[tilde + 1..];
    base.len() <= 8
        && extension == &suffix[..suffix.len().min(3)]
        && !number.is_empty()
        && number.iter().all(u8::is_ascii_digit)
        && base.starts_with(&prefix[..prefix.len().min(2)])
}

/// Returns true for a `Default_Ignorable_Code_Point` of Unicode 16.
fn is_ignorable(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_file_systems_do_not_see_is_gone() {
        for (name, seen) in [
            ("Makefile", "makefile"),
            ("a. .", "a"),
            ("ÄÖ\u{200d}x\u{feff}", "äöx"),
            ("a.\u{200c}", "a"),
            ("...", ""),
            (" a", " a"),
            ("a:b", "a:b"),
        ] {
            assert_eq!(folded(name.as_bytes()), seen.as_bytes(), "{name:?}");
        }
        assert_eq!(folded(b"A\xffB"), b"a\xffb");
    }

    #[test]
    fn short_names_are_those_of_fat() {
        for (name, is_one) in [
            ("dfcp-0~1.par", true),
            ("df12ab~1.par", true),
            ("dfcp-~12.par", true),
            ("dfcp-0~1.part", false),
            ("dfcp-01~1.par", false),
            ("xf12ab~1.par", false),
            ("dfcp~.par", false),
            ("dfcp-0~a.par", false),
            ("df.par", false),
        ] {
            assert_eq!(is_short_name_of(name.as_bytes(), b"dfcp-", b"part"), is_one, "{name}");
        }
    }
}
