//! A machine, from its holder's side.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Child;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use guest::{Answer, Request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tempfile::TempDir;
use testbed::wait;

use crate::console::Console;
use crate::{Machine, Root};

/// How long a machine may take to start: mostly some seconds, on a busy host much longer.
const BOOT: Duration = Duration::from_mins(8);
/// How long the guest may take for a response beyond the requested time.
const ANSWER: Duration = Duration::from_mins(2);
/// How long it may take to power off.
const OFF: Duration = Duration::from_mins(2);

/// The archive of the machine's files.
const FILES: &str = "root.cpio";

/// The exit and the output of a program in the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// A running machine. Dropping it kills it.
#[derive(Debug)]
pub struct Vm {
    qemu: Child,
    console: Console,
    /// One request at a time.
    wire: Mutex<BufReader<UnixStream>>,
    /// The time from the start of its kernel until it was ready.
    boot: Duration,
    /// The directory of its socket.
    directory: TempDir,
}

impl Vm {
    /// Starts a machine and waits until it is ready.
    pub fn boot(machine: &Machine, root: Root) -> Result<Self> {
        let directory = tempfile::tempdir().context("make a directory")?;
        let socket = directory.path().join("guest");
        let listener = UnixListener::bind(&socket).context("listen for the machine")?;
        let mut qemu = machine.start(root, &directory.path().join(FILES), &socket)?;
        let console = qemu.stdout.take().context("the console is piped")?;
        let console = Console::read(console);
        let wire = accept(&listener, &mut qemu);
        let mut vm = match wire {
            Ok(stream) => {
                let wire = Mutex::new(BufReader::new(stream));
                Self { qemu, console, wire, boot: Duration::ZERO, directory }
            }
            Err(error) => {
                end(&mut qemu);
                return Err(error);
            }
        };
        match vm.answer(BOOT).context("start a machine")? {
            Answer::Ready { milliseconds } => vm.boot = Duration::from_millis(milliseconds),
            other => bail!("the machine began with {other:?}"),
        }
        // The files are in the machine's memory now.
        std::fs::remove_file(vm.directory.path().join(FILES))
            .context("remove the files of a machine")?;
        Ok(vm)
    }

    /// The time from the start of the kernel until the machine was ready.
    pub fn boot_time(&self) -> Duration {
        self.boot
    }

    /// The end of the machine's console output.
    pub fn console(&self) -> String {
        self.console.text()
    }

    /// The process of the machine.
    pub fn pid(&self) -> u32 {
        self.qemu.id()
    }

    /// Writes a file.
    pub fn write(&self, path: &str, text: &str) -> Result<()> {
        self.done(&Request::Write { path: path.to_owned(), text: text.to_owned() })
    }

    /// Removes a file.
    pub fn remove(&self, path: &str) -> Result<()> {
        self.done(&Request::Remove { path: path.to_owned() })
    }

    /// The content of a file, or its end.
    pub fn read(&self, path: &str) -> Result<String> {
        match self.call_guest(&Request::Read { path: path.to_owned() }, Duration::ZERO)? {
            Answer::Text(text) => Ok(text),
            other => misfit(&other),
        }
    }

    /// All directories below one.
    pub fn directories(&self, path: &str) -> Result<Vec<String>> {
        match self.call_guest(&Request::Directories { path: path.to_owned() }, Duration::ZERO)? {
            Answer::Paths(paths) => Ok(paths),
            other => misfit(&other),
        }
    }

    /// Runs a program and waits for its end.
    pub fn run(&self, argv: &[&str], time: Duration) -> Result<Ended> {
        let request = Request::Run { argv: owned(argv), milliseconds: milliseconds(time) };
        self.ended(&request, time)?.context("a program that is run has ended")
    }

    /// Runs a program that must succeed, and returns its output.
    pub fn output(&self, argv: &[&str], time: Duration) -> Result<String> {
        let ended = self.run(argv, time)?;
        ensure!(ended.code == Some(0), "{argv:?}: {ended:?}");
        Ok(ended.stdout)
    }

    /// Starts a program whose output goes to a file; returns its process id.
    pub fn spawn(&self, argv: &[&str], log: &str) -> Result<i32> {
        let request = Request::Spawn { argv: owned(argv), log: log.to_owned() };
        match self.call_guest(&request, Duration::ZERO)? {
            Answer::Spawned { pid } => Ok(pid),
            other => misfit(&other),
        }
    }

