//! A node: an instance of the testbed with the agent in it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cri::{CriRuntime, Deadlines, Endpoint};
use testbed::wait;
use testbed::{Command, Instance, Options, Process, Signal};

use crate::agent::Agent;
use crate::containerd::{self, RuntimeContainer};
use crate::cri_proxy::CriProxy;

/// The timeout of short operations: the machines are shared and slow at times.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// The name of the node, which is part of the names of its pods.
pub const NODE_NAME: &str = "e2e";

/// A node with its manifests directory; the agent is started by the test.
#[derive(Debug)]
pub struct Node {
    instance: Instance,
    directory: PathBuf,
    /// The socket of the agent's runtime.
    runtime_socket: PathBuf,
    agent: Option<Process>,
    /// The agent's program.
    kind: Agent,
    /// How often the agent was started: each start has its own log.
    starts: u32,
}

impl Node {
    /// A node without pods and without an agent.
    pub fn start() -> Result<Self> {
        Self::start_with(&Options::default())
    }

    /// Like `start`, with other options for the runtime.
    pub fn start_with(options: &Options) -> Result<Self> {
        let instance = Instance::start(options).context("start an instance of the testbed")?;
        let directory = instance.dir().join("node");
        fs::create_dir_all(directory.join("manifests")).context("make the manifests directory")?;
        let runtime_socket = instance.containerd_socket();
        let (kind, starts) = (Agent::default(), 0);
        let node = Self { instance, directory, runtime_socket, agent: None, kind, starts };
        node.configure("")?;
        Ok(node)
    }

    /// The instance of the testbed.
    pub fn instance(&self) -> &Instance {
        &self.instance
    }

    /// Puts a proxy before the runtime; agents configured later call through it.
    pub fn put_proxy_before_runtime(&mut self) -> Result<CriProxy> {
        let proxy = CriProxy::start(&self.instance)?;
        proxy.socket().clone_into(&mut self.runtime_socket);
        Ok(proxy)
    }

