//! The resource usage of the node and its pods, measured on demand.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::stats::{NodeStats, Summary};

/// Usage cannot be measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{step}: {message}")]
pub struct UsageError {
    /// The failed step: `read cgroup /kubepods`, `list containers`, …
    pub step: String,
    /// Why it failed.
    pub message: String,
}

/// Measures resource usage. Concurrent readers share a measurement.
#[async_trait]
pub trait UsageSource: Debug + Send + Sync {
    /// The usage of the node and all pods. A measurement younger than `max_age` is reused; zero always measures.
    async fn summary(&self, max_age: Duration) -> Result<Arc<Summary>, UsageError>;

    /// The usage of the node without its pods, always measured. The cost does not depend on the
    /// number of pods.
    async fn node(&self) -> Result<NodeStats, UsageError>;
}
