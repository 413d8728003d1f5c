//! Programs of the host, run for as long as they may take.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Runs a program with these arguments, and with this to read. Its output is only what it says of errors. Nothing if
/// it took longer than the limit: it is killed then.
pub(crate) async fn run(
    program: &OsStr,
    arguments: &[&str],
    input: String,
    limit: Duration,
) -> io::Result<Option<Output>> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn()?;
    let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
    let ended = tokio::task::spawn_blocking(move || feed(child, &input));
    if let Ok(ended) = tokio::time::timeout(limit, ended).await {
        return ended.unwrap_or_else(|panicked| Err(io::Error::other(panicked))).map(Some);
    }
    // It may have ended just now.
    _ = pidfd_send_signal(process, Signal::KILL);
    Ok(None)
}

fn feed(mut child: Child, input: &str) -> io::Result<Output> {
    if let Some(mut stdin) = child.stdin.take() {
        match stdin.write_all(input.as_bytes()) {
            // Who does not read it says why.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error),
            _ => {}
        }
    }
    child.wait_with_output()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn shell(script: &str, input: &str, limit: Duration) -> Option<(Option<i32>, String)> {
        let ended = run(OsStr::new("sh"), &["-c", script], input.to_owned(), limit).await.unwrap();
        ended.map(|output| (output.status.code(), String::from_utf8(output.stderr).unwrap()))
    }

    #[tokio::test]
    async fn a_program_reads_what_it_is_given_and_is_heard() {
        let minute = Duration::from_mins(1);
        let ended = shell("read line; echo \"no $line\" >&2; exit 3", "rules\n", minute).await;
        assert_eq!(ended, Some((Some(3), "no rules\n".to_owned())));
        let much = "x".repeat(1 << 20);
        assert_eq!(shell("exit 0", &much, minute).await, Some((Some(0), String::new())));
    }

    #[tokio::test]
    async fn a_program_that_takes_too_long_is_killed() {
        let directory = tempfile::tempdir().unwrap();
        let own = directory.path().join("pid");
        let script = format!("echo $$ > {}; exec sleep 600", own.display());
        assert_eq!(shell(&script, "", Duration::from_secs(1)).await, None);
        let pid = std::fs::read_to_string(own).unwrap().trim().to_owned();
        let gone = async {
            while std::fs::exists(format!("/proc/{pid}")).unwrap() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), gone).await.unwrap();
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_an_error() {
        let error = run(OsStr::new("/nowhere/x"), &[], String::new(), Duration::from_secs(1)).await;
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
