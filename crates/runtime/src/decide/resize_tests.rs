//! Changes of containers that run.

use k8s_openapi::api::core::v1::{ContainerResizePolicy, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use model::observed::SandboxState;
use proptest::prelude::*;

use super::*;
use crate::decide::actions::Role;
use crate::decide::reasons::{KillReason, StartReason};
use crate::decide::test_pods::{container, instance, pod, sandbox, status};
use crate::decide::{ProbeResults, Situation, pod_actions};

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

/// A running instance made with so much.
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
fn what_is_on_record_counts_before_what_an_instance_was_made_with() {
    let running = made("c", "a", 100, 1000);
    assert_eq!(actual(&running, &Sizes::new()), Some(size(100, 1000)));
    let sizes = Sizes::from([("c".into(), size(5, 6)), ("d".into(), size(7, 8))]);
    assert_eq!(actual(&running, &sizes), Some(size(5, 6)));
    let foreign = instance("e", "a", ContainerState::Running, 0);
    assert_eq!(actual(&foreign, &sizes), None);
    let pod = pod("Always", vec![sized("a", "100m", "1000")]);
    assert!(!is_resizing(&pod, &status(vec![], vec![foreign]), &sizes), "nobody knows");
    assert!(is_resizing(&pod, &status(vec![], vec![running.clone()]), &sizes));
    assert!(!is_resizing(&pod, &status(vec![], vec![running]), &Sizes::new()));
    let ended = ContainerStatus { state: ContainerState::Exited, ..made("c", "a", 1, 1) };
    assert!(!is_resizing(&pod, &status(vec![], vec![ended]), &Sizes::new()));
}

// behaviour: RSZ-11, RSZ-12
#[test]
fn a_container_is_changed_as_it_is_unless_it_asks_to_be_made_anew() {
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
        let actions = pod_actions(&Situation {
            pod: &pod,
            status: &observed,
            probes: &ProbeResults::default(),
            restart_all: false,
            sizes: &Sizes::new(),
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

#[test]
fn who_gets_no_more_comes_first() {
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
    fn while_containers_change_their_pod_may_use_what_either_allows(
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
        // What one of them does not limit is left alone.
        prop_assert_eq!(between.memory_limit.is_some(), before.memory_limit.is_some() && after.memory_limit.is_some());
    }
}
