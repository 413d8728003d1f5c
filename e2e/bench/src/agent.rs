//! An agent inside the instance: its configuration, start and end.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use testbed::{Command, Instance, Process, ProcessError, Signal};

use crate::plan::On;
use crate::results::Agent;
use crate::usage;

/// The name of the node, which is part of the names of its pods.
pub const NODE_NAME: &str = "bench";

/// How long an agent may take to end before it is killed.
const END: Duration = Duration::from_secs(10);

/// The programs that are measured or needed for it.
#[derive(Debug, Clone)]
pub struct Programs {
    /// Our agent.
    pub ferrolet: PathBuf,
    /// The upstream kubelet.
    pub kubelet: PathBuf,
    /// The runtime in memory.
    pub hollow: PathBuf,
    /// The server that agents probe.
    pub probe_peer: PathBuf,
}

impl Programs {
    /// The programs that cargo put into a directory, and the kubelet from the testbed's parts.
    pub fn built_in(directory: &Path) -> Result<Self> {
        let programs = Self {
            ferrolet: directory.join("ferrolet"),
            kubelet: testbed::Cache::from_env()?.parts().program("kubelet"),
            hollow: directory.join("hollow"),
            probe_peer: directory.join("probe-peer"),
        };
        let Self { ferrolet, kubelet, hollow, probe_peer } = &programs;
        are_there([ferrolet, kubelet, hollow, probe_peer])?;
        Ok(programs)
    }

    /// The version of an agent, in one line.
    pub fn version(&self, agent: Agent) -> Result<String> {
        let (program, args) = match agent {
            Agent::Ferrolet => (&self.ferrolet, ["run", "--version"].as_slice()),
            Agent::Upstream => (&self.kubelet, ["--version"].as_slice()),
        };
        version(program, args)
    }
}

/// Whether all programs are built.
pub(crate) fn are_there<'a>(programs: impl IntoIterator<Item = &'a PathBuf>) -> Result<()> {
    for path in programs {
        if !path.is_file() {
            bail!("{} is missing: run `make bench` or `make test`", path.display());
        }
    }
    Ok(())
}

