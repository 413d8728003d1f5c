//! Programs that are run for their output, such as credential provider plugins.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use blocking::{Call, Pool, Size};
use model::ports::programs::{ProgramError, ProgramRun, Programs};
use rustix::fd::OwnedFd;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open,
    pidfd_send_signal, waitid,
};

/// How many programs run at a time. Pulls of many images wait for few plugins.
const PROGRAMS: Size = Size { threads: 8, spare: 8 };
/// How long a program that was killed may take to disappear.
const AFTER_KILL: Duration = Duration::from_secs(1);
/// How long a run may wait for its slot and for the kill, in addition to its limit.
const BESIDES: Duration = Duration::from_mins(1);

/// Runs programs of this host.
#[derive(Debug, Clone)]
pub struct HostPrograms {
    pool: Pool,
}

impl Default for HostPrograms {
    fn default() -> Self {
        Self { pool: Pool::new("credential providers", PROGRAMS) }
    }
}

impl HostPrograms {
    /// The threads that wait for programs.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }
}

#[async_trait]
impl Programs for HostPrograms {
    async fn run(&self, run: ProgramRun) -> Result<Vec<u8>, ProgramError> {
        let path = run.path.clone();
        let limit = run.limit.saturating_add(BESIDES);
        let call = Call { operation: "run", subject: &path, limit };
        let ended = self.pool.run(call, move || output(&run)).await;
        ended.unwrap_or_else(|error| {
            Err(ProgramError::Run { path: path.clone(), source: error.into() })
        })
    }
}

/// How a program ended.
enum End {
    Exited(Vec<u8>),
    TooMuch,
    TooSlow,
}

fn output(run: &ProgramRun) -> Result<Vec<u8>, ProgramError> {
    let path = || run.path.clone();
    let failed = |source| ProgramError::Run { path: path(), source };
    let mut child = command(run).spawn().map_err(failed)?;
    let end = wait_for(&mut child, run);
    if !matches!(end, Ok(End::Exited(_))) {
        // Not reaped yet, so its group is no other.
        _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        _ = child.kill();
    }
    let status = child.wait().map_err(failed)?;
    // Processes that the program has started may still run; nothing waits for them.
    match end.map_err(failed)? {
        End::TooSlow => Err(ProgramError::TooSlow { path: path(), limit: run.limit }),
        End::TooMuch => Err(ProgramError::TooMuch { path: path(), longest: run.longest_output }),
        End::Exited(_) if !status.success() => {
            Err(ProgramError::Failed { path: path(), status: status.to_string() })
        }
        End::Exited(output) => Ok(output),
    }
}

fn command(run: &ProgramRun) -> Command {
    let mut command = Command::new(&run.path);
    command.args(&run.args).envs(run.env.iter().map(|(name, value)| (name, value)));
    // A separate process group, so that its children can be killed with it.
    command.process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// Writes the input and reads the output, until the process has ended or its time is over. It is not reaped.
fn wait_for(child: &mut Child, run: &ProgramRun) -> io::Result<End> {
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    if let Some(mut stdin) = child.stdin.take() {
        let input = run.input.clone();
        // A program need not read it; the pipe breaks when it ends.
        let write = move || drop(stdin.write_all(&input));
        thread::Builder::new().name("program input".to_owned()).spawn(write)?;
    }
    let (same, stdout) = (process.try_clone()?, child.stdout.take());
    let (longest, (sender, ended)) = (run.longest_output, mpsc::channel());
    let read = move || {
        // Without a receiver it took too long.
        sender.send(read_until_exit(stdout, longest, &same)).ok();
    };
    thread::Builder::new().name("program output".to_owned()).spawn(read)?;
    if let Ok(end) = ended.recv_timeout(run.limit) {
        return end;
    }
    _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    _ = pidfd_send_signal(process, Signal::KILL);
    _ = ended.recv_timeout(AFTER_KILL);
    Ok(End::TooSlow)
}

fn read_until_exit(
    stdout: Option<ChildStdout>,
    longest: usize,
    process: &OwnedFd,
) -> io::Result<End> {
    let mut output = Vec::new();
    if let Some(stdout) = stdout {
        let most = u64::try_from(longest).unwrap_or(u64::MAX).saturating_add(1);
        stdout.take(most).read_to_end(&mut output)?;
    }
    if output.len() > longest {
        return Ok(End::TooMuch);
    }
    waitid(WaitId::PidFd(process.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
    Ok(End::Exited(output))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> ProgramRun {
        ProgramRun {
            path: "/bin/sh".into(),
            args: vec!["-c".to_owned(), text.to_owned()],
            env: vec![("OWN".to_owned(), "variable".to_owned())],
            input: b"input\n".to_vec(),
            limit: Duration::from_mins(1),
            longest_output: 1000,
        }
    }

    async fn run(run: ProgramRun) -> Result<String, String> {
        let output = HostPrograms::default().run(run).await;
        output.map(|text| String::from_utf8(text).unwrap()).map_err(|error| error.to_string())
    }

    async fn wait_until_gone(pid: &str) {
        let gone = async {
            while std::fs::exists(format!("/proc/{pid}")).unwrap() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), gone).await.unwrap();
    }

    // behaviour: PULL-41
    #[tokio::test]
    async fn program_reads_its_input_and_its_output_is_returned() {
        let text = "read line; echo \"$line $OWN ${PATH:+path}\"; echo secret >&2";
        assert_eq!(run(script(text)).await.unwrap(), "input variable path\n");
        let large = ProgramRun { input: vec![b'x'; 1 << 20], ..script("echo done") };
        assert_eq!(run(large).await.unwrap(), "done\n", "input need not be read");
    }

    // behaviour: PULL-41
    #[tokio::test]
    async fn failure_is_reported_without_output() {
        let failed = run(script("echo secret; echo secret >&2; exit 3")).await.unwrap_err();
        assert_eq!(failed, "/bin/sh failed: exit status: 3");
        let missing = ProgramRun { path: "/nowhere/x".into(), ..script("") };
        assert_eq!(run(missing).await.unwrap_err(), "run /nowhere/x");
        let flood = run(script("while :; do echo secret; done")).await.unwrap_err();
        assert_eq!(flood, "/bin/sh printed more than 1000 bytes and was killed");
    }

    // behaviour: PULL-41
    #[tokio::test]
    async fn program_that_hangs_is_killed_with_its_children() {
        let directory = tempfile::tempdir().unwrap();
        let own = directory.path().join("pids");
        let text = format!("sleep 600 & echo $! $$ > {}; wait", own.display());
        let limit = Duration::from_secs(1);
        let error = run(ProgramRun { limit, ..script(&text) }).await.unwrap_err();
        assert_eq!(error, "/bin/sh did not end within 1s and was killed");
        for pid in std::fs::read_to_string(own).unwrap().split_whitespace() {
            wait_until_gone(pid).await;
        }
    }

    // behaviour: PULL-41
    #[tokio::test]
    async fn program_inherits_only_its_standard_streams() {
        let directory = tempfile::tempdir().unwrap();
        let _open = std::fs::File::open(directory.path()).unwrap();
        let targets = run(script("ls -l /proc/$$/fd")).await.unwrap();
        assert!(targets.contains(" 0 -> ") && targets.contains(" 2 -> "), "{targets}");
        assert!(!targets.contains(&*directory.path().to_string_lossy()), "{targets}");
    }

    #[test]
    fn run_is_not_printed() {
        let run = ProgramRun { input: b"hidden".to_vec(), ..script("hidden") };
        let printed = format!("{run:?}");
        assert!(!printed.contains("hidden") && !printed.contains("variable"), "{printed}");
    }
}
