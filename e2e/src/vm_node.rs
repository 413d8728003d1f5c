//! A node in a virtual machine, with cgroup v2 and its own kernel.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use testbed::{Cache, wait};
use vm::{Machine, Root, Vm};

use crate::node::{NODE_NAME, program};

/// An emulated CPU on a busy machine is slow.
pub const PATIENCE: Duration = Duration::from_mins(8);
/// The pause between two checks. A check costs the machine some time.
const PAUSE: Duration = Duration::from_millis(250);

const MANIFESTS: &str = "/etc/kubernetes/manifests";
const CONFIG: &str = "/etc/kubernetes/config.yaml";
const CONTAINERD_CONFIG: &str = "/etc/containerd/config.toml";
const CONTAINERD_LOG: &str = "/var/log/containerd.log";
/// The mount point of the cgroups.
pub const CGROUPS: &str = "/sys/fs/cgroup";

/// Kernel modules that containers need.
const MODULES: [&str; 3] = ["overlay", "bridge", "veth"];
const IMAGES: [&str; 2] = ["pause-1.tar", "workload-1.tar"];

/// containerd without plugins that no pod here uses and that take time to start.
const CONTAINERD: &str = r#"version = 3
imports = []
disabled_plugins = [
  "io.containerd.differ.v1.erofs",
  "io.containerd.image-verifier.v1.bindir",
  "io.containerd.internal.v1.opt",
  "io.containerd.internal.v1.tracing",
  "io.containerd.mount-handler.v1.erofs",
  "io.containerd.nri.v1.nri",
  "io.containerd.snapshotter.v1.blockfile",
  "io.containerd.snapshotter.v1.erofs",
  "io.containerd.snapshotter.v1.native",
  "io.containerd.tracing.processor.v1.otlp",
]

[plugins."io.containerd.metadata.v1.bolt"]
  no_sync = true

