//! The resources in the status of a container or pod.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use model::cgroup::cpu;
use model::observed::{self, ContainerState};
use podspec::resources::{CPU, MEMORY};
use podspec::{Size, bytes, thousandths};

use crate::decide::input::{Resizing, StatusInput};
use crate::decide::phase::Phase;

/// The kernel's minimum CPU share and quota in thousandths: for a smaller specified value,
/// the specified value is published.
const LEAST_SHARE: i64 = 2;
const LEAST_QUOTA: i64 = 10;

pub(crate) type List = BTreeMap<String, Quantity>;

/// Upstream's `convertContainerStatusResources`: the allocated resources, and for a running container those that the
/// runtime reports. Values that it does not report are kept from the previous status of the same instance.
pub(crate) fn resources(
    container: &Container,
    newest: &observed::ContainerStatus,
    old: Option<&ContainerStatus>,
    resizing: &Resizing<'_>,
) -> ResourceRequirements {
    let mut resources = container.resources.clone().unwrap_or_default();
    if newest.state != ContainerState::Running {
        return resources;
    }
    let allocated = Size::of(Some(&resources));
    let reported = newest.resources.unwrap_or_default();
    let before = old.and_then(|old| old.resources.as_ref());
    if let Some(limits) = &mut resources.limits {
        let before = before.and_then(|before| before.limits.as_ref());
        let cpu =
            reported.cpu_limit.map(|reported| cpu(reported, allocated.cpu_limit, LEAST_QUOTA));
        set(
            limits,
            CPU,
            cpu.map(|reported| (reported, allocated.cpu_limit, thousandths(reported))),
            before,
        );
        let memory = reported
            .memory_limit
            .map(|reported| (reported, allocated.memory_limit, bytes(reported)));
        set(limits, MEMORY, memory, before);
    }
    if let Some(requests) = &mut resources.requests {
        let before = before.and_then(|before| before.requests.as_ref());
        let cpu =
            reported.cpu_request.map(|reported| cpu(reported, allocated.cpu_request, LEAST_SHARE));
        set(
            requests,
            CPU,
            cpu.map(|reported| (reported, allocated.cpu_request, thousandths(reported))),
            before,
        );
        // The kernel does not report it: it stays until the resize is complete.
        let had = resizing.memory_requests.and_then(|all| all.get(&container.name).copied());
        let memory = if resizing.in_progress { had } else { Some(allocated.memory_request) };
        let memory = memory.map(|reported| (reported, allocated.memory_request, bytes(reported)));
        set(requests, MEMORY, memory, before);
    }
    resources
}

/// The resource requests of a pod as a whole, including overhead.
pub(crate) fn requests(pod: &Pod) -> Option<List> {
    written(podspec::resources::pod_requests_with_overhead(pod))
}

/// Upstream's `convertToAPIPodLevelResourcesStatus`: the resources of a pod as a whole. For a running pod, the values
/// of its cgroup; where those are unknown, the previously published ones.
pub(crate) fn of_pod(input: &StatusInput<'_>, phase: Phase) -> ResourceRequirements {
    let (pod, resizing) = (input.pod, &input.resizing);
    if phase != Phase::Running {
        let limits = written(podspec::resources::pod_limits_with_overhead(pod));
        return ResourceRequirements { requests: requests(pod), limits, claims: None };
    }
    let whole = pod.spec.as_ref().and_then(|spec| spec.resources.clone());
    let mut whole = whole.unwrap_or_default();
    let allocated = Size::of(Some(&whole));
    let old = input.base().filter(|old| old.phase.as_deref() == Some(Phase::Running.as_str()));
    let old = old.and_then(|old| old.resources.as_ref());
    let known = resizing.cgroup;
    let cpu_request = known.and_then(|has| has.cpu_shares);
    let cpu_request = cpu_request.map(|shares| cpu::milli_of_shares(shares.cast_signed()));
    let quota = known.and_then(|has| Some((has.cpu_quota?, has.cpu_period?)));
    let cpu_limit = quota.map(|(quota, period)| cpu::milli_of_quota(quota, period.cast_signed()));
    let memory_limit = known.and_then(|has| has.memory_limit).map(u64::cast_signed);

    let mut list = whole.requests.take().unwrap_or_default();
    let before = old.and_then(|old| old.requests.as_ref());
    let reported = cpu_request.filter(|reported| *reported > 0);
    set(&mut list, CPU, least(reported, allocated.cpu_request, LEAST_SHARE), before);
    if !list.contains_key(MEMORY)
        && let Some(all) = podspec::resources::pod_requests_with_overhead(pod).get(MEMORY)
    {
        list.insert(MEMORY.to_owned(), Quantity(all.to_string()));
    }
    if resizing.in_progress {
        // The kernel does not report it: it stays until the resize is complete.
        set(&mut list, MEMORY, None, before);
    }
    whole.requests = Some(list).filter(|list| !list.is_empty());

    let mut list = whole.limits.take().unwrap_or_default();
    let before = old.and_then(|old| old.limits.as_ref());
    let reported = cpu_limit.filter(|reported| *reported > 0);
    set(&mut list, CPU, least(reported, allocated.cpu_limit, LEAST_QUOTA), before);
    let memory = memory_limit.map(|reported| (reported, allocated.memory_limit, bytes(reported)));
    set(&mut list, MEMORY, memory, before);
    whole.limits = Some(list).filter(|list| !list.is_empty());
    whole
}

