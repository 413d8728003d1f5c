//! What a container may use, as its status tells it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use model::observed::{self, ContainerState};
use podspec::resources::{CPU, MEMORY};
use podspec::{Size, bytes, thousandths};

/// The kernel has no smaller share and no smaller quota than these thousandths: whoever asks for less
/// is told what it asked for.
const LEAST_SHARE: i64 = 2;
const LEAST_QUOTA: i64 = 10;

pub(crate) type List = BTreeMap<String, Quantity>;

/// Upstream's `convertContainerStatusResources`: what the pod was given, and for what runs what the
/// runtime says. Of what it does not say, what was told of the same instance before stays.
pub(crate) fn resources(
    container: &Container,
    newest: &observed::ContainerStatus,
    old: Option<&ContainerStatus>,
    in_progress: bool,
) -> ResourceRequirements {
    let mut resources = container.resources.clone().unwrap_or_default();
    if newest.state != ContainerState::Running {
        return resources;
    }
    let given = Size::of(Some(&resources));
    let told = newest.resources.unwrap_or_default();
    let before = old.and_then(|old| old.resources.as_ref());
    if let Some(limits) = &mut resources.limits {
        let before = before.and_then(|before| before.limits.as_ref());
        let cpu = told.cpu_limit.map(|told| cpu(told, given.cpu_limit, LEAST_QUOTA));
        set(limits, CPU, cpu.map(|told| (told, given.cpu_limit, thousandths(told))), before);
        let memory = told.memory_limit.map(|told| (told, given.memory_limit, bytes(told)));
        set(limits, MEMORY, memory, before);
    }
    if let Some(requests) = &mut resources.requests {
        let before = before.and_then(|before| before.requests.as_ref());
        let cpu = told.cpu_request.map(|told| cpu(told, given.cpu_request, LEAST_SHARE));
        set(requests, CPU, cpu.map(|told| (told, given.cpu_request, thousandths(told))), before);
        // The kernel knows nothing of it: it is what it was until the change is over.
        let memory = given.memory_request;
        let memory = (!in_progress).then(|| (memory, memory, bytes(memory)));
        set(requests, MEMORY, memory, before);
    }
    resources
}

/// What a pod was given as a whole, without its overhead.
pub(crate) fn requests(pod: &Pod) -> Option<List> {
    let requests = podspec::resources::pod_requests(pod).into_iter();
    let written = requests.map(|(name, amount)| (name, Quantity(amount.to_string())));
    Some(written.collect::<List>()).filter(|list| !list.is_empty())
}

/// What the runtime says, unless it can say no less.
fn cpu(told: i64, given: i64, least: i64) -> i64 {
    if told <= least && given <= least { given } else { told }
}

/// Puts what was told in place of what was given, where they differ; what was told before where
/// nothing was.
fn set(list: &mut List, name: &str, told: Option<(i64, i64, Quantity)>, before: Option<&List>) {
    match told {
        Some((told, given, _)) if told == given => {}
        Some((_, _, written)) => {
            list.insert(name.to_owned(), written);
        }
        None => {
            let before = before.and_then(|before| before.get(name));
            list.extend(before.map(|before| (name.to_owned(), before.clone())));
        }
    }
}

#[cfg(test)]
mod tests {
    use model::observed::ReportedResources;

    use super::*;
    use crate::decide::test_pods::{container, instance, pod};

    fn list(cpu: &str, memory: &str) -> List {
        [(CPU, cpu), (MEMORY, memory)]
            .map(|(name, text)| (name.to_owned(), Quantity(text.to_owned())))
            .into()
    }

    fn given(cpu: &str, memory: &str) -> ResourceRequirements {
        let list = list(cpu, memory);
        ResourceRequirements {
            limits: Some(list.clone()),
            requests: Some(list),
            ..ResourceRequirements::default()
        }
    }

    fn told(cpu: i64, memory: i64) -> ReportedResources {
        ReportedResources {
            cpu_request: Some(cpu),
            cpu_limit: Some(cpu),
            memory_limit: Some(memory),
        }
    }

    fn seen(
        state: ContainerState,
        reported: Option<ReportedResources>,
        in_progress: bool,
    ) -> ResourceRequirements {
        let container = Container { resources: Some(given("0.2", "2Gi")), ..container("main") };
        let mut newest = instance("main-0", state, 0);
        newest.resources = reported;
        let old = ContainerStatus { resources: Some(given("100m", "1Gi")), ..<_>::default() };
        resources(&container, &newest, Some(&old), in_progress)
    }

    // behaviour: RSZ-20
    #[test]
    fn what_runs_has_what_the_runtime_says() {
        use ContainerState::{Exited, Running};
        assert_eq!(seen(Running, Some(told(200, 2 << 30)), false), given("0.2", "2Gi"));
        assert_eq!(seen(Exited, Some(told(100, 1 << 30)), true), given("0.2", "2Gi"));
        assert_eq!(seen(Running, Some(told(100, 1 << 30)), true), given("100m", "1Gi"));
        // A runtime that does not say is believed to be where it was.
        let before = seen(Running, None, true);
        assert_eq!(before, given("100m", "1Gi"));
        let none = resources(&container("main"), &instance("main-0", Running, 0), None, false);
        assert_eq!(none, ResourceRequirements::default());
    }

    #[test]
    fn the_least_that_the_kernel_knows_is_as_good_as_less() {
        let container = Container { resources: Some(given("1m", "1Gi")), ..container("main") };
        let mut newest = instance("main-0", ContainerState::Running, 0);
        newest.resources = Some(ReportedResources {
            cpu_request: Some(2),
            cpu_limit: Some(10),
            memory_limit: Some(1 << 30),
        });
        assert_eq!(resources(&container, &newest, None, false), given("1m", "1Gi"));
    }

    // behaviour: RSZ-20
    #[test]
    fn a_pod_tells_what_it_was_given_as_a_whole() {
        let mut pod = pod("Always", &["a", "b"]);
        assert_eq!(requests(&pod), None);
        for container in &mut pod.spec.as_mut().unwrap().containers {
            container.resources = Some(given("250m", "1Gi"));
        }
        assert_eq!(requests(&pod), Some(list("500m", "2Gi")));
    }
}
