//! Resizes running pods in place.
//!
//! The limits of the pod's cgroup increase first, then its containers change, then the limits of the pod decrease:
//! a container is never restricted by more than its own limits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod};
use model::cgroup::CgroupValues;
use model::ids::{PodUid, SandboxId};
use model::observed::RuntimePodStatus;
use model::ports::files::FileError;
use model::ports::runtime::{ContainerService, RuntimeError, SandboxService};
use podspec::view;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::actuated::Actuated;
use crate::cgroups::PodCgroups;
use crate::decide::{
    ContainerResize, MemoryUse, NodeSettings, Sizes, actual, below_usage, container_resources,
    is_resizing, overhead_resources, raised, resized_sandbox_resources, smaller_memory_limit,
};
use crate::error::ResizeError;
use crate::metrics::Metrics;

/// The parts of a running pod that do not have the allocated resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingResources {
    /// None.
    Nothing,
    /// Only its cgroup: a change is in progress, or its limits could not be set at creation, or the settings of
    /// the agent have changed.
    Cgroup,
    /// Containers.
    Containers,
}

/// A write to the cgroup of a pod.
struct CgroupChange<'a> {
    /// The values before.
    had: &'a CgroupValues,
    /// The values that are written.
    values: &'a CgroupValues,
    /// The values after.
    has: CgroupValues,
}

/// Resizes running pods.
#[derive(Debug)]
pub(crate) struct PodResizer {
    pub(crate) sandboxes: Arc<dyn SandboxService>,
    pub(crate) containers: Arc<dyn ContainerService>,
    /// The pods' cgroups; `None` if disabled.
    pub(crate) cgroups: Option<Arc<PodCgroups>>,
    /// The resources that containers were given since their creation.
    pub(crate) actuated: Actuated,
    pub(crate) node: Arc<NodeSettings>,
    pub(crate) metrics: Metrics,
}

impl PodResizer {
    /// Reads the resources that earlier agents gave to containers. The agent does not start without them.
    pub(crate) async fn load(&self) -> Result<(), FileError> {
        self.actuated.load().await
    }

    /// The resources that containers were given since their creation.
    pub(crate) async fn sizes(&self) -> Arc<Sizes> {
        self.actuated.sizes().await
    }

    /// Drops the record of all other pods.
    pub(crate) async fn keep_only_of(&self, pods: &BTreeSet<PodUid>) {
        self.actuated.keep_only_of(pods).await;
    }

    /// The values of the cgroup of a pod, if known.
    pub(crate) fn cgroup_values(&self, uid: &PodUid) -> Option<CgroupValues> {
        self.cgroups.as_ref()?.known_values(uid)
    }

    /// The memory limits of the running containers of a pod, by their names.
    pub(crate) fn memory_requests(&self, status: &RuntimePodStatus) -> BTreeMap<String, i64> {
        let sizes = self.actuated.known_sizes();
        let all = status.running().filter_map(|one| {
            let has = actual(one, &sizes)?;
            Some((one.name.to_string(), has.size.memory_request))
        });
        all.collect()
    }

    /// The parts of a pod that do not have the allocated resources yet.
    pub(crate) async fn missing(&self, pod: &Pod, status: &RuntimePodStatus) -> MissingResources {
        let sizes = self.sizes().await;
        if is_resizing(pod, status, &sizes) {
            MissingResources::Containers
        } else if self.runs(status) && !self.is_sized(pod) {
            MissingResources::Cgroup
        } else {
            MissingResources::Nothing
        }
    }

    fn runs(&self, status: &RuntimePodStatus) -> bool {
        self.cgroups.is_some() && status.running().next().is_some()
    }

    /// Whether the pod's cgroup has the desired values, if known.
    fn is_sized(&self, pod: &Pod) -> bool {
        self.cgroups.as_ref().is_none_or(|cgroups| cgroups.is_sized(pod))
    }

    /// Applies the allocated resources to the pod's cgroup and these containers. Whether anything changed.
    pub(crate) async fn apply(
        &self,
        pod: &Pod,
        status: &RuntimePodStatus,
        sandbox: Option<&SandboxId>,
        changes: &[ContainerResize],
    ) -> Result<bool, ResizeError> {
        if changes.is_empty() && self.is_sized(pod) {
            return Ok(false);
        }
        let began = Instant::now();
        let resized = self.resize_all(pod, status, sandbox, changes).await;
        self.metrics.resized(began.elapsed(), resized.is_ok());
        resized.map(|()| true)
    }

    async fn resize_all(
        &self,
        pod: &Pod,
        status: &RuntimePodStatus,
        sandbox: Option<&SandboxId>,
        changes: &[ContainerResize],
    ) -> Result<(), ResizeError> {
        if let Some(cgroups) = self.cgroups.as_deref() {
            check_memory(cgroups, pod, changes).await?;
        }
        self.raise(pod, sandbox).await?;
        self.actuated.begin(&status.uid, changes).await.map_err(ResizeError::Record)?;
        for change in changes {
            self.resize_container(pod, status, change).await?;
        }
        self.settle(pod, sandbox).await?;
        let left = status.containers.iter().map(|one| one.id.clone()).collect();
        self.actuated.keep_only(&status.uid, &left).await;
        Ok(())
    }

