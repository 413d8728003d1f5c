use super::*;
use proptest::prelude::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn sick(problems: &[&str]) -> Health {
    Health { problems: problems.iter().map(ToString::to_string).collect(), ..Health::default() }
}

fn find<'a>(all: &'a [NodeCondition], kind: &str) -> &'a NodeCondition {
    all.iter().find(|one| one.type_ == kind).unwrap()
}

// behaviour: NODE-20
#[test]
fn pressure_conditions_have_upstream_texts_and_events() {
    let none = Pressure::default();
    let rows = [
        (
            none,
            "MemoryPressure",
            ["False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"],
            "NodeHasSufficientMemory",
        ),
        (
            Pressure { memory: true, ..none },
            "MemoryPressure",
            ["True", "KubeletHasInsufficientMemory", "kubelet has insufficient memory available"],
            "NodeHasInsufficientMemory",
        ),
        (
            none,
            "DiskPressure",
            ["False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"],
            "NodeHasNoDiskPressure",
        ),
        (
            Pressure { disk: true, ..none },
            "DiskPressure",
            ["True", "KubeletHasDiskPressure", "kubelet has disk pressure"],
            "NodeHasDiskPressure",
        ),
        (
            none,
            "PIDPressure",
            ["False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"],
            "NodeHasSufficientPID",
        ),
        (
            Pressure { pid: true, ..none },
            "PIDPressure",
            ["True", "KubeletHasInsufficientPID", "kubelet has insufficient PID available"],
            "NodeHasInsufficientPID",
        ),
    ];
    for (pressure, kind, [status, reason, message], event) in rows {
        let health = Health { pressure, ..Health::default() };
        let (all, events) = conditions(&[], &health, at(1));
        let found = find(&all, kind);
        assert_eq!(found.status, status);
        assert_eq!(found.reason.as_deref(), Some(reason));
        assert_eq!(found.message.as_deref(), Some(message));
        assert!(events.contains(&event), "{event}: {events:?}");
        // The event is not repeated.
        assert_eq!(conditions(&all, &health, at(2)).1, [] as [&str; 0]);
    }
}

// behaviour: NODE-21
#[test]
fn node_with_problems_is_not_ready_and_lists_them() {
    let rows: [(&[&str], &str); 3] =
        [(&["a"], "a"), (&["a", "b"], "[a, b]"), (&["a", "b", "a"], "[a, b]")];
    for (problems, message) in rows {
        let (all, _) = conditions(&[], &sick(problems), at(1));
        let ready = find(&all, READY);
        assert_eq!(
            (ready.status.as_str(), ready.reason.as_deref()),
            ("False", Some("KubeletNotReady"))
        );
        assert_eq!(ready.message.as_deref(), Some(message));
    }
    let (all, _) = conditions(&[], &Health::default(), at(1));
    let message = "kubelet is posting ready status";
    assert_eq!(find(&all, READY).message.as_deref(), Some(message));
    assert_eq!(all.last().unwrap().type_, READY, "it is the last one");
}

// behaviour: NODE-52
#[test]
fn warnings_are_appended_to_the_ready_message() {
    let lacks = Some("CPU hardcapping unsupported");
    let rows = [
        (
            Health::default(),
            "kubelet is posting ready status. WARNING: CPU hardcapping unsupported",
        ),
        (sick(&["no network"]), "no network. WARNING: CPU hardcapping unsupported"),
    ];
    for (health, expected) in rows {
        let (all, _) = conditions(&[], &Health { lacks, ..health }, at(1));
        assert_eq!(find(&all, READY).message.as_deref(), Some(expected));
    }
}

// behaviour: NODE-23
#[test]
fn condition_times_are_last_heartbeat_and_last_transition() {
    let well = Health::default();
    let (first, events) = conditions(&[], &sick(&["x"]), at(10));
    assert!(!events.contains(&"NodeNotReady"), "a new node is not ready");
    let (second, events) = conditions(&first, &sick(&["y"]), at(20));
    let ready = find(&second, READY);
    assert_eq!(ready.last_transition_time, Some(Time(at(10))));
    assert_eq!(ready.last_heartbeat_time, Some(Time(at(20))));
    assert_eq!((ready.message.as_deref(), events.len()), (Some("y"), 0));
    let (third, events) = conditions(&second, &well, at(30));
    let ready = find(&third, READY);
    assert_eq!(ready.last_transition_time, Some(Time(at(30))));
    assert_eq!(ready.reason.as_deref(), Some("KubeletReady"));
    assert_eq!(events, ["NodeReady"]);
    assert_eq!(find(&third, "DiskPressure").last_transition_time, Some(Time(at(10))));
    let (fourth, events) = conditions(&third, &sick(&["z"]), at(40));
    assert_eq!(events, ["NodeNotReady"]);
    assert!(is_ready(Some(&third)) && !is_ready(Some(&fourth)) && !is_ready(None));
}

// behaviour: NODE-11
#[test]
fn agent_conditions_overwrite_changes_by_other_clients() {
    let (mut all, _) = conditions(&[], &Health::default(), at(1));
    for condition in &mut all {
        condition.status = "Unknown".to_owned();
        condition.reason = Some("NodeStatusUnknown".to_owned());
    }
    let (all, events) = conditions(&all, &Health::default(), at(50));
    assert_eq!(find(&all, READY).reason.as_deref(), Some("KubeletReady"));
    assert_eq!(find(&all, "PIDPressure").reason.as_deref(), Some("KubeletHasSufficientPID"));
    assert_eq!(events.len(), 4);
}

fn any_health() -> impl Strategy<Value = Health> {
    (any::<[bool; 3]>(), 0..3usize).prop_map(|([memory, disk, pid], problems)| Health {
        pressure: Pressure { memory, disk, pid },
        problems: (0..problems).map(|n| n.to_string()).collect(),
        lacks: None,
    })
}

proptest! {
    // behaviour: NODE-10
    #[test]
    fn foreign_conditions_are_kept_and_agent_conditions_are_unique(histories in prop::collection::vec(any_health(), 1..8)) {
        let theirs = NodeCondition {
            type_: "NetworkUnavailable".to_owned(), status: "False".to_owned(), ..Default::default()
        };
        let mut all = vec![theirs.clone()];
        for (second, health) in (0..).zip(&histories) {
            let (next, events) = conditions(&all, health, at(second));
            prop_assert_eq!(&next[0], &theirs);
            for kind in OWN {
                prop_assert_eq!(next.iter().filter(|one| one.type_ == kind).count(), 1);
            }
            let again = conditions(&next, health, at(second + 1));
            prop_assert!(again.1.is_empty() && same(&again.0, &next));
            // Each change of a status has its event, and each event a change.
            let changed = next.iter().filter(|one| {
                let before = all.iter().find(|other| other.type_ == one.type_);
                before.is_some_and(|before| before.status != one.status)
            }).count();
            prop_assert!(second == 0 || changed == events.len(), "{:?}", events);
            all = next;
        }
    }
}
