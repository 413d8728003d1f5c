use model::ids::PodUid;
use model::observed::{Container, ContainerStatus};
use testkit::observed;

use super::*;

fn container(id: &str, name: &str, state: ContainerState) -> ContainerStatus {
    let created_at = Timestamp::from_second(id.parse().unwrap()).unwrap();
    ContainerStatus { created_at, ..observed::container_status(id, name, state) }
}

fn pod() -> RuntimePodStatus {
    use ContainerState::{Created, Exited, Running, Unknown};
    let containers = vec![
        container("7", "bar", Unknown),
        container("6", "bar", Created),
        container("5", "bar", Running),
        container("4", "bar", Exited),
        container("3", "bar", Exited),
        container("1", "foo", Exited),
    ];
    let created_at = Timestamp::from_second(2).unwrap();
    let older = vec![Container { created_at, ..observed::listed_container("2", "bar", Exited) }];
    RuntimePodStatus { containers, older, ..RuntimePodStatus::empty(PodUid::from("uid")) }
}

// behaviour: GC-60, GC-61, GC-62
#[test]
fn surplus_instances_are_chosen_per_name_or_over_all_names() {
    let rows: [(DeletorScope<'_>, usize, &[&str]); 8] = [
        (DeletorScope::SameAs("4"), 0, &["4", "3", "2"]),
        (DeletorScope::SameAs("4"), 1, &["3", "2"]),
        (DeletorScope::SameAs("4"), 2, &["2"]),
        (DeletorScope::All, 0, &["4", "3", "2", "1"]),
        (DeletorScope::All, 1, &["3", "2", "1"]),
        (DeletorScope::All, 2, &["2", "1"]),
        (DeletorScope::SameAs("of a sandbox"), 0, &[]),
        (DeletorScope::SameAs("4"), 9, &[]),
    ];
    let pod = pod();
    for (which, keep, expected) in rows {
        let ids = beyond(&pod, which, keep);
        let ids: Vec<_> = ids.iter().map(|one| one.instance.id.as_str()).collect();
        assert_eq!(ids, expected, "{which:?} {keep}");
    }
}

// behaviour: GC-60
#[test]
fn verdict_has_the_position_among_exited_instances() {
    let (pod, name) = (pod(), PodName::new("default", "web"));
    let details = |which, cap| -> Vec<String> {
        let items = beyond(&pod, which, 1).into_iter().map(|one| {
            let pod = ObservedPod { status: &pod, name: &name };
            item(&one, pod, "a-rule", cap, Timestamp::from_second(9).unwrap())
        });
        items.map(|item| item.detail.to_string()).collect()
    };
    assert_eq!(
        details(DeletorScope::SameAs("4"), Some(1)),
        [
            "cap 1, position 2, instances 3, created 1970-01-01T00:00:03Z, age 6s",
            "cap 1, position 3, instances 3, created 1970-01-01T00:00:02Z, age 7s",
        ]
    );
    assert_eq!(details(DeletorScope::All, None)[0], "created 1970-01-01T00:00:03Z, age 6s");
}

// behaviour: GC-64
#[test]
fn at_least_one_instance_is_kept_for_any_cap() {
    for (cap, expected) in [(None, 1), (Some(0), 1), (Some(1), 1), (Some(3), 3)] {
        assert_eq!(keep(cap), expected, "{cap:?}");
    }
}
