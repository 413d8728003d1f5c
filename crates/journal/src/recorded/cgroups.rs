//! Cgroups whose removals are put on record.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use model::cgroup::{CgroupDriver, CgroupName, CgroupValues};
use model::chain::Chain;
use model::ports::cgroups::{CgroupError, Cgroups, Limits};
use model::ports::files::Removed;
use model::ports::journal::Outcome;
use model::verdict::Verdict;

use super::UnderWay;
use crate::ledger::Ledger;

/// The host's cgroups, with a record of what is removed.
#[derive(Debug)]
pub struct RecordedCgroups {
    /// The cgroups themselves.
    pub inner: Arc<dyn Cgroups>,
    /// Where removals are told.
    pub ledger: Arc<Ledger>,
}

#[async_trait]
impl Cgroups for RecordedCgroups {
    async fn remove(&self, verdict: &Verdict) -> Result<Removed, CgroupError> {
        let under_way = UnderWay::begin(&self.ledger, verdict).await;
        let removed = self.inner.remove(verdict).await;
        match &removed {
            Ok(Removed::Now) => under_way.ended(Outcome::Removed),
            // Nobody looks before: of most pods that are gone nothing is left.
            Ok(Removed::Before) => under_way.was_nothing(),
            Err(error) => under_way.ended(Outcome::Failed(&Chain(error).to_string())),
        }
        removed
    }

    fn driver(&self) -> CgroupDriver {
        self.inner.driver()
    }
    async fn check(&self, name: &CgroupName) -> Result<(), CgroupError> {
        self.inner.check(name).await
    }
    async fn create(
        &self,
        name: &CgroupName,
        values: &CgroupValues,
    ) -> Result<Limits, CgroupError> {
        self.inner.create(name, values).await
    }
    async fn update(&self, name: &CgroupName, values: &CgroupValues) -> Result<(), CgroupError> {
        self.inner.update(name, values).await
    }
    async fn has(&self, name: &CgroupName, values: &CgroupValues) -> Result<bool, CgroupError> {
        self.inner.has(name, values).await
    }
    async fn values(&self, name: &CgroupName) -> Result<CgroupValues, CgroupError> {
        self.inner.values(name).await
    }
    async fn memory_usage(
        &self,
        name: &CgroupName,
        part: Option<&str>,
    ) -> Result<Option<u64>, CgroupError> {
        self.inner.memory_usage(name, part).await
    }
    async fn children(&self, name: &CgroupName) -> Result<BTreeSet<CgroupName>, CgroupError> {
        self.inner.children(name).await
    }
}
