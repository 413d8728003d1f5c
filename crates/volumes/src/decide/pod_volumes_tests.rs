use model::volume::Plugin;
use proptest::prelude::*;

use super::*;

fn id(name: &str) -> VolumeId {
    let plugin = if name.starts_with('c') { Plugin::ConfigMap } else { Plugin::EmptyDir };
    VolumeId::new(plugin, name)
}

fn at(seconds: f64) -> Timestamp {
    Timestamp::UNIX_EPOCH + Duration::from_secs_f64(seconds)
}

fn failed() -> Outcome {
    Outcome::Failed("no space left on device".to_owned())
}

fn started(volumes: &mut PodVolumes, seconds: f64) -> Vec<(Operation, VolumeId)> {
    volumes.start(at(seconds)).start
}

// behaviour: VOL-1
#[test]
fn desired_volumes_are_mounted_and_others_unmounted_after_the_pod() {
    let mut volumes = PodVolumes::default();
    volumes.add_found([id("old")]);
    volumes.set_desired([id("a"), id("c")]);
    let mounts = [(Operation::Mount, id("a")), (Operation::Mount, id("c"))];
    assert_eq!(started(&mut volumes, 0.0), mounts, "the old one may be in use");
    assert_eq!(started(&mut volumes, 0.0), [], "each has its operation");
    for (_, one) in mounts {
        volumes.ended(&one, Outcome::Done, at(0.0));
    }
    assert!(volumes.all_mounted());
    volumes.end();
    let unmounts = started(&mut volumes, 0.0);
    assert_eq!(unmounts.len(), 3);
    for (operation, one) in unmounts {
        assert_eq!(operation, Operation::Unmount);
        volumes.ended(&one, Outcome::Done, at(0.0));
    }
    assert!(volumes.is_empty());
}

// behaviour: VOL-2
#[test]
fn failed_operation_waits_500_ms_doubling_to_122_s() {
    let mut volumes = PodVolumes::default();
    volumes.set_desired([id("a")]);
    let mut now = 0.0;
    let delays = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 122.0, 122.0];
    for delay in delays {
        assert_eq!(started(&mut volumes, now).len(), 1, "{now}");
        volumes.ended(&id("a"), failed(), at(now));
        let steps = volumes.start(at(now + delay - 0.001));
        assert_eq!(steps, Steps { start: Vec::new(), wake_at: Some(at(now + delay)) });
        now += delay;
    }
    started(&mut volumes, now);
    volumes.ended(&id("a"), Outcome::Done, at(now));
    assert_eq!(volumes.volumes[&id("a")].failure, None);
}

// behaviour: VOL-105
#[test]
fn changed_source_ends_the_back_off_of_a_write_once() {
    let mut volumes = PodVolumes::default();
    volumes.set_desired([id("c"), id("d")]);
    for one in ["c", "d"] {
        started(&mut volumes, 0.0);
        volumes.ended(&id(one), failed(), at(0.0));
    }
    volumes.mark_changed();
    assert_eq!(started(&mut volumes, 0.1), [(Operation::Mount, id("c"))], "d has no source");
    volumes.ended(&id("c"), failed(), at(0.1));
    assert_eq!(started(&mut volumes, 1.0), [(Operation::Mount, id("d"))], "c waits for a second");
}

// behaviour: VOL-3
#[test]
fn unmount_does_not_wait_for_the_back_off_of_a_mount() {
    let mut volumes = PodVolumes::default();
    volumes.set_desired([id("a")]);
    started(&mut volumes, 0.0);
    volumes.ended(&id("a"), failed(), at(0.0));
    volumes.end();
    assert_eq!(started(&mut volumes, 0.1), [(Operation::Unmount, id("a"))], "it may be mounted");
}

// behaviour: VOL-4
#[test]
fn failed_update_keeps_the_volume_mounted_and_is_retried() {
    let mut volumes = PodVolumes::default();
    volumes.set_desired([id("c")]);
    started(&mut volumes, 0.0);
    volumes.ended(&id("c"), Outcome::Done, at(0.0));
    volumes.mark_stale();
    assert_eq!(started(&mut volumes, 1.0), [(Operation::Mount, id("c"))]);
    volumes.ended(&id("c"), failed(), at(1.0));
    assert!(volumes.all_mounted(), "containers go on with the old content");
    assert_eq!(started(&mut volumes, 1.5), [(Operation::Mount, id("c"))]);
}

