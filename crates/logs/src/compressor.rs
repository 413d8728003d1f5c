//! Compression of rotated files, by a few workers for all logs.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::chain::Chain;
use model::panics::{PanicStep, PanicSubject};
use model::ports::files::FileError;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::shared::Shared;
use crate::table::Log;

/// How long a log waits after a compression that failed, on a full disk for example.
const RETRY: Duration = Duration::from_mins(1);

/// Logs with files to compress.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Filled by drivers, read by workers. Never held across an await.
    state: Mutex<QueueState>,
    added: Notify,
}

#[derive(Debug, Default)]
struct QueueState {
    waiting: VecDeque<Arc<Log>>,
    /// Logs that a worker processes; each with whether it was added again meanwhile.
    busy: Vec<(Arc<Log>, bool)>,
    /// Logs whose compression failed, each with the time of the next attempt.
    later: Vec<(Instant, Arc<Log>)>,
}

impl QueueState {
    fn add(&mut self, log: &Arc<Log>) {
        if let Some((_, again)) = self.busy.iter_mut().find(|(busy, _)| busy.key == log.key) {
            *again = true;
        } else if !self.waiting.iter().any(|waiting| waiting.key == log.key) {
            self.waiting.push_back(Arc::clone(log));
        }
    }

    fn add_due(&mut self, now: Instant) {
        let due: Vec<_> = self.later.extract_if(.., |(at, _)| *at <= now).collect();
        for (_, log) in &due {
            self.add(log);
        }
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a log. One whose compression just failed waits.
    pub(crate) fn push(&self, log: &Arc<Log>) {
        let mut state = self.state();
        if !state.later.iter().any(|(_, later)| later.key == log.key) {
            state.add(log);
            self.added.notify_one();
        }
    }

    /// Removes a log.
    pub(crate) fn forget(&self, log: &Log) {
        let mut state = self.state();
        state.waiting.retain(|waiting| waiting.id != log.id);
        state.later.retain(|(_, later)| later.id != log.id);
    }

    /// The next log; no two workers have logs of one directory.
    async fn next(&self) -> Arc<Log> {
        loop {
            let retry = {
                let mut state = self.state();
                state.add_due(Instant::now());
                if let Some(log) = state.waiting.pop_front() {
                    state.busy.push((Arc::clone(&log), false));
                    if !state.waiting.is_empty() {
                        self.added.notify_one();
                    }
                    return log;
                }
                state.later.iter().map(|(at, _)| *at).min()
            };
            let retry = async {
                match retry {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.added.notified() => {}
                () = retry => {}
            }
        }
    }

    /// Ends the work on a log.
    fn done(&self, log: &Arc<Log>, succeeded: bool) {
        let mut state = self.state();
        let busy = state.busy.extract_if(.., |(busy, _)| busy.key == log.key);
        let again = busy.fold(false, |any, (_, again)| any || again);
        if !succeeded {
            state.later.push((Instant::now() + RETRY, Arc::clone(log)));
        } else if again {
            state.add(log);
        }
        // A waiting worker may now have to wait less long.
        self.added.notify_one();
    }
}

impl Shared {
    /// Compresses files until it is stopped.
    pub(crate) async fn compress_files(self: Arc<Self>, stop: CancellationToken) {
        while let Some(log) = stop.run_until_cancelled(self.queue.next()).await {
            let work = self.compress_log(&log);
            let of = PanicSubject::Pod(&log.key.uid, Some(&log.pod));
            let guarded = self.parts.panics.catch_async(PanicStep::LogRotation, of, work);
            // An interrupted compression is like a killed one: the next agent removes its draft.
            let succeeded = match stop.run_until_cancelled(guarded).await {
                Some(result) => result.unwrap_or(false),
                None => return,
            };
            self.queue.done(&log, succeeded);
        }
    }

    /// Compresses all files of a log that are due. Returns whether all succeeded.
    async fn compress_log(&self, log: &Arc<Log>) -> bool {
        loop {
            let result = self.compress_one(log).await;
            match result {
                Ok(true) => self.parts.metrics.compressed(true),
                Ok(false) => return true,
                // The file was deleted meanwhile.
                Err(error) if is_gone(&error) => {
                    debug!(container = %log.id, error = %Chain(&error), "Compression was cancelled");
                }
                Err(error) => {
                    self.parts.metrics.compressed(false);
                    warn!(container = &*log.key.container, pod = %log.pod, error = %Chain(&error),
                        "Cannot compress rotated container log, retrying in {RETRY:?}");
                    return false;
                }
            }
        }
    }

    /// Compresses one file; false if none is due.
    async fn compress_one(&self, log: &Arc<Log>) -> Result<bool, FileError> {
        let directory = self.tidy(log).await?;
        let Some(name) = directory.compressible() else { return Ok(false) };
        let file = log.path.with_file_name(name.file_name(&log.name));
        let cancel = self.table().compress(log, name);
        let compressed = self.parts.files.compress(&file, &cancel).await;
        self.table().compressed(log);
        let size = compressed?;
        debug!(container = %log.id, file = %file.display(), size, "Compressed container log");
        Ok(true)
    }
}

fn is_gone(error: &FileError) -> bool {
    matches!(error.source.kind(), ErrorKind::NotFound | ErrorKind::Interrupted)
}
