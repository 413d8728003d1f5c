//! Pods that restart as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::ids::{ContainerId, PodUid};
use model::observed::ContainerState;

use crate::history::{Event, Instance};
use crate::plan::{PodPlan, RestartRule};

/// Pods whose whole restart was triggered by the exit of a container: their other containers are stopped
/// without a grace. An agent that saw the exit continues when it is removed, until the first container is
/// created.
#[derive(Debug, Default)]
pub(super) struct PodRestart {
    rules: BTreeMap<(PodUid, &'static str), Vec<RestartRule>>,
    /// The existing containers with such an exit.
    ended: BTreeMap<ContainerId, PodUid>,
    pods: BTreeSet<PodUid>,
}

impl PodRestart {
    /// Processes the next event.
    pub(super) fn take(&mut self, event: &Event) {
        match event {
            Event::Wanted(uid, pod) => self.wanted(uid, pod),
            Event::Container(one, _) => self.changed(one),
            Event::CreationRequested(reserved)
                if !self.ended.values().any(|uid| *uid == reserved.uid) =>
            {
                self.pods.remove(&reserved.uid);
            }
            _ => {}
        }
    }

    fn wanted(&mut self, uid: &PodUid, pod: &PodPlan) {
        for container in pod.all() {
            let key = (uid.clone(), container.name);
            self.rules.entry(key).or_default().extend(container.extras.rule);
        }
    }

    fn changed(&mut self, one: &Arc<Instance>) {
        self.ended.remove(&one.id);
        let of = |(uid, name): &(PodUid, &str)| *uid == one.uid && *name == &*one.name;
        let mut rules = self.rules.iter().filter(|(key, _)| of(key)).flat_map(|(_, rules)| rules);
        let has_ended = one.state == Some(ContainerState::Exited);
        if has_ended && rules.any(|rule| rule.restarts_all(one.exit_code)) {
            self.ended.insert(one.id.clone(), one.uid.clone());
            self.pods.insert(one.uid.clone());
        }
    }

    /// Whether a pod restarts as a whole.
    pub(super) fn contains(&self, uid: &PodUid) -> bool {
        self.pods.contains(uid)
    }
}

#[cfg(test)]
mod tests {
    use model::observed::ContainerState::{Exited, Running};

    use super::*;
    use crate::history::ReservedName;
    use crate::invariants::tests::{container, pod, with};
    use crate::plan::{Action, Policy};

    #[test]
    fn pod_restarts_from_the_end_of_one_container_until_the_next_is_created() {
        let wanted = || {
            let mut pod = (*pod(Policy::Always)).clone();
            let rule = RestartRule { policy: Policy::Never, action: Action::RestartAll };
            pod.containers[0].extras.rule = Some(rule);
            Event::Wanted("u".into(), Arc::new(pod))
        };
        let ended =
            |name, code| with(container(name, 0, Exited, Running), |one| one.exit_code = code);
        let gone = || with(ended("a", 3), |one| one.state = None);
        let made =
            || Event::CreationRequested(ReservedName { uid: "u".into(), name: None, attempt: 1 });
        let rows = [
            (vec![], false),
            (vec![ended("a", 3)], true),
            (vec![ended("a", 1)], false),
            (vec![ended("side", 3)], false),
            (vec![ended("a", 3), made()], true),
            (vec![ended("a", 3), gone()], true),
            (vec![ended("a", 3), gone(), made()], false),
        ];
        for (events, expected) in rows {
            let mut pods = PodRestart::default();
            [wanted()].iter().chain(&events).for_each(|event| pods.take(event));
            assert_eq!(pods.contains(&"u".into()), expected, "{events:?}");
        }
    }
}
