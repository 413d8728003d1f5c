//! A control plane inside an instance: etcd and the API server, and the controller manager and the scheduler where a
//! test needs them.
//!
//! Certificates are made for each control plane. The API server listens on the node's address, so the holder reaches it
//! from the host, by a kubeconfig that works inside and outside.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Output;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;

use crate::deadline::Deadline;
use crate::error::{AtPath, PathError};
use crate::paths::{InstanceDir, Parts};
use crate::process::{Command, Init, Process, ProcessError};
use crate::protocol::Signal;

mod component;
mod health;
mod pki;

pub use component::Component;
pub use pki::{PkiError, User};

use component::{API_SERVER_PORT, API_SERVICE, Flags, SERVER};
use pki::Pki;

/// How long a component may take to become ready: the API server needs many seconds on a slow machine.
const START: Duration = Duration::from_mins(3);
/// How long a component may take to stop on SIGTERM.
const STOP: Duration = Duration::from_mins(2);
const KUBECTL: Duration = Duration::from_mins(1);
/// How many lines of a component's log an error has.
const LOG_LINES: usize = 30;

/// Why a control plane does not run, or not as requested.
#[derive(Debug, thiserror::Error)]
pub enum ControlPlaneError {
    #[error("its certificates are missing")]
    Pki(#[source] PkiError),
    #[error("cannot start {program}")]
    Start {
        program: &'static str,
        #[source]
        source: ProcessError,
    },
    #[error("{program} already runs")]
    Running { program: &'static str },
    #[error("cannot check {program}")]
    Ask {
        program: &'static str,
        #[source]
        source: ProcessError,
    },
    #[error("{program} ended before it was ready; the end of its log:\n{log}")]
    Ended { program: &'static str, log: String },
    #[error("{program} was not ready in {} s ({answer}); the end of its log:\n{log}", START.as_secs())]
    Silent { program: &'static str, answer: io::Error, log: String },
    #[error("cannot empty etcd")]
    Wipe(#[source] PathError),
    #[error("cannot run kubectl")]
    Kubectl(#[source] ProcessError),
}

/// How to start a control plane. Flags are appended to the default ones.
#[derive(Debug, Clone, Default)]
pub struct ControlPlaneOptions {
    /// Flags of the API server.
    pub api_server: Vec<String>,
    /// The flags of the controller manager; `None` starts none.
    pub controller_manager: Option<Vec<String>>,
    /// The flags of the scheduler; `None` starts none.
    pub scheduler: Option<Vec<String>>,
}

/// The parts of the instance that a control plane needs.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) dir: InstanceDir,
    pub(crate) parts: Parts,
    pub(crate) init: Init,
    pub(crate) address: Ipv4Addr,
}

/// A control plane in an instance. It ends with the instance; dropping this leaves it running.
#[derive(Debug)]
pub struct ControlPlane {
    place: Place,
    pki: Pki,
    /// For health checks of the components.
    admin: Arc<ClientConfig>,
    admin_kubeconfig: PathBuf,
    running: BTreeMap<Component, Process>,
}

impl ControlPlane {
    pub(crate) fn start(
        place: Place,
        options: &ControlPlaneOptions,
    ) -> Result<Self, ControlPlaneError> {
        let mut control_plane = Self::make(place).map_err(ControlPlaneError::Pki)?;
        control_plane.start_component(Component::Etcd, &[])?;
        control_plane.start_component(Component::ApiServer, &options.api_server)?;
        let others = [
            (Component::ControllerManager, &options.controller_manager),
            (Component::Scheduler, &options.scheduler),
        ];
        for (component, flags) in others {
            if let Some(flags) = flags {
                control_plane.start_component(component, flags)?;
            }
        }
        Ok(control_plane)
    }

    fn make(place: Place) -> Result<Self, PkiError> {
        let pki = Pki::make(place.dir.control_plane())?;
        let address = place.address.to_string();
        let hosts = [
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "127.0.0.1",
            API_SERVICE,
            &address,
        ];
        pki.write_server(SERVER, &hosts)?;
        let admin = pki.client_config(&User::admin())?;
        let admin_kubeconfig = pki.write_kubeconfig(&User::admin(), &server(place.address))?;
        Ok(Self { place, pki, admin, admin_kubeconfig, running: BTreeMap::new() })
    }

    /// The address of the API server, from the host and from inside.
    pub fn server(&self) -> String {
        server(self.place.address)
    }

    /// An administrator's kubeconfig, for programs inside and outside.
    pub fn admin_kubeconfig(&self) -> &PathBuf {
        &self.admin_kubeconfig
    }

    /// Makes a certificate for a user, and a kubeconfig with it, for programs inside and outside.
    pub fn kubeconfig(&self, user: &User) -> Result<PathBuf, ControlPlaneError> {
        self.pki.write_kubeconfig(user, &self.server()).map_err(ControlPlaneError::Pki)
    }

    /// The running components.
    pub fn started(&self) -> BTreeSet<Component> {
        self.running.keys().copied().collect()
    }

    /// Starts a component with these flags after its default ones, and waits until it is ready.
    pub fn start_component(
        &mut self,
        component: Component,
        flags: &[String],
    ) -> Result<(), ControlPlaneError> {
        let program = component.program();
        if self.running.contains_key(&component) {
            return Err(ControlPlaneError::Running { program });
        }
        let fixed = Flags {
            pki: &self.pki,
            address: self.place.address,
            data: &self.data(),
            server: &self.server(),
        };
        let fixed = fixed.of(component).map_err(ControlPlaneError::Pki)?;
        let command = Command::new(self.place.parts.program(program).display().to_string())
            .args(fixed)
            .args(flags);
        let log = self.place.dir.logs().join(format!("{program}.log"));
        let process = self.place.init.spawn(&command, &log);
        let process = process.map_err(|source| ControlPlaneError::Start { program, source })?;
        let process = self.running.entry(component).insert_entry(process);
        Self::wait_ready(component, process.get(), self.place.address, &self.admin)
    }

    fn wait_ready(
        component: Component,
        process: &Process,
        address: Ipv4Addr,
        admin: &Arc<ClientConfig>,
    ) -> Result<(), ControlPlaneError> {
        let program = component.program();
        let (address, path) = component.health(address);
        let tls = component.speaks_tls().then_some(admin);
        let mut answer = io::Error::other("it got no request");
        let ready = Deadline::after(START).poll(|| match process.is_alive() {
            Err(source) => Some(Err(ControlPlaneError::Ask { program, source })),
            Ok(false) => Some(Err(ControlPlaneError::Ended { program, log: tail(process) })),
            Ok(true) => match health::check_health(address, path, tls) {
                Ok(()) => Some(Ok(())),
                Err(error) => {
                    answer = error;
                    None
                }
            },
        });
        let silent = || ControlPlaneError::Silent { program, answer, log: tail(process) };
        ready.unwrap_or_else(|| Err(silent()))
    }

    /// Stops a component with SIGTERM, and waits for its end. The API server first completes its requests.
    pub fn stop_component(&mut self, component: Component) -> Result<(), ControlPlaneError> {
        self.end(component, Signal::Term)
    }

    /// Kills a component with SIGKILL.
    pub fn kill_component(&mut self, component: Component) -> Result<(), ControlPlaneError> {
        self.end(component, Signal::Kill)
    }

    /// A component that does not run is already stopped.
    fn end(&mut self, component: Component, signal: Signal) -> Result<(), ControlPlaneError> {
        let Some(process) = self.running.remove(&component) else { return Ok(()) };
        let check_health = || {
            if process.is_alive()? {
                process.signal(signal)?;
                process.wait(STOP)?;
            }
            Ok(())
        };
        check_health()
            .map_err(|source| ControlPlaneError::Ask { program: component.program(), source })
    }

    /// Removes all data of etcd. It must not run.
    pub fn wipe_etcd(&mut self) -> Result<(), ControlPlaneError> {
        if self.running.contains_key(&Component::Etcd) {
            return Err(ControlPlaneError::Running { program: Component::Etcd.program() });
        }
        let data = self.data();
        fs::remove_dir_all(&data).at("remove", &data).map_err(ControlPlaneError::Wipe)
    }

    fn data(&self) -> PathBuf {
        self.place.dir.control_plane().join("etcd")
    }

    /// The output of a component so far; empty unless it runs.
    pub fn log(&self, component: Component) -> String {
        self.running.get(&component).map(Process::log).unwrap_or_default()
    }

    /// Runs kubectl inside the instance, as an administrator.
    pub fn kubectl(&self, args: &[&str]) -> Result<Output, ControlPlaneError> {
        let command = Command::new(self.place.parts.program("kubectl").display().to_string())
            .arg("--kubeconfig")
            .arg(self.admin_kubeconfig.display().to_string())
            .args(args.iter().copied());
        self.place.init.run(&command, KUBECTL).map_err(ControlPlaneError::Kubectl)
    }
}

fn server(address: Ipv4Addr) -> String {
    format!("https://{address}:{API_SERVER_PORT}")
}

fn tail(process: &Process) -> String {
    let log = process.log();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}
