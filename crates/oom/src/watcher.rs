//! Reads the kernel's log, and reports kills.

use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt::Debug;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use jiff::Timestamp;
use model::chain::Chain;
use model::ids::{ContainerId, PodUid};
use model::oom::{OomKill, OomKills};
use model::ports::clock::WallClock;
use model::ports::events::{Events, NodeEvents};
use model::ports::files::FileError;
use model::ports::incidents::{Incident, IncidentKind, IncidentRecord};
use model::ports::kernel_log::{KernelLog, KernelLogItem, KernelLogReader};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::decide::{
    LoggedKill, MessageParser, PodCgroup, VictimPod, container_event, oom_scope, pod_cgroup,
    system_event,
};

/// The rule of kills by the kernel, in the journal.
const OUT_OF_MEMORY: &str = "out-of-memory";

/// How many kills may wait for their pods.
const MOST_REPORTS: usize = 64;

/// The wait before the log is opened again; it doubles with each failure.
const RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_mins(1);

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
}

impl OomWatcher {
    /// A watcher.
    pub fn new(parts: OomParts) -> Self {
        Self { parts }
    }

    /// Watches until it is stopped. Without a readable log it warns once and reports nothing: the agent may run in a
    /// container without privileges. After another error it opens the log again.
    pub async fn run(self, stop: CancellationToken) {
        stop.run_until_cancelled(self.watch()).await;
    }

    async fn watch(&self) {
        let mut watch = Watch { parts: &self.parts, reports: Reports::default() };
        let mut wait = RETRY;
        loop {
            let begin = Instant::now();
            let Err(error) = watch.read_log().await;
            let is_final = error.is_not_found() || error.is_denied();
            if is_final {
                warn!(error = %Chain(&error), "Cannot read the kernel log, OOM kills are not reported");
                // A long task ends with the agent.
                return watch.reports.run_beside(pending()).await;
            }
            if begin.elapsed() > LONGEST_RETRY {
                wait = RETRY;
            }
            warn!(error = %Chain(&error), ?wait, "Cannot read the kernel log, retrying");
            watch.reports.run_beside(sleep(wait)).await;
            wait = (wait * 2).min(LONGEST_RETRY);
        }
    }
}

/// Reports that wait for their pods. They run beside the reader, so that the kernel does not overwrite lines before
/// they are read.
#[derive(Debug, Default)]
struct Reports<'a>(FuturesUnordered<BoxFuture<'a, ()>>);

impl<'a> Reports<'a> {
    /// Runs the reports until the work is done.
    async fn run_beside<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                Some(()) = self.0.next() => {}
            }
        }
    }

    /// Adds a report, unless there are too many.
    fn add(&mut self, kill: &OomKill, report: impl Future<Output = ()> + Send + 'a) {
        if self.0.len() < MOST_REPORTS {
            self.0.push(Box::pin(report));
        } else {
            warn!(pid = kill.pid, "Too many OOM kills wait for their pods, dropping the event");
        }
    }
}

/// The watch of the log.
#[derive(Debug)]
struct Watch<'a> {
    parts: &'a OomParts,
    reports: Reports<'a>,
}

impl Watch<'_> {
    /// Reads until an error.
    async fn read_log(&mut self) -> Result<Infallible, FileError> {
        let mut reader = self.reports.run_beside(self.parts.log.open()).await?;
        let mut parser = MessageParser::default();
        debug!("OOM watcher started");
        loop {
            let kill = self.reports.run_beside(next_kill(&mut parser, &mut *reader)).await?;
            self.report(&kill);
        }
    }

    fn report(&mut self, logged: &LoggedKill) {
        let LoggedKill { pid, process, .. } = logged;
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
        if let Some(event) = system_event(logged) {
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
        let (parts, at) = (self.parts, self.parts.clock.now());
        self.reports.add(&kill.clone(), parts.report_victim(victim, kill, at));
    }
}

async fn next_kill(
    parser: &mut MessageParser,
    reader: &mut dyn KernelLogReader,
) -> Result<LoggedKill, FileError> {
    loop {
        match reader.next().await? {
            KernelLogItem::Line { by_kernel: true, text } => {
                if let Some(kill) = parser.line(&text) {
                    return Ok(kill);
                }
            }
            KernelLogItem::Line { by_kernel: false, .. } => {}
            KernelLogItem::Overrun => {
                parser.reset();
                warn!("Kernel log was overwritten before it was read, an OOM kill may be missing");
            }
        }
    }
}

impl OomParts {
    /// Waits for the pod of a kill, and reports it.
    async fn report_victim(&self, cgroup: PodCgroup, kill: OomKill, at: Timestamp) {
        let PodCgroup { uid, container: id } = &cgroup;
        let Some(victim) = self.victims.find(uid, id.as_ref()).await else {
            warn!(%uid, pid = kill.pid, "Kernel killed a process of an unknown pod");
            return;
        };
        self.events.record(container_event(uid, &victim, &kill));
        let (Some(container), Some(id)) = (&victim.container, id) else { return };
        self.incidents.record_incident(Incident {
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
