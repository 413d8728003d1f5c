//! The cluster of a run: an instance of the testbed with a control plane, and the agent as its only node.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use testbed::wait;
use testbed::{
    Cache, Command, ControlPlane, ControlPlaneOptions, Instance, Options, Process, User,
};

/// The name of the node.
const NODE: &str = "node-1";
/// The agent's root directory: the path that all programs expect, accessible to every user.
pub const ROOT_DIR: &str = "/var/lib/kubelet";
/// How long the node may take to be ready.
const READY: Duration = Duration::from_mins(3);

/// The program that is the node agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agent {
    Ferrolet,
    Upstream,
}

impl Agent {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ferrolet => "ferrolet",
            Self::Upstream => "upstream",
        }
    }

    /// The program and its arguments before the flags.
    fn command(self) -> Result<Command> {
        let (program, command) = match self {
            Self::Ferrolet => (beside_this_program("ferrolet")?, Some("run")),
            Self::Upstream => (Cache::from_env()?.parts().program("kubelet"), None),
        };
        ensure!(program.is_file(), "{} is missing: run `make conformance`", program.display());
        Ok(Command::new(program.display().to_string()).args(command))
    }
}

/// A program that cargo built into the same directory.
fn beside_this_program(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("find this program")?;
    Ok(own.with_file_name(name))
}

/// A cluster of one node. Dropping it removes everything.
#[derive(Debug)]
pub struct Cluster {
    instance: Instance,
    plane: ControlPlane,
    agent: Process,
}

impl Cluster {
    /// Starts everything. `on_step` is called between the steps, so that an interrupt ends the start, too.
    pub fn start(agent: Agent, on_step: &impl Fn(&str) -> Result<()>) -> Result<Self> {
        on_step("starting containerd")?;
        let instance = Instance::start(&Options::default()).context("start an instance")?;
        on_step("importing the images of the suite")?;
        import_images(&instance)?;
        cover_directories(&instance)?;
        on_step("starting etcd, kube-apiserver, kube-controller-manager and kube-scheduler")?;
        let options = ControlPlaneOptions {
            controller_manager: Some(Vec::new()),
            scheduler: Some(Vec::new()),
            ..ControlPlaneOptions::default()
        };
        let plane = instance.start_control_plane(&options).context("start a control plane")?;
        on_step(&format!("starting the agent: {}", agent.name()))?;
        let process = start_agent(&instance, &plane, agent)?;
        Ok(Self { instance, plane, agent: process })
    }

    /// Waits until the node is schedulable.
    pub fn wait_schedulable(&self, on_step: &impl Fn(&str) -> Result<()>) -> Result<()> {
        let format = "-o=jsonpath={.status.conditions[?(@.type=='Ready')].status} {.spec.taints}";
        let ready = wait::every(Duration::from_secs(1), "the node is ready", READY, || {
            on_step("")?;
            self.check_agent()?;
            let output = self.plane.kubectl(&["get", "node", NODE, format])?;
            let state = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            Ok(if state == "True" { Ok(()) } else { Err(state) })
        });
        ready.with_context(|| format!("the end of the agent's log:\n{}", self.agent_log()))
    }

    /// Fails if the agent has ended.
    pub fn check_agent(&self) -> Result<()> {
        if !self.agent.is_alive()? {
            bail!("the agent has ended; the end of its log:\n{}", self.agent_log());
        }
        Ok(())
    }

    fn agent_log(&self) -> String {
        let log = self.agent.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    pub fn instance(&self) -> &Instance {
        &self.instance
    }

    /// The kubeconfig of an administrator.
    pub fn kubeconfig(&self) -> &Path {
        self.plane.admin_kubeconfig()
    }

    /// Copies the logs of all programs into a directory.
    pub fn copy_logs(&self, into: &Path) -> Result<()> {
        let logs = self.instance.dir().join("log");
        for entry in fs::read_dir(&logs).with_context(|| format!("list {}", logs.display()))? {
            let from = entry?.path();
            let to = into.join(from.file_name().unwrap_or_default());
            fs::copy(&from, &to).with_context(|| format!("copy {}", from.display()))?;
        }
        Ok(())
    }

    /// Stops everything. Fails if anything is left behind.
    pub fn stop(self) -> Result<()> {
        Ok(self.instance.stop()?)
    }
}

/// Imports the archives that `e2e/build-images.sh conformance` made.
fn import_images(instance: &Instance) -> Result<()> {
    let directory = Cache::from_env()?.parts().images_dir().join("conformance");
    let list = || format!("list {}: run `make conformance`", directory.display());
    for entry in fs::read_dir(&directory).with_context(list)? {
        let archive = entry?.path().display().to_string();
        let output = instance.ctr(&["images", "import", &archive])?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "import {archive}: {stderr}");
    }
    Ok(())
}

