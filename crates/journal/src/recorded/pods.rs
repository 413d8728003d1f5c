//! Pods of the API server whose removals are put on record.

use std::sync::Arc;

use async_trait::async_trait;
use model::chain::Chain;
use model::cluster::{FailedStatus, PodRemoved, PodTarget, Version};
use model::ports::cluster::{ApiError, PodWrites};
use model::ports::journal::Outcome;
use model::verdict::Verdict;

use super::UnderWay;
use crate::ledger::Ledger;

/// Pods, with a record of what is removed. One that the server has no time for is not on record: it is
/// asked for again.
#[derive(Debug)]
pub struct RecordedPods {
    /// The pods themselves.
    pub inner: Arc<dyn PodWrites>,
    /// Where removals are told.
    pub ledger: Arc<Ledger>,
}

#[async_trait]
impl PodWrites for RecordedPods {
    async fn fail_pod(&self, pod: &PodTarget, status: &FailedStatus) -> Result<Version, ApiError> {
        self.inner.fail_pod(pod, status).await
    }

    async fn remove_pod(&self, pod: &PodTarget, verdict: &Verdict) -> Result<PodRemoved, ApiError> {
        let under_way = UnderWay::begin(&self.ledger, verdict).await;
        let removed = self.inner.remove_pod(pod, verdict).await;
        match &removed {
            Ok(PodRemoved::Gone) => under_way.ended(Outcome::Removed),
            Ok(PodRemoved::Held) => under_way.ended(Outcome::Held),
            Err(ApiError::NotFound) => under_way.ended(Outcome::AlreadyGone),
            Err(ApiError::Throttled { .. }) => under_way.was_nothing(),
            Err(error) => under_way.ended(Outcome::Failed(&Chain(error).to_string())),
        }
        removed
    }
}
