//! Programs that end with the test.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use cri::{CriRuntime, Deadlines, Endpoint};
use e2e::node::program;
use testbed::wait;

/// Longer than anything here takes on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(40);

/// A program that is killed when this goes.
#[derive(Debug)]
pub(crate) struct Program(Child);

impl Program {
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        Ok(Self(command.spawn().with_context(|| format!("start {command:?}"))?))
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
        let mut command = Command::new(program("hollow")?);
        command.arg("--socket").arg(directory.join("cri.sock"));
        command.arg("--counters").arg(directory.join("counters.sock"));
        let mut program = Program::start(command.args(options).stdout(Stdio::piped()))?;
        let output = program.0.stdout.take().context("its output was asked for")?;
        let mut ready = String::new();
        BufReader::new(output).read_line(&mut ready).context("read what hollow says")?;
        ensure!(ready.contains("ready"), "hollow did not get ready: {ready:?}");
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
