//! Programs that end with the test.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use cri::{CriRuntime, Deadlines, Endpoint};
use e2e::agent::KEEP_OFF_THE_KERNEL;
use e2e::node::program;
use testbed::wait;

/// Longer than anything here takes on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(40);

/// A program that is killed when this goes, and when the thread ends that started it: also when the
/// whole test is killed.
#[derive(Debug)]
pub(crate) struct Program(Child);

impl Program {
    /// Starts a program with its arguments.
    pub(crate) fn start(
        program: &Path,
        arguments: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Result<Self> {
        let mut command = Command::new(e2e::node::program("testbed")?);
        command.args(["follow", &std::process::id().to_string(), "--"]).arg(program);
        let command = arguments(&mut command);
        Ok(Self(command.spawn().with_context(|| format!("start {command:?}"))?))
    }

    /// Starts our agent with its arguments. It runs on this machine itself, whose kernel it must not set.
    pub(crate) fn start_agent(
        own: &Path,
        arguments: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Result<Self> {
        let agent = program("ferrolet")?;
        Self::start(Path::new("unshare"), |command| {
            command.args([
                "-m",
                "--propagation",
                "unchanged",
                "sh",
                "-c",
                KEEP_OFF_THE_KERNEL,
                "sh",
            ]);
            arguments(command.arg(own).arg(agent))
        })
    }

    /// Waits until it says that it is ready. Its output must have been asked for.
    pub(crate) fn is_ready(&mut self) -> Result<()> {
        let output = self.0.stdout.take().context("its output was asked for")?;
        let mut ready = String::new();
        BufReader::new(output).read_line(&mut ready).context("read what a program says")?;
        ensure!(ready.contains("ready"), "it did not get ready: {ready:?}");
        Ok(())
    }

    /// Whether it was killed. Any other end is an error: it never ends by itself.
    pub(crate) fn was_killed(&mut self) -> Result<bool> {
        match self.0.try_wait().context("look at a program")? {
            None => Ok(false),
            Some(status) if status.signal() == Some(9) => Ok(true),
            Some(status) => bail!("the program ended by itself: {status}"),
        }
    }

    /// Ends it by SIGTERM and waits for it.
    pub(crate) fn stop(mut self) -> Result<ExitStatus> {
        let pid = self.0.id().to_string();
        let sent = Command::new("kill").args(["-s", "TERM", &pid]).status().context("run kill")?;
        ensure!(sent.success(), "kill: {sent}");
        wait::until("the program ends", LONG, || {
            let ended = self.0.try_wait().context("look at a program")?;
            Ok(ended.ok_or_else(|| "it runs".to_owned()))
        })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended; then both fail, and that is as good.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// `hollow` on its sockets in a directory.
#[derive(Debug)]
pub(crate) struct Hollow {
    _program: Program,
    directory: PathBuf,
}

impl Hollow {
    /// Starts it and waits until it is ready.
    pub(crate) fn start(directory: &Path, options: &[&str]) -> Result<Self> {
        let mut program = Program::start(&program("hollow")?, |command| {
            command.arg("--socket").arg(directory.join("cri.sock"));
            command.arg("--counters").arg(directory.join("counters.sock"));
            command.args(options).stdout(Stdio::piped())
        })?;
        program.is_ready()?;
        Ok(Self { _program: program, directory: directory.to_owned() })
    }

    pub(crate) fn socket(&self) -> String {
        self.directory.join("cri.sock").display().to_string()
    }

    /// A client of its own. Must be called inside a tokio runtime.
    pub(crate) fn client(&self) -> Result<CriRuntime> {
        let endpoint = Endpoint::parse(&format!("unix://{}", self.socket()))?;
        Ok(CriRuntime::new(&endpoint, &endpoint, Deadlines::default()))
    }

    /// What it answers to a line on the second socket.
    pub(crate) fn ask(&self, line: &str) -> Result<serde_json::Value> {
        let socket = self.directory.join("counters.sock");
        let mut stream = UnixStream::connect(socket).context("ask hollow")?;
        stream.set_read_timeout(Some(LONG)).context("ask hollow")?;
        writeln!(stream, "{line}").context("ask hollow")?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).context("hear hollow")?;
        serde_json::from_str(&answer).context("understand hollow")
    }
}

#[test]
fn a_program_is_killed_when_whoever_started_it_is_gone() -> Result<()> {
    // To the kernel a thread is as good as a process.
    let starter = std::thread::spawn(|| -> Result<Program> {
        let program = Program::start(Path::new("sleep"), |sleep| sleep.arg("600"))?;
        let name = format!("/proc/{}/comm", program.0.id());
        wait::until("the program runs", LONG, || {
            let name = std::fs::read_to_string(&name).context("look at a program")?;
            Ok(if name == "sleep\n" { Ok(()) } else { Err(name) })
        })?;
        Ok(program)
    });
    let mut program = starter.join().expect("starting a program does not panic")?;
    wait::until("the program is killed", LONG, || {
        Ok(if program.was_killed()? { Ok(()) } else { Err("it runs".to_owned()) })
    })
}
