//! The agent is killed at random times while it mounts and unmounts the volumes of static pods.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::container_files::{ContainerFiles, pod_mounts};
use e2e::containerd;
use e2e::node::{NODE_NAME, Node, one_running};
use testbed::wait;

/// The pods that come and go.
const PODS: usize = 8;
const ROUNDS: usize = 20;
const SEED: u64 = 29;
/// The latest time of a kill after the change of the pods, in milliseconds: most pods have started or ended by then.
const LATEST: u64 = 2500;
/// The timeout of the end: a mount that failed may wait for its back-off.
const SETTLED: Duration = Duration::from_mins(4);

const POD: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: shop, annotations: {round: "ROUND"}}
spec:
  terminationGracePeriodSeconds: 1
  volumes:
  - {name: disk, emptyDir: {}}
  - {name: memory, emptyDir: {medium: Memory}}
  - name: fields
    downwardAPI: {items: [{path: round, fieldRef: {fieldPath: "metadata.annotations['round']"}}]}
  - name: all
    projected:
      sources:
      - downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}
  containers:
  - name: main
    image: ferrolet.test/workload:1
    args: [sleep, forever]
    volumeMounts:
    - {name: disk, mountPath: /disk}
    - {name: disk, mountPath: /part, subPath: a/b}
    - {name: memory, mountPath: /memory}
    - {name: fields, mountPath: /fields}
    - {name: all, mountPath: /all}
"#;

/// A generator of numbers that a seed determines (`SplitMix64`).
struct Random(u64);

impl Random {
    /// A number below this one.
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

fn name(pod: usize) -> String {
    format!("changing-{pod}")
}

fn write(node: &Node, name: &str, round: usize) -> Result<()> {
    let manifest = POD.replace("NAME", name).replace("ROUND", &format!("round {round}"));
    node.write_manifest(&format!("{name}.yaml"), &manifest)
}

/// Waits until the only running container of a pod has the volumes of this round.
fn wait_for_round(node: &Node, name: &str, round: usize) -> Result<()> {
    let full = format!("{name}-{NODE_NAME}");
    let what = format!("{name} runs with the volumes of round {round}");
    node.explained(wait::until(&what, SETTLED, || {
        let mut all = containerd::containers(node.instance())?;
        all.retain(|container| container.pod == full && !container.name.is_empty());
        let Some(running) = one_running(&all) else { return Ok(Err(format!("{all:?}"))) };
        // The container may end meanwhile.
        let files = ContainerFiles::of(node, running.pid);
        let found = (files.read("/fields/round"), files.read("/all/name"));
        let is_current = matches!(&found, (Ok(read), Ok(of))
            if *read == format!("round {round}") && *of == full);
        let mounts = ["/memory", "/part"].map(|path| files.mount(path).is_ok());
        Ok(if is_current && mounts == [true; 2] { Ok(()) } else { Err(format!("{found:?}")) })
    }))
}

/// The number of mounts in the directory of each pod, by the pods' UIDs.
fn mounts_of_pods(node: &Node) -> Result<BTreeMap<String, usize>> {
    let pods = format!("{}/", node.root_dir().join("pods").display());
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for line in pod_mounts(node)? {
        let below = line.split(' ').nth(4).and_then(|path| path.strip_prefix(&pods));
        if let Some(uid) = below.and_then(|path| path.split('/').next()) {
            *counts.entry(uid.to_owned()).or_default() += 1;
        }
    }
    Ok(counts)
}

/// Waits until so many pods have a directory, and each the same mounts.
fn wait_for_directories(node: &Node, pods: usize, mounts: usize) -> Result<()> {
    let directory = node.root_dir().join("pods").display().to_string();
    node.explained(wait::until(&format!("{pods} pods have a directory"), SETTLED, || {
        let (names, found) = (node.names_in(&directory)?, mounts_of_pods(node)?);
        let is_so = names.len() == pods
            && found.keys().eq(&names)
            && found.values().all(|count| *count == mounts);
        Ok(if is_so { Ok(()) } else { Err(format!("{names:?} with mounts {found:?}")) })
    }))
}

/// Changes, adds and removes pods at random; `rounds` has the current pods.
fn change(
    node: &Node,
    random: &mut Random,
    rounds: &mut BTreeMap<String, usize>,
    round: usize,
) -> Result<()> {
    for pod in 0..PODS {
        let name = name(pod);
        match random.below(3) {
            0 => {}
            1 if rounds.remove(&name).is_some() => node.remove_manifest(&format!("{name}.yaml"))?,
            _ => {
                write(node, &name, round)?;
                rounds.insert(name, round);
            }
        }
    }
    Ok(())
}

#[test]
fn volumes_are_complete_and_leave_nothing_when_the_agent_is_killed_while_it_mounts() -> Result<()> {
    let mut node = Node::start()?;
    write(&node, "steady", 0)?;
    node.start_agent()?;
    wait_for_round(&node, "steady", 0)?;
    let steady = node.wait_running("steady")?;
    let of_steady = mounts_of_pods(&node)?;
    let mounts: usize = of_steady.values().sum();
    ensure!(mounts >= 3 && of_steady.len() == 1, "{of_steady:?}");

    let (mut random, mut rounds) = (Random(SEED), BTreeMap::new());
    for round in 1..=ROUNDS {
        change(&node, &mut random, &mut rounds, round)?;
        let after = Duration::from_millis(random.below(LATEST));
        println!("round {round}: kill after {after:?}; pods: {rounds:?}");
        thread::sleep(after);
        node.kill_agent()?;
        node.start_agent()?;
    }
    for (name, round) in &rounds {
        wait_for_round(&node, name, *round)?;
    }
    wait_for_directories(&node, rounds.len() + 1, mounts)?;
    ensure!(node.wait_running("steady")? == steady, "the pod that did not change was restarted");

    for name in rounds.keys().map(String::as_str).chain(["steady"]) {
        node.remove_manifest(&format!("{name}.yaml"))?;
    }
    thread::sleep(Duration::from_millis(random.below(LATEST)));
    node.kill_agent()?;
    node.start_agent()?;
    wait_for_directories(&node, 0, mounts)?;
    let nothing = || {
        let left = containerd::containers(node.instance())?;
        Ok(if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) })
    };
    node.explained(wait::until("no container is left", SETTLED, nothing))?;
    node.stop()
}
