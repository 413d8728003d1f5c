//! Rounds on a node with faults in calls to the runtime: pods are started, stopped and removed, despite the faults.

mod between;
mod held;
mod names;
mod pod_cidr;

use std::fmt::{self, Write as _};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use testbed::{Options, wait};

use crate::containerd;
use crate::cri_proxy::CriProxy;
use crate::node::Node;
use crate::registry::Registry;
use crate::tidy::{WantedPod, wait_tidy};

pub use held::{HeldRunc, slow_start};
pub use pod_cidr::pod_cidr_faults;

/// How long a stage of a round may take. The retry of a pod takes up to 15 s, and one failed call may cause another.
const STAGE: Duration = Duration::from_mins(2);

/// The agent's timeout of runtime requests.
const IMPATIENT: &str = "runtimeRequestTimeout: 2s\n\
    # The registry has the loaded image under another name; a pull of the one would make the other unusable.\n\
    imagePullCredentialsVerificationPolicy: NeverVerify";

/// How often `node clean` is tried: once for every fault, and once more.
const CLEANINGS: usize = 3;

/// The stage of a round in which a method is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The agent and the pods start.
    Start,
    /// Running pods are resized.
    Resize,
    /// An unused image is removed.
    Images,
    /// The pods are stopped and their leftovers removed.
    Stop,
}

/// A method of the CRI that the agent calls.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Its name.
    pub method: &'static str,
    /// When it is called.
    pub stage: Stage,
    /// The fault that causes the call, if there is no call without it.
    pub cause: Option<&'static str>,
}

const fn row(method: &'static str, stage: Stage) -> Row {
    Row { method, stage, cause: None }
}

const fn caused_by(cause: &'static str, method: &'static str, stage: Stage) -> Row {
    Row { method, stage, cause: Some(cause) }
}

/// Every method that the agent calls in a round. Pods are resized and images removed only if a fault needs it. The node
/// is in no cluster; the call that only a node of a cluster makes has its own rounds, `pod_cidr_faults`.
pub const METHODS: [Row; 25] = [
    row("Version", Stage::Start),
    row("RuntimeConfig", Stage::Start),
    row("GetContainerEvents", Stage::Start),
    row("ListPodSandbox", Stage::Start),
    row("ListContainers", Stage::Start),
    caused_by("ListPodSandbox=too-large", "StreamPodSandboxes", Stage::Start),
    caused_by("ListContainers=too-large", "StreamContainers", Stage::Start),
    row("PodSandboxStatus", Stage::Start),
    row("ContainerStatus", Stage::Start),
    row("ImageStatus", Stage::Start),
    row("PullImage", Stage::Start),
    row("ListImages", Stage::Start),
    row("ImageFsInfo", Stage::Start),
    row("RunPodSandbox", Stage::Start),
    caused_by("RunPodSandbox=unavailable", "Status", Stage::Start),
    row("CreateContainer", Stage::Start),
    row("StartContainer", Stage::Start),
    row("UpdateContainerResources", Stage::Resize),
    row("UpdatePodSandboxResources", Stage::Resize),
    row("RemoveImage", Stage::Images),
    row("ExecSync", Stage::Stop),
    row("StopContainer", Stage::Stop),
    row("StopPodSandbox", Stage::Stop),
    row("RemoveContainer", Stage::Stop),
    row("RemovePodSandbox", Stage::Stop),
];

/// A fault of a method.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    row: Row,
    /// What happens to one call, and when: `late after=3s`.
    how: &'static str,
}

impl Fault {
    /// A fault of one call of a method.
    pub fn new(method: &str, how: &'static str) -> Result<Self> {
        let row = METHODS.into_iter().find(|row| row.method == method);
        Ok(Self { row: row.with_context(|| format!("{method} has no row"))?, how })
    }

    /// A fault of the `postStart` command of the pods' containers.
    pub fn after_start(how: &'static str) -> Result<Self> {
        let command = Self::new("ExecSync", how)?;
        Ok(Self { row: Row { stage: Stage::Start, ..command.row }, ..command })
    }

    /// The agent sets no timeout for `postStart` commands, so a call without a response must end in the proxy.
    fn is_waited_for(&self) -> bool {
        let is_silent = self.how.contains("hang") || self.how.contains("late");
        self.row.stage == Stage::Start && self.row.method == "ExecSync" && is_silent
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.row.method, self.how)
    }
}

/// A node whose agent calls the runtime through a proxy, with a timeout of 2 s instead of 2 minutes.
#[derive(Debug)]
pub struct FaultyNode {
    node: Node,
    proxy: CriProxy,
    /// Serves the images of containers that pull them.
    registry: Registry,
}

/// The CPU request of the first container of a pod in millicores; its limit is ten times as much.
const SMALL: u32 = 20;
const LARGE: u32 = 30;

/// The running containers of each pod: a sidecar, one whose image is present, and one whose image is always pulled.
const CONTAINERS: [&str; 3] = ["side", "main", "pulled"];
/// The init container, which ends before the last two start, and starts after the first one.
const INIT: &str = "init";

