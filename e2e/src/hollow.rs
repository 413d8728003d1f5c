//! Programs that end with the test, among them `hollow`, a runtime without containers.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use cri::{CriRuntime, Deadlines, Endpoint};
use testbed::wait;

use crate::agent::KEEP_OFF_THE_KERNEL;
use crate::node::program;

/// Longer than any wait here on a busy machine.
pub const LONG: Duration = Duration::from_mins(2);

/// A program that is killed when this is dropped, and when the thread that started it ends: also when the
/// test process is killed.
#[derive(Debug)]
pub struct Program(Child);

impl Program {
    /// Starts a program with its arguments.
    pub fn start(
        program: &Path,
        arguments: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Result<Self> {
        let mut command = Command::new(crate::node::program("testbed")?);
        command.args(["follow", &std::process::id().to_string(), "--"]).arg(program);
        let command = arguments(&mut command);
        Ok(Self(command.spawn().with_context(|| format!("start {command:?}"))?))
    }

    /// Starts our agent with its arguments. It runs on this machine, whose kernel parameters it must not set.
    pub fn start_agent(
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

    /// The id of its process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Waits until it prints that it is ready. Its output must be piped.
    pub fn is_ready(&mut self) -> Result<()> {
        let output = self.0.stdout.take().context("its output is piped")?;
        let mut ready = String::new();
        BufReader::new(output).read_line(&mut ready).context("read the output of a program")?;
        ensure!(ready.contains("ready"), "it did not become ready: {ready:?}");
        Ok(())
    }

    /// Whether it was killed. Any other end is an error: it never ends on its own.
    pub fn was_killed(&mut self) -> Result<bool> {
        match self.0.try_wait().context("inspect a program")? {
            None => Ok(false),
            Some(status) if status.signal() == Some(9) => Ok(true),
            Some(status) => bail!("the program ended by itself: {status}"),
        }
    }

    /// Ends it by SIGTERM and waits for it.
    pub fn stop(mut self) -> Result<ExitStatus> {
        let pid = self.0.id().to_string();
        let sent = Command::new("kill").args(["-s", "TERM", &pid]).status().context("run kill")?;
        ensure!(sent.success(), "kill: {sent}");
        wait::until("the program ends", LONG, || {
            let ended = self.0.try_wait().context("inspect a program")?;
            Ok(ended.ok_or_else(|| "it runs".to_owned()))
        })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // If it has ended already, both calls fail, which is fine.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// `hollow` on its sockets in a directory.
#[derive(Debug)]
pub struct Hollow {
    _program: Program,
    directory: PathBuf,
}

impl Hollow {
    /// Starts it and waits until it is ready.
    pub fn start(directory: &Path, options: &[&str]) -> Result<Self> {
        let mut program = Program::start(&program("hollow")?, |command| {
            command.arg("--socket").arg(directory.join("cri.sock"));
            command.arg("--counters").arg(directory.join("counters.sock"));
            command.args(options).stdout(Stdio::piped())
        })?;
        program.is_ready()?;
        Ok(Self { _program: program, directory: directory.to_owned() })
    }

    /// The path of its CRI socket.
    pub fn socket(&self) -> String {
        self.directory.join("cri.sock").display().to_string()
    }

    /// A new client. Must be called inside a tokio runtime.
    pub fn client(&self) -> Result<CriRuntime> {
        let endpoint = Endpoint::parse(&format!("unix://{}", self.socket()))?;
        Ok(CriRuntime::new(&endpoint, &endpoint, Deadlines::default()))
    }

    /// Returns its answer to a line on the second socket.
    pub fn command(&self, line: &str) -> Result<serde_json::Value> {
        let socket = self.directory.join("counters.sock");
        let mut stream = UnixStream::connect(socket).context("send a request to hollow")?;
        stream.set_read_timeout(Some(LONG)).context("send a request to hollow")?;
        writeln!(stream, "{line}").context("send a request to hollow")?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).context("read the answer of hollow")?;
        serde_json::from_str(&answer).context("decode the answer of hollow")
    }
}
