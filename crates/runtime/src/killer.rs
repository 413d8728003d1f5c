//! Ending what runs of a pod.

use std::borrow::Cow;
use std::future::Future;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use k8s_openapi::api::core::v1::{Container, Lifecycle, LifecycleHandler, Pod, PodSpec};
use model::chain::Chain;
use model::ids::{ContainerId, PodName, PodUid};
use model::labels;
use model::observed::{ContainerStatus, PodStatus};
use model::ports::addresses::HostIps;
use model::ports::events::EventType::{Normal, Warning};
use model::ports::events::Events;
use model::ports::incidents::{Incident, IncidentKind, IncidentRecord};
use model::ports::runtime::{ContainerService, SandboxService};
use podspec::view;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::decide::{
    ContainerKill, ContainerReset, GraceBudget, KillCause, KillReason, PodEnd, sleeps, stop_grace,
    termination_order,
};
use crate::error::SyncError;
use crate::hooks::{HookRunner, Hooked};
use crate::killed_instances::KilledInstances;
use crate::report::{Reporter, role};

/// How long a hook that has outlived its container may take to say what became of it.
const LAST_MOMENT: Duration = Duration::from_millis(500);

/// The rule of kills so that all containers of a pod restart.
const RESTART_ALL: &str = "restart-all-containers";

/// The rule of kills after a failed postStart hook.
const POST_START_FAILED: &str = "post-start-hook-failed";

/// A container that ends.
struct Doomed<'a> {
    pod: &'a Pod,
    id: &'a ContainerId,
    container: Cow<'a, Container>,
    ips: &'a [IpAddr],
    why: Option<KillReason>,
    /// What whoever kills it asks for.
    grace: Option<Duration>,
    /// What people are told, if anything.
    message: Option<String>,
    /// Why it ends, for the journal.
    cause: KillCause,
}

impl<'a> Doomed<'a> {
    fn of(
        pod: &'a Pod,
        status: &'a PodStatus,
        instance: &'a ContainerStatus,
        cause: KillCause,
    ) -> Self {
        Self {
            pod,
            id: &instance.id,
            container: container(pod, instance),
            ips: &status.ips,
            why: None,
            grace: None,
            message: Some(format!("Stopping container {}", instance.name)),
            cause,
        }
    }

    fn incident(&self, grace: Duration) -> Incident {
        Incident {
            kind: IncidentKind::Kill,
            pod: view::pod_name(self.pod),
            uid: view::uid(self.pod),
            container: self.container.name.clone(),
            id: self.id.to_string(),
            rule: self.cause.rule.into(),
            detail: self.cause.detail_with(grace),
            at: None,
        }
    }

    fn pre_stop(&self) -> Option<&LifecycleHandler> {
        self.container.lifecycle.as_ref()?.pre_stop.as_ref()
    }
}

/// The container of the specification, or what is written on the instance when the specification is
/// not known any more.
fn container<'a>(pod: &'a Pod, instance: &ContainerStatus) -> Cow<'a, Container> {
    let mut known = view::init_containers(pod).iter().chain(view::containers(pod));
    if let Some(container) = known.find(|container| *container.name == *instance.name) {
        return Cow::Borrowed(container);
    }
    let written = |name| instance.annotations.get(name).map_or("null", String::as_str);
    let pre_stop: Option<LifecycleHandler> =
        serde_json::from_str(written(labels::CONTAINER_PRE_STOP_HANDLER)).unwrap_or_default();
    Cow::Owned(Container {
        name: instance.name.to_string(),
        lifecycle: pre_stop
            .map(|handler| Lifecycle { pre_stop: Some(handler), ..Lifecycle::default() }),
        ports: serde_json::from_str(written(labels::CONTAINER_PORTS)).unwrap_or_default(),
        ..Container::default()
    })
}

/// Ends pods and containers.
#[derive(Debug)]
pub struct PodKiller {
    pub(crate) sandboxes: Arc<dyn SandboxService>,
    pub(crate) containers: Arc<dyn ContainerService>,
    /// Runs hooks before containers end.
    pub(crate) hooks: Arc<HookRunner>,
    pub(crate) host_ips: Arc<dyn HostIps>,
    pub(crate) events: Arc<dyn Events>,
    pub(crate) incidents: Arc<dyn IncidentRecord>,
    /// Why containers were killed.
    pub(crate) killed: KilledInstances,
}

