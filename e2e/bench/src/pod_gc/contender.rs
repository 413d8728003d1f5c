//! A controller inside the instance.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use testbed::{Command, Instance, Process, Signal};

use crate::agent;
use crate::results::Agent;
use crate::usage;

/// How long a controller may take to end.
const END: Duration = Duration::from_secs(30);

/// The measured programs.
#[derive(Debug, Clone)]
pub struct Programs {
    ferrolet: PathBuf,
    controller_manager: PathBuf,
}

impl Programs {
    /// Ours from cargo's directory, the other from the testbed's parts.
    pub fn built_in(directory: &Path) -> Result<Self> {
        let parts = testbed::Cache::from_env()?.parts();
        let programs = Self {
            ferrolet: directory.join("ferrolet"),
            controller_manager: parts.program("kube-controller-manager"),
        };
        agent::are_there([&programs.ferrolet, &programs.controller_manager])?;
        Ok(programs)
    }

    /// The version of a controller, in one line.
    pub(super) fn version(&self, agent: Agent) -> Result<String> {
        let (program, args) = match agent {
            Agent::Ferrolet => (&self.ferrolet, ["pod-gc", "--version"].as_slice()),
            Agent::Upstream => (&self.controller_manager, ["--version"].as_slice()),
        };
        agent::version(program, args)
    }
}

/// A running controller.
#[derive(Debug)]
pub(super) struct Controller {
    process: Process,
    /// The pid of its process on the host.
    pub(super) pid: i32,
}

impl Controller {
    /// Starts a controller with these flags, appended to the common flags.
    pub(super) fn start(
        instance: &Instance,
        programs: &Programs,
        agent: Agent,
        kubeconfig: &Path,
        flags: &[&str],
    ) -> Result<Self> {
        let text = |path: &Path| path.display().to_string();
        let command = match agent {
            Agent::Ferrolet => Command::new(text(&programs.ferrolet))
                .arg("pod-gc")
                .arg(format!("--state-dir={}", instance.dir().join("pod-gc").display())),
            Agent::Upstream => Command::new(text(&programs.controller_manager)),
        };
        let command = command
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .args(["--controllers=pod-garbage-collector-controller", "--leader-elect=false"])
            .args(flags.iter().copied());
        let process = instance.spawn(&format!("pod-gc-{}", agent.name()), &command);
        let process = process.with_context(|| format!("start {}", agent.name()))?;
        let pid = usage::host_pid(instance.slot(), process.pid())?;
        Ok(Self { process, pid })
    }

    /// Ends it.
    pub(super) fn stop(self) -> Result<()> {
        if !self.process.is_alive().context("measure a controller")? {
            bail!("a controller ended by itself:\n{}", self.process.log());
        }
        self.process.signal(Signal::Term).context("end a controller")?;
        self.process.wait(END).context("wait for a controller to end")?;
        Ok(())
    }
}
