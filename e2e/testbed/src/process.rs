//! Programs inside an instance, from the holder's side.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output};
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};

use crate::error::{AtPath, PathError};
use crate::protocol::{Request, Response, Signal, Target};
use crate::wire::{STDIO, Wire};

/// How long pid 1 may take for a response beyond the requested time.
const ANSWER: Duration = Duration::from_secs(10);

/// Why a program inside an instance could not be started, signalled or awaited.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error("pid 1 of the instance does not answer at {}", socket.display())]
    Unreachable {
        socket: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("pid 1 of the instance broke off the conversation")]
    BrokenOff,
    #[error("pid 1 of the instance refused: {reason}")]
    Refused { reason: String },
    #[error("pid 1 of the instance gave an answer that does not fit the question")]
    Misfit,
    #[error("{program} was still running after {} s", time.as_secs_f32())]
    StillRunning { program: String, time: Duration },
    #[error("cannot prepare the program's output")]
    Output(#[source] io::Error),
    #[error("cannot prepare the program's log")]
    Log(#[source] PathError),
}

/// A program to start inside an instance. Its environment is that of the holder, with additions.
#[derive(Debug, Clone)]
pub struct Command {
    argv: Vec<String>,
    env: Vec<(String, String)>,
    dir: PathBuf,
}

impl Command {
    pub fn new(program: impl Into<String>) -> Self {
        Self { argv: vec![program.into()], env: Vec::new(), dir: PathBuf::from("/") }
    }

    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.argv.push(arg.into());
        self
    }

    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.argv.extend(args.into_iter().map(Into::into));
        self
    }

    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    #[must_use]
    pub fn current_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = dir.into();
        self
    }

    fn program(&self) -> &str {
        &self.argv[0]
    }
}

/// The socket of pid 1 of an instance. One connection per request, so that responses never mix.
#[derive(Debug, Clone)]
pub(crate) struct Init {
    socket: PathBuf,
}

impl Init {
    pub(crate) fn at(socket: PathBuf) -> Self {
        Self { socket }
    }

    fn send_request(
        &self,
        request: &Request,
        fds: &[BorrowedFd<'_>],
        time: Duration,
    ) -> Result<Response, ProcessError> {
        let unreachable =
            |source| ProcessError::Unreachable { socket: self.socket.clone(), source };
        let stream = UnixStream::connect(&self.socket).map_err(unreachable)?;
        stream.set_read_timeout(Some(time + ANSWER)).map_err(unreachable)?;
        let mut wire = Wire::new(stream);
        wire.send(request, fds).map_err(unreachable)?;
        match wire.receive().map_err(unreachable)? {
            None => Err(ProcessError::BrokenOff),
            Some(Response::Refused { reason }) => Err(ProcessError::Refused { reason }),
            Some(response) => Ok(response),
        }
    }

    /// Starts a program whose output is appended to the file `log`.
    pub(crate) fn spawn(&self, command: &Command, log: &Path) -> Result<Process, ProcessError> {
        let null = File::open("/dev/null").map_err(ProcessError::Output)?;
        let output = OpenOptions::new()
            .append(true)
            .create(true)
            .open(log)
            .at("open", log)
            .map_err(ProcessError::Log)?;
        let mut process =
            self.spawn_with(command, [null.as_fd(), output.as_fd(), output.as_fd()])?;
        log.clone_into(&mut process.log);
        Ok(process)
    }

    pub(crate) fn spawn_with(
        &self,
        command: &Command,
        stdio: [BorrowedFd<'_>; STDIO],
    ) -> Result<Process, ProcessError> {
        let request = Request::Spawn {
            argv: command.argv.clone(),
            env: command.env.clone(),
            dir: command.dir.clone(),
        };
        match self.send_request(&request, &stdio, Duration::ZERO)? {
            Response::Spawned { pid } => Ok(Process {
                init: self.clone(),
                pid,
                program: command.program().to_owned(),
                log: PathBuf::new(),
            }),
            _ => Err(ProcessError::Misfit),
        }
    }

    /// Runs a program and returns its output. After the timeout it is killed, together with its process group.
    pub(crate) fn run(&self, command: &Command, time: Duration) -> Result<Output, ProcessError> {
        let null = File::open("/dev/null").map_err(ProcessError::Output)?;
        // Files in memory, not pipes: processes that stay in the background cannot block us.
        let [stdout, stderr] = [memory_file()?, memory_file()?];
        let process = self.spawn_with(command, [null.as_fd(), stdout.as_fd(), stderr.as_fd()])?;
        let status = process.wait(time);
        if matches!(status, Err(ProcessError::StillRunning { .. })) {
            process.send(Signal::Kill, Target::Group)?;
        }
        Ok(Output { status: status?, stdout: content(stdout)?, stderr: content(stderr)? })
    }
}

fn memory_file() -> Result<File, ProcessError> {
    let fd = memfd_create("output", MemfdFlags::CLOEXEC)
        .map_err(|error| ProcessError::Output(error.into()))?;
    Ok(File::from(fd))
}

fn content(mut file: File) -> Result<Vec<u8>, ProcessError> {
    let mut bytes = Vec::new();
    file.rewind().map_err(ProcessError::Output)?;
    file.read_to_end(&mut bytes).map_err(ProcessError::Output)?;
    Ok(bytes)
}

/// A program started inside an instance. Dropping this leaves it running.
#[derive(Debug)]
pub struct Process {
    init: Init,
    pid: i32,
    program: String,
    log: PathBuf,
}

impl Process {
    /// The process id inside the instance.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Sends a signal; an error when the process has ended.
    pub fn signal(&self, signal: Signal) -> Result<(), ProcessError> {
        self.send(signal, Target::Process)
    }

    /// Sends a signal to the process and to its children in the same process group.
    pub fn signal_group(&self, signal: Signal) -> Result<(), ProcessError> {
        self.send(signal, Target::Group)
    }

    /// Kills the process with SIGKILL.
    pub fn kill(&self) -> Result<(), ProcessError> {
        self.send(Signal::Kill, Target::Process)
    }

    fn send(&self, signal: Signal, to: Target) -> Result<(), ProcessError> {
        let request = Request::Signal { pid: self.pid, signal, to };
        match self.init.send_request(&request, &[], Duration::ZERO)? {
            Response::Signalled => Ok(()),
            _ => Err(ProcessError::Misfit),
        }
    }

    /// Waits for the end of the process, with a timeout.
    pub fn wait(&self, time: Duration) -> Result<ExitStatus, ProcessError> {
        self.ended_within(time)?
            .ok_or_else(|| ProcessError::StillRunning { program: self.program.clone(), time })
    }

    pub fn is_alive(&self) -> Result<bool, ProcessError> {
        Ok(self.ended_within(Duration::ZERO)?.is_none())
    }

    fn ended_within(&self, time: Duration) -> Result<Option<ExitStatus>, ProcessError> {
        let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let request = Request::Wait { pid: self.pid, milliseconds };
        match self.init.send_request(&request, &[], time)? {
            Response::Running => Ok(None),
            Response::Ended { status } => Ok(Some(ExitStatus::from_raw(status))),
            _ => Err(ProcessError::Misfit),
        }
    }

    /// The output of the process so far; empty when it has no log file.
    pub fn log(&self) -> String {
        fs::read(&self.log)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }
}
