//! Begins rounds early when the kernel reports that memory is short.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use model::log_throttle::LogThrottle;
use model::ports::memory_alarm::MemoryAlarm;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use crate::decide::notify::notification_level;
use crate::decide::signal::{Resource, Signal};
use crate::decide::threshold::Threshold;
use crate::manager::EvictionHandle;

/// How often a failed wait is tried again.
const RETRY: Duration = Duration::from_secs(10);
/// The shortest time between two reports.
const REST: Duration = Duration::from_secs(2);

/// Which reports of the kernel count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TriggerRules {
    /// The cgroup of all pods.
    pub pods_cgroup: String,
    /// Whether processes that wait for memory begin a round.
    pub stalls: bool,
    /// `kernelMemcgNotification` on cgroup v1: whether the crossing of a threshold begins a round.
    pub crossings: bool,
}

impl TriggerRules {
    fn cgroup(&self, signal: Signal) -> &str {
        if signal == Signal::MemoryAvailable { "/" } else { &self.pods_cgroup }
    }
}

/// Waits for reports until `stop` is cancelled. Without thresholds of memory there is nothing to report.
pub async fn watch_memory(
    manager: EvictionHandle,
    alarm: Arc<dyn MemoryAlarm>,
    rules: TriggerRules,
    stop: CancellationToken,
) {
    let thresholds = manager.thresholds().iter();
    let thresholds: Vec<&Threshold> =
        thresholds.filter(|one| Resource::of(one.signal) == Resource::Memory).collect();
    let watch = async {
        let mut cgroups: Vec<&str> =
            thresholds.iter().map(|threshold| rules.cgroup(threshold.signal)).collect();
        cgroups.sort_unstable();
        cgroups.dedup();
        cgroups.retain(|_| rules.stalls);
        let stalls = cgroups.into_iter().map(|cgroup| watch_stalls(&manager, &*alarm, cgroup));
        let crossed = thresholds.iter().filter(|_| rules.crossings);
        let crossings = crossed.map(|threshold| {
            watch_crossings(&manager, &*alarm, threshold, rules.cgroup(threshold.signal))
        });
        tokio::join!(join_all(stalls), join_all(crossings));
    };
    // Rounds go on without reports.
    if stop.run_until_cancelled(watch).await.is_some() {
        stop.cancelled().await;
    }
}

async fn watch_stalls(manager: &EvictionHandle, alarm: &dyn MemoryAlarm, cgroup: &str) {
    let mut throttle = LogThrottle::default();
    loop {
        if let Err(error) = alarm.stalled(cgroup).await {
            if throttle.failed(Instant::now().into_std()) {
                info!(cgroup, %error, "Eviction manager: no reports of memory pressure");
            }
            if error.is_unsupported() {
                return;
            }
            sleep(RETRY).await;
            continue;
        }
        throttle.recovered(Instant::now().into_std());
        debug!(cgroup, "Eviction manager: processes wait for memory");
        manager.begin_round();
        sleep(REST).await;
    }
}

async fn watch_crossings(
    manager: &EvictionHandle,
    alarm: &dyn MemoryAlarm,
    threshold: &Threshold,
    cgroup: &str,
) {
    let signal = threshold.signal;
    let (mut throttle, mut node) = (LogThrottle::default(), manager.node());
    loop {
        let level = notification_level(threshold, &node.borrow_and_update());
        let crossed = async {
            match level {
                Some(level) => alarm.crossed(cgroup, level).await,
                None => std::future::pending().await,
            }
        };
        // Biased: each ends the wait.
        let crossed = tokio::select! {
            biased;
            crossed = crossed => crossed,
            changed = node.changed() => match changed {
                // The usage of files changes the level.
                Ok(()) => continue,
                Err(_) => return,
            },
        };
        if let Err(error) = crossed {
            if throttle.failed(Instant::now().into_std()) {
                info!(%signal, %error, "Eviction manager: failed to create memory threshold notifier");
            }
            if error.is_unsupported() {
                return;
            }
            sleep(RETRY).await;
            continue;
        }
        throttle.recovered(Instant::now().into_std());
        debug!(%signal, ?level, "Eviction manager: memory usage crossed the threshold");
        manager.begin_round();
        sleep(REST).await;
    }
}

#[cfg(test)]
#[path = "triggers_tests.rs"]
mod tests;
