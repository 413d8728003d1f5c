//! The signals that end the program.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The handler of a signal could not be installed.
#[derive(Debug, thiserror::Error)]
#[error("listen to {signal}")]
pub struct SignalError {
    signal: &'static str,
    source: io::Error,
}

/// SIGTERM and SIGINT. Either ends the program.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Installs the handlers. A signal that arrives before [`Signals::received`] is called is not lost.
    pub fn listen() -> Result<Self, SignalError> {
        let listen =
            |name, kind| signal(kind).map_err(|source| SignalError { signal: name, source });
        let terminate = listen("SIGTERM", SignalKind::terminate())?;
        let interrupt = listen("SIGINT", SignalKind::interrupt())?;
        Ok(Self { terminate, interrupt })
    }

    /// Waits for one of them and returns its name.
    pub async fn received(&mut self) -> &'static str {
        // Biased: either ends the program.
        tokio::select! {
            biased;
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
