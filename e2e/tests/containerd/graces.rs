//! How long the end of pods takes whose last process does not listen.

use std::ops::Range;
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
    /// How long its end takes.
    takes: Range<Duration>,
}

/// Once the grace: it would take 13 s if what it waited for did not count.
const ONCE: Range<Duration> = Duration::from_millis(7500)..Duration::from_millis(12_500);
/// The grace and the least that a process gets: it would take 16 s if there were a grace for each.
const AND_THE_LEAST: Range<Duration> = Duration::from_millis(9500)..Duration::from_millis(15_500);

const PODS: [Stubborn; 4] = [
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
        takes: ONCE,
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
        takes: ONCE,
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
        takes: ONCE,
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
        takes: AND_THE_LEAST,
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
    // The one that takes longest is the last.
    for pod in &PODS {
        node.wait_for_log(&["pod has ended", &format!("default/{}-{NODE_NAME}", pod.name)])?;
        let took = begun.elapsed();
        ensure!(pod.takes.contains(&took), "{} ended after {took:?}", pod.name);
    }
    Ok(())
}
