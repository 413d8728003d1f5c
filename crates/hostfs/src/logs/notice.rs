//! Waits for writes to a log.

use std::path::Path;
use std::time::Duration;

use model::ports::files::DirectoryWatch as _;
use tokio::time::sleep;

use crate::watch::{Watch, Watches};

/// The log is read after this time without a notice too. Notices can be lost: their queue is bounded, and
/// some file systems send none.
const FORCED_LOOK: Duration = Duration::from_secs(1);

/// Signals when to read a log again.
#[derive(Debug)]
pub(super) struct Notice {
    /// The watch of the log's directory, until it ends.
    watch: Option<Watch>,
}

impl Notice {
    /// Watches the directory of a log, which covers writes and rotation. If the kernel refuses the watch, the
    /// log is only polled.
    pub(super) async fn of(log: &Path, watches: &Watches) -> Self {
        let watch = match log.parent() {
            Some(directory) => watches.watch_writing(directory).await.ok(),
            None => None,
        };
        Self { watch }
    }

    /// Waits for the next read.
    pub(super) async fn wait(&mut self) {
        let change = async {
            match &mut self.watch {
                Some(watch) => watch.next_change().await,
                None => std::future::pending().await,
            }
        };
        // Biased: both branches lead to a read.
        tokio::select! {
            biased;
            change = change => {
                if change.is_none() {
                    self.watch = None;
                }
            }
            () = sleep(FORCED_LOOK) => {}
        }
    }
}