impl FaultyNode {
    /// A node without an agent and pods.
    pub fn start() -> Result<Self> {
        Self::start_with(&Options::default())
    }

    /// Like `start`, with other options for the runtime.
    pub fn start_with(options: &Options) -> Result<Self> {
        let mut node = Node::start_with(options)?;
        let registry = Registry::start(node.instance())?;
        let proxy = node.put_proxy_before_runtime()?;
        node.configure(IMPATIENT)?;
        Ok(Self { node, proxy, registry })
    }

    /// Stops the node. Fails if anything is left behind.
    pub fn stop(self) -> Result<()> {
        self.node.stop()
    }

    /// A round in which each of these faults happens once: the pods run, stop when they should, and leave nothing. A
    /// round without faults finds all names free.
    pub fn round(&mut self, pods: &[&str], faults: &[Fault]) -> Result<()> {
        let faults_at = |stage| faults.iter().filter(move |fault| fault.row.stage == stage);
        let has = |stage| faults_at(stage).next().is_some();
        let wanted: Vec<WantedPod<'_>> =
            pods.iter().map(|name| WantedPod { name, containers: &CONTAINERS }).collect();
        for pod in pods {
            self.node.write_manifest(&format!("{pod}.yaml"), &self.manifest(pod, SMALL))?;
        }
        self.add(faults_at(Stage::Start))?;
        self.start_agent(has(Stage::Images))?;
        self.wait_until_met()?;
        if faults.iter().any(Fault::is_waited_for) {
            self.proxy.clear()?;
        }
        self.wait_until_done()?;
        wait_tidy(&self.node, &wanted, STAGE).context("the pods run")?;
        self.proxy.clear()?;
        if faults.is_empty() {
            self.all_are_the_first().context("no name is taken")?;
        }

        if has(Stage::Resize) {
            self.resize(pods, faults_at(Stage::Resize)).context("the pods are resized")?;
            wait_tidy(&self.node, &wanted, STAGE).context("the pods keep running")?;
        }
        if has(Stage::Images) {
            self.collect_images(faults_at(Stage::Images)).context("an image is removed")?;
            wait_tidy(&self.node, &wanted, STAGE).context("the pods keep running")?;
        }

        self.add(faults_at(Stage::Stop))?;
        for pod in pods {
            self.node.remove_manifest(&format!("{pod}.yaml"))?;
        }
        self.wait_until_met()?;
        self.wait_until_done()?;
        wait_tidy(&self.node, &[], STAGE).context("the pods end")?;
        self.proxy.clear()?;

        self.wait_until_collected()?;
        self.stop_agent()?;
        self.clean()?;
        if faults.is_empty() { Ok(()) } else { self.names_are_free(pods) }
    }

    /// Waits until no container, sandbox or log of any pod is left: the next GC pass compensates failures. Containers
    /// of the next round have the same UIDs; with those logs they would get higher attempt numbers.
    fn wait_until_collected(&self) -> Result<()> {
        self.node.explained(wait::until("nothing is left of the pods", STAGE, || {
            let left = containerd::containers(self.node.instance())?;
            let logs = self.node.run("ls", &["-A", "/var/log/pods"])?;
            let is_empty = left.is_empty() && logs.trim().is_empty();
            Ok(if is_empty { Ok(()) } else { Err(format!("{left:?} {logs}")) })
        }))
    }

    /// A round in which the pod is deleted while its sandbox is being created, so that the sandbox is created too late.
    pub fn round_with_a_late_sandbox(&mut self, pod: &str) -> Result<()> {
        self.proxy.fault("RunPodSandbox=late after=6s")?;
        self.node.write_manifest("late.yaml", &self.manifest(pod, SMALL))?;
        self.start_agent(false)?;
        self.wait_until_met()?;
        self.node.remove_manifest("late.yaml")?;
        self.wait_until_done()?;
        wait_tidy(&self.node, &[], STAGE).context("the orphaned sandbox is stopped")?;
        self.node
            .wait_for_log(&["Stopping sandbox", pod])
            .context("the late sandbox was stopped")?;
        self.stop_agent()?;
        self.clean()?;
        self.names_are_free(&[pod])
    }

    /// A round in which a pull hangs: the agent cancels and retries it, and can remove the pod during any try. Later
    /// pods pull their images.
    pub fn round_with_a_fetch_that_hangs(&mut self, pod: &str) -> Result<()> {
        self.proxy.fault("PullImage=hang times=all")?;
        self.node.write_manifest("hangs.yaml", &self.manifest(pod, SMALL))?;
        self.start_agent(false)?;
        let given_up = ["Failed to pull image", "DeadlineExceeded"];
        self.node.wait_for_log(&given_up).context("the agent's call times out")?;
        let spoilt = || anyhow::Ok(self.proxy.spoilt()?.get("PullImage").copied().unwrap_or(0));
        self.node.explained(wait::until("there is a retry", STAGE, || {
            let tries = spoilt()?;
            Ok(if tries >= 2 { Ok(()) } else { Err(format!("{tries} tries")) })
        }))?;
        self.node.remove_manifest("hangs.yaml")?;
        wait_tidy(&self.node, &[], STAGE).context("the pod ends although its image hangs")?;
        self.proxy.clear()?;
        self.stop_agent()?;
        self.clean()?;
        self.names_are_free(&[pod])
    }

