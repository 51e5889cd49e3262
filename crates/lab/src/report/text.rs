//! Text output: escaping, formatting of numbers, and line breaking by estimated widths.

use std::borrow::Cow;

/// Escapes `text` for HTML and SVG, in elements and in quoted attributes. Control characters are invalid there and
/// become spaces.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(' '),
            control if control.is_control() => out.push(' '),
            '\u{fffe}' | '\u{ffff}' => out.push(' '),
            other => out.push(other),
        }
    }
    out
}

/// Escapes prose for HTML, and joins each per cent sign to its number with a no-break space.
pub(super) fn prose(text: &str) -> String {
    escaped(text).replace(" %", "\u{a0}%")
}

/// Formats a value with three significant digits and without trailing zeros: `945`, `0.31`, `12.5`, `4 700`, `2.5×10⁻⁶`.
pub(super) fn value(number: f64) -> String {
    if !number.is_finite() {
        return "no value".to_owned();
    }
    if number == 0.0 {
        return "0".to_owned();
    }
    let exponent = exponent_of(number);
    if (-4..7).contains(&exponent) {
        return trimmed(&plain(number, usize::try_from(2 - exponent).unwrap_or(0)));
    }
    scientific(number, 2)
}

/// Formats a value with its unit: `945 Mbit/s`, `5 %`, `3`.
pub(super) fn value_with_unit(number: f64, unit: &str) -> String {
    if unit.is_empty() || !number.is_finite() { value(number) } else { format!("{}\u{a0}{unit}", value(number)) }
}

/// Formats the number of a tick on a linear axis. `step` is the distance between ticks, and `largest` the greatest
/// magnitude on the axis.
pub(super) fn tick(number: f64, step: f64, largest: f64) -> String {
    if number.abs() < step * 1e-6 {
        return "0".to_owned();
    }
    let step_exponent = exponent_of(step);
    if step_exponent < -4 || largest >= 1e7 {
        let digits = usize::try_from(exponent_of(number) - step_exponent).unwrap_or(0);
        return scientific(number, digits);
    }
    plain(number, usize::try_from(-step_exponent).unwrap_or(0))
}

/// Formats the number of a tick on a logarithmic axis: a small integer times a power of ten.
pub(super) fn log_tick(number: f64) -> String {
    let exponent = exponent_of(number);
    if (-3..5).contains(&exponent) {
        plain(number, usize::try_from(-exponent).unwrap_or(0))
    } else {
        scientific(number, 0)
    }
}

/// Formats a duration in hours, minutes and seconds: `48 s`, `6 min 3 s`, `1 h 0 min`.
pub(super) fn duration(seconds: f64) -> String {
    match seconds {
        ..9.95 => format!("{seconds:.1} s"),
        9.95..59.5 => format!("{seconds:.0} s"),
        59.5..3570.0 => {
            let whole = seconds.round();
            format!("{:.0} min {:.0} s", (whole / 60.0).floor(), whole % 60.0)
        }
        _ => {
            let minutes = (seconds / 60.0).round();
            format!("{:.0} h {:.0} min", (minutes / 60.0).floor(), minutes % 60.0)
        }
    }
}

/// Returns the decimal exponent of a number after rounding to three significant digits.
fn exponent_of(number: f64) -> i32 {
    let text = format!("{:.2e}", number.abs());
    text.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0)
}

/// Formats a number with `decimals` decimals and a true minus sign. From five digits on, narrow no-break spaces
/// separate groups of three.
fn plain(number: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", number.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let grouped: Cow<'_, str> = if whole.len() < 5 { Cow::Borrowed(whole) } else { Cow::Owned(groups_of_three(whole)) };
    format!("{}{grouped}{rest}", if number < 0.0 { "−" } else { "" })
}

fn groups_of_three(digits: &str) -> String {
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

fn trimmed(text: &str) -> String {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text.to_owned() }
}

/// Formats a number like `2.5×10⁷`; a factor of one is left out, as in `10⁷`.
fn scientific(number: f64, digits: usize) -> String {
    let text = format!("{:.*e}", digits.min(12), number.abs());
    let (factor, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let factor = trimmed(factor);
    let power: String = exponent.chars().map(superscript).collect();
    let sign = if number < 0.0 { "−" } else { "" };
    if factor == "1" { format!("{sign}10{power}") } else { format!("{sign}{factor}×10{power}") }
}

const fn superscript(digit: char) -> char {
    match digit {
        '0' => '⁰',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '4' => '⁴',
        '5' => '⁵',
        '6' => '⁶',
        '7' => '⁷',
        '8' => '⁸',
        '9' => '⁹',
        _ => '⁻',
    }
}

/// Returns an upper estimate of the width of a line in common sans-serif fonts, for font size `size`. DejaVu Sans is
/// the widest of them.
pub(super) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(em).sum::<f64>() * size
}

