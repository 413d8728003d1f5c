//! The program: its start, control socket and end.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use hyper_util::rt::TokioIo;
use proto::runtime_v1::image_service_client::ImageServiceClient;
use proto::runtime_v1::runtime_service_client::RuntimeServiceClient;
use serde_json::Value;
use tempfile::TempDir;
use tonic::transport::{Channel, Uri};
use tower::service_fn;

/// The longest wait on a busy machine.
pub(crate) const LONG: Duration = Duration::from_mins(1);

/// A running `hollow`, which is killed on drop.
pub(crate) struct Program {
    child: Child,
    directory: TempDir,
    /// The line that it printed when it was ready.
    pub(crate) ready: String,
}

impl Program {
    /// Starts it with its sockets and these options, and waits until it is ready.
    pub(crate) fn start(options: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_hollow"))
            .arg("--socket")
            .arg(directory.path().join("cri.sock"))
            .arg("--counters")
            .arg(directory.path().join("counters.sock"))
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        // Closed when the program ends before it is ready.
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert!(ready.ends_with('\n'), "it did not get ready: {ready:?}");
        Self { child, directory, ready }
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory().join("cri.sock")
    }

    fn channel(&self) -> Channel {
        let path = self.socket();
        let address = Uri::from_static("http://localhost");
        Channel::builder(address).connect_with_connector_lazy(service_fn(move |_: Uri| {
            let path = path.clone();
            async move { tokio::net::UnixStream::connect(path).await.map(TokioIo::new) }
        }))
    }

    pub(crate) fn runtime(&self) -> RuntimeServiceClient<Channel> {
        RuntimeServiceClient::new(self.channel()).max_decoding_message_size(64 << 20)
    }

    pub(crate) fn images(&self) -> ImageServiceClient<Channel> {
        ImageServiceClient::new(self.channel())
    }

    /// The response to a line on the control socket.
    pub(crate) fn command(&self, line: &str) -> Value {
        let mut stream = UnixStream::connect(self.directory().join("counters.sock")).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        writeln!(stream, "{line}").unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap()
    }

    /// Sends a signal and waits for its end.
    pub(crate) fn end(&mut self, signal: &str) -> ExitStatus {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status().unwrap();
        assert!(sent.success());
        let deadline = Instant::now() + LONG;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "still running after {signal}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already; then both calls fail, which is fine.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn program_prints_readiness_and_removes_its_sockets_on_sigterm() {
    for signal in ["TERM", "INT"] {
        let mut program = Program::start(&["--pods", "3", "--containers", "2"]);
        let socket = program.socket();
        let expected =
            format!("hollow: ready on unix://{} with 3 pods of 6 containers\n", socket.display());
        assert_eq!(program.ready, expected);
        assert!(program.end(signal).success());
        let left: Vec<_> = std::fs::read_dir(program.directory()).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn program_replaces_a_dead_socket_but_not_a_live_one() {
    let mut program = Program::start(&[]);
    let start_another = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hollow"));
        command.arg("--socket").arg(program.socket()).stdout(Stdio::piped());
        command.stderr(Stdio::piped());
        command
    };
    let output = start_another().output().unwrap();
    assert!(!output.status.success());
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.contains("is in use"), "{words}");

    let mut another = start_another();
    program.end("KILL");
    let mut child = another.spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(ready.starts_with("hollow: ready on unix://"), "{ready:?}");
}

#[test]
fn invalid_command_line_is_explained() {
    let output = Command::new(env!("CARGO_BIN_EXE_hollow")).args(["--pods", "3"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.contains("--socket is required") && words.contains("usage:"), "{words}");
    let output = Command::new(env!("CARGO_BIN_EXE_hollow")).arg("--help").output().unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("usage: hollow"));
}
