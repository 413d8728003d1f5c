//! Streams into containers: exec, attach and port forwarding, and checkpoints of containers.
//!
//! The runtime only prepares a stream: it returns the URL of its streaming server, to which the caller connects. A URL is
//! valid once and for a short time.

use std::fmt::Debug;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;

use super::runtime::RuntimeError;
use crate::ids::{ContainerId, ObjectId, PodName, PodUid, SandboxId};

/// Which standard streams of a process are connected. With a terminal, standard error is part of standard output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "the CRI has four independent flags")]
pub struct StdStreams {
    /// Standard input.
    pub stdin: bool,
    /// Standard output.
    pub stdout: bool,
    /// Standard error.
    pub stderr: bool,
    /// Whether the process has a terminal.
    pub tty: bool,
}

/// A command to run in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecRequest {
    /// The container.
    pub container: ContainerId,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// The streams of the command.
    pub streams: StdStreams,
}

/// A container whose main process is attached to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachRequest {
    /// The container.
    pub container: ContainerId,
    /// The streams of the process. The terminal must be as in the configuration of the container.
    pub streams: StdStreams,
}

/// Ports of a pod that are forwarded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortForwardRequest {
    /// The sandbox of the pod.
    pub sandbox: SandboxId,
    /// The ports; empty where the client names them in the stream.
    pub ports: Vec<u16>,
}

/// A checkpoint of a running container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointRequest {
    /// The container.
    pub container: ContainerId,
    /// The archive to write.
    pub location: PathBuf,
    /// How long the runtime may take; `None` for the time limit of any other request.
    pub timeout: Option<Duration>,
}

/// The part of a runtime that prepares streams into containers.
#[async_trait]
pub trait Streaming: Debug + Send + Sync {
    /// Prepares a command in a container; returns the URL of its streams.
    async fn exec(&self, request: &ExecRequest) -> Result<String, RuntimeError>;

    /// Prepares a connection to the main process of a container; returns the URL of its streams.
    async fn attach(&self, request: &AttachRequest) -> Result<String, RuntimeError>;

    /// Prepares connections to ports of a pod; returns the URL of their streams.
    async fn port_forward(&self, request: &PortForwardRequest) -> Result<String, RuntimeError>;

    /// Writes a checkpoint of a container. Not all runtimes can.
    async fn checkpoint_container(&self, request: &CheckpointRequest) -> Result<(), RuntimeError>;
}

/// How a session reaches into a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionKind {
    /// A command with streams.
    Exec,
    /// The main process of a container.
    Attach,
    /// Connections to ports.
    PortForward,
    /// A command without streams, whose output is returned when it has ended.
    Run,
}

impl SessionKind {
    /// Its name in the journal.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exec => "exec",
            Self::Attach => "attach",
            Self::PortForward => "port-forward",
            Self::Run => "run",
        }
    }
}

/// A session of a user in a pod, for the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// How it reaches into the pod.
    pub kind: SessionKind,
    /// The pod.
    pub pod: PodName,
    /// Its UID.
    pub uid: PodUid,
    /// The name of the container; empty for ports of the pod.
    pub container: String,
    /// The container or sandbox.
    pub object: ObjectId,
    /// The user.
    pub user: String,
    /// The address from which the request was sent, if it was sent over a network.
    pub address: Option<IpAddr>,
    /// The program that was run. Its arguments are left out: they may contain secrets.
    pub program: Option<String>,
    /// The ports, where the request names them.
    pub ports: Vec<u16>,
    /// Why the runtime refused the session; `None` if it was opened.
    pub refusal: Option<String>,
}

/// Keeps a record of sessions. Never blocks and never fails.
pub trait SessionRecord: Debug + Send + Sync {
    /// Records that a session was opened or refused.
    fn record_session(&self, session: &Session);
}