/// The reported CPU value and the allocated one, with the kernel's minimum considered.
fn least(reported: Option<i64>, allocated: i64, least: i64) -> Option<(i64, i64, Quantity)> {
    let reported = cpu(reported?, allocated, least);
    Some((reported, allocated, thousandths(reported)))
}

fn written(amounts: podspec::resources::Amounts) -> Option<List> {
    let written = amounts.into_iter().map(|(name, amount)| (name, Quantity(amount.to_string())));
    Some(written.collect::<List>()).filter(|list| !list.is_empty())
}

/// The reported value, unless it is the kernel's minimum for a smaller allocated one.
fn cpu(reported: i64, allocated: i64, least: i64) -> i64 {
    if reported <= least && allocated <= least { allocated } else { reported }
}

/// Replaces an allocated value by the reported one, if they differ; by the previously published one if
/// none was reported.
fn set(list: &mut List, name: &str, reported: Option<(i64, i64, Quantity)>, before: Option<&List>) {
    match reported {
        Some((reported, allocated, _)) if reported == allocated => {}
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
    use model::cgroup::CgroupValues;
    use model::observed::ReportedResources;

    use super::*;
    use crate::decide::test_pods::{Harness, container, instance, pod};

    fn list(cpu: &str, memory: &str) -> List {
        [(CPU, cpu), (MEMORY, memory)]
            .map(|(name, text)| (name.to_owned(), Quantity(text.to_owned())))
            .into()
    }

    fn allocated(cpu: &str, memory: &str) -> ResourceRequirements {
        let list = list(cpu, memory);
        ResourceRequirements {
            limits: Some(list.clone()),
            requests: Some(list),
            ..ResourceRequirements::default()
        }
    }

    fn reported(cpu: i64, memory: i64) -> ReportedResources {
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
        let container = Container { resources: Some(allocated("0.2", "2Gi")), ..container("main") };
        let mut newest = instance("main-0", state, 0);
        newest.resources = reported;
        let old = ContainerStatus { resources: Some(allocated("100m", "1Gi")), ..<_>::default() };
        let resizing = Resizing { in_progress, ..Resizing::default() };
        resources(&container, &newest, Some(&old), &resizing)
    }

    // behaviour: RSZ-20
    #[test]
    fn running_container_has_reported_resources() {
        use ContainerState::{Exited, Running};
        assert_eq!(seen(Running, Some(reported(200, 2 << 30)), false), allocated("0.2", "2Gi"));
        assert_eq!(seen(Exited, Some(reported(100, 1 << 30)), true), allocated("0.2", "2Gi"));
        assert_eq!(seen(Running, Some(reported(100, 1 << 30)), true), allocated("100m", "1Gi"));
        // A runtime that reports nothing keeps the previous values.
        let before = seen(Running, None, true);
        assert_eq!(before, allocated("100m", "1Gi"));
        let newest = instance("main-0", Running, 0);
        let none = resources(&container("main"), &newest, None, &Resizing::default());
        assert_eq!(none, ResourceRequirements::default());
        // Without a previous value, the last applied one is used.
        let container = Container { resources: Some(allocated("0.2", "2Gi")), ..container("main") };
        let had = [("main".to_owned(), 1 << 30)].into();
        let mut resizing = Resizing { memory_requests: Some(&had), ..Resizing::default() };
        for (in_progress, expected) in [(true, "1Gi"), (false, "2Gi")] {
            resizing.in_progress = in_progress;
            let reported = resources(&container, &newest, None, &resizing).requests.unwrap();
            assert_eq!(reported[MEMORY].0, expected);
        }
    }

    #[test]
    fn kernel_minimum_is_published_as_specified() {
        let container = Container { resources: Some(allocated("1m", "1Gi")), ..container("main") };
        let mut newest = instance("main-0", ContainerState::Running, 0);
        newest.resources = Some(ReportedResources {
            cpu_request: Some(2),
            cpu_limit: Some(10),
            memory_limit: Some(1 << 30),
        });
        let reported = resources(&container, &newest, None, &Resizing::default());
        assert_eq!(reported, allocated("1m", "1Gi"));
    }

    // behaviour: RSZ-20
    #[test]
    fn pod_requests_are_summed() {
        let mut pod = pod("Always", &["a", "b"]);
        assert_eq!(requests(&pod), None);
        for container in &mut pod.spec.as_mut().unwrap().containers {
            container.resources = Some(allocated("250m", "1Gi"));
        }
        assert_eq!(requests(&pod), Some(list("500m", "2Gi")));
    }

    // behaviour: OBJ-31
    #[test]
    fn overhead_is_part_of_pod_resources() {
        let mut pod = pod("Always", &["main"]);
        let spec = pod.spec.as_mut().unwrap();
        spec.containers[0].resources = Some(allocated("250m", "1Gi"));
        spec.overhead = Some(list("250m", "1Gi"));
        assert_eq!(requests(&pod), Some(list("500m", "2Gi")));
        let mut harness = Harness::new(pod, vec![]);
        assert_eq!(harness.status().resources, Some(allocated("500m", "2Gi")));
        harness.observed.containers = vec![instance("main-0", ContainerState::Running, 0)];
        let reported = harness.status().resources.unwrap().requests.unwrap();
        assert_eq!(reported[MEMORY].0, "2Gi");
    }

    // behaviour: RSZ-20
    #[test]
    fn running_pod_has_the_resources_of_its_cgroup() {
        let cgroup = |shares: u64, quota: i64, memory: Option<u64>| CgroupValues {
            cpu_shares: Some(shares),
            cpu_quota: Some(quota),
            cpu_period: Some(100_000),
            memory_limit: memory,
            ..CgroupValues::default()
        };
        let mut pod = pod("Always", &["main"]);
        let spec = pod.spec.as_mut().unwrap();
        spec.containers[0].resources = Some(allocated("250m", "1Gi"));
        let running = instance("main-0", ContainerState::Running, 0);
        let mut harness = Harness::new(pod, vec![running]);
        let reported = |harness: &Harness| harness.status().resources.unwrap();
        // The cgroup is unknown, and nothing was published before.
        let memory = || Some([(MEMORY.to_owned(), Quantity("1Gi".to_owned()))].into());
        let unknown = ResourceRequirements { requests: memory(), ..<_>::default() };
        assert_eq!(reported(&harness), unknown);
        harness.cgroup = Some(cgroup(256, 25_000, Some(1 << 30)));
        assert_eq!(reported(&harness), allocated("250m", "1Gi"));
        harness.previous = Some(harness.status());
        // The pod grows, and its cgroup has not changed yet.
        harness.pod.spec.as_mut().unwrap().resources = Some(allocated("500m", "2Gi"));
        harness.resizes = true;
        assert_eq!(reported(&harness), allocated("250m", "1Gi"));
        (harness.cgroup, harness.resizes) = (Some(cgroup(512, 50_000, Some(2 << 30))), false);
        assert_eq!(reported(&harness), allocated("500m", "2Gi"));
        harness.previous = Some(harness.status());
        harness.cgroup = None;
        assert_eq!(reported(&harness), allocated("500m", "2Gi"), "unchanged");
        // A pod that does not run has its allocated resources.
        harness.observed.containers.clear();
        harness.previous = None;
        harness.pod.spec.as_mut().unwrap().resources = None;
        assert_eq!(reported(&harness), allocated("250m", "1Gi"));
    }
}