/// The version of a program, in one line.
pub(crate) fn version(program: &Path, args: &[&str]) -> Result<String> {
    let output = std::process::Command::new(program)
        .args(args)
        .output()
        .with_context(|| format!("get the version of {}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().map(str::trim).collect::<Vec<_>>().join(", "))
}

/// The directories and files of an agent. Their paths are the same inside and outside of the instance.
#[derive(Debug, Clone)]
pub struct Directories {
    /// Manifests of static pods.
    pub manifests: PathBuf,
    /// The agent's root directory.
    pub root: PathBuf,
    /// Its configuration.
    pub config: PathBuf,
    /// Its kubeconfig, as a node of a cluster.
    pub kubeconfig: Option<PathBuf>,
}

/// The configuration, the same for both agents.
///
/// Its differences from the defaults let the kubelet run with or without an API server on any machine, and spare it
/// work that ferrolet does not do: it has no server and, on hollow, where there are no processes, no cgroups for pods.
pub fn configuration(directories: &Directories, socket: &Path, on: On) -> String {
    let cgroups = match on {
        On::Containerd => "",
        On::Hollow => "cgroupsPerQOS: false\nenforceNodeAllocatable: []\n",
    };
    // Without it, the kubelet records an event for every pod, again and again.
    let cluster = match directories.kubeconfig {
        Some(_) => "clusterDNS: [10.96.0.10]\nclusterDomain: cluster.local\n",
        None => "",
    };
    format!(
        "apiVersion: kubelet.config.k8s.io/v1beta1\n\
         kind: KubeletConfiguration\n\
         staticPodPath: {manifests}\n\
         containerRuntimeEndpoint: unix://{socket}\n\
         cgroupDriver: cgroupfs\n\
         failCgroupV1: false\n\
         failSwapOn: false\n\
         enableServer: false\n\
         authentication: {{anonymous: {{enabled: false}}, webhook: {{enabled: false}}}}\n\
         authorization: {{mode: AlwaysAllow}}\n\
         evictionHard: {{memory.available: 1Mi, nodefs.available: 1%, imagefs.available: 1%}}\n\
         imageGCHighThresholdPercent: 100\n\
         imageGCLowThresholdPercent: 99\n\
         maxPods: 2000\n\
         {cgroups}{cluster}",
        manifests = directories.manifests.display(),
        socket = socket.display(),
    )
}

/// A running agent.
#[derive(Debug)]
pub struct Running {
    process: Process,
    /// The pid of its process on the host.
    pub pid: i32,
    /// When it was started.
    pub since: Timestamp,
}

impl Running {
    /// Starts an agent inside the instance.
    pub fn start(
        instance: &Instance,
        programs: &Programs,
        agent: Agent,
        directories: &Directories,
    ) -> Result<Self> {
        let text = |path: &Path| path.display().to_string();
        let command = match agent {
            Agent::Ferrolet => Command::new(text(&programs.ferrolet)).arg("run"),
            Agent::Upstream => Command::new(text(&programs.kubelet)),
        };
        let command = command
            .args(["--config", &text(&directories.config)])
            .args(["--root-dir", &text(&directories.root)])
            .args(["--hostname-override", NODE_NAME])
            // Without it, the kubelet determines its address again for every pod.
            .args(["--node-ip", &instance.node_ip().to_string()]);
        let command = match &directories.kubeconfig {
            Some(kubeconfig) => command.args(["--kubeconfig", &text(kubeconfig)]),
            None => command,
        };
        let since = Timestamp::now();
        let process = instance
            .spawn(agent.name(), &command)
            .with_context(|| format!("start {}", agent.name()))?;
        let pid = usage::host_pid(instance.slot(), process.pid())
            .with_context(|| format!("{}:\n{}", agent.name(), tail(&process.log())))?;
        Ok(Self { process, pid, since })
    }

    /// Stops it with SIGTERM, after a while with SIGKILL.
    pub fn stop(&self) -> Result<()> {
        self.process.signal(Signal::Term)?;
        match self.process.wait(END) {
            Err(ProcessError::StillRunning { .. }) => {
                self.process.kill()?;
                self.process.wait(END)?;
            }
            other => drop(other?),
        }
        Ok(())
    }

    /// Adds the end of its log to an error.
    pub fn explained<T>(&self, result: Result<T>) -> Result<T> {
        result
            .with_context(|| format!("the end of the agent's log:\n{}", tail(&self.process.log())))
    }
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

/// Writes the manifests of a scenario's pods and the agent's configuration, into empty directories.
pub fn prepare(directories: &Directories, socket: &Path, on: On, pods: usize) -> Result<()> {
    fs::create_dir_all(&directories.manifests).context("make the manifests directory")?;
    fs::write(&directories.config, configuration(directories, socket, on))
        .context("write the agent's configuration")?;
    for number in 0..pods {
        let path = directories.manifests.join(format!("pod-{number}.yaml"));
        fs::write(path, manifest(number, on)).context("write a manifest")?;
    }
    Ok(())
}

/// The manifest of a pod with one container; its last lines are fields of the container.
pub(crate) fn manifest(number: usize, on: On) -> String {
    let image = match on {
        On::Containerd => "ferrolet.test/workload:1",
        On::Hollow => "hollow.test/app:1",
    };
    format!(
        "apiVersion: v1\n\
         kind: Pod\n\
         metadata:\n\
         \x20 name: pod-{number}\n\
         \x20 namespace: default\n\
         \x20 labels: {{app: bench, number: \"{number}\"}}\n\
         spec:\n\
         \x20 restartPolicy: Always\n\
         \x20 terminationGracePeriodSeconds: 1\n\
         \x20 containers:\n\
         \x20 - name: main\n\
         \x20   image: {image}\n\
         \x20   imagePullPolicy: IfNotPresent\n\
         \x20   args: [sleep, forever]\n"
    )
}
