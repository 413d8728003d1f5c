//! Kills containers and pods.

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
use model::observed::{ContainerStatus, RuntimePodStatus};
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

/// How long a hook may still run after its container has exited.
const LAST_MOMENT: Duration = Duration::from_millis(500);

/// The rule of kills so that all containers of a pod restart.
const RESTART_ALL: &str = "restart-all-containers";

/// The rule of kills after a failed postStart hook.
const POST_START_FAILED: &str = "post-start-hook-failed";

/// A container to kill.
struct KillTarget<'a> {
    pod: &'a Pod,
    id: &'a ContainerId,
    container: Cow<'a, Container>,
    ips: &'a [IpAddr],
    why: Option<KillReason>,
    /// The grace period of the kill, which overrides that of the pod.
    grace: Option<Duration>,
    /// The message of the event, if there is one.
    message: Option<String>,
    /// The reason, for the journal.
    cause: KillCause,
}

impl<'a> KillTarget<'a> {
    fn of(
        pod: &'a Pod,
        status: &'a RuntimePodStatus,
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

/// The container of the spec, or the annotations of the instance if the spec is
/// unknown.
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

/// Kills pods and containers.
#[derive(Debug)]
pub struct PodKiller {
    pub(crate) sandboxes: Arc<dyn SandboxService>,
    pub(crate) containers: Arc<dyn ContainerService>,
    /// Runs preStop hooks.
    pub(crate) hooks: Arc<HookRunner>,
    pub(crate) host_ips: Arc<dyn HostIps>,
    pub(crate) events: Arc<dyn Events>,
    pub(crate) incidents: Arc<dyn IncidentRecord>,
    /// Why containers were killed.
    pub(crate) killed: KilledInstances,
}

impl PodKiller {
    /// Kills everything of a pod that may run: its containers in parallel, sidecars after regular
    /// containers; then its sandboxes, so that the network exists until the last process has exited. `grace`
    /// replaces the grace period of the pod. `rule` is recorded.
    pub async fn pod(
        &self,
        pod: &Pod,
        status: &RuntimePodStatus,
        grace: Option<Duration>,
        rule: &'static str,
    ) -> Result<(), SyncError> {
        // Like upstream, the sandbox is stopped even if a container could not be stopped: this
        // kills everything left in it. Failures are reported nevertheless.
        let mut failures = self.kill_containers(pod, status, grace, rule).await;
        for sandbox in &status.sandboxes {
            info!(uid = %status.uid, pod = %sandbox.pod, sandbox = %sandbox.id, "Stopping sandbox");
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
        status: &RuntimePodStatus,
        grace: Option<Duration>,
        rule: &'static str,
    ) -> Vec<SyncError> {
        let running: Vec<&ContainerStatus> = status.maybe_running().collect();
        let names: Vec<&str> = running.iter().map(|instance| &*instance.name).collect();
        let order = termination_order(pod, &names);
        // A token for each container, cancelled when it has exited.
        let ended: Vec<CancellationToken> = running.iter().map(|_| <_>::default()).collect();
        let kills = running.iter().enumerate().map(|(place, instance)| {
            let (order, ended) = (&order[place], &ended);
            async move {
                let turn = async {
                    join_all(order.iter().map(|before| ended[*before].cancelled())).await;
                };
                let cause = KillCause::of(rule);
                let target = KillTarget { grace, ..KillTarget::of(pod, status, instance, cause) };
                let killed = self.kill_in_turn(&target, turn).await;
                if killed.is_ok() {
                    ended[place].cancel();
                }
                killed
            }
        });
        join_all(kills).await.into_iter().filter_map(Result::err).collect()
    }

    /// Kills one container, so that it can restart.
    pub(crate) async fn container(
        &self,
        pod: &Pod,
        status: &RuntimePodStatus,
        kill: &ContainerKill,
    ) -> Result<(), SyncError> {
        let mut instances = status.containers.iter();
        let Some(instance) = instances.find(|one| one.id == kill.id) else { return Ok(()) };
        let init = role(pod, &kill.name).is_init();
        let target = KillTarget {
            why: Some(kill.why),
            message: Some(kill.message(init)),
            ..KillTarget::of(pod, status, instance, kill.cause())
        };
        self.killed.add(status, kill);
        self.kill_in_turn(&target, std::future::ready(())).await
    }

    /// Kills an instance without grace, because all containers restart.
    pub(crate) async fn for_reset(
        &self,
        pod: &Pod,
        status: &RuntimePodStatus,
        reset: &ContainerReset,
    ) -> Result<(), SyncError> {
        let mut instances = status.containers.iter();
        let Some(instance) = instances.find(|one| one.id == reset.id) else { return Ok(()) };
        let target = KillTarget {
            grace: Some(Duration::ZERO),
            message: Some("killing".to_owned()),
            ..KillTarget::of(pod, status, instance, KillCause::of(RESTART_ALL))
        };
        self.kill_in_turn(&target, std::future::ready(())).await
    }

    /// Kills a container whose postStart hook failed. The event is about the hook.
    pub(crate) async fn after_post_start(&self, hooked: &Hooked<'_>) {
        let target = KillTarget {
            pod: hooked.pod,
            id: hooked.id,
            container: Cow::Borrowed(hooked.container),
            ips: hooked.ips,
            why: None,
            grace: None,
            message: Some("FailedPostStartHook".to_owned()),
            cause: KillCause::of(POST_START_FAILED),
        };
        if let Err(error) = self.kill_in_turn(&target, std::future::ready(())).await {
            let container = &hooked.container.name;
            warn!(container, error = %Chain(&error), "Cannot stop container after failed postStart hook");
        }
    }

    /// Kills a container of a pod whose spec is unknown. Its hook and its grace period are read from
    /// its annotations. There is no event, because there is no pod object.
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
        let status = RuntimePodStatus::empty(uid.clone());
        let cause = KillCause::of(PodEnd::Orphaned.rule());
        let target = KillTarget { message: None, ..KillTarget::of(&pod, &status, instance, cause) };
        self.kill_in_turn(&target, std::future::ready(())).await
    }

    /// Kills a container: runs its hook, waits for its turn, then stops it. All of this shares one
    /// grace period; a hook that exceeds it continues during the stop.
    async fn kill_in_turn(
        &self,
        target: &KillTarget<'_>,
        turn: impl Future<Output = ()>,
    ) -> Result<(), SyncError> {
        let name = target.container.name.as_str();
        if let Some(message) = target.message.clone() {
            Reporter::of_container(&*self.events, target.pod, name)
                .event(Normal, "Killing", message);
        }
        let grace = stop_grace(target.pod, Some(&target.container), target.why, target.grace);
        self.incidents.record_incident(target.incident(grace));
        let mut budget = GraceBudget::new(grace);
        let mut hook = pin!(self.pre_stop(target, grace));
        let begun = Instant::now();
        let outlived = timeout(budget.left(), hook.as_mut()).await.is_err();
        budget.spend(begun.elapsed());
        if !budget.left().is_zero() {
            let begun = Instant::now();
            let waited = timeout(budget.left(), turn).await;
            if waited.is_err() {
                debug!(
                    container = name,
                    "Containers to stop first are still running, stopping container now"
                );
            }
            budget.spend(begun.elapsed());
        }
        let stop = pin!(self.stop(target.id, name, budget.for_runtime()));
        if !outlived {
            return stop.await;
        }
        warn!(
            container = name,
            "PreStop hook did not complete within the grace period, stopping container"
        );
        match select(stop, hook).await {
            Either::Left((stopped, hook)) => {
                // A command or a request mostly ends with its container, and the result is reported. A sleep continues.
                if !target.pre_stop().is_some_and(sleeps) {
                    timeout(LAST_MOMENT, hook).await.ok();
                }
                stopped
            }
            Either::Right(((), stop)) => stop.await,
        }
    }

    /// Runs the preStop hook, if there is time for it. A failure has an event and is
    /// ignored.
    async fn pre_stop(&self, target: &KillTarget<'_>, grace: Duration) {
        let Some(handler) = target.pre_stop().filter(|_| !grace.is_zero()) else { return };
        let on_host = view::host_network(target.pod).then(|| self.host_ips.host_ips());
        let hooked = Hooked {
            pod: target.pod,
            container: &target.container,
            id: target.id,
            ips: on_host.as_deref().unwrap_or(target.ips),
            sandbox: None,
        };
        if let Err(failure) = self.hooks.run(&hooked, handler).await {
            let container = &target.container.name;
            warn!(container, error = %Chain(&failure), "PreStop hook failed");
            // The output of the hook may contain secrets, so the event does not have it.
            let message = "PreStopHook failed".to_owned();
            Reporter::of_container(&*self.events, target.pod, container).event(
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