    /// Sends a signal, by its number.
    pub fn signal(&self, pid: i32, signal: i32) -> Result<()> {
        self.done(&Request::Signal { pid, signal })
    }

    /// Waits for the end of a spawned program; nothing when it still runs.
    pub fn wait(&self, pid: i32, time: Duration) -> Result<Option<Ended>> {
        self.ended(&Request::Wait { pid, milliseconds: milliseconds(time) }, time)
    }

    /// Powers the machine off, and fails if it does not.
    pub fn stop(mut self) -> Result<()> {
        let wire = self.wire.get_mut().unwrap_or_else(PoisonError::into_inner);
        wire.get_ref().shutdown(std::net::Shutdown::Both).context("leave the machine")?;
        let (qemu, console) = (&mut self.qemu, &self.console);
        let status = wait::until("the machine is off", OFF, || {
            let ended = qemu.try_wait().context("inspect the machine")?;
            Ok(ended.ok_or_else(|| console.text()))
        })?;
        ensure!(status.success(), "the machine ended with {status}: {}", self.console.text());
        Ok(())
    }

    fn done(&self, request: &Request) -> Result<()> {
        match self.call_guest(request, Duration::ZERO)? {
            Answer::Done => Ok(()),
            other => misfit(&other),
        }
    }

    fn ended(&self, request: &Request, time: Duration) -> Result<Option<Ended>> {
        match self.call_guest(request, time)? {
            Answer::Running => Ok(None),
            Answer::Ended { code, signal, stdout, stderr } => {
                Ok(Some(Ended { code, signal, stdout, stderr }))
            }
            other => misfit(&other),
        }
    }

    fn call_guest(&self, request: &Request, time: Duration) -> Result<Answer> {
        let mut line = serde_json::to_vec(request).context("write a request")?;
        line.push(b'\n');
        let said = {
            let mut wire = self.wire.lock().unwrap_or_else(PoisonError::into_inner);
            wire.get_mut().write_all(&line)
        };
        said.with_context(|| self.no_answer())?;
        match self.answer(time + ANSWER)? {
            Answer::Failed(why) => bail!("in the machine: {why}"),
            answer => Ok(answer),
        }
    }

    /// The next response. A late response never counts for the next request: after a timeout, the holder sends no
    /// more requests.
    fn answer(&self, time: Duration) -> Result<Answer> {
        let mut wire = self.wire.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = hear(&mut wire, time).with_context(|| self.no_answer())?;
        serde_json::from_str(&answer).with_context(|| format!("understand {answer:?}"))
    }

    fn no_answer(&self) -> String {
        format!(
            "the machine does not answer; the end of its console:\n{}",
            self.console.last_text()
        )
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        end(&mut self.qemu);
    }
}

fn end(qemu: &mut Child) {
    // Both fail only when it has ended already.
    drop(qemu.kill());
    drop(qemu.wait());
}

fn accept(listener: &UnixListener, qemu: &mut Child) -> Result<UnixStream> {
    listener.set_nonblocking(true).context("listen for the machine")?;
    let stream = wait::until("the machine is started", ANSWER, || {
        if let Some(status) = qemu.try_wait().context("inspect the machine")? {
            bail!("qemu ended at once: {status}");
        }
        Ok(listener.accept().map(|(stream, _)| stream).map_err(|error| error.to_string()))
    })?;
    stream.set_nonblocking(false).context("open the connection to the machine")?;
    Ok(stream)
}

/// Reads a line, with a timeout.
fn hear(wire: &mut BufReader<UnixStream>, time: Duration) -> Result<String> {
    let end = Instant::now() + time;
    let mut line = Vec::new();
    loop {
        if wire.buffer().is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            let mut watched = [PollFd::new(wire.get_ref(), PollFlags::IN)];
            let ready = poll(&mut watched, Some(&Timespec::try_from(left)?)).context("listen")?;
            ensure!(ready > 0, "no output for {time:?}");
        }
        let buffer = wire.fill_buf().context("listen")?;
        ensure!(!buffer.is_empty(), "the machine is off");
        let (taken, whole) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(end) => (end + 1, true),
            None => (buffer.len(), false),
        };
        line.extend_from_slice(&buffer[..taken]);
        wire.consume(taken);
        if whole {
            return String::from_utf8(line).context("an answer is text");
        }
    }
}

fn misfit<T>(answer: &Answer) -> Result<T> {
    bail!("unexpected answer of the machine: {answer:?}")
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
