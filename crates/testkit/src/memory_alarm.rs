//! Reports of memory shortage that a test makes.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use model::ports::cgroups::CgroupError;
use model::ports::memory_alarm::MemoryAlarm;
use tokio::sync::Notify;

/// Reports when a test says so.
#[derive(Debug, Default)]
pub struct TestAlarm {
    bells: Mutex<BTreeMap<String, Arc<Notify>>>,
    /// The levels that were requested.
    levels: Mutex<Vec<(String, u64)>>,
    /// Why each wait fails.
    failure: Mutex<Option<ErrorKind>>,
}

impl TestAlarm {
    /// A kernel without reports.
    pub fn absent() -> Self {
        Self { failure: Mutex::new(Some(ErrorKind::Unsupported)), ..Self::default() }
    }

    /// Makes all waits fail from now on, or none.
    pub fn set_failure(&self, failure: Option<ErrorKind>) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    fn bell(&self, cgroup: &str) -> Arc<Notify> {
        let mut bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(bells.entry(cgroup.to_owned()).or_default())
    }

    /// Reports a shortage of a cgroup to all that wait.
    pub fn ring(&self, cgroup: &str) {
        self.bell(cgroup).notify_waiters();
    }

    /// The levels that were requested so far.
    pub fn levels(&self) -> Vec<(String, u64)> {
        self.levels.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn wait(&self, cgroup: &str) -> Result<(), CgroupError> {
        let failure = *self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kind) = failure {
            let (operation, path) = ("wait for".to_owned(), PathBuf::from(cgroup));
            return Err(CgroupError::File { operation, path, source: kind.into() });
        }
        self.bell(cgroup).notified().await;
        Ok(())
    }
}

#[async_trait]
impl MemoryAlarm for TestAlarm {
    async fn stalled(&self, cgroup: &str) -> Result<(), CgroupError> {
        self.wait(cgroup).await
    }

    async fn crossed(&self, cgroup: &str, bytes: u64) -> Result<(), CgroupError> {
        let level = (cgroup.to_owned(), bytes);
        self.levels.lock().unwrap_or_else(PoisonError::into_inner).push(level);
        self.wait(cgroup).await
    }
}