[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "ferrolet.test/pause:1"

[plugins."io.containerd.cri.v1.runtime"]
  cdi_spec_dirs = []
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/opt/cni/bin"]
    conf_dir = "/etc/cni"
"#;

/// The systemd cgroup driver for containers.
const SYSTEMD_CGROUPS: &str = r#"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      SystemdCgroup = true
"#;

/// The options of a node in a virtual machine.
#[derive(Debug, Default)]
pub struct VmOptions {
    /// Additional files.
    pub root: Root,
    /// The program that is pid 1, in place of the machine's own.
    pub init: Option<String>,
    /// Whether the runtime uses the systemd cgroup driver.
    pub systemd_cgroups: bool,
    /// Further parameters of its kernel.
    pub parameters: &'static str,
    /// Additional modules of its kernel.
    pub modules: Vec<&'static str>,
}

/// A running container, as the kernel shows it.
#[derive(Debug, Clone)]
pub struct VmContainer {
    /// Its id.
    pub id: String,
    /// Its first process.
    pub pid: i32,
    /// Its cgroup, below the mount.
    pub cgroup: String,
}

/// A node in a virtual machine, with containerd in it; the agent is started by the test.
#[derive(Debug)]
pub struct VmNode {
    vm: Vm,
    agent: Option<i32>,
}

impl VmNode {
    /// Where the agent's output goes.
    pub const AGENT_LOG: &str = "/var/log/ferrolet.log";

    /// A node without pods and without an agent.
    pub fn start() -> Result<Self> {
        Self::start_with(VmOptions::default())
    }

    /// Like `start`, with options.
    pub fn start_with(options: VmOptions) -> Result<Self> {
        let VmOptions { mut root, init, systemd_cgroups, parameters, modules } = options;
        let stripped = tempfile::tempdir().context("make a directory")?;
        put_node(&mut root, stripped.path())?;
        let more = if systemd_cgroups { SYSTEMD_CGROUPS } else { "" };
        root.text(CONTAINERD_CONFIG, format!("{CONTAINERD}{more}"));
        let modules = MODULES.into_iter().chain(modules).collect();
        let machine = Machine { mebibytes: 1024, processors: 2, modules, init, parameters };
        let node = Self { vm: Vm::boot(&machine, root)?, agent: None };
        node.vm.output(&["ip", "link", "set", "lo", "up"], PATIENCE)?;
        node.configure("")?;
        node.start_containerd()?;
        Ok(node)
    }

    /// The machine.
    pub fn vm(&self) -> &Vm {
        &self.vm
    }

    fn start_containerd(&self) -> Result<()> {
        self.vm.spawn(&["containerd", "--config", CONTAINERD_CONFIG], CONTAINERD_LOG)?;
        self.until("containerd is there", || {
            let log = self.vm.read(CONTAINERD_LOG)?;
            let up = log.contains("containerd successfully booted");
            Ok(if up { Ok(()) } else { Err(log) })
        })?;
        // In parallel: there is more than one CPU.
        let mut imports = Vec::new();
        for image in IMAGES {
            let log = format!("/var/log/{image}.log");
            let archive = format!("/images/{image}");
            let argv = ["ctr", "-n", "k8s.io", "images", "import", &archive];
            imports.push((self.vm.spawn(&argv, &log)?, log));
        }
        for (pid, log) in imports {
            let ended = self.vm.wait(pid, PATIENCE)?.context("an import did not end")?;
            ensure!(ended.code == Some(0), "import: {}", self.vm.read(&log)?);
        }
        Ok(())
    }

    /// Writes the agent's configuration; `more` is appended.
    pub fn configure(&self, more: &str) -> Result<()> {
        // The disk of the machine is small.
        let thresholds = "evictionHard: {memory.available: 100Mi}\n";
        let thresholds = if more.contains("evictionHard") { "" } else { thresholds };
        let config = format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1\n\
             kind: KubeletConfiguration\n\
             staticPodPath: {MANIFESTS}\n\
             containerRuntimeEndpoint: unix:///run/containerd/containerd.sock\n\
             fileCheckFrequency: 100ms\n\
             enableServer: false\n\
             imageGCHighThresholdPercent: 100\n\
             runtimeRequestTimeout: 8m\n\
             {thresholds}{more}\n"
        );
        self.vm.write(CONFIG, &config)
    }

    /// Writes a manifest.
    pub fn write_manifest(&self, name: &str, text: &str) -> Result<()> {
        self.vm.write(&format!("{MANIFESTS}/{name}"), text)
    }

    /// Removes a manifest.
    pub fn remove_manifest(&self, name: &str) -> Result<()> {
        self.vm.remove(&format!("{MANIFESTS}/{name}"))
    }

    /// The agent's command.
    pub const fn agent_command() -> [&'static str; 7] {
        ["ferrolet", "run", "--hostname-override", NODE_NAME, "-v=4", "--config", CONFIG]
    }

    /// The agent's process.
    pub fn agent(&self) -> Result<i32> {
        self.agent.context("no agent was started")
    }

    /// Starts the agent.
    pub fn start_agent(&mut self) -> Result<()> {
        self.agent = Some(self.vm.spawn(&Self::agent_command(), Self::AGENT_LOG)?);
        Ok(())
    }

    /// Runs a command of the agent's program.
    pub fn ferrolet(&self, args: &[&str]) -> Result<String> {
        let command: Vec<&str> = ["ferrolet"].into_iter().chain(args.iter().copied()).collect();
        self.vm.output(&command, PATIENCE)
    }

    /// The end of the agent's log.
    pub fn agent_log(&self) -> Result<String> {
        self.vm.read(Self::AGENT_LOG)
    }

    /// Waits until the agent's log has a line with all the given parts, and returns it.
    pub fn wait_for_log(&self, parts: &[&str]) -> Result<String> {
        self.until(&format!("log line with {parts:?}"), || {
            let log = self.agent_log()?;
            let line = log.lines().find(|line| parts.iter().all(|part| line.contains(part)));
            if let (None, Some(agent)) = (line, self.agent) {
                let ended = self.vm.wait(agent, Duration::ZERO)?;
                ensure!(ended.is_none(), "the agent ended: {ended:?}");
            }
            Ok(line.map(ToOwned::to_owned).ok_or_else(|| "no such line".to_owned()))
        })
    }

    /// Waits until a container of a pod runs, and returns it.
    pub fn wait_running(&self, pod: &str, container: &str) -> Result<VmContainer> {
        let pod = format!("pod=\"default/{pod}-{NODE_NAME}\"");
        let container = format!("container=\"{container}\"");
        let line = self.wait_for_log(&["\"Container started\"", &pod, &container])?;
        let (_, id) = line.split_once(" id=\"").context("the line has an id")?;
        let (id, _) = id.split_once('"').context("the id ends")?;
        self.container(id)
    }

    /// The running container or sandbox with this id. Reads the kernel's process list, which is the
    /// fastest way.
    pub fn container(&self, id: &str) -> Result<VmContainer> {
        let all = self.vm.directories(CGROUPS)?;
        let mut found = all.iter().filter_map(|path| path.strip_prefix(CGROUPS));
        // systemd adds a prefix and a suffix.
        let is_own = |path: &str| path.rsplit('/').next().is_some_and(|name| name.contains(id));
        let cgroup = found.find(|path| is_own(path));
        let cgroup = cgroup.with_context(|| format!("{id} has no cgroup: {all:?}"))?;
        let processes = self.cgroup_file(cgroup, "cgroup.procs")?;
        let pid = processes.lines().next().with_context(|| format!("{id} does not run"))?;
        Ok(VmContainer { id: id.to_owned(), pid: pid.parse()?, cgroup: cgroup.to_owned() })
    }

    /// The log of the first instance of a container, as the runtime wrote it.
    pub fn pod_log(&self, pod: &str, container: &str) -> Result<String> {
        let mut found = self.vm.directories("/var/log/pods")?;
        let pod = format!("/default_{pod}-{NODE_NAME}_");
        found.retain(|path| path.contains(&pod) && path.ends_with(&format!("/{container}")));
        let directory = found.first().context("the pod has no log")?;
        self.vm.read(&format!("{directory}/0.log"))
    }

    /// The content of a cgroup's file.
    pub fn cgroup_file(&self, cgroup: &str, file: &str) -> Result<String> {
        Ok(self.vm.read(&format!("{CGROUPS}{cgroup}/{file}"))?.trim().to_owned())
    }

    /// The cgroups of pods and their children.
    pub fn pod_cgroups(&self) -> Result<Vec<String>> {
        let mut found = self.vm.directories(CGROUPS)?;
        let is_pods = |path: &str| path.contains("/pod") || path.contains("-pod");
        found.retain(|path| path.contains("/kubepods") && is_pods(path));
        Ok(found)
    }

    /// Waits until no pod has a cgroup.
    pub fn wait_for_no_pod_cgroup(&self) -> Result<()> {
        self.until("no pod has a cgroup", || {
            let left = self.pod_cgroups()?;
            Ok(if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) })
        })
    }

    /// Polls until there is a value; a timeout error has the agent's log.
    pub fn until<T>(
        &self,
        what: &str,
        look: impl FnMut() -> Result<Result<T, String>>,
    ) -> Result<T> {
        wait::every(PAUSE, what, PATIENCE, look).map_err(|error| {
            let log = self.agent_log().unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(25)..].join("\n  ");
            error.context(format!("the agent's last log lines:\n  {tail}"))
        })
    }

    /// Switches the machine off.
    pub fn stop(self) -> Result<()> {
        self.vm.stop()
    }
}

