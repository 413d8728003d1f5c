//! Grace periods of pods whose last process ignores its stop signal.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::node::{NODE_NAME, Node};

use crate::actions::{UID, log, manifest, written};

/// A pod whose last process is killed.
struct Stubborn {
    name: &'static str,
    /// The end of its UID.
    mark: &'static str,
    containers: &'static [&'static str],
    /// Fields in addition to its grace period of eight seconds.
    spec: &'static str,
    /// The minimum duration of its end.
    at_least: Duration,
    /// The maximum duration beyond that of the first pod. On a busy machine all of them take longer.
    beyond_first: Duration,
}

/// The grace period, less the difference of clocks.
const GRACE: Duration = Duration::from_millis(7500);
/// The grace period and the minimum of two seconds for the kill of another container.
const GRACE_AND_MINIMUM: Duration = Duration::from_millis(9500);
/// The grace period runs once: the end would take 5 s longer if hooks and waits did not count.
const ONE_GRACE: Duration = Duration::from_millis(4500);
/// The end would take 8 s longer if each container had its own grace period.
const NOT_TWO_GRACES: Duration = Duration::from_millis(7500);

const PODS: [Stubborn; 5] = [
    // The reference for the others.
    Stubborn {
        name: "plain",
        mark: "ad",
        containers: &["main"],
        spec: "
  containers:
  - {name: main, image: IMAGE, args: [ignore, TERM]}
",
        at_least: GRACE,
        beyond_first: Duration::from_mins(1),
    },
    // A hook takes most of the grace period.
    Stubborn {
        name: "stubborn",
        mark: "ae",
        containers: &["main"],
        spec: "
  containers:
  - name: main
    image: IMAGE
    args: [ignore, TERM]
    lifecycle: {preStop: {sleep: {seconds: 5}}}
",
        at_least: GRACE,
        beyond_first: ONE_GRACE,
    },
    // A sidecar waits for a container that takes most of it.
    Stubborn {
        name: "waiting",
        mark: "af",
        containers: &["side", "main"],
        spec: "
  initContainers:
  - {name: side, image: IMAGE, restartPolicy: Always, args: [ignore, TERM]}
  containers:
  - {name: main, image: IMAGE, args: [trap, TERM, --delay, 5s]}
",
        at_least: GRACE,
        beyond_first: ONE_GRACE,
    },
    // It also has a hook, which takes longer.
    Stubborn {
        name: "prepared",
        mark: "b0",
        containers: &["side", "main"],
        spec: "
  initContainers:
  - name: side
    image: IMAGE
    restartPolicy: Always
    args: [ignore, TERM]
    lifecycle: {preStop: {sleep: {seconds: 5}}}
  containers:
  - {name: main, image: IMAGE, args: [trap, TERM, --delay, 3s]}
",
        at_least: GRACE,
        beyond_first: ONE_GRACE,
    },
    // It waits for the whole grace period.
    Stubborn {
        name: "deserted",
        mark: "b1",
        containers: &["side", "main"],
        spec: "
  initContainers:
  - {name: side, image: IMAGE, restartPolicy: Always, args: [ignore, TERM]}
  containers:
  - {name: main, image: IMAGE, args: [ignore, TERM]}
",
        at_least: GRACE_AND_MINIMUM,
        beyond_first: NOT_TWO_GRACES,
    },
];

impl Stubborn {
    fn uid(&self) -> String {
        UID.replace("ac", self.mark)
    }

    fn file(&self) -> String {
        format!("{}.yaml", self.name)
    }

    fn manifest(&self) -> String {
        let spec = format!("\n  terminationGracePeriodSeconds: 8{}", self.spec);
        manifest(self.name, &spec).replace(UID, &self.uid())
    }
}

/// Adds the pods to a node.
pub(crate) fn write_manifests(node: &Node) -> Result<()> {
    PODS.iter().try_for_each(|pod| node.write_manifest(&pod.file(), &pod.manifest()))
}

/// Waits until all their processes have set their signal handlers.
pub(crate) fn wait_until_all_run(node: &Node) -> Result<()> {
    for pod in &PODS {
        for container in pod.containers {
            // It prints the signal that it traps or ignores.
            written(node, &log(pod.name, container, 0).replace(UID, &pod.uid()), "SIGTERM")?;
        }
    }
    Ok(())
}

/// Removes the pods' manifests; returns the time of that.
pub(crate) fn remove_manifests(node: &Node) -> Result<Instant> {
    let begun = Instant::now();
    PODS.iter().try_for_each(|pod| node.remove_manifest(&pod.file()))?;
    Ok(begun)
}

/// Checks that the end of each takes its grace period, with hooks and waits.
pub(crate) fn take_their_time(node: &Node, begun: Instant) -> Result<()> {
    let mut first = None;
    // The slowest one is the last.
    for pod in &PODS {
        node.wait_for_log(&[
            "Pod terminated and cleaned up",
            &format!("default/{}-{NODE_NAME}", pod.name),
        ])?;
        let took = begun.elapsed();
        let latest = *first.get_or_insert(took) + pod.beyond_first;
        ensure!(
            (pod.at_least..latest).contains(&took),
            "{} ended after {took:?}, not between {:?} and {latest:?}",
            pod.name,
            pod.at_least
        );
    }
    Ok(())
}
