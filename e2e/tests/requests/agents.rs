//! Both agents side by side, each on an in-memory runtime that records its requests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use e2e::agent::Agent as Program;
use e2e::node::{PATIENCE, program};
use testbed::wait;
use testbed::{Command, Instance, Options, Process, Runtime};

use crate::requests::{self, Request};

/// The node's name for both, which is part of their pods' names and uids.
pub(crate) const NODE_NAME: &str = "cmp";

/// An event of a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Event {
    pub(crate) pod: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// An agent and its runtime.
#[derive(Debug)]
pub(crate) struct Agent {
    directory: PathBuf,
    process: Process,
    _runtime: Process,
    /// The field of its log with the message of an event.
    message: &'static str,
    /// The field of its log with the pod of an event.
    pod: &'static str,
}

/// Both agents.
#[derive(Debug)]
pub(crate) struct Both {
    instance: Instance,
    manifests: PathBuf,
    pub(crate) ours: Agent,
    pub(crate) upstream: Agent,
}

/// The sandboxes, containers and pulls of the manifests that the node admits. An image that is pulled once for all pods
/// may be pulled by any of them.
pub(crate) fn wanted_requests() -> Result<BTreeSet<String>> {
    let mut wanted = BTreeSet::new();
    for path in manifests()? {
        let refused = path.parent().is_some_and(|parent| parent.ends_with("refused"));
        for pod in podspec::decode(&fs::read(&path)?)?.pods {
            let name = format!("{}-{NODE_NAME}", pod.metadata.name.unwrap_or_default());
            if !refused {
                let spec = pod.spec.unwrap_or_default();
                let all = || spec.init_containers.iter().flatten().chain(&spec.containers);
                let each = all().map(|container| format!("{name}/{}", container.name));
                let pulled = all().filter(|one| one.image_pull_policy.as_deref() == Some("Always"));
                let pulled = pulled.filter_map(|one| one.image.as_ref());
                let pulls = pulled.map(|image| format!("{name} pulls {image}"));
                wanted.extend(each.chain(pulls).chain([name.clone()]));
            }
        }
    }
    Ok(wanted)
}

impl Both {
    pub(crate) fn start() -> Result<Self> {
        let options = Options { runtime: Runtime::None, ..Options::default() };
        let instance = Instance::start(&options).context("start an instance of the testbed")?;
        let manifests = instance.dir().join("manifests");
        copy_manifests(&manifests)?;
        let resolver =
            "nameserver 9.9.9.9\nsearch corp.example other.example.\noptions timeout:1\n";
        fs::write(instance.dir().join("resolv.conf"), resolver)?;
        let ours = {
            let agent = Setup::new(&instance, "ferrolet", &manifests)?;
            let command = Program::Ferrolet.command(&agent.directory)?;
            agent.start(command, "note", "pod")?
        };
        let upstream = {
            let agent = Setup::new(&instance, "kubelet", &manifests)?;
            let certificates = agent.directory.join("pki").display().to_string();
            let command = Program::Upstream.command(&agent.directory)?;
            let command = command.args(["--cert-dir", &certificates]);
            agent.start(command, "message", "object")?
        };
        Ok(Self { instance, manifests, ours, upstream })
    }

    /// The UIDs of the pods with a hosts file of upstream's.
    pub(crate) fn pod_uids(&self) -> Result<Vec<String>> {
        let pods = self.upstream.directory.join("root/pods");
        let mut uids = Vec::new();
        for entry in fs::read_dir(pods)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.join("etc-hosts").exists() {
                uids.push(name.to_owned());
            }
        }
        ensure!(uids.len() > 10, "only {} hosts files are compared", uids.len());
        Ok(uids)
    }

    pub(crate) fn stop(self) -> Result<()> {
        ensure!(self.manifests.exists(), "the manifests are missing");
        Ok(self.instance.stop()?)
    }
}

/// The manifests in the directory of this test.
fn manifests() -> Result<Vec<PathBuf>> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/requests/manifests");
    let mut paths = Vec::new();
    for directory in [all.clone(), all.join("refused")] {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "yaml") {
                paths.push(path);
            }
        }
    }
    Ok(paths)
}

fn copy_manifests(into: &Path) -> Result<()> {
    fs::create_dir_all(into)?;
    for (number, path) in manifests()?.into_iter().enumerate() {
        // Each agent generates the UID of a manifest without one in its own way.
        let uid = format!("uid: 00000000-0000-4000-8000-{number:012}");
        let text = fs::read_to_string(&path)?;
        let text = text
            .replacen("namespace: shop}", &format!("namespace: shop, {uid}}}"), 1)
            .replacen("\n  namespace: shop\n", &format!("\n  namespace: shop\n  {uid}\n"), 1);
        ensure!(text.contains(&uid), "{} has no line for a UID", path.display());
        fs::write(into.join(path.file_name().context("a file has a name")?), text)?;
    }
    Ok(())
}