fn em(character: char) -> f64 {
    match character {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' | '\u{a0}' | '\u{202f}' | 'I' => 0.36,
        't' | 'f' | 'r' | '(' | ')' | '[' | ']' | '/' | '-' => 0.43,
        '⁰'..='⁹' | '¹' | '²' | '³' | '⁻' => 0.43,
        'm' | 'w' | 'M' | 'W' | '%' | '@' | '…' | '—' => 1.0,
        '×' | '−' | '+' | '=' | '<' | '>' | '≈' | '≥' | '≤' => 0.84,
        'A'..='Z' => 0.77,
        _ if character.is_ascii() => 0.64,
        '\u{1100}'.. => 1.1,
        _ => 0.8,
    }
}

/// Wraps `text` into at most `lines` lines no wider than `room`. A longer text is cut and ends with `…`.
pub(super) fn wrapped(text: &str, size: f64, room: f64, lines: usize) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for word in words(text) {
        let is_full = out.len() == lines;
        match out.last_mut() {
            Some(line) if width(line, size) + width(" ", size) + width(word, size) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            Some(line) if is_full => {
                // Makes the last line too long on purpose, so that it is cut below and marked with `…`.
                line.push(' ');
                line.push_str(word);
                break;
            }
            _ => out.push(word.to_owned()),
        }
    }
    out.iter().map(|line| shortened(line, size, room)).collect()
}

/// Splits a text at its breakable spaces; no-break spaces are kept within words.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', '\n', '\t']).filter(|word| !word.is_empty())
}

/// Cuts `text` to the width `room` and marks the cut with `…`.
pub(super) fn shortened(text: &str, size: f64, room: f64) -> String {
    if width(text, size) <= room {
        return text.to_owned();
    }
    let mut left = room - width("…", size);
    let kept: String = text
        .chars()
        .take_while(|&character| {
            left -= em(character) * size;
            left >= 0.0
        })
        .collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_escaped_and_control_characters_vanish() {
        assert_eq!(escaped("<a href=\"x\">&'\u{0}\n"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;  ");
        assert_eq!(escaped("5 µs ≥ 3 × 10⁻⁶"), "5 µs ≥ 3 × 10⁻⁶");
    }

    #[test]
    fn values_have_three_significant_digits() {
        for (number, text) in [
            (945.32, "945"),
            (0.3149, "0.315"),
            (12.50, "12.5"),
            (99.96, "100"),
            (999.6, "1000"),
            (0.09996, "0.1"),
            (4700.0, "4700"),
            (63_536.0, "63\u{202f}536"),
            (2.5e-6, "2.5×10⁻⁶"),
            (1e9, "10⁹"),
            (-3.0, "−3"),
            (0.0, "0"),
            (f64::NAN, "no value"),
        ] {
            assert_eq!(value(number), text);
        }
    }

    #[test]
    fn ticks_have_as_many_decimals_as_their_step() {
        assert_eq!(tick(0.300_000_000_000_000_04, 0.1, 1.0), "0.3");
        assert_eq!(tick(1.0, 0.5, 1.5), "1.0");
        assert_eq!(tick(1e-17, 0.1, 1.0), "0");
        assert_eq!(tick(15_000.0, 5_000.0, 20_000.0), "15\u{202f}000");
        assert_eq!(tick(2.5e7, 5e6, 3e7), "2.5×10⁷");
        assert_eq!(log_tick(0.01), "0.01");
        assert_eq!(log_tick(200.0), "200");
        assert_eq!(log_tick(1e6), "10⁶");
        assert_eq!(log_tick(5e-7), "5×10⁻⁷");
    }

    #[test]
    fn durations_use_two_units_at_most() {
        assert_eq!(duration(3.04), "3.0 s");
        assert_eq!(duration(59.9), "1 min 0 s");
        assert_eq!(duration(363.0), "6 min 3 s");
        assert_eq!(duration(3599.0), "1 h 0 min");
    }

    #[test]
    fn lines_break_between_words_and_are_cut_with_a_mark() {
        assert_eq!(wrapped("NewReno with SACK", 10.0, 60.0, 2), ["NewReno", "with SACK"]);
        let cut = wrapped("one two three four five six", 10.0, 40.0, 2);
        assert_eq!(cut.len(), 2);
        assert!(cut[1].ends_with('…') && cut.iter().all(|line| width(line, 10.0) <= 40.0), "{cut:?}");
        assert!(wrapped("", 10.0, 40.0, 2).is_empty());
    }
}
