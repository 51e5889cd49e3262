//! Questions to the user at a terminal.

use std::io::{self, BufRead, Read, Write};

use dfcp_secure::Fingerprint;

use crate::limits::{ANSWER_BYTES_MAX, ANSWERS_MAX};

/// Asks the user whether `fingerprint` is the key of `host`, as `ssh` does. Valid answers are yes, no, and the expected
/// fingerprint. End of input means no.
///
/// # Errors
/// Passes on errors of the terminal.
pub fn is_right_host(host: &str, fingerprint: &Fingerprint, terminal: &mut (impl BufRead + Write)) -> io::Result<bool> {
    writeln!(terminal, "The authenticity of {host} can't be established: it is not in known_hosts.")?;
    writeln!(terminal, "Its key has the fingerprint {fingerprint}; `dfcp id` shows it there.")?;
    write!(terminal, "Continue (yes/no/fingerprint)? ")?;
    terminal.flush()?;
    while let Some(answer) = line(terminal)? {
        match answer.as_str() {
            "yes" => return Ok(true),
            "no" => return Ok(false),
            text => match text.parse::<Fingerprint>() {
                Ok(told) if told == *fingerprint => return Ok(true),
                Ok(_) => {
                    writeln!(terminal, "This is not the fingerprint of {host}.")?;
                    return Ok(false);
                }
                Err(_) => write!(terminal, "Please answer yes, no or the fingerprint: ")?,
            },
        }
        terminal.flush()?;
    }
    Ok(false)
}

/// Asks for a pairing code; `None` at the end of the input.
///
/// # Errors
/// Fails as [`is_right_host`] does.
pub fn code(terminal: &mut (impl BufRead + Write)) -> io::Result<Option<String>> {
    write!(terminal, "The code that the other side shows: ")?;
    terminal.flush()?;
    line(terminal)
}

/// Asks whether the paired peer at `address` may connect without a code from now on. `wait` returns true if an answer
/// arrived in time. Returns `None` without an answer in time, and at the end of input.
///
/// # Errors
/// Fails as [`is_right_host`] does.
pub fn shall_remember<T: BufRead + Write>(
    address: &str,
    fingerprint: &Fingerprint,
    terminal: &mut T,
    mut wait: impl FnMut(&T) -> io::Result<bool>,
) -> io::Result<Option<bool>> {
    // Write whole lines only: progress bars share the terminal.
    writeln!(terminal, "Let {address} in without a code from now on? Its key has the fingerprint {fingerprint}.")?;
    for _ in 0..ANSWERS_MAX {
        writeln!(terminal, "(yes/no)?")?;
        terminal.flush()?;
        if !wait(terminal)? {
            return Ok(None);
        }
        match line(terminal)?.as_deref() {
            Some("yes") => return Ok(Some(true)),
            Some("no") => return Ok(Some(false)),
            None => return Ok(None),
            Some(_) => {}
        }
    }
    Ok(Some(false))
}

/// Returns the next line without surrounding blanks; `None` at the end of the input.
///
/// # Errors
/// Fails if reading fails or the line is too long.
pub fn line(input: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut text = String::new();
    let read = input.take(ANSWER_BYTES_MAX).read_line(&mut text)?;
    if read as u64 == ANSWER_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the answer is too long"));
    }
    Ok((read > 0).then(|| text.trim().to_owned()))
}

/// Runs `ask` on its own thread: the user may take long, and the exit of the program must not wait for the answer.
///
/// # Errors
/// Passes on errors of `ask`.
pub async fn aside<R: Send + 'static>(ask: impl FnOnce() -> io::Result<R> + Send + 'static) -> io::Result<R> {
    let (sender, answer) = tokio::sync::oneshot::channel();
    std::thread::Builder::new().name("question".to_owned()).spawn(move || {
        // The receiving task may have been dropped.
        let _ = sender.send(ask());
    })?;
    answer.await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Terminal with prepared input.
    struct Typed<'a> {
        input: &'a [u8],
        shown: Vec<u8>,
    }

    impl Read for Typed<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.input.read(buffer)
        }
    }

    impl BufRead for Typed<'_> {
        fn fill_buf(&mut self) -> io::Result<&[u8]> {
            self.input.fill_buf()
        }

        fn consume(&mut self, bytes: usize) {
            self.input.consume(bytes);
        }
    }

    impl Write for Typed<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.shown.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn answer(typed: &str) -> (io::Result<bool>, String) {
        let fingerprint = dfcp_secure::StaticKey::from_seed(&[4; 32]).public().fingerprint();
        let mut terminal = Typed { input: typed.as_bytes(), shown: Vec::new() };
        let answer = is_right_host("there:1", &fingerprint, &mut terminal);
        (answer, String::from_utf8(terminal.shown).unwrap())
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
    fn only_a_yes_in_time_is_remembered() {
        let fingerprint = dfcp_secure::StaticKey::from_seed(&[4; 32]).public().fingerprint();
        for (typed, in_time, expected) in [
            ("yes\n", true, Some(true)),
            ("yes\n", false, None),
            ("no\nyes\n", true, Some(false)),
            ("y\nyes\n", true, Some(true)),
            ("", true, None),
            ("y\ny\ny\nyes\n", true, Some(false)),
        ] {
            let mut terminal = Typed { input: typed.as_bytes(), shown: Vec::new() };
            let answer = shall_remember("192.0.2.7:1", &fingerprint, &mut terminal, |_| Ok(in_time));
            assert_eq!(answer.unwrap(), expected, "{typed:?}");
            let shown = String::from_utf8(terminal.shown).unwrap();
            assert!(shown.contains(&fingerprint.to_string()) && shown.ends_with("(yes/no)?\n"), "{shown}");
        }
    }

    #[test]
    fn an_endless_answer_is_an_error() {
        assert!(answer(&"y".repeat(5000)).0.is_err());
    }
}