// behaviour: VOL-5
#[test]
fn change_during_an_operation_starts_another_one_afterwards() {
    let mut volumes = PodVolumes::default();
    volumes.set_desired([id("c"), id("a")]);
    started(&mut volumes, 0.0);
    volumes.mark_stale();
    volumes.ended(&id("c"), Outcome::Done, at(0.0));
    volumes.ended(&id("a"), Outcome::Done, at(0.0));
    assert_eq!(
        started(&mut volumes, 0.0),
        [(Operation::Mount, id("c"))],
        "an emptyDir has no content"
    );
    volumes.ended(&id("c"), Outcome::Done, at(0.0));
    assert_eq!(started(&mut volumes, 0.0), []);
}

// behaviour: VOL-6
#[test]
fn volume_that_becomes_undesired_during_its_mount_is_unmounted_afterwards() {
    let mut volumes = PodVolumes::default();
    volumes.set_desired([id("a")]);
    started(&mut volumes, 0.0);
    volumes.end();
    assert!(!volumes.is_empty());
    volumes.ended(&id("a"), Outcome::Done, at(0.0));
    assert_eq!(started(&mut volumes, 0.0), [(Operation::Unmount, id("a"))]);
    volumes.ended(&id("a"), Outcome::Done, at(0.0));
    assert!(volumes.is_empty());
}

#[derive(Debug, Clone)]
enum Event {
    Desire(Vec<usize>),
    PodEnded,
    Found(usize),
    Stale,
    Ended(usize, bool),
    Later,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        prop::collection::vec(0..4_usize, 0..4).prop_map(Event::Desire),
        Just(Event::PodEnded),
        (0..4_usize).prop_map(Event::Found),
        Just(Event::Stale),
        ((0..4_usize), any::<bool>()).prop_map(|(which, works)| Event::Ended(which, works)),
        Just(Event::Later),
    ];
    prop::collection::vec(event, 0..40)
}

fn name(which: usize) -> VolumeId {
    id(["a", "b", "c", "cc"][which])
}

proptest! {
    /// In every history, a volume has one operation at a time, and only volumes of a terminated pod are
    /// unmounted.
    #[test]
    fn desired_volumes_are_never_unmounted_and_all_converge(events in events()) {
        let (mut volumes, mut now) = (PodVolumes::default(), 0.0);
        let mut running: BTreeMap<VolumeId, Operation> = BTreeMap::new();
        for event in events {
            match event {
                Event::Desire(which) => volumes.set_desired(which.into_iter().map(name)),
                Event::PodEnded => volumes.end(),
                Event::Found(which) => volumes.add_found([name(which)]),
                Event::Stale => volumes.mark_stale(),
                Event::Later => now += 10.0,
                Event::Ended(which, works) => {
                    if running.remove(&name(which)).is_some() {
                        let outcome = if works { Outcome::Done } else { failed() };
                        volumes.ended(&name(which), outcome, at(now));
                    }
                }
            }
            for (operation, id) in volumes.start(at(now)).start {
                prop_assert!(running.insert(id.clone(), operation).is_none(), "one at a time");
                let desired = volumes.volumes[&id].desired;
                prop_assert_eq!(desired, operation == Operation::Mount);
                prop_assert!(!volumes.has_ended || !desired);
                prop_assert!(volumes.has_ended || desired);
            }
        }
        // With successful operations it converges: all desired volumes are mounted, and nothing is left of a terminated
        // pod.
        for _ in 0..3 {
            now += 200.0;
            for id in std::mem::take(&mut running).into_keys() {
                volumes.ended(&id, Outcome::Done, at(now));
            }
            for (operation, id) in volumes.start(at(now)).start {
                running.insert(id, operation);
            }
        }
        prop_assert!(running.is_empty());
        prop_assert!(volumes.all_mounted());
        prop_assert!(!volumes.has_ended || volumes.is_empty());
    }
}
