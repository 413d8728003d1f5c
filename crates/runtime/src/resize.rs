//! Changing what a pod may use while it runs.
//!
//! The pod's cgroup allows more first, then its containers change, then it allows no more than it
//! should: at no time is a container held back by more than its own limits.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod};
use model::ids::PodUid;
use model::observed::PodStatus;
use podspec::{Allocation, view};
use tracing::info;

use crate::act::PodRuntime;
use crate::cgroups::PodCgroups;
use crate::decide::{ContainerResize, Sizes, container_resources, is_resizing};
use crate::error::ResizeError;

impl PodRuntime {
    /// What containers were given since they were made.
    pub async fn sizes(&self) -> Arc<Sizes> {
        self.actuated.sizes().await
    }

    /// Forgets what containers of other pods were given.
    pub async fn keep_sizes_of(&self, pods: &BTreeSet<PodUid>) {
        self.actuated.keep_only_of(pods).await;
    }

    /// Whether something of a pod has not yet what the pod was given.
    pub async fn is_resizing(&self, pod: &Pod, status: &PodStatus) -> bool {
        let sizes = self.sizes().await;
        is_resizing(pod, status, &sizes) || (self.runs(status) && !self.is_sized(pod))
    }

    fn runs(&self, status: &PodStatus) -> bool {
        self.parts.cgroups.is_some() && status.running().next().is_some()
    }

    /// Whether the pod's cgroup has what it should, as far as it was seen.
    pub(crate) fn is_sized(&self, pod: &Pod) -> bool {
        self.parts.cgroups.as_ref().is_none_or(|cgroups| cgroups.is_sized(pod))
    }

    /// Gives the pod's cgroup and these containers what they should have; whether they had not.
    pub(crate) async fn resize(
        &self,
        pod: &Pod,
        status: &PodStatus,
        changes: &[ContainerResize],
    ) -> Result<bool, ResizeError> {
        if changes.is_empty() && self.is_sized(pod) {
            return Ok(false);
        }
        let before = before(pod, changes);
        let cgroups = self.parts.cgroups.as_deref();
        if let Some(cgroups) = cgroups {
            check_memory(cgroups, pod, &before, changes).await?;
            cgroups.raise(&before, pod).await.map_err(ResizeError::Cgroup)?;
        }
        for change in changes {
            self.resize_container(pod, status, change).await?;
        }
        if let Some(cgroups) = cgroups {
            cgroups.settle(pod).await.map_err(ResizeError::Cgroup)?;
        }
        let left = status.containers.iter().map(|one| one.id.clone()).collect();
        self.actuated.keep_only(&status.uid, &left).await;
        Ok(true)
    }

    async fn resize_container(
        &self,
        pod: &Pod,
        status: &PodStatus,
        change: &ContainerResize,
    ) -> Result<(), ResizeError> {
        let ContainerResize { id, name, .. } = change;
        let Some(container) = container(pod, name) else { return Ok(()) };
        let node = &self.parts.node;
        let resources = container_resources(pod, container, &node.limits, &node.machine);
        info!(pod = %view::pod_name(pod), uid = %status.uid, container = name, %id, from = %change.from, to = %change.to, "changing the resources of a container");
        let updated = self.parts.runtime.update_container_resources(id, &resources).await;
        updated.map_err(|source| ResizeError::Container { name: name.clone(), source })?;
        self.actuated.set(&status.uid, id, change.to).await;
        Ok(())
    }

    /// Forgets what containers of a pod were given of which nothing is left.
    pub(crate) async fn forget_sizes(&self, pod: &Pod) {
        self.actuated.keep_only(&view::uid(pod), &<_>::default()).await;
    }
}

fn container<'a>(pod: &'a Pod, name: &str) -> Option<&'a Container> {
    let mut all = view::init_containers(pod).iter().chain(view::containers(pod));
    all.find(|container| container.name == name)
}

/// The pod as its containers are before they change.
fn before(pod: &Pod, changes: &[ContainerResize]) -> Arc<Pod> {
    let mut had = Allocation::of(pod);
    had.containers.extend(changes.iter().map(|change| (change.name.clone(), change.from)));
    had.applied(&Arc::new(pod.clone()))
}

/// That nobody is given less memory than it uses: the kernel would kill it.
async fn check_memory(
    cgroups: &PodCgroups,
    pod: &Pod,
    before: &Pod,
    changes: &[ContainerResize],
) -> Result<(), ResizeError> {
    let mut problems = Vec::new();
    if let Some(limit) = cgroups.smaller_memory_limit(before, pod) {
        let used = cgroups.memory_usage(pod, None).await.map_err(ResizeError::Cgroup)?;
        if let Some(used) = used.filter(|used| *used >= limit) {
            problems.push(format!(
                "attempting to set pod memory limit ({limit}) below current usage ({used})"
            ));
        }
    }
    for change in changes.iter().filter(|change| change.shrinks_memory()) {
        let (name, limit) = (&change.name, change.to.memory_limit);
        let used = cgroups.memory_usage(pod, Some(&change.id)).await;
        let used = used.map_err(ResizeError::Cgroup)?;
        if let Some(used) = used.filter(|used| *used >= limit.unsigned_abs()) {
            problems.push(format!(
                "attempting to set container {name:?} memory limit ({limit}) below current usage \
                 ({used})"
            ));
        }
    }
    match problems.as_slice() {
        [] => Ok(()),
        [one] => Err(ResizeError::BelowUsage(one.clone())),
        all => Err(ResizeError::BelowUsage(format!("[{}]", all.join(", ")))),
    }
}
