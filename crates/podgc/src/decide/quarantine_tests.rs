use proptest::prelude::*;

use super::*;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn due(quarantine: &mut Quarantine, missing: &[&str], now: u64) -> Vec<String> {
    quarantine.due(missing.iter().copied(), seconds(now)).into_keys().collect()
}

// behaviour: PGC-23
#[test]
fn missing_node_is_due_after_forty_seconds() {
    let mut quarantine = Quarantine::default();
    for now in [0, 20, 39] {
        assert_eq!(due(&mut quarantine, &["n"], now), [""; 0], "{now}");
    }
    let found = quarantine.due(["n"].into_iter(), seconds(43));
    let due = Due { missing_for: seconds(43), due_for: seconds(3) };
    assert_eq!(found, BTreeMap::from([("n".to_owned(), due)]));
}

#[test]
fn quarantine_lasts_as_long_as_configured() {
    let mut quarantine = Quarantine::new(seconds(3));
    assert_eq!(due(&mut quarantine, &["n"], 0), [""; 0]);
    assert_eq!(due(&mut quarantine, &["n"], 2), [""; 0]);
    assert_eq!(due(&mut quarantine, &["n"], 3), ["n"]);
    assert_eq!(due(&mut quarantine, &["n"], 5), [""; 0], "the second wait is as long");
    assert_eq!(due(&mut quarantine, &["n"], 6), ["n"]);
}

// behaviour: PGC-32
#[test]
fn due_node_name_waits_again() {
    let mut quarantine = Quarantine::default();
    assert_eq!(due(&mut quarantine, &["n"], 0), [""; 0]);
    assert_eq!(due(&mut quarantine, &["n"], 45), ["n"]);
    assert_eq!(due(&mut quarantine, &["n"], 60), [""; 0]);
    assert_eq!(due(&mut quarantine, &["n"], 84), [""; 0]);
    let found = quarantine.due(["n"].into_iter(), seconds(85));
    assert_eq!(found["n"].missing_for, seconds(85), "counted from the first cycle that missed it");
}

// behaviour: PGC-132
#[test]
fn node_name_with_deferred_pods_is_immediately_due_again() {
    let mut quarantine = Quarantine::default();
    due(&mut quarantine, &["n", "m"], 0);
    assert_eq!(quarantine.waited(seconds(39)).count(), 0);
    assert_eq!(quarantine.waited(seconds(40)).collect::<Vec<_>>(), ["m", "n"]);
    assert_eq!(due(&mut quarantine, &["n", "m"], 40), ["m", "n"]);
    quarantine.put_off(["n", "never-seen"].into_iter(), seconds(40));
    assert_eq!(due(&mut quarantine, &["n", "m"], 60), ["n"]);
    assert_eq!(due(&mut quarantine, &["n", "m"], 80), ["m"], "and then as ever");
    assert_eq!(due(&mut quarantine, &["n", "m"], 100), ["n"]);
}

// behaviour: PGC-24
#[test]
fn recreated_node_name_restarts_the_quarantine() {
    let mut quarantine = Quarantine::default();
    due(&mut quarantine, &["n"], 0);
    assert_eq!(due(&mut quarantine, &[], 20), [""; 0]);
    assert!(quarantine.is_empty());
    assert_eq!(due(&mut quarantine, &["n"], 30), [""; 0]);
    assert_eq!(due(&mut quarantine, &["n"], 69), [""; 0]);
    assert_eq!(due(&mut quarantine, &["n"], 70), ["n"]);
}

proptest! {
    // behaviour: PGC-23
    #[test]
    fn node_name_is_due_only_if_missing_for_the_whole_time(
        steps in proptest::collection::vec((1u64..50, proptest::collection::btree_set(0u8..4, 0..4)), 1..40)
    ) {
        let mut quarantine = Quarantine::default();
        let mut since: BTreeMap<String, u64> = BTreeMap::new();
        let mut now = 0;
        for (pause, missing) in steps {
            now += pause;
            let names: Vec<String> = missing.iter().map(|name| format!("n{name}")).collect();
            since.retain(|name, _| names.contains(name));
            for name in &names {
                since.entry(name.clone()).or_insert(now);
            }
            let due = quarantine.due(names.iter().map(String::as_str), seconds(now));
            for (name, Due { missing_for, .. }) in &due {
                prop_assert_eq!(*missing_for, seconds(now - since[name]));
                prop_assert!(*missing_for >= QUARANTINE);
            }
            prop_assert_eq!(quarantine.len(), names.len());
        }
    }
}