    /// A round in which all calls fail for a time, while one pod is removed and another added.
    pub fn round_with_an_outage(&mut self, kind: &str, time: Duration) -> Result<()> {
        let wanted = |name| [WantedPod { name, containers: &CONTAINERS }];
        self.node.write_manifest("pod.yaml", &self.manifest("before", SMALL))?;
        self.start_agent(false)?;
        wait_tidy(&self.node, &wanted("before"), STAGE).context("the first pod runs")?;
        let spoilt = || anyhow::Ok(self.proxy.spoilt()?.values().sum::<u64>());
        let before = spoilt()?;
        for row in METHODS {
            self.proxy.fault(&format!("{}={kind} times=all", row.method))?;
        }
        self.node.write_manifest("pod.yaml", &self.manifest("after", SMALL))?;
        // The duration of the outage: there is no event to wait for.
        std::thread::sleep(time);
        self.proxy.clear()?;
        ensure!(spoilt()? > before, "the agent did not notice the outage");
        self.wait_until_done()?;
        wait_tidy(&self.node, &wanted("after"), STAGE).context("the second pod runs")?;
        self.node.remove_manifest("pod.yaml")?;
        wait_tidy(&self.node, &[], STAGE).context("the pods end")?;
        self.stop_agent()?;
        self.clean()?;
        self.names_are_free(&["before", "after"])
    }

    fn stop_agent(&mut self) -> Result<()> {
        let status = self.node.stop_agent()?;
        ensure!(status.success(), "the agent ended with {status}");
        Ok(())
    }

    /// Fails when the agent calls a method that has no row.
    pub fn check_methods(&self) -> Result<()> {
        check_methods(&self.proxy, None)
    }

    /// A pod whose UID does not depend on its spec.
    fn manifest(&self, pod: &str, cpu: u32) -> String {
        let image = self.registry.image("workload:1");
        let limit = cpu * 10;
        format!(
            "
apiVersion: v1
kind: Pod
metadata:
  name: {pod}
  uid: uid-of-{pod}
spec:
  terminationGracePeriodSeconds: 2
  initContainers:
  - name: side
    image: ferrolet.test/workload:1
    restartPolicy: Always
    args: [trap, TERM]
  - name: {INIT}
    image: ferrolet.test/workload:1
    args: [exit, '0']
  containers:
  - name: main
    image: ferrolet.test/workload:1
    args: [sleep, forever]
    resources: {{requests: {{cpu: {cpu}m}}, limits: {{cpu: {limit}m}}}}
    lifecycle:
      postStart: {{exec: {{command: [/workload, exit, '0']}}}}
      preStop: {{exec: {{command: [/workload, exit, '0']}}}}
  - name: pulled
    image: {image}
    imagePullPolicy: Always
    args: [sleep, forever]
"
        )
    }

    fn add<'a>(&self, faults: impl Iterator<Item = &'a Fault>) -> Result<()> {
        for fault in faults {
            for text in
                fault.row.cause.map(ToOwned::to_owned).into_iter().chain([fault.to_string()])
            {
                self.proxy.fault(&text)?;
            }
        }
        Ok(())
    }

    /// Waits until every fault has met its call.
    fn wait_until_met(&self) -> Result<()> {
        self.node.explained(self.proxy.wait_until_met(STAGE))
    }

    /// Waits until the runtime has finished all late calls.
    fn wait_until_done(&self) -> Result<()> {
        self.node.explained(self.proxy.wait_until_done(STAGE))
    }

    /// Runs `node clean` until it succeeds.
    fn clean(&self) -> Result<()> {
        let mut tries = String::new();
        for _ in 0..CLEANINGS {
            match self.node.clean() {
                Ok(_) => {
                    let left = containerd::containers(self.node.instance())?;
                    ensure!(left.is_empty(), "still there after cleaning: {left:?}");
                    return wait_tidy(&self.node, &[], STAGE).context("everything is removed");
                }
                Err(error) => writeln!(tries, "{error:#}")?,
            }
        }
        bail!("cannot clean the node:\n{tries}")
    }
}

/// Fails if an agent called a method through a proxy that has no row, other than this one.
fn check_methods(proxy: &CriProxy, besides: Option<&str>) -> Result<()> {
    let mut called: Vec<String> = proxy.spoilt()?.into_keys().collect();
    called.retain(|method| !METHODS.iter().any(|row| row.method == *method));
    called.retain(|method| besides != Some(method.as_str()));
    ensure!(called.is_empty(), "the agent calls {called:?}: give each a row in METHODS");
    Ok(())
}