    /// Raises the limits of a pod to the maximum of before and after the change.
    pub(crate) async fn raise(
        &self,
        pod: &Pod,
        sandbox: Option<&SandboxId>,
    ) -> Result<(), ResizeError> {
        let Some(cgroups) = self.cgroups.as_deref() else { return Ok(()) };
        let (had, wanted) = (cgroups.has(pod).await, cgroups.wanted(pod));
        let had = had.map_err(ResizeError::Cgroup)?;
        let between = raised(&had, &wanted);
        let has = had.with(&between);
        if has == had {
            return Ok(());
        }
        self.limit(pod, sandbox, CgroupChange { had: &had, values: &between, has }).await
    }

    /// Sets the cgroup of a pod to the allocated resources.
    async fn settle(&self, pod: &Pod, sandbox: Option<&SandboxId>) -> Result<(), ResizeError> {
        let Some(cgroups) = self.cgroups.as_deref() else { return Ok(()) };
        let (had, wanted) = (cgroups.has(pod).await, cgroups.wanted(pod));
        let had = had.map_err(ResizeError::Cgroup)?;
        let has = had.with(&wanted);
        if has != had {
            self.limit(pod, sandbox, CgroupChange { had: &had, values: &wanted, has }).await?;
        }
        cgroups.settled(pod).await;
        Ok(())
    }

    /// Writes to the cgroup of a pod. The runtime is notified before, and may refuse.
    async fn limit(
        &self,
        pod: &Pod,
        sandbox: Option<&SandboxId>,
        change: CgroupChange<'_>,
    ) -> Result<(), ResizeError> {
        let CgroupChange { had, values, has } = change;
        let Some(cgroups) = self.cgroups.as_deref() else { return Ok(()) };
        if let Some(id) = sandbox {
            let resource = if has.memory_limit == had.memory_limit { "cpu" } else { "memory" };
            let result = self.update_sandbox(pod, id, &has).await;
            result.map_err(|source| ResizeError::Sandbox { id: id.clone(), resource, source })?;
        }
        let written = cgroups.write(pod, values, has).await;
        if written.is_err()
            && let Some(id) = sandbox
            && let Err(error) = self.update_sandbox(pod, id, had).await
        {
            warn!(pod = %view::pod_name(pod), %error, "Cannot revert the sandbox resources in the runtime");
        }
        written.map_err(ResizeError::Cgroup)
    }

    async fn update_sandbox(
        &self,
        pod: &Pod,
        sandbox: &SandboxId,
        values: &CgroupValues,
    ) -> Result<(), RuntimeError> {
        let node = &self.node;
        let overhead = overhead_resources(pod, &node.limits, &node.machine);
        let resources = resized_sandbox_resources(pod, values);
        let result =
            self.sandboxes.update_pod_sandbox_resources(sandbox, &overhead, &resources).await;
        match result {
            // Then the runtime does not use them.
            Err(error) if error.is_unimplemented() => {
                debug!(%sandbox, "Runtime does not implement UpdatePodSandboxResources");
                Ok(())
            }
            result => result,
        }
    }

    async fn resize_container(
        &self,
        pod: &Pod,
        status: &RuntimePodStatus,
        change: &ContainerResize,
    ) -> Result<(), ResizeError> {
        let ContainerResize { id, name, .. } = change;
        let Some(container) = container(pod, name) else { return Ok(()) };
        let node = &self.node;
        let resources = container_resources(pod, container, &node.limits, &node.machine);
        info!(pod = %view::pod_name(pod), uid = %status.uid, container = name, %id, from = %change.from, to = %change.to, "Updating container resources");
        let updated = self.containers.update_container_resources(id, &resources).await;
        updated.map_err(|source| ResizeError::Container { name: name.clone(), source })?;
        self.actuated.done(&status.uid, id, change.to);
        Ok(())
    }

    /// Drops the record of the containers of a removed pod.
    pub(crate) async fn forget(&self, pod: &Pod) {
        self.actuated.keep_only(&view::uid(pod), &<_>::default()).await;
    }
}

fn container<'a>(pod: &'a Pod, name: &str) -> Option<&'a Container> {
    let mut all = view::init_containers(pod).iter().chain(view::containers(pod));
    all.find(|container| container.name == name)
}

/// Checks that no memory limit is set below the usage.
async fn check_memory(
    cgroups: &PodCgroups,
    pod: &Pod,
    changes: &[ContainerResize],
) -> Result<(), ResizeError> {
    let mut shrinking = Vec::new();
    let had = cgroups.has(pod).await.map_err(ResizeError::Cgroup)?;
    if let Some(limit) = smaller_memory_limit(&had, &cgroups.wanted(pod)) {
        let used = cgroups.memory_usage(pod, None).await.map_err(ResizeError::Cgroup)?;
        shrinking.push(MemoryUse { container: None, limit, used });
    }
    for change in changes.iter().filter(|change| change.shrinks_memory()) {
        let used = cgroups.memory_usage(pod, Some(&change.id)).await;
        let used = used.map_err(ResizeError::Cgroup)?;
        let (container, limit) = (Some(change.name.clone()), change.to.memory_limit);
        shrinking.push(MemoryUse { container, limit: limit.unsigned_abs(), used });
    }
    below_usage(&shrinking).map_or(Ok(()), |problem| Err(ResizeError::BelowUsage(problem)))
}
