//! Execution of this program under callgrind, and parsing of its output.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::cases::{COUNTED, Case};

/// Error: valgrind is not installed.
#[derive(Debug)]
pub(crate) struct Missing;

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("instructions are counted by valgrind, which is not there: install it (`apt-get install valgrind`)")
    }
}

impl std::error::Error for Missing {}

/// An installed valgrind.
#[derive(Clone, Debug)]
pub(crate) struct Valgrind {
    program: PathBuf,
    pub(crate) version: String,
}

/// Instructions executed within [`COUNTED`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Executed {
    /// All instructions.
    pub(crate) total: u64,
    /// Instructions of the requested parts, including functions they call.
    pub(crate) parts: Vec<u64>,
    /// Name of the kernel chosen by the program.
    pub(crate) kernel: String,
}

impl Valgrind {
    /// Finds valgrind on the path.
    ///
    /// # Errors
    /// Fails with [`Missing`] if there is none.
    pub(crate) fn find() -> Result<Self> {
        let directories = std::env::var_os("PATH").unwrap_or_default();
        let program = std::env::split_paths(&directories).map(|path| path.join("valgrind")).find(|path| path.is_file());
        let program = program.ok_or(Missing)?;
        let output = Command::new(&program).arg("--version").output().map_err(|_| Missing)?;
        ensure!(output.status.success(), Missing);
        let version = String::from_utf8_lossy(&output.stdout).trim().trim_start_matches("valgrind-").to_owned();
        Ok(Self { program, version })
    }

    /// Runs a case.
    ///
    /// # Errors
    /// Fails if the case fails, or the output of callgrind is invalid.
    pub(crate) fn execute(&self, case: &Case) -> Result<Executed> {
        let out = Scratch::new(case.name);
        let kernel = self.run(case, &out.0, &["--dump-line=no"])?;
        let text = std::fs::read_to_string(&out.0).with_context(|| format!("cannot read {}", out.0.display()))?;
        let functions: Vec<&str> = case.parts.iter().map(|(_, function)| *function).collect();
        let (total, parts) =
            parse(&text, &functions).with_context(|| format!("callgrind's output for {}", case.name))?;
        Ok(Executed { total, parts, kernel })
    }

    /// Writes a profile of the counted part of a case, and returns its path.
    ///
    /// # Errors
    /// Fails like [`execute`](Self::execute).
    pub(crate) fn profile(&self, case: &Case) -> Result<PathBuf> {
        let path = PathBuf::from(format!("callgrind.out.{}", case.name));
        self.run(case, &path, &["--dump-instr=yes"])?;
        Ok(path)
    }

    /// Runs a case; returns the name of its kernel.
    fn run(&self, case: &Case, out: &Path, options: &[&str]) -> Result<String> {
        let own = std::env::current_exe().context("cannot find this program's file")?;
        // The environment is cleared, because its size moves the stack.
        let output = Command::new(&self.program)
            .env_clear()
            .args(["--tool=callgrind", "--quiet", "--cache-sim=no", "--branch-sim=no"])
            .args(options)
            .arg(format!("--callgrind-out-file={}", out.display()))
            .arg(format!("--toggle-collect=*{COUNTED}*"))
            .arg(own)
            .args(["run", case.name])
            .output()
            .context("cannot run valgrind")?;
        if !output.status.success() {
            bail!("{} under valgrind: {}", case.name, String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

/// Top of a profile, if callgrind_annotate is installed.
pub(crate) fn annotate(profile: &Path) -> Option<String> {
    let output = Command::new("callgrind_annotate").arg("--threshold=90").arg(profile).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A temporary file, removed on drop.
#[derive(Debug)]
struct Scratch(PathBuf);

impl Scratch {
    fn new(case: &str) -> Self {
        let name = format!("dfcp-instructions-{}-{case}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The file may not exist.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Parses callgrind's format. Returns the number of all instructions, and for each of `functions`, matched by the end
/// of its name, the number including the functions it calls.
///
/// A call takes three lines: one with `cfn=`, one with `calls=`, and one that ends with the instructions executed in
/// the callee and below. A name follows its number in parentheses the first time; later only the number is written.
fn parse(text: &str, functions: &[&str]) -> Result<(u64, Vec<u64>)> {
    let mut numbers: Vec<Option<&str>> = vec![None; functions.len()];
    let mut parts = vec![0; functions.len()];
    let mut total = None;
    let mut callee = None;
    let mut is_called = false;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("cfn=").or_else(|| line.strip_prefix("fn=")) {
            let (number, name) = name.split_once(' ').unwrap_or((name, ""));
            if let Some(which) = functions.iter().position(|function| is_named(name, function)) {
                numbers[which] = Some(number);
            }
            callee = numbers.iter().position(|known| *known == Some(number)).filter(|_| line.starts_with("cfn="));
        } else if line.starts_with("calls=") {
            is_called = true;
        } else if let Some(count) = line.strip_prefix("summary:").or_else(|| line.strip_prefix("totals:")) {
            total = Some(count.trim().parse().context("the total is no number")?);
        } else if is_called {
            is_called = false;
            let count = line.rsplit(' ').next().unwrap_or_default();
            if let Some(which) = callee.take() {
                parts[which] += count.parse::<u64>().with_context(|| format!("`{line}` does not end in a count"))?;
            }
        }
    }
    for (function, count) in functions.iter().zip(&parts) {
        ensure!(*count > 0, "`{function}` was not called, or has been inlined");
    }
    let total = total.filter(|total| *total > 0).context("nothing was counted, or there is no total")?;
    Ok((total, parts))
}

/// True if `name`, a full name that may end with a hash, is the name of `function`.
fn is_named(name: &str, function: &str) -> bool {
    let name = name.rsplit_once("::h").filter(|(_, hash)| hash.len() == 16).map_or(name, |(name, _)| name);
    name.ends_with(function)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "version: 1\nevents: Ir\n\nfl=(1) a.rs\nfn=(1) main\n0 10\ncfn=(2) a::Flow::sending_end::h0123456789abcdef\n\
        calls=3 0\n0 300\ncfn=(3) a::Flow::receiving_end\ncalls=1 0\n0 50\n\nfn=(2)\n0 200\ncfn=(4) memcpy\ncalls=9 0\n0 100\n\
        fn=(5) other\n0 1\ncfn=(2)\ncalls=1 0\n0 7\ntotals: 369\n";

    #[test]
    fn totals_and_parts_are_read() {
        let parsed = parse(OUTPUT, &["Flow::sending_end", "Flow::receiving_end"]).unwrap();
        assert_eq!(parsed, (369, vec![307, 50]));
        assert_eq!(parse(OUTPUT, &[]).unwrap(), (369, vec![]));
    }

    #[test]
    fn what_is_missing_is_an_error() {
        assert!(parse(OUTPUT, &["Flow::nowhere"]).unwrap_err().to_string().contains("Flow::nowhere"));
        assert!(parse("fn=(1) main\n0 5\n", &[]).is_err());
        assert!(parse("summary: many\n", &[]).is_err() && parse("totals: 0\n", &[]).is_err());
    }
}