/// Adds a node's programs and their configuration to a machine's files.
fn put_node(root: &mut Root, stripped: &Path) -> Result<()> {
    let parts = Cache::from_env()?.parts();
    for name in ["containerd", "containerd-shim-runc-v2", "ctr", "runc"] {
        root.program(&format!("/bin/{name}"), &parts.program(name))?;
    }
    for name in ["bridge", "host-local", "loopback"] {
        root.program(&format!("/opt/cni/bin/{name}"), &parts.cni().join(name))?;
    }
    for name in IMAGES {
        root.copy(&format!("/images/{name}"), &parts.images_dir().join(name));
    }
    // Most of a program that was built for tests is debug information.
    let agent = stripped.join("ferrolet");
    let strip = Command::new("strip").arg("-o").arg(&agent).arg(program("ferrolet")?).status();
    ensure!(strip.context("run strip")?.success(), "strip failed");
    root.program("/bin/ferrolet", &agent)?;
    root.program("/bin/ip", &on_path("ip")?)?;

    let ipam = json!({ "type": "host-local", "ranges": [[{ "subnet": "10.88.0.0/24" }]] });
    let bridge = json!({ "type": "bridge", "bridge": "cni0", "isGateway": true, "ipam": ipam });
    let network = json!({ "cniVersion": "1.0.0", "name": "vm", "plugins": [bridge] });
    root.text("/etc/cni/10-vm.conflist", network.to_string());
    root.text("/etc/hosts", format!("127.0.0.1 localhost {NODE_NAME}\n"));
    root.text("/etc/resolv.conf", "");
    root.text("/etc/passwd", "root:x:0:0::/root:/bin/false\n");
    root.text("/etc/group", "root:x:0:\n");
    root.directory(MANIFESTS);
    Ok(())
}

/// The path of a program of the host.
fn on_path(name: &str) -> Result<std::path::PathBuf> {
    let places = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];
    let mut found = places.iter().map(|place| Path::new(place).join(name));
    found.find(|path| path.exists()).with_context(|| format!("{name} is not installed"))
}