    /// Writes the agent's configuration; `more` is appended.
    pub fn configure(&self, more: &str) -> Result<()> {
        // The disk of the machine may be nearly full.
        let thresholds = "evictionHard: {memory.available: 100Mi, nodefs.available: 1%}\n";
        let thresholds = if more.contains("evictionHard") { "" } else { thresholds };
        let config = format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1\n\
             kind: KubeletConfiguration\n\
             staticPodPath: {manifests}\n\
             containerRuntimeEndpoint: unix://{socket}\n\
             fileCheckFrequency: 100ms\n\
             enableServer: false\n\
             failCgroupV1: false\n\
             failSwapOn: false\n\
             {thresholds}{more}\n",
            manifests = self.directory.join("manifests").display(),
            socket = self.runtime_socket.display(),
        );
        fs::write(self.directory.join("config.yaml"), config).context("write the configuration")
    }

    /// Writes a manifest atomically.
    pub fn write_manifest(&self, name: &str, text: &str) -> Result<()> {
        let temporary = self.directory.join("manifest.tmp");
        fs::write(&temporary, text).context("write a manifest")?;
        fs::rename(temporary, self.manifest(name)).context("put a manifest in place")
    }

    /// Removes a manifest.
    pub fn remove_manifest(&self, name: &str) -> Result<()> {
        fs::remove_file(self.manifest(name)).context("remove a manifest")
    }

    fn manifest(&self, name: &str) -> PathBuf {
        self.directory.join("manifests").join(name)
    }

    /// Uses another program as the agent, from the next start on.
    #[must_use]
    pub fn with_agent(self, kind: Agent) -> Self {
        Self { kind, ..self }
    }

    /// Like `with_agent`, for a node that exists: the next agent finds its state.
    pub fn set_agent(&mut self, kind: Agent) {
        self.kind = kind;
    }

    /// The name of the program that is the agent.
    pub fn agent_name(&self) -> &'static str {
        self.kind.name()
    }

    /// Whether it is our own.
    pub fn agent_is_ours(&self) -> bool {
        self.kind == Agent::Ferrolet
    }

    /// Starts the agent inside the instance.
    pub fn start_agent(&mut self) -> Result<()> {
        self.spawn_agent(&[], &[])
    }

    /// Like `start_agent`, with additional flags.
    pub fn start_agent_with_flags(&mut self, flags: &[&str]) -> Result<()> {
        self.spawn_agent(flags, &[])
    }

    /// Like `start_agent`, with these environment variables.
    pub fn start_agent_with(&mut self, environment: &[(&str, String)]) -> Result<()> {
        self.spawn_agent(&[], environment)
    }

    fn spawn_agent(&mut self, flags: &[&str], environment: &[(&str, String)]) -> Result<()> {
        let command = self
            .kind
            .command(&self.directory)?
            .args(["--hostname-override", NODE_NAME, "-v=4", "--config"])
            .arg(self.directory.join("config.yaml").display().to_string())
            .arg("--root-dir")
            .arg(self.root_dir().display().to_string())
            .args(flags.iter().copied());
        let command = environment
            .iter()
            .fold(command, |command, (name, value)| command.env(*name, value.clone()));
        self.starts += 1;
        let name = format!("{}-{}", self.kind.name(), self.starts);
        self.agent = Some(self.instance.spawn(&name, &command).context("start the agent")?);
        Ok(())
    }

    fn agent(&self) -> Result<&Process> {
        self.agent.as_ref().context("the agent was not started")
    }

    /// Kills the agent with SIGKILL.
    pub fn kill_agent(&mut self) -> Result<()> {
        let agent = self.agent.take().context("the agent was not started")?;
        agent.kill()?;
        agent.wait(PATIENCE)?;
        Ok(())
    }

    /// Ends the agent with SIGTERM and waits for it.
    pub fn stop_agent(&mut self) -> Result<ExitStatus> {
        let agent = self.agent.take().context("the agent was not started")?;
        agent.signal(Signal::Term)?;
        Ok(agent.wait(PATIENCE)?)
    }

    /// Waits until the agent has ended by itself.
    pub fn wait_agent_ends(&mut self) -> Result<ExitStatus> {
        let agent = self.agent.take().context("the agent was not started")?;
        Ok(agent.wait(PATIENCE)?)
    }

    /// The agent's log since its last start.
    pub fn agent_log(&self) -> String {
        self.agent.as_ref().map(Process::log).unwrap_or_default()
    }

    /// Waits until the agent's log has a line with all the given parts.
    pub fn wait_for_log(&self, parts: &[&str]) -> Result<String> {
        let agent = self.agent()?;
        self.explained(wait::until(&format!("log line with {parts:?}"), PATIENCE, || {
            let log = agent.log();
            let line = log.lines().find(|line| parts.iter().all(|part| line.contains(part)));
            Ok(line.map(ToOwned::to_owned).ok_or_else(|| "no such line".to_owned()))
        }))
    }

    /// Waits until the containers of a pod, without sandboxes, are as `wanted` says.
    pub fn wait_for_containers<T>(
        &self,
        pod: &str,
        what: &str,
        mut wanted: impl FnMut(&[RuntimeContainer]) -> Option<T>,
    ) -> Result<T> {
        let name = format!("{pod}-{NODE_NAME}");
        self.explained(wait::until(what, PATIENCE, || {
            let mut of_pod = containerd::containers(&self.instance)?;
            of_pod.retain(|container| container.pod == name && !container.name.is_empty());
            Ok(wanted(&of_pod).ok_or_else(|| format!("{of_pod:?}")))
        }))
    }

    /// Waits until exactly one container of a pod runs, and returns it.
    pub fn wait_running(&self, pod: &str) -> Result<RuntimeContainer> {
        self.wait_for_containers(pod, &format!("one container of {pod} runs"), one_running)
    }

    /// Waits until the container with this name runs, for pods with init containers.
    pub fn wait_container_running(&self, pod: &str, name: &str) -> Result<RuntimeContainer> {
        self.wait_for_containers(pod, &format!("container {name} of {pod} runs"), |all| {
            all.iter().find(|one| one.name == name && one.state == "RUNNING").cloned()
        })
    }

    /// Stops the runtime and starts it again.
    pub fn restart_runtime(&mut self) -> Result<()> {
        Ok(self.instance.restart_containerd()?)
    }

    /// Stops the runtime; containers keep running.
    pub fn stop_runtime(&mut self) -> Result<()> {
        Ok(self.instance.stop_containerd()?)
    }

    /// Starts the runtime after it was stopped.
    pub fn start_runtime(&mut self) -> Result<()> {
        Ok(self.instance.start_containerd()?)
    }

    /// The agent's root directory.
    pub fn root_dir(&self) -> PathBuf {
        self.directory.join("root")
    }

    /// Whether the agent runs.
    pub fn agent_is_alive(&self) -> Result<bool> {
        Ok(self.agent()?.is_alive()?)
    }

    /// Runs a command of the agent's program on this node and returns its output.
    pub fn ferrolet(&self, args: &[&str]) -> Result<String> {
        let program = program("ferrolet")?.display().to_string();
        let root = self.root_dir().display().to_string();
        let args: Vec<&str> = args.iter().copied().chain(["--root-dir", &root]).collect();
        self.run(&program, &args)
    }

    /// The endpoint of the container runtime in the agent's configuration.
    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.runtime_socket.display())
    }

    /// The container runtime itself, without the proxy that may stand between it and the agent.
    pub fn runtime(&self) -> Result<CriRuntime> {
        let socket = self.instance.containerd_socket();
        let endpoint = Endpoint::parse(&format!("unix://{}", socket.display()))?;
        let deadlines = Deadlines { request: Duration::from_secs(30), ..Deadlines::default() };
        Ok(CriRuntime::new(&endpoint, &endpoint, deadlines))
    }

    /// Calls the runtime directly.
    pub fn with_runtime<T>(&self, action: impl AsyncFnOnce(CriRuntime) -> Result<T>) -> Result<T> {
        let calls = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let calls = calls.context("start a runtime for calls")?;
        calls.block_on(async { action(self.runtime()?).await })
    }

    /// Removes all pods of the runtime; the agent must not run.
    pub fn clean(&self) -> Result<String> {
        let config = self.directory.join("config.yaml").display().to_string();
        self.ferrolet(&["node", "clean", "--config", &config])
    }

    /// Runs a command until its output has a text. An agent that was just started may not answer yet.
    pub fn wait_for_answer(&self, args: &[&str], part: &str) -> Result<String> {
        self.explained(wait::until(&format!("{args:?} says {part:?}"), PATIENCE, || {
            Ok(match self.ferrolet(args) {
                Ok(answer) if answer.contains(part) => Ok(answer),
                Ok(answer) => Err(answer),
                Err(error) => Err(format!("{error:#}")),
            })
        }))
    }

    /// Runs a program inside the instance and returns its output.
    pub fn run(&self, program: &str, args: &[&str]) -> Result<String> {
        let output = self.instance.run(&Command::new(program).args(args.iter().copied()))?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{program} {args:?}: {}: {stderr}", output.status);
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Reads a file inside the instance without starting a process; see [`Instance::read_file`].
    pub fn read(&self, path: &str) -> Result<String> {
        let content = self.instance.read_file(path).with_context(|| format!("read {path}"))?;
        Ok(String::from_utf8_lossy(&content).into_owned())
    }

    /// Whether a path leads to a file inside the instance.
    pub fn exists(&self, path: &str) -> Result<bool> {
        self.instance.path_exists(path).with_context(|| format!("look for {path}"))
    }

    /// The sorted names in a directory inside the instance; none if there is no such directory.
    pub fn names_in(&self, directory: &str) -> Result<Vec<String>> {
        self.instance.names_in(directory).with_context(|| format!("list {directory}"))
    }

    /// Stops the node. Fails if anything is left behind.
    pub fn stop(self) -> Result<()> {
        Ok(self.instance.stop()?)
    }

    /// Adds the end of the agent's log to an error.
    pub fn explained<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| {
            let log = self.agent_log();
            let lines: Vec<&str> = log.lines().collect();
            let mut tail = String::new();
            for line in &lines[lines.len().saturating_sub(25)..] {
                writeln!(tail, "  {line}").expect("writing to a string does not fail");
            }
            error.context(format!("the agent's last log lines:\n{tail}"))
        })
    }
}

/// The running container, if there is exactly one.
pub fn one_running(containers: &[RuntimeContainer]) -> Option<RuntimeContainer> {
    let mut running = containers.iter().filter(|container| container.state == "RUNNING");
    let first = running.next()?;
    running.next().is_none().then(|| first.clone())
}

/// A program that cargo built with this test.
pub fn program(name: &str) -> Result<PathBuf> {
    let test = std::env::current_exe().context("find this test's program")?;
    let built =
        test.parent().and_then(Path::parent).context("find the build directory")?.join(name);
    ensure!(built.exists(), "{} is missing: run `make test`", built.display());
    Ok(built)
}
