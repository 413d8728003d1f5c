//! In-place resizes.

use k8s_openapi::api::core::v1::{ContainerResizePolicy, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use model::labels;
use model::observed::SandboxState;
use podspec::Actual;
use proptest::prelude::*;

use super::*;
use crate::decide::actions::Role;
use crate::decide::reasons::{KillReason, StartReason};
use crate::decide::test_pods::{container, instance, pod, sandbox, status};
use crate::decide::{CgroupFacts, ProbeResults, SyncContext, pod_actions};

fn sized(name: &str, cpu: &str, memory: &str) -> Container {
    let list = [(CPU, cpu), (MEMORY, memory)].map(|(key, text)| {
        let text = Quantity(text.to_owned());
        (key.to_owned(), text)
    });
    let resources = ResourceRequirements {
        limits: Some(list.clone().into()),
        requests: Some(list.into()),
        claims: None,
    };
    Container { resources: Some(resources), ..container(name) }
}

fn restarting(mut container: Container, resource: &str) -> Container {
    let policy = |name: &str| ContainerResizePolicy {
        resource_name: name.to_owned(),
        restart_policy: if name == resource { "RestartContainer" } else { "NotRequired" }
            .to_owned(),
    };
    container.resize_policy = Some(vec![policy(CPU), policy(MEMORY)]);
    container
}

/// A running instance with these resources at creation.
fn made(id: &str, name: &str, cpu: i64, memory: i64) -> ContainerStatus {
    let mut made = instance(id, name, ContainerState::Running, 0);
    let size = size(cpu, memory).to_string();
    made.annotations.insert(labels::CONTAINER_SIZE.to_owned(), size);
    made
}

fn size(cpu: i64, memory: i64) -> Size {
    Size { cpu_request: cpu, cpu_limit: cpu, memory_request: memory, memory_limit: memory }
}

// behaviour: RSZ-10
#[test]
fn actuated_resources_count_before_those_at_creation() {
    let running = made("c", "a", 100, 1000);
    assert_eq!(actual(&running, &Sizes::new()), Some(size(100, 1000).into()));
    let sizes = Sizes::from([("c".into(), size(5, 6).into()), ("d".into(), size(7, 8).into())]);
    assert_eq!(actual(&running, &sizes), Some(size(5, 6).into()));
    let foreign = instance("e", "a", ContainerState::Running, 0);
    assert_eq!(actual(&foreign, &sizes), None);
    let pod = pod("Always", vec![sized("a", "100m", "1000")]);
    assert!(
        !is_resizing(&pod, &status(vec![], vec![foreign]), &sizes),
        "its resources are unknown"
    );
    assert!(is_resizing(&pod, &status(vec![], vec![running.clone()]), &sizes));
    assert!(!is_resizing(&pod, &status(vec![], vec![running]), &Sizes::new()));
    let ended = ContainerStatus { state: ContainerState::Exited, ..made("c", "a", 1, 1) };
    assert!(!is_resizing(&pod, &status(vec![], vec![ended]), &Sizes::new()));
}

// behaviour: RSZ-11, RSZ-12
#[test]
fn container_is_resized_in_place_unless_its_policy_is_restart() {
    let wanted = || sized("a", "200m", "1000");
    let rows = [
        (wanted(), false),
        (restarting(wanted(), MEMORY), false),
        (restarting(wanted(), CPU), true),
        (restarting(sized("a", "200m", "2000"), MEMORY), true),
    ];
    for (container, restarts) in rows {
        let pod = pod("Always", vec![container.clone(), sized("b", "1", "1")]);
        let observed = status(
            vec![sandbox("s", 0, SandboxState::Ready)],
            vec![made("c", "a", 100, 1000), made("d", "b", 1000, 1)],
        );
        let actions = pod_actions(&SyncContext {
            pod: &pod,
            status: &observed,
            probes: &ProbeResults::default(),
            restart_all: false,
            sizes: &Sizes::new(),
            cgroup: CgroupFacts::Unmanaged,
        });
        assert!(!actions.is_nothing(), "{container:?}");
        let changed: Vec<&str> = actions.resize.iter().map(|change| change.name.as_str()).collect();
        let killed: Vec<_> =
            actions.kill.iter().map(|kill| (kill.name.as_str(), kill.why)).collect();
        let started: Vec<_> = actions.start.iter().map(|one| (one.role, one.why)).collect();
        if restarts {
            assert_eq!((changed, killed), (vec![], vec![("a", KillReason::Resized)]));
            assert_eq!(started, [(Role::Regular, StartReason::Killed(KillReason::Resized))]);
        } else {
            assert_eq!((changed, killed, started), (vec!["a"], vec![], vec![]));
        }
    }
}

// behaviour: RSZ-12
#[test]
fn container_does_not_restart_for_a_resize_when_the_pod_cannot_follow() {
    let grown = restarting(sized("a", "200m", "1000"), CPU);
    let pod = pod("Always", vec![grown, sized("b", "2", "1"), sized("c", "1", "1")]);
    let observed = status(
        vec![sandbox("s", 0, SandboxState::Ready)],
        vec![made("c1", "a", 100, 1000), made("c2", "b", 1000, 1)],
    );
    let mut actions = pod_actions(&SyncContext {
        pod: &pod,
        status: &observed,
        probes: &ProbeResults::default(),
        restart_all: false,
        sizes: &Sizes::new(),
        cgroup: CgroupFacts::Unmanaged,
    });
    assert!(actions.restarts_for_size() && actions.resize.len() == 1);
    actions.drop_resizes();
    assert!(!actions.restarts_for_size() && actions.resize.is_empty());
    let started: Vec<_> = actions.start.iter().map(|one| (one.index, one.why)).collect();
    assert_eq!(started, [(2, StartReason::New)], "a container that does not run starts");
}

#[test]
fn decreases_come_before_increases() {
    let pod = pod("Always", vec![sized("a", "2", "5"), sized("b", "1", "5"), sized("c", "1", "9")]);
    let observed = status(
        vec![],
        vec![made("1", "a", 1000, 5), made("2", "b", 2000, 5), made("3", "c", 2000, 8)],
    );
    let changes = resizes(&pod, &observed, &Sizes::new());
    let names: Vec<&str> = changes.iter().map(|change| change.name.as_str()).collect();
    assert_eq!(names, ["b", "a", "c"]);
    let shrinks: Vec<bool> = changes.iter().map(ContainerResize::shrinks_memory).collect();
    assert_eq!(shrinks, [false, false, false]);
    let less = ContainerResize { from: size(1, 0), ..changes[0].clone() };
    assert!(less.shrinks_memory(), "it had no limit");
}

#[test]
fn no_limit_is_larger_than_any_limit() {
    let limits = |cpu_limit, memory_limit| Size { cpu_limit, memory_limit, ..size(1, 1) };
    let rows = [
        (limits(5, 5), limits(5, 5), false, false),
        (limits(5, 5), limits(6, 5), true, false),
        (limits(5, 5), limits(0, 5), true, false),
        (limits(5, 5), limits(5, 0), true, false),
        (limits(0, 5), limits(5, 5), false, false),
        (limits(5, 0), limits(5, 5), false, true),
        (limits(5, 6), limits(5, 5), false, true),
        (limits(0, 0), Size { memory_request: 2, ..limits(1, 1) }, true, true),
    ];
    for (from, to, grows, shrinks) in rows {
        let change = ContainerResize { id: "c".into(), name: "a".to_owned(), from, to };
        let found = (change.grows(), change.shrinks_memory());
        assert_eq!(found, (grows, shrinks), "{from} to {to}");
    }
}

// behaviour: RSZ-15
#[test]
fn container_with_a_pending_change_is_resized_again() {
    let running = made("c", "a", 100, 1000);
    let unsure = Actual { size: size(100, 1000), unsure: Some(size(200, 500)) };
    let sizes = Sizes::from([("c".into(), unsure)]);
    for wanted in [("100m", "1000"), ("200m", "500"), ("1", "1")] {
        let pod = pod("Always", vec![sized("a", wanted.0, wanted.1)]);
        let changes = resizes(&pod, &status(vec![], vec![running.clone()]), &sizes);
        let [change] = changes.as_slice() else { panic!("{wanted:?}: {changes:?}") };
        assert_eq!(change.from, size(200, 1000), "the most that it may have");
    }
}

// behaviour: RSZ-14
#[test]
fn memory_limit_below_usage_is_refused() {
    let row = |container: Option<&str>, limit, used| MemoryUse {
        container: container.map(ToOwned::to_owned),
        limit,
        used,
    };
    let pod = "attempting to set pod memory limit (5) below current usage (5)";
    let main = "attempting to set container \"main\" memory limit (7) below current usage (9)";
    let rows = [
        (vec![], None),
        (vec![row(None, 5, Some(4)), row(Some("main"), 7, None)], None),
        (vec![row(None, 5, Some(5))], Some(pod.to_owned())),
        (vec![row(None, 5, Some(4)), row(Some("main"), 7, Some(9))], Some(main.to_owned())),
        (
            vec![row(None, 5, Some(5)), row(Some("main"), 7, Some(9))],
            Some(format!("[{pod}, {main}]")),
        ),
    ];
    for (all, expected) in rows {
        assert_eq!(below_usage(&all), expected, "{all:?}");
    }
    let rows = [
        (None, Some(5), Some(5)),
        (Some(6), Some(5), Some(5)),
        (Some(5), Some(5), None),
        (Some(5), None, None),
    ];
    for (before, after, expected) in rows {
        let of = |limit| values(None, limit, 2);
        assert_eq!(
            smaller_memory_limit(&of(before), &of(after)),
            expected,
            "{before:?} to {after:?}"
        );
    }
}

// behaviour: RSZ-16
#[test]
fn sandbox_resources_exclude_the_overhead() {
    let mut pod = pod("Always", vec![container("a")]);
    let has = values(Some(50_000), Some(1000), 512);
    let numbers = |resources: LinuxResources| {
        (resources.cpu_period, resources.cpu_quota, resources.cpu_shares, resources.memory_limit)
    };
    assert_eq!(numbers(resized_sandbox_resources(&pod, &has)), (100_000, 50_000, 512, 1000));
    assert_eq!(numbers(resized_sandbox_resources(&pod, &CgroupValues::default())), (0, 0, 0, 0));
    let overhead = [(CPU, "100m"), (MEMORY, "200")]
        .map(|(name, text)| (name.to_owned(), Quantity(text.to_owned())));
    pod.spec.as_mut().unwrap().overhead = Some(overhead.into());
    assert_eq!(numbers(resized_sandbox_resources(&pod, &has)), (100_000, 40_000, 409, 800));
    let unlimited = values(Some(-1), None, 512);
    assert_eq!(numbers(resized_sandbox_resources(&pod, &unlimited)), (100_000, -1, 409, 0));
}

fn values(quota: Option<i64>, memory: Option<u64>, shares: u64) -> CgroupValues {
    CgroupValues {
        cpu_shares: Some(shares),
        cpu_quota: quota,
        cpu_period: quota.map(|_| 100_000),
        memory_limit: memory,
        ..CgroupValues::default()
    }
}

proptest! {
    // behaviour: RSZ-13
    #[test]
    fn pod_limits_are_the_maximum_during_a_resize(
        before in (prop::option::of(-1_i64..9), prop::option::of(1_u64..9), 2_u64..9),
        after in (prop::option::of(-1_i64..9), prop::option::of(1_u64..9), 2_u64..9),
    ) {
        let (before, after) = (
            values(before.0, before.1, before.2),
            values(after.0, after.1, after.2),
        );
        let between = raised(&before, &after);
        for side in [&before, &after] {
            prop_assert!(between.cpu_shares >= side.cpu_shares);
            if let (Some(limit), Some(own)) = (between.memory_limit, side.memory_limit) {
                prop_assert!(limit >= own);
            }
            if let (Some(quota), Some(own)) = (between.cpu_quota, side.cpu_quota) {
                prop_assert!(quota == -1 || (own > 0 && quota >= own));
            }
        }
        // A value without a limit in one of them is not changed.
        prop_assert_eq!(between.memory_limit.is_some(), before.memory_limit.is_some() && after.memory_limit.is_some());
    }
}
