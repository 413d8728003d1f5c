//! Programs that the test runs.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};

use guest::{Answer, TEXT_MAX, bounded};

/// Programs that were started and not yet awaited.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    spawned: HashMap<i32, Child>,
}

impl Programs {
    /// Starts a program whose output goes to a file.
    pub(crate) fn spawn(&mut self, argv: &[String], log: &str) -> Result<Answer> {
        let file = File::create(log).with_context(|| format!("make {log}"))?;
        let error = file.try_clone().with_context(|| format!("open {log} twice"))?;
        let child = start(argv, file.into(), error.into())?;
        let pid = child.id().cast_signed();
        self.spawned.insert(pid, child);
        Ok(Answer::Spawned { pid })
    }

    /// Waits for a program that was spawned.
    pub(crate) fn wait(&mut self, pid: i32, time: Duration) -> Result<Answer> {
        let child = self.spawned.get_mut(&pid).with_context(|| format!("{pid} was not spawned"))?;
        if !ended_within(child, time)? {
            return Ok(Answer::Running);
        }
        let status = child.wait().context("wait for its end")?;
        self.spawned.remove(&pid);
        Ok(ended(status, String::new(), String::new()))
    }
}

/// Runs a program to its end.
pub(crate) fn run(argv: &[String], time: Duration) -> Result<Answer> {
    let [stdout, stderr] = [memory_file()?, memory_file()?];
    let outputs = [stdout.try_clone(), stderr.try_clone()].map(|file| file.map(Stdio::from));
    let [Ok(out), Ok(err)] = outputs else { bail!("cannot open the program's output twice") };
    let mut child = start(argv, out, err)?;
    let in_time = ended_within(&child, time)?;
    if !in_time {
        kill_process_group(id(&child)?, Signal::KILL).context("kill it")?;
    }
    let status = child.wait().context("wait for its end")?;
    let (stdout, stderr) = (content(stdout)?, content(stderr)?);
    if !in_time {
        bail!("{argv:?} was still running after {time:?}; it printed {stdout:?} and {stderr:?}");
    }
    Ok(ended(status, stdout, stderr))
}

/// Sends a signal to any process.
pub(crate) fn signal(pid: i32, signal: i32) -> Result<()> {
    let process = Pid::from_raw(pid).with_context(|| format!("{pid} is no process"))?;
    let signal =
        Signal::from_named_raw(signal).with_context(|| format!("{signal} is no signal"))?;
    kill_process(process, signal).with_context(|| format!("signal {pid}"))
}

fn start(argv: &[String], stdout: Stdio, stderr: Stdio) -> Result<Child> {
    let (program, rest) = argv.split_first().context("a program is needed")?;
    Command::new(program)
        .args(rest)
        .env("PATH", "/bin:/sbin:/usr/bin:/usr/sbin")
        .env("HOME", "/root")
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr)
        .process_group(0)
        .spawn()
        .with_context(|| format!("start {program}"))
}

fn id(child: &Child) -> Result<Pid> {
    Pid::from_raw(child.id().cast_signed()).context("a child has a process id")
}

fn ended_within(child: &Child, time: Duration) -> Result<bool> {
    // It is not reaped yet, so its pid cannot be reused.
    let process: OwnedFd = pidfd_open(id(child)?, PidfdFlags::empty()).context("watch it")?;
    let mut watched = [PollFd::new(&process, PollFlags::IN)];
    let time = Timespec::try_from(time).context("a time to wait")?;
    Ok(poll(&mut watched, Some(&time)).context("wait for its end")? > 0)
}

fn ended(status: ExitStatus, stdout: String, stderr: String) -> Answer {
    Answer::Ended { code: status.code(), signal: status.signal(), stdout, stderr }
}

/// A file, not a pipe: processes that stay in the background cannot block us.
fn memory_file() -> Result<File> {
    Ok(File::from(memfd_create("output", MemfdFlags::CLOEXEC).context("make a file in memory")?))
}

fn content(file: File) -> Result<String> {
    tail(file).context("read what it printed")
}

/// The end of a file.
pub(crate) fn tail(mut file: File) -> Result<String> {
    let length = file.metadata()?.len();
    let limit = u64::try_from(TEXT_MAX)?;
    // Files of the kernel have no length: they are read from their beginning.
    file.seek(SeekFrom::Start(length.saturating_sub(limit)))?;
    let mut bytes = Vec::new();
    file.take(2 * limit).read_to_end(&mut bytes)?;
    Ok(bounded(&bytes))
}
