//! `ferrolet get pods --watch`: what changes, as it changes.

use std::io;
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use model::ports::clock::WallClock;
use podspec::view;
use server::decide::{Change, changes};
use server::wire::{PodItem, WatchKind, WatchLine};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

use super::agent::{AgentClient, Watch};
use super::display::{Display, PodChange, Pods};
use super::get_pods::Args;

/// How often ages are drawn anew.
const TICK: Duration = Duration::from_secs(1);
/// How long to wait between two tries to find an agent that went away.
const RETRY: Duration = Duration::from_millis(500);
/// What is said when it did.
const AWAY: &str = "the agent went away; waiting for it to come back";

/// Shows the agent's pods and what changes of them, until told to stop. An agent that goes away is
/// waited for.
pub async fn watch_pods(
    agent: &AgentClient,
    args: &Args,
    clock: &dyn WallClock,
    display: &mut dyn Display,
    stop: impl Future<Output = ()>,
) -> Result<()> {
    let mut stop = Box::pin(stop);
    let mut known = Known::default();
    let mut watch = agent.watch().await?;
    loop {
        // Biased: stopping first; the agent then has all the time, until it goes away.
        tokio::select! {
            biased;
            () = &mut stop => return Ok(()),
            ended = follow(&mut watch, args, clock, &mut known, display) => ended?,
        }
        display.notice(Some(AWAY), &known.pods, clock.now())?;
        watch = tokio::select! {
            biased;
            () = &mut stop => return Ok(()),
            found = find(agent) => found,
        };
        known.coming = Some(Pods::new());
        display.notice(None, &known.pods, clock.now())?;
    }
}

async fn find(agent: &AgentClient) -> Watch {
    loop {
        match agent.watch().await {
            Ok(watch) => return watch,
            Err(_) => sleep(RETRY).await,
        }
    }
}

/// Shows what a watch tells, until it ends.
async fn follow(
    watch: &mut Watch,
    args: &Args,
    clock: &dyn WallClock,
    known: &mut Known,
    display: &mut dyn Display,
) -> io::Result<()> {
    let mut ticks = interval_at(Instant::now() + TICK, TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        // Biased: while news comes without end, it is drawn with every piece of it.
        tokio::select! {
            biased;
            line = watch.next() => {
                let Ok(Some(line)) = line else { return Ok(()) };
                if line.object.as_ref().is_none_or(|item| args.wants(&item.pod))
                    && let Some(changes) = known.take(line)
                {
                    display.changed(&changes, &known.pods, clock.now())?;
                }
            }
            _ = ticks.tick() => display.tick(&known.pods, clock.now())?,
        }
    }
}

/// What is known of the agent's pods.
#[derive(Debug)]
struct Known {
    pods: Pods,
    /// What a watch has told so far, while it is telling all.
    coming: Option<Pods>,
}

impl Default for Known {
    fn default() -> Self {
        Self { pods: Pods::new(), coming: Some(Pods::new()) }
    }
}

impl Known {
    /// Takes what a watch tells and gives what that changed; `None` while it is telling all.
    fn take(&mut self, line: WatchLine<Pod>) -> Option<Vec<PodChange>> {
        if line.kind == WatchKind::Synced {
            let coming = self.coming.take()?;
            let changed = changes(&self.pods, &coming).into_iter().map(owned).collect();
            self.pods = coming;
            return Some(changed);
        }
        let item = line.object?;
        let uid = view::uid(&item.pod);
        if let Some(coming) = &mut self.coming {
            coming.insert(uid, item);
            return None;
        }
        Some(vec![if line.kind == WatchKind::Deleted {
            self.pods.remove(&uid);
            Change::Deleted(item)
        } else if self.pods.insert(uid, item.clone()).is_none() {
            Change::Added(item)
        } else {
            Change::Modified(item)
        }])
    }
}

fn owned(change: Change<&PodItem<Pod>>) -> PodChange {
    match change {
        Change::Added(item) => Change::Added(item.clone()),
        Change::Modified(item) => Change::Modified(item.clone()),
        Change::Deleted(item) => Change::Deleted(item.clone()),
    }
}

#[cfg(test)]
#[path = "watch_pods_tests.rs"]
mod tests;
