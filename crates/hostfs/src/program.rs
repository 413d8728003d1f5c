//! Runs host programs with a timeout.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use blocking::{Call, CallError, Pool, Size};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::sync::oneshot;

/// The limit of concurrent programs.
const PROGRAMS: Size = Size { threads: 2, spare: 2 };

/// The threads that wait for programs.
pub(crate) fn pool() -> Pool {
    Pool::new("programs", PROGRAMS)
}

/// Runs a program with these arguments and this input. Returns its error output; `None` if it exceeded the
/// timeout and was killed.
pub(crate) async fn run(
    pool: &Pool,
    program: &OsStr,
    arguments: &[&str],
    input: String,
    limit: Duration,
) -> io::Result<Option<Output>> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let (sender, mut process) = oneshot::channel();
    // Starting a program reads its file, which blocks too.
    let work = move || {
        let child = command.spawn()?;
        // Without a receiver the timeout is over.
        if let Err(process) = sender.send(pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?)
        {
            _ = pidfd_send_signal(process, Signal::KILL);
        }
        feed(child, &input)
    };
    let call = Call { operation: "run", subject: Path::new(program), limit };
    match pool.run(call, work).await {
        Ok(ended) => ended.map(Some),
        Err(CallError::Overdue(_)) => {
            // A program that starts later finds no receiver.
            process.close();
            if let Ok(process) = process.try_recv() {
                // It may have exited just now.
                _ = pidfd_send_signal(process, Signal::KILL);
            }
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

fn feed(mut child: Child, input: &str) -> io::Result<Output> {
    if let Some(mut stdin) = child.stdin.take() {
        match stdin.write_all(input.as_bytes()) {
            // If the program does not read its input, its error output says why.
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
        let ended =
            run(&pool(), OsStr::new("sh"), &["-c", script], input.to_owned(), limit).await.unwrap();
        ended.map(|output| (output.status.code(), String::from_utf8(output.stderr).unwrap()))
    }

    #[tokio::test]
    async fn program_reads_its_input_and_its_output_is_returned() {
        let minute = Duration::from_mins(1);
        let ended = shell("read line; echo \"no $line\" >&2; exit 3", "rules\n", minute).await;
        assert_eq!(ended, Some((Some(3), "no rules\n".to_owned())));
        let much = "x".repeat(1 << 20);
        assert_eq!(shell("exit 0", &much, minute).await, Some((Some(0), String::new())));
    }

    #[tokio::test]
    async fn slow_program_is_killed() {
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

    // behaviour: VOL-59
    #[tokio::test]
    async fn program_inherits_no_file_of_the_agent() {
        let directory = tempfile::tempdir().unwrap();
        let _open = std::fs::File::open(directory.path()).unwrap();
        let listed = shell("ls -l /proc/$$/fd >&2", "", Duration::from_mins(1)).await;
        let (code, listed) = listed.unwrap();
        assert_eq!(code, Some(0));
        assert!(listed.contains(" 0 -> ") && listed.contains(" 2 -> "), "{listed}");
        let open = directory.path().to_string_lossy();
        assert!(!listed.contains(&*open), "{listed}");
    }

    #[tokio::test]
    async fn absent_program_is_an_error() {
        let minute = Duration::from_mins(1);
        let error = run(&pool(), OsStr::new("/nowhere/x"), &[], String::new(), minute).await;
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
