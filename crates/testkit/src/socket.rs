//! Unix sockets of the test programs: listening, and a line-based control protocol.
#![allow(clippy::disallowed_methods, reason = "a test tool makes and removes real sockets")]

use std::fs;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;

/// Listens on a socket. A socket without a listener is replaced.
pub fn bind(path: &Path) -> Result<UnixListener> {
    if StdUnixStream::connect(path).is_ok() {
        bail!("{} is in use", path.display());
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("remove {}", path.display()));
        }
        Ok(()) | Err(_) => {}
    }
    UnixListener::bind(path).with_context(|| format!("listen on {}", path.display()))
}

/// The sockets of a program, which are removed when it ends.
#[derive(Debug, Default)]
pub struct Sockets(Vec<PathBuf>);

impl Sockets {
    /// Listens on another socket.
    pub fn listen(&mut self, path: &Path) -> Result<UnixListener> {
        let listener = bind(path)?;
        self.0.push(path.to_owned());
        Ok(listener)
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        for socket in &self.0 {
            if let Err(error) = fs::remove_file(socket) {
                eprintln!("remove {}: {error}", socket.display());
            }
        }
    }
}

/// Waits for a signal to end.
#[derive(Debug)]
pub struct Ending {
    terminate: Signal,
    interrupt: Signal,
}

impl Ending {
    /// Handles SIGTERM and SIGINT from now on, which no longer kill the process.
    pub fn listen() -> Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("wait for SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("wait for SIGINT")?,
        })
    }

    /// Waits for either signal.
    pub async fn received(&mut self) {
        tokio::select! {
            // Both signals mean the same.
            biased;
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Answers every line with a line of JSON; an error as `{"error": "..."}`. Never ends.
pub(crate) async fn answer_lines(
    listener: UnixListener,
    execute: impl Fn(&str) -> Result<Value> + Send + Sync + 'static,
) -> Result<()> {
    let execute = Arc::new(execute);
    let mut talks = JoinSet::new();
    loop {
        tokio::select! {
            // Finished connections are reaped when there are no new ones; this delays nothing.
            biased;
            accepted = listener.accept() => {
                let (stream, _) = accepted.context("accept a control connection")?;
                talks.spawn(talk(Arc::clone(&execute), stream));
            }
            // A broken connection has ended too.
            Some(_) = talks.join_next() => {}
        }
    }
}

async fn talk(execute: Arc<impl Fn(&str) -> Result<Value>>, stream: UnixStream) -> Result<()> {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    while let Some(line) = lines.next_line().await? {
        let mut answer = match execute(line.trim()) {
            Ok(answer) => answer.to_string(),
            Err(error) => json!({ "error": format!("{error:#}") }).to_string(),
        };
        answer.push('\n');
        write.write_all(answer.as_bytes()).await?;
    }
    Ok(())
}