impl PodKiller {
    /// Ends everything of a pod that may run: its containers side by side, sidecars after those they
    /// serve; then its sandboxes, so that the network is there until the last process is gone. `grace`
    /// replaces the grace period of the pod. `rule` is recorded.
    pub async fn pod(
        &self,
        pod: &Pod,
        status: &PodStatus,
        grace: Option<Duration>,
        rule: &'static str,
    ) -> Result<(), SyncError> {
        // As upstream, a container that could not be stopped does not spare the sandbox: stopping that
        // ends whatever is left in it. Failures are told all the same, so that somebody looks.
        let mut failures = self.kill_containers(pod, status, grace, rule).await;
        for sandbox in &status.sandboxes {
            info!(uid = %status.uid, pod = %sandbox.pod, sandbox = %sandbox.id, "stopping sandbox");
            match self.sandboxes.stop_pod_sandbox(&sandbox.id).await {
                Err(source) if !source.is_not_found() => {
                    failures.push(SyncError::StopSandbox { id: sandbox.id.to_string(), source });
                }
                _ => {}
            }
        }
        match failures.len() {
            0 | 1 => failures.pop().map_or(Ok(()), Err),
            _ => Err(SyncError::KillPod(failures)),
        }
    }

    async fn kill_containers(
        &self,
        pod: &Pod,
        status: &PodStatus,
        grace: Option<Duration>,
        rule: &'static str,
    ) -> Vec<SyncError> {
        let running: Vec<&ContainerStatus> = status.maybe_running().collect();
        let names: Vec<&str> = running.iter().map(|instance| &*instance.name).collect();
        let order = termination_order(pod, &names);
        // One for each, cancelled when it has ended.
        let ended: Vec<CancellationToken> = running.iter().map(|_| <_>::default()).collect();
        let kills = running.iter().enumerate().map(|(place, instance)| {
            let (order, ended) = (&order[place], &ended);
            async move {
                let turn = async {
                    join_all(order.iter().map(|before| ended[*before].cancelled())).await;
                };
                let cause = KillCause::of(rule);
                let doomed = Doomed { grace, ..Doomed::of(pod, status, instance, cause) };
                let killed = self.kill_in_turn(&doomed, turn).await;
                if killed.is_ok() {
                    ended[place].cancel();
                }
                killed
            }
        });
        join_all(kills).await.into_iter().filter_map(Result::err).collect()
    }

    /// Ends one container, so that it can be started anew.
    pub(crate) async fn container(
        &self,
        pod: &Pod,
        status: &PodStatus,
        kill: &ContainerKill,
    ) -> Result<(), SyncError> {
        let mut instances = status.containers.iter();
        let Some(instance) = instances.find(|one| one.id == kill.id) else { return Ok(()) };
        let init = role(pod, &kill.name).is_init();
        let doomed = Doomed {
            why: Some(kill.why),
            message: Some(kill.message(init)),
            ..Doomed::of(pod, status, instance, kill.cause())
        };
        self.killed.add(status, kill);
        self.kill_in_turn(&doomed, std::future::ready(())).await
    }

    /// Ends an instance without grace, because all start over.
    pub(crate) async fn for_reset(
        &self,
        pod: &Pod,
        status: &PodStatus,
        reset: &ContainerReset,
    ) -> Result<(), SyncError> {
        let mut instances = status.containers.iter();
        let Some(instance) = instances.find(|one| one.id == reset.id) else { return Ok(()) };
        let doomed = Doomed {
            grace: Some(Duration::ZERO),
            message: Some("killing".to_owned()),
            ..Doomed::of(pod, status, instance, KillCause::of(RESTART_ALL))
        };
        self.kill_in_turn(&doomed, std::future::ready(())).await
    }

    /// Ends a container whose postStart hook failed; that it failed is what is told.
    pub(crate) async fn after_post_start(&self, hooked: &Hooked<'_>) {
        let doomed = Doomed {
            pod: hooked.pod,
            id: hooked.id,
            container: Cow::Borrowed(hooked.container),
            ips: hooked.ips,
            why: None,
            grace: None,
            message: Some("FailedPostStartHook".to_owned()),
            cause: KillCause::of(POST_START_FAILED),
        };
        if let Err(error) = self.kill_in_turn(&doomed, std::future::ready(())).await {
            let container = &hooked.container.name;
            warn!(container, error = %Chain(&error), "cannot stop a container whose hook failed");
        }
    }

