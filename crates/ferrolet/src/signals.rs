//! The signals that end the program.

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT. Either comes once and ends the program.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Listens from now on: what comes later is not lost, whenever it is asked for.
    pub(crate) fn listen() -> Result<Self> {
        let terminate = signal(SignalKind::terminate()).context("listen to SIGTERM")?;
        let interrupt = signal(SignalKind::interrupt()).context("listen to SIGINT")?;
        Ok(Self { terminate, interrupt })
    }

    /// Waits for one of them, and answers its name.
    pub(crate) async fn told_to_stop(&mut self) -> &'static str {
        // Biased: either ends the program.
        tokio::select! {
            biased;
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
