//! Reads the kernel's log, and reports kills.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use model::chain::Chain;
use model::ids::{ContainerId, PodUid};
use model::oom::{OomKill, OomKills};
use model::ports::clock::WallClock;
use model::ports::events::{Events, NodeEvents};
use model::ports::files::FileError;
use model::ports::incidents::{Incident, IncidentKind, IncidentRecord};
use model::ports::kernel_log::{KernelLog, KernelLogItem, KernelLogReader};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::decide::{
    LoggedKill, MessageParser, PodCgroup, VictimPod, container_event, oom_scope, pod_cgroup,
    system_event,
};

/// The rule of kills by the kernel, in the journal.
const OUT_OF_MEMORY: &str = "out-of-memory";

/// Finds pods by their cgroups.
#[async_trait]
pub trait Victims: Debug + Send + Sync {
    /// The pod with this UID, and its container or sandbox with this ID. Waits for a container that has just started.
    async fn find(&self, uid: &PodUid, id: Option<&ContainerId>) -> Option<VictimPod>;
}

/// What the watcher needs.
#[derive(Debug)]
pub struct OomParts {
    /// The kernel's log.
    pub log: Arc<dyn KernelLog>,
    /// The pods of the node.
    pub victims: Arc<dyn Victims>,
    /// Receives events of pods.
    pub events: Arc<dyn Events>,
    /// Receives events of the node.
    pub node_events: Arc<dyn NodeEvents>,
    /// Records kills.
    pub incidents: Arc<dyn IncidentRecord>,
    /// The time of day.
    pub clock: Arc<dyn WallClock>,
    /// Receives the last kill of each container.
    pub kills: OomKills,
}

/// Reports kills by the kernel.
#[derive(Debug)]
pub struct OomWatcher {
    parts: OomParts,
    parser: MessageParser,
}

impl OomWatcher {
    /// A watcher.
    pub fn new(parts: OomParts) -> Self {
        Self { parts, parser: MessageParser::default() }
    }

    /// Watches until it is stopped. Without a readable log it warns once and reports nothing: the agent may run in a
    /// container without privileges.
    pub async fn run(mut self, stop: CancellationToken) {
        let watch = async {
            if let Err(error) = self.watch().await {
                let error = Chain(&error);
                warn!(%error, "Cannot read the kernel log, OOM kills are not reported");
            }
            // A long task ends with the agent.
            std::future::pending::<()>().await;
        };
        stop.run_until_cancelled(watch).await;
    }

    async fn watch(&mut self) -> Result<(), FileError> {
        let mut reader = self.parts.log.open().await?;
        debug!("OOM watcher started");
        loop {
            let kill = self.next_kill(&mut *reader).await?;
            self.report(kill).await;
        }
    }

    async fn next_kill(
        &mut self,
        reader: &mut dyn KernelLogReader,
    ) -> Result<LoggedKill, FileError> {
        loop {
            match reader.next().await? {
                KernelLogItem::Line { by_kernel: true, text } => {
                    if let Some(kill) = self.parser.line(&text) {
                        return Ok(kill);
                    }
                }
                KernelLogItem::Line { by_kernel: false, .. } => {}
                KernelLogItem::Overrun => {
                    self.parser.reset();
                    warn!(
                        "Kernel log was overwritten before it was read, an OOM kill may be missing"
                    );
                }
            }
        }
    }

    async fn report(&self, logged: LoggedKill) {
        let LoggedKill { pid, process, .. } = &logged;
        let cgroup = logged.cgroup.as_deref();
        if logged.by_group {
            info!(pid, process, cgroup, "Kernel killed another process of the cgroup");
            return;
        }
        info!(
            pid,
            process,
            cgroup,
            limited = logged.limited,
            "Kernel killed process, out of memory"
        );
        if let Some(event) = system_event(&logged) {
            self.parts.node_events.record(event);
        }
        let Some(cgroup) = cgroup else { return };
        let victim = pod_cgroup(cgroup);
        let kill = OomKill {
            pid: *pid,
            process: process.clone(),
            scope: oom_scope(logged.limited.as_deref(), victim.as_ref()),
            memory: logged.memory,
        };
        let Some(victim) = victim else { return };
        if let Some(container) = &victim.container {
            self.parts.kills.add(container.clone(), kill.clone());
        }
        self.report_victim(&victim, &kill).await;
    }

    async fn report_victim(&self, cgroup: &PodCgroup, kill: &OomKill) {
        let at = self.parts.clock.now();
        let PodCgroup { uid, container: id } = cgroup;
        let Some(victim) = self.parts.victims.find(uid, id.as_ref()).await else {
            warn!(%uid, pid = kill.pid, "Kernel killed a process of an unknown pod");
            return;
        };
        self.parts.events.record(container_event(uid, &victim, kill));
        let (Some(container), Some(id)) = (&victim.container, id) else { return };
        self.parts.incidents.record_incident(Incident {
            kind: IncidentKind::Oom,
            pod: victim.pod.clone(),
            uid: uid.clone(),
            container: container.name.to_string(),
            id: id.to_string(),
            rule: Cow::Borrowed(OUT_OF_MEMORY),
            detail: kill.detail(),
            at: Some(at),
        });
    }
}

#[cfg(test)]
#[path = "watcher_tests.rs"]
mod tests;
