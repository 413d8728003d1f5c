//! One attempt of a probe.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod, Probe};
use model::ids::{ContainerId, PodName, PodUid};
use model::panics::{PanicStep, PanicSubject};
use model::ports::runtime::Code;
use model::probe::{ProbeKind, ProbeOutput, ProbeVerdict};
use podspec::view;
use tokio::time::{Instant, timeout};

use crate::decide::handler::ProbeRequest;
use crate::decide::shown::Class;
use crate::manager::ManagerParts;
use crate::metrics::Series;
use crate::state::WorkerId;

/// How often an attempt that ends without a verdict is repeated at once.
const TRIES: u32 = 3;

/// How long the runtime may take to kill a command whose time is over. Without a response by then, the call is cancelled.
const KILL_TIME: Duration = Duration::from_secs(5);

/// The bytes of a command's output that are kept.
const LONGEST_OUTPUT: usize = 10 * 1024;

/// The probe of a container.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) uid: PodUid,
    pub(crate) pod_name: PodName,
    pub(crate) pod: Arc<Pod>,
    /// Whether the container is an init container: a sidecar.
    pub(crate) is_init: bool,
    /// Its index in its list.
    pub(crate) index: usize,
    pub(crate) kind: ProbeKind,
    /// The part of the pod that events are about.
    pub(crate) field_path: Arc<str>,
}

impl Target {
    pub(crate) fn container(&self) -> &Container {
        let (pod, index) = (&self.pod, self.index);
        if self.is_init {
            &view::init_containers(pod)[index]
        } else {
            &view::containers(pod)[index]
        }
    }

    pub(crate) fn probe(&self) -> &Probe {
        probe(self.container(), self.kind).expect("the target was made of this probe")
    }

    pub(crate) fn series(&self) -> Series<'_> {
        Series {
            kind: self.kind,
            container: &self.container().name,
            pod: &self.pod_name.name,
            namespace: &self.pod_name.namespace,
            pod_uid: self.uid.as_str(),
        }
    }
}

/// The probe of a kind, if a container has one.
pub(crate) fn probe(container: &Container, kind: ProbeKind) -> Option<&Probe> {
    match kind {
        ProbeKind::Startup => container.startup_probe.as_ref(),
        ProbeKind::Readiness => container.readiness_probe.as_ref(),
        ProbeKind::Liveness => container.liveness_probe.as_ref(),
    }
}

/// An attempt that starts now.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) worker: WorkerId,
    pub(crate) class: Class,
    pub(crate) target: Arc<Target>,
    pub(crate) instance: ContainerId,
    /// The request, or why there is none.
    pub(crate) request: Result<ProbeRequest, String>,
    pub(crate) timeout: Duration,
    /// When it was due.
    pub(crate) due: Instant,
}

/// An attempt that has ended.
#[derive(Debug)]
pub(crate) struct AttemptResult {
    pub(crate) worker: WorkerId,
    pub(crate) class: Class,
    pub(crate) instance: ContainerId,
    /// Its result; an error is not a verdict.
    pub(crate) returned: Result<ProbeOutput, String>,
    pub(crate) took: Duration,
    pub(crate) due: Instant,
}

impl Attempt {
    /// Probes. Never panics.
    pub(crate) async fn run(self, parts: &ManagerParts) -> AttemptResult {
        let began = Instant::now();
        let of = PanicSubject::Pod(&self.target.uid, Some(&self.target.pod_name));
        let probed = parts.panics.catch_async(PanicStep::Probes, of, self.probe(parts)).await;
        let returned = probed.unwrap_or_else(|panic| Err(panic.to_string()));
        let Self { worker, class, instance, due, .. } = self;
        AttemptResult { worker, class, instance, returned, took: began.elapsed(), due }
    }

    async fn probe(&self, parts: &ManagerParts) -> Result<ProbeOutput, String> {
        let request = self.request.as_ref().map_err(Clone::clone)?;
        let mut tries = 1;
        loop {
            let returned = match request {
                ProbeRequest::Exec(command) => self.exec(parts, command).await,
                ProbeRequest::Network(probe) => parts.network.probe(probe, self.timeout).await,
            };
            if returned.is_ok() || tries == TRIES {
                return returned;
            }
            tries += 1;
        }
    }

    async fn exec(&self, parts: &ManagerParts, command: &[String]) -> Result<ProbeOutput, String> {
        let exec = parts.containers.exec_sync(&self.instance, command, Some(self.timeout));
        let Ok(returned) = timeout(self.timeout + KILL_TIME, exec).await else {
            return Ok(self.timed_out(command));
        };
        match returned {
            Ok(output) => {
                let bytes = output.stdout.iter().chain(&output.stderr).take(LONGEST_OUTPUT);
                let bytes: Vec<u8> = bytes.copied().collect();
                let verdict = match output.exit_code {
                    0 => ProbeVerdict::Success,
                    _ => ProbeVerdict::Failure,
                };
                Ok(ProbeOutput { verdict, output: String::from_utf8_lossy(&bytes).into_owned() })
            }
            Err(error) if error.code == Code::DeadlineExceeded => Ok(self.timed_out(command)),
            Err(error) => Err(error.rpc_text()),
        }
    }

    fn timed_out(&self, command: &[String]) -> ProbeOutput {
        let (command, seconds) = (command.join(" "), self.timeout.as_secs());
        let output = format!("command timed out: \"{command}\" timed out after {seconds}s");
        ProbeOutput { verdict: ProbeVerdict::Failure, output }
    }
}
