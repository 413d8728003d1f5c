//! Sandboxes and containers that take the runtime longer than the agent waits for them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use model::ports::runtime::{SandboxFilter, SandboxService};
use tempfile::TempDir;
use testbed::{Cache, Options, wait};

use super::{CONTAINERS, FaultyNode, SMALL, STAGE};
use crate::tidy::{WantedPod, wait_tidy};

/// A runc that blocks when it should create a container. Its files are removed with it.
#[derive(Debug)]
pub struct HeldRunc {
    directory: TempDir,
}

impl HeldRunc {
    /// The program. It blocks the n-th creation until [`let_go`](Self::let_go): the first is a pod's sandbox, the later
    /// ones are its containers.
    pub fn make(nth: u32) -> Result<Self> {
        let held = Self { directory: tempfile::tempdir().context("make a directory")? };
        let script = format!(
            "#!/bin/sh\n\
             case \" $* \" in *' create '*)\n\
             n=1; while ! mkdir {each}-$n; do n=$((n+1)); done\n\
             if [ $n = {nth} ]; then touch {begun}; while ! [ -e {go} ]; do sleep 0.1; done; fi\n\
             esac\n\
             exec {runc} \"$@\"\n",
            each = held.file("create").display(),
            begun = held.file("begun").display(),
            go = held.file("go").display(),
            runc = Cache::from_env()?.parts().program("runc").display(),
        );
        fs::write(held.file("runc"), script).context("write the runtime")?;
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(held.file("runc"), mode).context("make it executable")?;
        Ok(held)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A containerd that runs all pods with this runc.
    pub fn options(&self) -> Options {
        let table = "plugins.\"io.containerd.cri.v1.runtime\".containerd";
        let program = self.file("runc").display().to_string();
        let containerd_config = format!(
            "[{table}]\ndefault_runtime_name = \"held\"\n\
             [{table}.runtimes.held]\nruntime_type = \"io.containerd.runc.v2\"\n\
             [{table}.runtimes.held.options]\nBinaryName = \"{program}\"\nSystemdCgroup = false\n"
        );
        Options { containerd_config, ..Options::default() }
    }

    fn has_begun(&self) -> bool {
        self.file("begun").exists()
    }

    /// Ends the block.
    pub fn let_go(&self) -> Result<()> {
        fs::write(self.file("go"), "").context("let it continue")
    }
}

/// A node with a pod whose sandbox or container takes the runtime too long to create.
pub fn slow_start(nth: u32) -> Result<()> {
    let held = HeldRunc::make(nth)?;
    let mut node = FaultyNode::start_with(&held.options())?;
    node.round_with_a_slow_start("web", &held)?;
    node.round(&["web"], &[])?;
    node.stop()
}

impl FaultyNode {
    /// A round in which the runtime continues to create a sandbox after the agent's call timed out. The name is taken
    /// when the agent retries; the sandbox appears when its successor is in use.
    pub fn round_with_a_name_under_way(&mut self, pod: &str, held: &HeldRunc) -> Result<()> {
        // Forwarded at once, and completed even if the agent cancels the call.
        self.proxy.fault("RunPodSandbox=late")?;
        self.run_held(pod, held, ["RunPodSandbox", "DeadlineExceeded"])?;
        let wanted = [WantedPod { name: pod, containers: &CONTAINERS }];
        self.node
            .wait_for_log(&["Sandbox name is taken", "is reserved for"])
            .context("the agent finds the name reserved")?;
        self.wait_ready(pod).context("the pod does not wait for the runtime")?;
        let (_, late) = self.proxy.left()?;
        ensure!(late == 1, "the first sandbox was completed too early");
        ensure!(self.attempts()? == [1], "it is not in the second sandbox: {:?}", self.attempts()?);
        let before = self.main(pod)?;
        held.let_go()?;
        self.wait_until_done()?;
        self.wait_for_attempts(&[1]).context("the late sandbox is removed")?;
        wait_tidy(&self.node, &wanted, STAGE).context("the pod keeps running")?;
        ensure!(self.main(pod)? == before, "it was restarted");
        self.end_held(pod)
    }

    /// A round in which the runtime cancels its work together with the agent's call.
    pub fn round_with_a_sandbox_that_is_given_up(
        &mut self,
        pod: &str,
        held: &HeldRunc,
    ) -> Result<()> {
        self.run_held(pod, held, ["RunPodSandbox", "DeadlineExceeded"])?;
        self.wait_ready(pod).context("the pod gets another sandbox")?;
        held.let_go()?;
        let wanted = [WantedPod { name: pod, containers: &CONTAINERS }];
        wait_tidy(&self.node, &wanted, STAGE).context("the pod runs")?;
        self.end_held(pod)
    }

    /// A round in which the runtime takes too long to start a container.
    fn round_with_a_slow_start(&mut self, pod: &str, held: &HeldRunc) -> Result<()> {
        self.run_held(pod, held, ["Failed", "Error: context deadline exceeded"])?;
        held.let_go()?;
        let wanted = [WantedPod { name: pod, containers: &CONTAINERS }];
        wait_tidy(&self.node, &wanted, STAGE).context("the pod runs")?;
        self.end_held(pod)
    }

    /// Starts a pod whose sandbox or container takes too long, until the agent logs these words.
    fn run_held(&mut self, pod: &str, held: &HeldRunc, given_up: [&str; 2]) -> Result<()> {
        self.node.write_manifest("held.yaml", &self.manifest(pod, SMALL))?;
        self.start_agent(false)?;
        self.node.explained(wait::until("it is begun", STAGE, || {
            Ok(if held.has_begun() { Ok(()) } else { Err("it is not".to_owned()) })
        }))?;
        self.node.wait_for_log(&given_up).context("the agent's call times out").map(drop)
    }

    /// Waits until the containers of a pod run; other containers are ignored.
    fn wait_ready(&self, pod: &str) -> Result<()> {
        self.node.wait_for_containers(pod, "the pod runs", |containers| {
            let runs = |name: &&str| {
                containers.iter().any(|one| one.name == **name && one.state == "RUNNING")
            };
            CONTAINERS.iter().all(runs).then_some(())
        })
    }

    /// The attempt numbers of all sandboxes.
    fn attempts(&self) -> Result<Vec<u32>> {
        let listed = self.node.with_runtime(async |cri| {
            Ok(cri.list_pod_sandboxes(&SandboxFilter::default()).await?)
        });
        let mut attempts: Vec<u32> = listed?.iter().map(|sandbox| sandbox.attempt).collect();
        attempts.sort_unstable();
        Ok(attempts)
    }

    fn wait_for_attempts(&self, wanted: &[u32]) -> Result<()> {
        self.node.explained(wait::until(&format!("only sandboxes {wanted:?}"), STAGE, || {
            let attempts = self.attempts()?;
            Ok(if attempts == wanted { Ok(()) } else { Err(format!("{attempts:?}")) })
        }))
    }

    /// Ends the pod. Nothing is left of it, not even a reserved name.
    fn end_held(&mut self, pod: &str) -> Result<()> {
        self.node.remove_manifest("held.yaml")?;
        wait_tidy(&self.node, &[], STAGE).context("the pod ends")?;
        self.wait_until_collected()?;
        self.proxy.clear()?;
        self.stop_agent()?;
        self.clean()?;
        self.names_are_free(&[pod])
    }
}
