//! Measures cgroup operations, under upstream's metric names.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use model::cgroup::{CgroupDriver, CgroupName, CgroupValues};
use model::machine;
use model::ports::cgroups::{CgroupError, Cgroups, Limits};
use model::ports::files::Removed;
use model::verdict::Verdict;
use prometheus::{HistogramOpts, HistogramVec, IntGauge, Registry};
use tokio::time::Instant;

/// A cgroup port that measures the duration of changes.
#[derive(Debug)]
pub(crate) struct TimedCgroups {
    inner: Arc<dyn Cgroups>,
    changes: HistogramVec,
}

impl TimedCgroups {
    /// Registers the metrics.
    pub(crate) fn new(inner: Arc<dyn Cgroups>, registry: &Registry) -> prometheus::Result<Self> {
        let changes = HistogramOpts::new(
            "kubelet_cgroup_manager_duration_seconds",
            "Duration of cgroup operations: create, update, destroy.",
        );
        let changes = HistogramVec::new(changes, &["operation_type"])?;
        registry.register(Box::new(changes.clone()))?;
        Ok(Self { inner, changes })
    }

    fn took(&self, operation: &str, since: Instant) {
        let took = since.elapsed().as_secs_f64();
        self.changes.with_label_values(&[operation]).observe(took);
    }
}

#[async_trait]
impl Cgroups for TimedCgroups {
    async fn create(
        &self,
        name: &CgroupName,
        values: &CgroupValues,
    ) -> Result<Limits, CgroupError> {
        let began = Instant::now();
        let created = self.inner.create(name, values).await;
        self.took("create", began);
        created
    }

    async fn update(&self, name: &CgroupName, values: &CgroupValues) -> Result<(), CgroupError> {
        let began = Instant::now();
        let updated = self.inner.update(name, values).await;
        self.took("update", began);
        updated
    }

    async fn remove(&self, verdict: &Verdict) -> Result<Removed, CgroupError> {
        let began = Instant::now();
        let removed = self.inner.remove(verdict).await;
        self.took("destroy", began);
        removed
    }

    fn driver(&self) -> CgroupDriver {
        self.inner.driver()
    }
    async fn check(&self, name: &CgroupName) -> Result<(), CgroupError> {
        self.inner.check(name).await
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

/// Registers the metric of the cgroup version of the machine.
pub(crate) fn register_cgroup_version(
    registry: &Registry,
    version: machine::Cgroups,
) -> prometheus::Result<()> {
    let gauge = IntGauge::new("kubelet_cgroup_version", "The version of cgroups of this machine.")?;
    gauge.set(match version {
        machine::Cgroups::V1 => 1,
        machine::Cgroups::V2 => 2,
    });
    registry.register(Box::new(gauge))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use model::verdict::{Detail, Subject};
    use prometheus::TextEncoder;
    use testkit::cgroups::MemoryCgroups;

    use super::*;

    // behaviour: CGR-30
    #[tokio::test(start_paused = true)]
    async fn cgroup_operations_are_timed_and_the_version_is_reported() {
        let (registry, name) = (Registry::new(), CgroupName::parse("/kubepods").unwrap());
        let inner = Arc::new(MemoryCgroups::new(CgroupDriver::Cgroupfs));
        let cgroups = TimedCgroups::new(Arc::clone(&inner) as _, &registry).unwrap();
        register_cgroup_version(&registry, machine::Cgroups::V2).unwrap();
        let values = CgroupValues { memory_limit: Some(1 << 20), ..CgroupValues::default() };
        cgroups.create(&name, &CgroupValues::default()).await.unwrap();
        for _ in 0..2 {
            cgroups.update(&name, &values).await.unwrap();
        }
        assert_eq!(inner.all()[&name].memory_limit, Some(1 << 20));
        let verdict = Verdict {
            subject: Subject::Cgroup(name.clone()),
            name: "".into(),
            owner: None,
            rule: "test",
            detail: Detail::default(),
            at: Timestamp::UNIX_EPOCH,
        };
        cgroups.remove(&verdict).await.unwrap();
        // A failed operation is measured too.
        inner.set_broken(&name, true);
        cgroups.create(&name, &values).await.unwrap_err();
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        for line in [
            "kubelet_cgroup_manager_duration_seconds_count{operation_type=\"create\"} 2",
            "kubelet_cgroup_manager_duration_seconds_count{operation_type=\"update\"} 2",
            "kubelet_cgroup_manager_duration_seconds_count{operation_type=\"destroy\"} 1",
            "kubelet_cgroup_version 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
