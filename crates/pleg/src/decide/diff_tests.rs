use std::collections::BTreeMap;

use jiff::Timestamp;
use model::ids::{ContainerId, ObjectId, PodName};
use model::lifecycle::LifecycleEvent::{self, Changed, Died, Removed, Started};
use model::observed::{Container, ContainerState, RuntimePod, Sandbox, SandboxState};
use proptest::prelude::*;

use super::ObjectState::{Exited, Running, Unknown};
use super::{ObjectState, PodRecord, diff};

fn id(name: &str) -> ObjectId {
    ObjectId::Container(ContainerId::from(name))
}

fn record(states: &[(&str, ObjectState)]) -> PodRecord {
    states.iter().map(|(name, state)| (id(name), *state)).collect()
}

// behaviour: PLEG-1, PLEG-2, PLEG-3, PLEG-4, PLEG-5, PLEG-6, PLEG-7, PLEG-8
#[test]
fn each_state_transition_yields_its_events() {
    let c = || id("c");
    let rows: Vec<(Option<ObjectState>, Option<ObjectState>, Vec<LifecycleEvent>)> = vec![
        (None, None, vec![]),
        (None, Some(Running), vec![Started(c())]),
        (None, Some(Exited), vec![Died(c())]),
        (None, Some(Unknown), vec![Changed(c())]),
        (Some(Running), Some(Running), vec![]),
        (Some(Running), Some(Exited), vec![Died(c())]),
        (Some(Running), Some(Unknown), vec![Changed(c())]),
        (Some(Running), None, vec![Died(c()), Removed(c())]),
        (Some(Exited), Some(Running), vec![Started(c())]),
        (Some(Exited), Some(Exited), vec![]),
        (Some(Exited), Some(Unknown), vec![Changed(c())]),
        (Some(Exited), None, vec![Removed(c())]),
        (Some(Unknown), Some(Running), vec![Started(c())]),
        (Some(Unknown), Some(Exited), vec![Died(c())]),
        (Some(Unknown), Some(Unknown), vec![]),
        (Some(Unknown), None, vec![Died(c()), Removed(c())]),
    ];
    for (old, new, events) in rows {
        let old_record = old.into_iter().map(|state| (c(), state)).collect();
        let new_record = new.into_iter().map(|state| (c(), state)).collect();
        assert_eq!(diff(&old_record, &new_record), events, "{old:?} -> {new:?}");
    }
}

#[test]
fn first_relist_reports_running_and_dead_containers_but_not_created_ones() {
    let first = record(&[("c1", Exited), ("c2", Running), ("c3", Unknown)]);
    let events = diff(&PodRecord::default(), &first);
    let reported: Vec<_> = events.iter().filter(|event| event.needs_sync()).cloned().collect();
    assert_eq!(reported, [Died(id("c1")), Started(id("c2"))]);
    assert_eq!(diff(&first, &first), []);
}

#[test]
fn vanished_container_is_removed_and_a_running_one_dies_first() {
    let old = record(&[("c1", Running), ("c2", Running), ("c3", Exited)]);
    let new = record(&[("c1", Running)]);
    assert_eq!(diff(&old, &new), [Died(id("c2")), Removed(id("c2")), Removed(id("c3"))]);
}

#[test]
fn sandboxes_yield_the_same_events_as_containers() {
    let pod = |state| RuntimePod {
        uid: "uid".into(),
        pod: PodName::new("default", "web"),
        sandboxes: vec![Sandbox {
            id: "s".into(),
            pod_uid: "uid".into(),
            pod: PodName::new("default", "web"),
            attempt: 0,
            state,
            created_at: Timestamp::UNIX_EPOCH,
        }],
        containers: vec![Container {
            id: "c".into(),
            sandbox_id: "s".into(),
            pod_uid: "uid".into(),
            pod: PodName::new("default", "web"),
            name: "main".into(),
            attempt: 0,
            state: ContainerState::Created,
            created_at: Timestamp::UNIX_EPOCH,
            image_ref: "image".into(),
        }],
    };
    let (live, dead) = (pod(SandboxState::Ready), pod(SandboxState::NotReady));
    let sandbox = ObjectId::Sandbox("s".into());
    assert_eq!(
        diff(&PodRecord::default(), &PodRecord::from(&live)),
        [Changed(id("c")), Started(sandbox.clone())]
    );
    assert_eq!(diff(&PodRecord::from(&live), &PodRecord::from(&dead)), [Died(sandbox)]);
}

/// The state according to the events alone.
fn replay(old: &PodRecord, events: &[LifecycleEvent]) -> PodRecord {
    let mut states: BTreeMap<ObjectId, ObjectState> = old.0.iter().cloned().collect();
    for event in events {
        match event {
            Started(id) => states.insert(id.clone(), Running),
            Died(id) => states.insert(id.clone(), Exited),
            Changed(id) => states.insert(id.clone(), Unknown),
            Removed(id) => states.remove(id),
            LifecycleEvent::PodSync => None,
        };
    }
    states.into_iter().collect()
}

fn any_states() -> impl Strategy<Value = Vec<(ObjectId, ObjectState)>> {
    let state = prop_oneof![Just(Running), Just(Exited), Just(Unknown)];
    let object = (0..6u8, any::<bool>()).prop_map(|(n, sandbox)| {
        let name = format!("o{n}");
        if sandbox { ObjectId::Sandbox(name.into()) } else { id(&name) }
    });
    proptest::collection::btree_map(object, state, 0..8).prop_map(|map| map.into_iter().collect())
}

proptest! {
    #[test]
    fn equal_observations_yield_no_events(states in any_states()) {
        let record: PodRecord = states.into_iter().collect();
        prop_assert_eq!(diff(&record, &record), []);
    }

    #[test]
    fn events_replayed_on_the_old_observation_give_the_new_one(
        old in any_states(),
        new in any_states(),
    ) {
        let (old, new): (PodRecord, PodRecord) = (old.into_iter().collect(), new.into_iter().collect());
        prop_assert_eq!(replay(&old, &diff(&old, &new)), new);
    }

    #[test]
    fn diff_ignores_the_order_of_the_list(
        old in any_states(),
        (new, shuffled) in any_states().prop_flat_map(|s| (Just(s.clone()), Just(s).prop_shuffle())),
    ) {
        let old: PodRecord = old.into_iter().collect();
        let new: PodRecord = new.into_iter().collect();
        let shuffled: PodRecord = shuffled.into_iter().collect();
        prop_assert_eq!(diff(&old, &new), diff(&old, &shuffled));
    }
}
