//! Enforces the common limit of all logs of a pod.

use std::sync::Arc;

use model::chain::Chain;
use tracing::warn;

use crate::decide::directory::{Deletion, Reason};
use crate::decide::growth::Limits;
use crate::decide::pod_limit::{excess, live_limit};
use crate::shared::Shared;
use crate::table::Log;

impl Shared {
    /// The limits of a live file.
    pub(crate) fn limits(&self, log: &Log) -> Limits {
        let size = self.settings.max_size.map(|max_size| match self.settings.max_bytes_per_pod {
            Some(limit) => live_limit(&self.table().of_pod(&log.key.uid).1, limit, max_size),
            None => max_size,
        });
        Limits { size, interval: self.settings.monitor_interval }
    }

    /// Deletes the oldest rotated files of a pod, of any of its containers, that exceed its limit.
    pub(crate) async fn keep_pod_limit(&self, log: &Log) {
        let (Some(max_size), Some(limit)) =
            (self.settings.max_size, self.settings.max_bytes_per_pod)
        else {
            return;
        };
        let (logs, files) = self.table().of_pod(&log.key.uid);
        let excess = excess(&files, limit, max_size);
        let mut changed: Vec<&Arc<Log>> = Vec::new();
        for one in excess {
            let log = &logs[one.container];
            let deletion =
                Deletion { file: one.file.file, size: one.file.size, reason: Reason::PodLimit };
            if let Err(error) = self.delete(log, &deletion).await {
                warn!(container = &*log.key.container, pod = %log.pod, error = %Chain(&error),
                    "Cannot delete rotated container log");
            }
            if !changed.iter().any(|other| Arc::ptr_eq(other, log)) {
                changed.push(log);
            }
        }
        for log in changed {
            // Its sizes are updated at the next check.
            self.list(log).await.ok();
        }
    }
}
