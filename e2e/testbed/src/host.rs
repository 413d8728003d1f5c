//! Running a host program to its end.

use std::io::{self, Write};
use std::process::{Command, ExitStatus, Stdio};

/// Why a host program failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error("cannot run `{program}`")]
    Start {
        program: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("`{program} {arguments}` failed with {status}: {stderr}")]
    Failed { program: &'static str, arguments: String, status: ExitStatus, stderr: String },
}

/// Runs `program` with `input` on its standard input, and returns its output.
pub(crate) fn run(
    program: &'static str,
    args: &[&str],
    input: &str,
) -> Result<String, CommandError> {
    let start = |source| CommandError::Start { program, source };
    let mut child = Command::new(program)
        .args(args)
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(start)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that fails early does not read its input; its exit status says why.
        let written = stdin.write_all(input.as_bytes());
        if let Err(error) = written
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            return Err(start(error));
        }
    }
    let output = child.wait_with_output().map_err(start)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(CommandError::Failed {
        program,
        arguments: args.join(" "),
        status: output.status,
        stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}