    /// Ends a container whose pod has no specification any more. Its hook and its grace are read from
    /// its annotations. There is no event, because there is no pod that it could be about.
    pub async fn without_spec(
        &self,
        uid: &PodUid,
        name: &PodName,
        instance: &ContainerStatus,
    ) -> Result<(), SyncError> {
        let noted = |label| instance.annotations.get(label)?.parse::<i64>().ok();
        let mut pod = Pod::default();
        pod.metadata.name = Some(name.name.to_string());
        pod.metadata.namespace = Some(name.namespace.to_string());
        pod.metadata.uid = Some(uid.to_string());
        pod.metadata.deletion_grace_period_seconds = noted(labels::POD_DELETION_GRACE);
        pod.spec = Some(PodSpec {
            termination_grace_period_seconds: noted(labels::POD_TERMINATION_GRACE),
            ..PodSpec::default()
        });
        let status = PodStatus::empty(uid.clone());
        let cause = KillCause::of(PodEnd::Orphaned.rule());
        let doomed = Doomed { message: None, ..Doomed::of(&pod, &status, instance, cause) };
        self.kill_in_turn(&doomed, std::future::ready(())).await
    }

    /// Ends a container: its hook first, then its turn, then the signal. All of it comes out of one
    /// grace; a hook that outlives it is not waited for, and goes on beside the stop.
    async fn kill_in_turn(
        &self,
        doomed: &Doomed<'_>,
        turn: impl Future<Output = ()>,
    ) -> Result<(), SyncError> {
        let name = doomed.container.name.as_str();
        if let Some(message) = doomed.message.clone() {
            Reporter::of_container(&*self.events, doomed.pod, name)
                .event(Normal, "Killing", message);
        }
        let grace = stop_grace(doomed.pod, Some(&doomed.container), doomed.why, doomed.grace);
        self.incidents.record_incident(doomed.incident(grace));
        let mut budget = GraceBudget::new(grace);
        let mut hook = pin!(self.pre_stop(doomed, grace));
        let begun = Instant::now();
        let outlived = timeout(budget.left(), hook.as_mut()).await.is_err();
        budget.spend(begun.elapsed());
        if !budget.left().is_zero() {
            let begun = Instant::now();
            let waited = timeout(budget.left(), turn).await;
            if waited.is_err() {
                debug!(container = name, "what should have ended first has not; stopping it now");
            }
            budget.spend(begun.elapsed());
        }
        let stop = pin!(self.stop(doomed.id, name, budget.for_runtime()));
        if !outlived {
            return stop.await;
        }
        warn!(container = name, "the preStop hook is not done within the grace period; stopping");
        match select(stop, hook).await {
            Either::Left((stopped, hook)) => {
                // A command or a request to the container mostly ends with it, and that is told. A pause is not over.
                if !doomed.pre_stop().is_some_and(sleeps) {
                    timeout(LAST_MOMENT, hook).await.ok();
                }
                stopped
            }
            Either::Right(((), stop)) => stop.await,
        }
    }

    /// Runs what is to run before the signal, if there is any time for it. That it failed is told and
    /// changes nothing.
    async fn pre_stop(&self, doomed: &Doomed<'_>, grace: Duration) {
        let Some(handler) = doomed.pre_stop().filter(|_| !grace.is_zero()) else { return };
        let on_host = view::host_network(doomed.pod).then(|| self.host_ips.host_ips());
        let hooked = Hooked {
            pod: doomed.pod,
            container: &doomed.container,
            id: doomed.id,
            ips: on_host.as_deref().unwrap_or(doomed.ips),
            sandbox: None,
        };
        if let Err(failure) = self.hooks.run(&hooked, handler).await {
            let container = &doomed.container.name;
            warn!(container, error = %Chain(&failure), "a preStop hook failed");
            // What the hook said may hold secrets, so the event does not repeat it.
            let message = "PreStopHook failed".to_owned();
            Reporter::of_container(&*self.events, doomed.pod, container).event(
                Warning,
                "FailedPreStopHook",
                message,
            );
        }
    }

    async fn stop(&self, id: &ContainerId, name: &str, grace: Duration) -> Result<(), SyncError> {
        match self.containers.stop_container(id, grace).await {
            Err(source) if !source.is_not_found() => {
                Err(SyncError::KillContainer { name: name.to_owned(), source })
            }
            _ => Ok(()),
        }
    }
}
