//! Questions to a person at a terminal.

use std::io::{self, BufRead, Read, Write};

use dfcp_secure::Fingerprint;

use crate::limits::ANSWER_BYTES_MAX;

/// Asks whether `fingerprint` is the key of `host`, as `ssh` does: yes, no, or the fingerprint that one was told.
/// The end of the input is a no.
///
/// # Errors
/// Those of the terminal.
pub fn is_right_host(
    host: &str,
    fingerprint: &Fingerprint,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<bool> {
    writeln!(output, "The authenticity of {host} can't be established: it is not in known_hosts.")?;
    writeln!(output, "Its key has the fingerprint {fingerprint}; `dfcp id` shows it there.")?;
    write!(output, "Continue (yes/no/fingerprint)? ")?;
    output.flush()?;
    while let Some(answer) = line(input)? {
        match answer.as_str() {
            "yes" => return Ok(true),
            "no" => return Ok(false),
            text => match text.parse::<Fingerprint>() {
                Ok(told) if told == *fingerprint => return Ok(true),
                Ok(_) => {
                    writeln!(output, "This is not the fingerprint of {host}.")?;
                    return Ok(false);
                }
                Err(_) => write!(output, "Please answer yes, no or the fingerprint: ")?,
            },
        }
        output.flush()?;
    }
    Ok(false)
}

/// The next line without blanks around it; `None` at the end.
///
/// # Errors
/// Those of the input; or the line is too long.
pub fn line(input: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut text = String::new();
    let read = input.take(ANSWER_BYTES_MAX).read_line(&mut text)?;
    if read as u64 == ANSWER_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the answer is too long"));
    }
    Ok((read > 0).then(|| text.trim().to_owned()))
}

/// Runs `ask` on a thread of its own: a person may take long, and the end of the program does not wait for it.
///
/// # Errors
/// Those of `ask`.
pub async fn aside<R: Send + 'static>(ask: impl FnOnce() -> io::Result<R> + Send + 'static) -> io::Result<R> {
    let (sender, answer) = tokio::sync::oneshot::channel();
    std::thread::Builder::new().name("question".to_owned()).spawn(move || {
        // Whoever asked may be gone.
        let _ = sender.send(ask());
    })?;
    answer.await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(typed: &str) -> (io::Result<bool>, String) {
        let fingerprint = dfcp_secure::StaticKey::from_seed(&[4; 32]).public().fingerprint();
        let mut shown = Vec::new();
        let answer = is_right_host("there:1", &fingerprint, &mut typed.as_bytes(), &mut shown);
        (answer, String::from_utf8(shown).unwrap())
    }

    #[test]
    fn only_yes_and_the_fingerprint_go_on() {
        let right = dfcp_secure::StaticKey::from_seed(&[4; 32]).public().fingerprint().to_string();
        let wrong = dfcp_secure::StaticKey::from_seed(&[5; 32]).public().fingerprint().to_string();
        for (typed, expected) in [
            ("yes\n", true),
            (" yes ", true),
            ("no\n", false),
            ("", false),
            ("y\nyes\n", true),
            ("\n\nno\nyes\n", false),
            (right.as_str(), true),
            (wrong.as_str(), false),
        ] {
            let (answer, shown) = answer(typed);
            assert_eq!(answer.unwrap(), expected, "{typed:?}");
            assert!(shown.contains(&right) && shown.contains("(yes/no/fingerprint)?"), "{shown}");
        }
        assert!(answer("y\nno\n").1.contains("Please answer yes, no"));
    }

    #[test]
    fn an_endless_answer_is_an_error() {
        assert!(answer(&"y".repeat(5000)).0.is_err());
    }
}