/// The setup of an agent.
struct Setup<'a> {
    instance: &'a Instance,
    directory: PathBuf,
    runtime: Process,
    name: &'static str,
}

impl<'a> Setup<'a> {
    fn new(instance: &'a Instance, name: &'static str, manifests: &Path) -> Result<Self> {
        let directory = instance.dir().join(name);
        for below in ["requests", "root", "logs", "plugins"] {
            fs::create_dir_all(directory.join(below))?;
        }
        let socket = directory.join("cri.sock");
        let config = format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1\n\
             kind: KubeletConfiguration\n\
             staticPodPath: {manifests}\n\
             containerRuntimeEndpoint: unix://{socket}\n\
             podLogsDir: {directory}/logs\n\
             volumePluginDir: {directory}/plugins\n\
             resolvConf: {resolver}\n\
             clusterDNS: [10.96.0.10]\n\
             clusterDomain: cluster.local\n\
             failCgroupV1: false\n\
             failSwapOn: false\n\
             cgroupDriver: cgroupfs\n\
             # Where pods' cgroups go is for another test.\n\
             cgroupsPerQOS: false\n\
             enforceNodeAllocatable: []\n\
             evictionHard: {{}}\n\
             # Without those cgroups upstream does not survive a look at the size of a whole pod.\n\
             featureGates: {{InPlacePodLevelResourcesVerticalScaling: false}}\n\
             makeIPTablesUtilChains: false\n\
             authentication: {{anonymous: {{enabled: true}}, webhook: {{enabled: false}}}}\n\
             authorization: {{mode: AlwaysAllow}}\n\
             # Both agents would listen on the same port.\n\
             enableServer: false\n\
             healthzPort: 0\n",
            manifests = manifests.display(),
            socket = socket.display(),
            directory = directory.display(),
            resolver = instance.dir().join("resolv.conf").display(),
        );
        fs::write(directory.join("config.yaml"), config)?;
        let hollow = Command::new(program("hollow")?.display().to_string())
            .arg("--socket")
            .arg(socket.display().to_string())
            .arg("--requests")
            .arg(directory.join("requests").display().to_string())
            .args(["--image-user", "ferrolet.test/numbered:1=33"])
            .args(["--image-user", "ferrolet.test/named:1=www"]);
        let runtime = instance.spawn(&format!("hollow-{name}"), &hollow)?;
        wait::until("the runtime is ready", PATIENCE, || {
            Ok(if socket.exists() { Ok(()) } else { Err(runtime.log()) })
        })?;
        Ok(Self { instance, directory, runtime, name })
    }

    fn start(self, command: Command, message: &'static str, pod: &'static str) -> Result<Agent> {
        let command = command
            .arg("--config")
            .arg(self.directory.join("config.yaml").display().to_string())
            .args(["--hostname-override", NODE_NAME, "-v=3", "--node-ip"])
            .arg(self.instance.node_ip().to_string())
            .arg("--root-dir")
            .arg(self.directory.join("root").display().to_string());
        let process = self.instance.spawn(self.name, &command)?;
        let Self { directory, runtime, .. } = self;
        Ok(Agent { directory, process, _runtime: runtime, message, pod })
    }
}

impl Agent {
    /// Its runtime requests so far.
    pub(crate) fn requests(&self) -> Result<BTreeMap<String, Request>> {
        requests::read(&self.directory.join("requests"), &self.directory)
    }

    /// The hosts file of a pod.
    pub(crate) fn hosts_file(&self, uid: &str) -> String {
        let path = self.directory.join("root/pods").join(uid).join("etc-hosts");
        match fs::read_to_string(path) {
            Ok(content) => requests::without_address(&content),
            Err(error) => format!("no hosts file: {error}"),
        }
    }

    /// Its events of pods so far, with these reasons.
    pub(crate) fn events(&self, reasons: &[&str]) -> BTreeSet<Event> {
        let log = self.process.log();
        let events = log.lines().filter_map(|line| {
            let reason = logged(line, "reason")?;
            let message = logged(line, self.message)?;
            let known = reasons.contains(&reason.as_str());
            known.then_some(Event { pod: logged(line, self.pod)?, reason, message })
        });
        events.collect()
    }

    /// Waits for a value; a timeout error has the end of the agent's log.
    pub(crate) fn wait<T>(
        &self,
        what: &str,
        look: impl FnMut() -> Result<Result<T, String>>,
    ) -> Result<T> {
        wait::until(what, PATIENCE, look).map_err(|error| {
            let log = self.process.log();
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(40)..].join("\n  ");
            error.context(format!("the last lines of {}:\n  {tail}", self.directory.display()))
        })
    }
}

/// A value of a structured log line.
fn logged(line: &str, name: &str) -> Option<String> {
    let (_, rest) = line.split_once(&format!(" {name}="))?;
    if !rest.starts_with('"') {
        return rest.split(' ').next().map(ToOwned::to_owned);
    }
    let mut escaped = false;
    let end = rest[1..].find(|c| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    })?;
    serde_json::from_str(&rest[..end + 2]).ok()
}
