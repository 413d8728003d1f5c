//! How long the end of pods takes whose last process does not listen.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::node::{NODE_NAME, Node};

use crate::actions::{UID, log, manifest, written};

/// A pod whose last process is killed.
struct Stubborn {
    name: &'static str,
    /// What its uid ends with.
    mark: &'static str,
    containers: &'static [&'static str],
    /// Beside its grace, which is eight seconds.
    spec: &'static str,
    /// How long its end takes at least.
    at_least: Duration,
    /// How much longer it takes than the end of the first pod, at most. On a busy machine all of them take longer.
    beyond_first: Duration,
}

/// The grace period, less what clocks may differ by.
const GRACE: Duration = Duration::from_millis(7500);
/// The grace period and the minimum of two seconds that the kill of another container gets.
const GRACE_AND_MINIMUM: Duration = Duration::from_millis(9500);
/// The grace period runs once: the end would take 5 s longer if hooks and waits did not count.
const ONE_GRACE: Duration = Duration::from_millis(4500);
/// The end would take 8 s longer if each container had a grace period of its own.
const NOT_TWO_GRACES: Duration = Duration::from_millis(7500);

const PODS: [Stubborn; 5] = [
    // The others are compared with it.
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
    // A hook takes most of the grace.
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
    // A sidecar waits for who takes most of it.
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
    // It has a hook besides, which takes longer.
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
    // It waits in vain.
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

/// Waits until all their processes know what to do when they are asked to end.
pub(crate) fn wait_until_all_run(node: &Node) -> Result<()> {
    for pod in &PODS {
        for container in pod.containers {
            // It says for which signal it waits, or which one it does not hear.
            written(node, &log(pod.name, container, 0).replace(UID, &pod.uid()), "SIGTERM")?;
        }
    }
    Ok(())
}

/// Takes the pods from the node, and answers when that began.
pub(crate) fn remove_manifests(node: &Node) -> Result<Instant> {
    let begun = Instant::now();
    PODS.iter().try_for_each(|pod| node.remove_manifest(&pod.file()))?;
    Ok(begun)
}

/// The end of each takes its grace, whatever was waited for meanwhile.
pub(crate) fn take_their_time(node: &Node, begun: Instant) -> Result<()> {
    let mut first = None;
    // The one that takes longest is the last.
    for pod in &PODS {
        node.wait_for_log(&["pod has ended", &format!("default/{}-{NODE_NAME}", pod.name)])?;
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
