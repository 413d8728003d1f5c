//! The current state of a node.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::FutureExt as _;
use gc::policy::AgeBy;
use jiff::SignedDuration;
use model::observed::{Container, SandboxState};
use model::ports::runtime::ContainerService;
use runtime::decide::pod_of_cgroup;

use super::Node;
use crate::settled::{SandboxSeen, Snapshot};
use crate::statuses::{ReportedStatuses, reported};

impl Node {
    /// The current state. Stop requests in progress are not included.
    pub(in crate::run) fn snapshot(&self) -> Snapshot {
        let outside = &self.outside;
        let containers = outside.runtime.containers();
        let sandboxes = outside.runtime.sandboxes().into_iter();
        Snapshot {
            at: outside.elapsed(),
            policy: self.collecting.containers,
            ages: containers.iter().map(|one| (one.id.clone(), self.age(one))).collect(),
            logs: outside.pods_with_logs(),
            dangling: outside.dangling_links(),
            containers: containers.iter().map(|one| outside.instance(one)).collect(),
            ending: BTreeMap::new(),
            start_by: BTreeMap::new(),
            late_removals: self
                .late_removals
                .pods()
                .into_iter()
                .chain(self.capped.pods())
                .collect(),
            capped: self.capped.containers(),
            due: self.outlived.due(),
            longest: self.pod_starts.longest(outside),
            wanted_for: self.pod_starts.wanted_for(outside),
            set_back: outside.clock.set_back(Duration::from_mins(5)),
            shares: containers.iter().filter_map(|one| outside.shares(&one.id)).collect(),
            memory: containers.iter().filter_map(|one| outside.memory(&one.id)).collect(),
            cgroups: outside.cgroups.all().keys().filter_map(pod_of_cgroup).collect(),
            sandboxes: sandboxes
                .map(|one| SandboxSeen {
                    made: outside.since_the_beginning(one.created_at),
                    ready: one.state == SandboxState::Ready,
                    age: outside.clock.age(one.created_at),
                    id: one.id,
                    uid: one.pod_uid,
                })
                .collect(),
        }
    }

    /// Whether dead containers are removed only after a minimum age: the removal at their death does not wait,
    /// but their sandboxes stay.
    pub(in crate::run) fn waits_for_min_age(&self) -> bool {
        !self.collecting.containers.min_age.is_zero()
    }

    /// The pod statuses of the agent.
    pub(in crate::run) fn statuses(&self) -> ReportedStatuses {
        self.agent.as_ref().map(|(agent, _)| reported(&*agent.pods())).unwrap_or_default()
    }

    /// The age of a container by the node's clock, as its policy counts it.
    fn age(&self, container: &Container) -> SignedDuration {
        let status = self.outside.runtime.container_status(&container.id).now_or_never();
        let ended = status.and_then(Result::ok).and_then(|status| status.finished_at);
        let ended = ended.filter(|_| self.collecting.containers.age_by == AgeBy::Finished);
        self.outside.clock.age(ended.unwrap_or(container.created_at))
    }
}
