//! What a container may use, as its status tells it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use model::cgroup::cpu;
use model::observed::{self, ContainerState};
use podspec::resources::{CPU, MEMORY};
use podspec::{Size, bytes, thousandths};

use crate::decide::input::{Resizing, StatusInput};
use crate::decide::phase::Phase;

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
    resizing: &Resizing<'_>,
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
        let had = resizing.memory_requests.and_then(|all| all.get(&container.name).copied());
        let memory = if resizing.in_progress { had } else { Some(given.memory_request) };
        let memory = memory.map(|told| (told, given.memory_request, bytes(told)));
        set(requests, MEMORY, memory, before);
    }
    resources
}

/// What a pod was given as a whole, together with what it takes to run it.
pub(crate) fn requests(pod: &Pod) -> Option<List> {
    written(podspec::resources::pod_requests_with_overhead(pod))
}

/// Upstream's `convertToAPIPodLevelResourcesStatus`: what a pod may use as a whole. Of one that runs, what
/// its cgroup has; where that is not known, what was told before.
pub(crate) fn of_pod(input: &StatusInput<'_>, phase: Phase) -> ResourceRequirements {
    let (pod, resizing) = (input.pod, &input.resizing);
    if phase != Phase::Running {
        let limits = written(podspec::resources::pod_limits_with_overhead(pod));
        return ResourceRequirements { requests: requests(pod), limits, claims: None };
    }
    let whole = pod.spec.as_ref().and_then(|spec| spec.resources.clone());
    let mut whole = whole.unwrap_or_default();
    let given = Size::of(Some(&whole));
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
    let told = cpu_request.filter(|told| *told > 0);
    set(&mut list, CPU, least(told, given.cpu_request, LEAST_SHARE), before);
    if !list.contains_key(MEMORY)
        && let Some(all) = podspec::resources::pod_requests_with_overhead(pod).get(MEMORY)
    {
        list.insert(MEMORY.to_owned(), Quantity(all.to_string()));
    }
    if resizing.in_progress {
        // The kernel knows nothing of it: it is what it was until the change is over.
        set(&mut list, MEMORY, None, before);
    }
    whole.requests = Some(list).filter(|list| !list.is_empty());

    let mut list = whole.limits.take().unwrap_or_default();
    let before = old.and_then(|old| old.limits.as_ref());
    let told = cpu_limit.filter(|told| *told > 0);
    set(&mut list, CPU, least(told, given.cpu_limit, LEAST_QUOTA), before);
    let memory = memory_limit.map(|told| (told, given.memory_limit, bytes(told)));
    set(&mut list, MEMORY, memory, before);
    whole.limits = Some(list).filter(|list| !list.is_empty());
    whole
}

/// What is told of processors, and what was given, unless the kernel knows no less.
fn least(told: Option<i64>, given: i64, least: i64) -> Option<(i64, i64, Quantity)> {
    let told = cpu(told?, given, least);
    Some((told, given, thousandths(told)))
}

fn written(amounts: podspec::resources::Amounts) -> Option<List> {
    let written = amounts.into_iter().map(|(name, amount)| (name, Quantity(amount.to_string())));
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
    use model::cgroup::CgroupValues;
    use model::observed::ReportedResources;

    use super::*;
    use crate::decide::test_pods::{World, container, instance, pod};

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
        let resizing = Resizing { in_progress, ..Resizing::default() };
        resources(&container, &newest, Some(&old), &resizing)
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
        let newest = instance("main-0", Running, 0);
        let none = resources(&container("main"), &newest, None, &Resizing::default());
        assert_eq!(none, ResourceRequirements::default());
        // Where nothing was told before, what it was given last is known.
        let container = Container { resources: Some(given("0.2", "2Gi")), ..container("main") };
        let had = [("main".to_owned(), 1 << 30)].into();
        let mut resizing = Resizing { memory_requests: Some(&had), ..Resizing::default() };
        for (in_progress, expected) in [(true, "1Gi"), (false, "2Gi")] {
            resizing.in_progress = in_progress;
            let told = resources(&container, &newest, None, &resizing).requests.unwrap();
            assert_eq!(told[MEMORY].0, expected);
        }
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
        let told = resources(&container, &newest, None, &Resizing::default());
        assert_eq!(told, given("1m", "1Gi"));
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

    // behaviour: OBJ-31
    #[test]
    fn what_it_takes_to_run_a_pod_counts_as_its_own() {
        let mut pod = pod("Always", &["main"]);
        let spec = pod.spec.as_mut().unwrap();
        spec.containers[0].resources = Some(given("250m", "1Gi"));
        spec.overhead = Some(list("250m", "1Gi"));
        assert_eq!(requests(&pod), Some(list("500m", "2Gi")));
        let mut world = World::new(pod, vec![]);
        assert_eq!(world.status().resources, Some(given("500m", "2Gi")));
        world.observed.containers = vec![instance("main-0", ContainerState::Running, 0)];
        let told = world.status().resources.unwrap().requests.unwrap();
        assert_eq!(told[MEMORY].0, "2Gi");
    }

    // behaviour: RSZ-20
    #[test]
    fn a_pod_that_runs_may_use_what_its_cgroup_has() {
        let cgroup = |shares: u64, quota: i64, memory: Option<u64>| CgroupValues {
            cpu_shares: Some(shares),
            cpu_quota: Some(quota),
            cpu_period: Some(100_000),
            memory_limit: memory,
            ..CgroupValues::default()
        };
        let mut pod = pod("Always", &["main"]);
        let spec = pod.spec.as_mut().unwrap();
        spec.containers[0].resources = Some(given("250m", "1Gi"));
        let running = instance("main-0", ContainerState::Running, 0);
        let mut world = World::new(pod, vec![running]);
        let told = |world: &World| world.status().resources.unwrap();
        // Nothing is known of the cgroup, nor was anything told before.
        let memory = || Some([(MEMORY.to_owned(), Quantity("1Gi".to_owned()))].into());
        let unknown = ResourceRequirements { requests: memory(), ..<_>::default() };
        assert_eq!(told(&world), unknown);
        world.cgroup = Some(cgroup(256, 25_000, Some(1 << 30)));
        assert_eq!(told(&world), given("250m", "1Gi"));
        world.previous = Some(world.status());
        // The whole grows, and its cgroup has not followed.
        world.pod.spec.as_mut().unwrap().resources = Some(given("500m", "2Gi"));
        world.resizes = true;
        assert_eq!(told(&world), given("250m", "1Gi"));
        (world.cgroup, world.resizes) = (Some(cgroup(512, 50_000, Some(2 << 30))), false);
        assert_eq!(told(&world), given("500m", "2Gi"));
        world.previous = Some(world.status());
        world.cgroup = None;
        assert_eq!(told(&world), given("500m", "2Gi"), "as it was");
        // One that does not run has what it was given.
        world.observed.containers.clear();
        world.previous = None;
        world.pod.spec.as_mut().unwrap().resources = None;
        assert_eq!(told(&world), given("250m", "1Gi"));
    }
}
