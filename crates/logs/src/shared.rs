//! The state shared by drivers and workers, and changes of log files.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::ports::files::FileError;
use model::verdict::{Detail, Input, Owner, Subject, Verdict};

use crate::compressor::Queue;
use crate::decide::directory::{Deletion, LogDirectory, Reason};
use crate::settings::{LogParts, Settings};
use crate::table::{Log, Table};

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) parts: LogParts,
    pub(crate) settings: Settings,
    /// Each entry is written by the driver of its log and its compression worker. Never held across an await.
    table: Mutex<Table>,
    /// Filled by drivers, read by workers.
    pub(crate) queue: Queue,
}

impl Shared {
    pub(crate) fn new(parts: LogParts, settings: Settings) -> Self {
        Self { parts, settings, table: Mutex::default(), queue: Queue::default() }
    }

    pub(crate) fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists the files of a log.
    pub(crate) async fn list(&self, log: &Log) -> Result<LogDirectory, FileError> {
        let files = self.parts.files.list(&log.path).await?;
        let mut table = self.table();
        let directory = LogDirectory::read(&log.name, files, table.compressing(&log.key));
        table.store(log, directory.clone());
        Ok(directory)
    }

    /// Lists the files of a log and deletes surplus ones. Returns the remaining files.
    pub(crate) async fn tidy(&self, log: &Arc<Log>) -> Result<LogDirectory, FileError> {
        let directory = self.list(log).await?;
        if self.settings.max_size.is_none() {
            return Ok(directory);
        }
        let surplus = directory.surplus(&log.name, self.settings.max_files);
        if surplus.is_empty() {
            return Ok(directory);
        }
        for deletion in &surplus {
            self.delete(log, deletion).await?;
        }
        self.list(log).await
    }

    /// Deletes a file of a log; a missing one is not an error.
    pub(crate) async fn delete(&self, log: &Log, deletion: &Deletion) -> Result<(), FileError> {
        let verdict = self.verdict(log, deletion);
        self.table().cancel(log, &deletion.file);
        self.parts.removals.remove(&self.parts.pod_logs, &verdict).await?;
        Ok(())
    }

    fn verdict(&self, log: &Log, deletion: &Deletion) -> Verdict {
        let number = |number: u64| Input::Number(i64::try_from(number).unwrap_or(i64::MAX));
        let detail = Detail::default().with("bytes", number(deletion.size));
        let detail = match deletion.reason {
            Reason::Leftover => detail,
            Reason::MaxFiles => detail.with("maxFiles", number(self.settings.max_files as u64)),
            Reason::PodLimit => {
                detail.with("maxBytesPerPod", number(self.settings.max_bytes_per_pod.unwrap_or(0)))
            }
        };
        Verdict {
            subject: Subject::RotatedLog(log.path.with_file_name(&deletion.file)),
            name: Arc::clone(&log.key.container),
            owner: Owner::of(&log.key.uid, &log.pod),
            rule: deletion.reason.rule(),
            detail,
            at: self.parts.clock.now(),
        }
    }
}
