//! Command line of a guest. Its words pass three readers: the program's `main`, which finds its own options by their first letters; the
//! kernel's parser, which splits at spaces outside quotation marks; and init.

use std::path::{Path, PathBuf};

use super::{Guest, GuestError};
use crate::limits::{COMMAND_LINE_BYTES_MAX, INIT_ARGUMENTS_MAX};

/// Builds the words after the kernel's name.
///
/// # Errors
/// Fails for a text that a kernel's command line cannot express.
pub(super) fn words(guest: &Guest<'_>) -> Result<Vec<String>, GuestError> {
    let program = program(guest.program)?;
    let mut words = vec![
        format!("mem={}M", guest.memory_mib),
        // The host's files are read-only; init mounts writable directories.
        "rootfstype=hostfs".to_owned(),
        "rootflags=/".to_owned(),
        "ro".to_owned(),
        // Time advances only while all processes wait, and then without delay.
        "time-travel=inf-cpu".to_owned(),
        "con=null".to_owned(),
        "con0=fd:0,fd:1".to_owned(),
        "quiet".to_owned(),
        "loglevel=3".to_owned(),
        // Without this word a guest that restarts would boot again and again.
        "noreboot".to_owned(),
        format!("init={}", quoted("the path of init", &program)?),
    ];
    if guest.environment.len() > INIT_ARGUMENTS_MAX || guest.arguments.len() > INIT_ARGUMENTS_MAX {
        return Err(GuestError::TooManyWords);
    }
    for (name, value) in &guest.environment {
        if !is_variable(name) {
            return Err(GuestError::NoVariable { name: name.clone() });
        }
        words.push(quoted("a variable of init", &format!("{name}={value}"))?);
    }
    words.push("--".to_owned());
    for argument in &guest.arguments {
        // The kernel drops this word and all after it.
        if argument == "--" {
            return Err(GuestError::Unspeakable { what: "an argument of init", text: argument.clone() });
        }
        words.push(quoted("an argument of init", argument)?);
    }
    // User-mode Linux appends `root=98:0 console=tty0`, which would become arguments of init.
    words.push("--".to_owned());
    let bytes = words.iter().map(|word| word.len() + 1).sum();
    if bytes > COMMAND_LINE_BYTES_MAX { Err(GuestError::TooLong { bytes }) } else { Ok(words) }
}

/// Absolute path of init, which must exist.
fn program(program: &Path) -> Result<String, GuestError> {
    let absolute = |path: &Path| -> std::io::Result<PathBuf> {
        let path = std::path::absolute(path)?;
        path.metadata().map(|_| path)
    };
    let path = absolute(program).map_err(|error| GuestError::NoProgram { path: program.to_owned(), error })?;
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| GuestError::Unspeakable { what: "the path of init", text: path.display().to_string() })
}

/// True for a valid variable name. A lower-case name could be a parameter of the kernel, and one with a dot a parameter of a module.
fn is_variable(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_uppercase())
        && bytes.all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Quotes a word, which also hides it from the program's `main` (it would handle `--help` itself). Quotation marks within the word cannot
/// be escaped.
fn quoted(what: &'static str, text: &str) -> Result<String, GuestError> {
    if text.chars().any(|letter| letter == '"' || letter.is_control()) {
        return Err(GuestError::Unspeakable { what, text: text.to_owned() });
    }
    Ok(format!("\"{text}\""))
}
