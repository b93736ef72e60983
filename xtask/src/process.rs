//! Running other programs: inherit their output, or read it.

use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use crate::error::Error;

/// Runs the command with our own output; an exit status other than 0 is an error.
pub fn run(command: &mut Command) -> Result<(), Error> {
    let status = command.status().map_err(|source| not_started(command, source))?;
    succeeded(command, status)
}

/// Runs the command and returns what it wrote to its standard output.
pub fn read(command: &mut Command) -> Result<String, Error> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|source| not_started(command, source))?;
    succeeded(command, output.status)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether the command starts and exits with 0, silently.
pub fn works(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The command as a person would type it.
pub fn line(command: &Command) -> String {
    // `cargo`, not the path of one machine's cargo.
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn not_started(command: &Command, source: std::io::Error) -> Error {
    Error::Start { program: command.get_program().to_string_lossy().into_owned(), source }
}

fn succeeded(command: &Command, status: ExitStatus) -> Result<(), Error> {
    match status.success() {
        true => Ok(()),
        false => Err(Error::Failed { command: line(command), status: status.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_program_is_named_with_its_arguments() {
        let error = run(Command::new("false").args(["--for", "sure"])).unwrap_err();
        assert_eq!(error.to_string(), "`false --for sure` failed (exit status: 1)");
    }

    #[test]
    fn a_program_that_does_not_exist_is_named() {
        let error = read(&mut Command::new("no-such-program-here")).unwrap_err();
        assert!(error.to_string().contains("`no-such-program-here`"), "{error}");
    }
}