/// Covers paths of the host with files of the instance, in a separate peer group: mounts below them appear nowhere
/// else. The first argument is the instance's directory; with a second, `/tmp` is covered, too.
const COVER: &str = r#"
set -e
cover() {
    mount --bind "$1" "$2"
    mount --make-private "$2"
    mount --make-shared "$2"
}
mkdir -p "$1/kubelet" "$1/tmp" /var/lib/kubelet
chmod 0750 "$1/kubelet"
chmod 1777 "$1/tmp"
cover "$1/kubelet" /var/lib/kubelet
# There is no network: the runtime would wait for the host's name server before a pull fails.
echo 'nameserver 127.0.0.1' >"$1/resolv.conf"
[ ! -e /etc/resolv.conf ] || cover "$1/resolv.conf" /etc/resolv.conf
[ -z "$2" ] || cover "$1/tmp" /tmp
"#;

/// Gives the node its own root directory, on disk, and its own `/tmp`, which specs use as a host path.
fn cover_directories(instance: &Instance) -> Result<()> {
    // A cache or a build in /tmp must stay visible.
    let own = std::env::current_exe().context("find this program")?;
    let covers_tmp = !own.starts_with("/tmp") && !instance.dir().starts_with("/tmp");
    let directory = instance.dir().display().to_string();
    let args = ["-c", COVER, "sh", &directory, if covers_tmp { "tmp" } else { "" }];
    let output = instance.run(&Command::new("sh").args(args))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cover directories of the host: {stderr}");
    Ok(())
}

fn start_agent(instance: &Instance, plane: &ControlPlane, agent: Agent) -> Result<Process> {
    let authority = plane.admin_kubeconfig().with_file_name("ca.crt");
    let config = instance.dir().join("config.yaml");
    let text = configuration(&instance.containerd_socket(), &authority);
    fs::write(&config, text).context("write the agent's configuration")?;
    let kubeconfig = plane.kubeconfig(&User::node(NODE))?;
    let command = agent
        .command()?
        .args(["--config", &config.display().to_string()])
        .args(["--kubeconfig", &kubeconfig.display().to_string()])
        .args(["--root-dir", ROOT_DIR, "--cert-dir", &format!("{ROOT_DIR}/pki")])
        .args(["--hostname-override", NODE, "--node-ip", &instance.node_ip().to_string()])
        .arg("-v=2");
    instance.spawn(agent.name(), &command).context("start the agent")
}

/// The configuration, the same for both agents: settings with which the upstream kubelet runs on any machine, and the
/// node's API.
fn configuration(socket: &Path, authority: &Path) -> String {
    format!(
        "apiVersion: kubelet.config.k8s.io/v1beta1\n\
         kind: KubeletConfiguration\n\
         containerRuntimeEndpoint: unix://{socket}\n\
         cgroupDriver: cgroupfs\n\
         failCgroupV1: false\n\
         failSwapOn: false\n\
         authentication:\n  anonymous: {{enabled: false}}\n  webhook: {{enabled: true}}\n  \
         x509: {{clientCAFile: {authority}}}\n\
         authorization: {{mode: Webhook}}\n\
         clusterDomain: cluster.local\n\
         clusterDNS: [10.96.0.10]\n\
         maxPods: 250\n\
         evictionHard: {{memory.available: 1Mi, nodefs.available: 1%, imagefs.available: 1%}}\n\
         imageGCHighThresholdPercent: 100\n\
         imageGCLowThresholdPercent: 99\n",
        socket = socket.display(),
        authority = authority.display(),
    )
}
