//! Our Pod GC controller and the controller manager's leave the same pods in the same state.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use e2e::cluster::Cluster;
use testbed::ControlPlaneOptions;

use crate::collector::{Collector, wait_for_a_pass};
use crate::scenario::{PodState, Scenario};

const SEEDS: [u64; 3] = [1, 2, 3];

/// The threshold of terminated pods, of all seeds together.
const THRESHOLD: u32 = 12;

/// A node must be missing for 40 s, and a pass starts every 20 s.
const ORPHANS: Duration = Duration::from_mins(4);

/// The remaining pods, by name.
type End = BTreeMap<String, PodState>;

/// The state of the scenarios after the passes of a controller.
fn collected_by(collector: Collector) -> Result<End> {
    let mut cluster = Cluster::start(&ControlPlaneOptions::default())?;
    let scenarios = SEEDS.map(Scenario::from_seed);
    for scenario in &scenarios {
        scenario.make(&cluster)?;
        assert_eq!(scenario.seen(cluster.api())?.len(), scenario.names().len());
    }
    collector.start(&mut cluster, THRESHOLD)?;
    for scenario in &scenarios {
        scenario.wait_orphans(cluster.api(), ORPHANS)?;
    }
    // Pods that the first pass marks as failed count in the next.
    cluster.make_namespace("passes")?;
    wait_for_a_pass(&cluster, "passes")?;
    wait_for_a_pass(&cluster, "passes")?;
    let mut end = End::new();
    for scenario in &scenarios {
        end.extend(scenario.seen(cluster.api())?);
    }
    cluster.stop()?;
    Ok(end)
}

#[test]
fn scenarios_end_in_the_same_state_with_both_controllers() -> Result<()> {
    let theirs = thread::spawn(|| collected_by(Collector::ControllerManager));
    let ours = collected_by(Collector::Ferrolet).context("ours")?;
    let theirs = theirs.join().expect("a test thread").context("the controller manager's")?;
    let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    let differ = names.iter().filter(|name| ours.get(**name) != theirs.get(**name));
    let differ: Vec<_> = differ.map(|name| (name, ours.get(*name), theirs.get(*name))).collect();
    assert!(differ.is_empty(), "ours, theirs: {differ:#?}");
    for scenario in SEEDS.map(Scenario::from_seed) {
        let names = scenario.names();
        let left = names.iter().filter(|name| ours.contains_key(*name)).count();
        assert!(left > 0 && left < names.len(), "{left} of {} pods are left", names.len());
    }
    Ok(())
}
