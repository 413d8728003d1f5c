//! `ferrolet get pods --watch`: shows changes of pods.

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
use super::display::{Display, DisplayState, PodChange, Pods};
use super::get_pods::Args;

/// How often ages are redrawn.
const TICK: Duration = Duration::from_secs(1);
/// How long to wait between two attempts to reach the agent again.
const RETRY: Duration = Duration::from_millis(500);
/// The notice when the connection is lost.
const AWAY: &str = "the connection to the agent is lost; waiting for the agent";
/// The notice when the agent answers again, and how long it is shown on a terminal.
const BACK: &str = "the agent answers again";
const BACK_FOR: Duration = Duration::from_secs(10);

/// Shows the agent's pods and their changes, until a stop. Reconnects when the agent is
/// restarted.
pub async fn watch_pods(
    agent: &AgentClient,
    args: &Args,
    clock: &dyn WallClock,
    display: &mut dyn Display,
    stop: impl Future<Output = ()>,
) -> Result<()> {
    let mut stop = Box::pin(stop);
    let mut reported = WatchedPods::default();
    let mut watch = agent.watch().await?;
    loop {
        // Biased: stopping first; then the agent is followed until the connection ends.
        tokio::select! {
            biased;
            () = &mut stop => return Ok(()),
            ended = follow(&mut watch, args, clock, &mut reported, display) => ended?,
        }
        display.notice(Some(AWAY), &reported.known, clock.now())?;
        watch = tokio::select! {
            biased;
            () = &mut stop => return Ok(()),
            found = find(agent) => found,
        };
        reported.coming = Some(DisplayState::default());
        display.notice(Some(BACK), &reported.known, clock.now())?;
        reported.back = Some(Instant::now());
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

/// Shows the lines of a watch, until it ends.
async fn follow(
    watch: &mut Watch,
    args: &Args,
    clock: &dyn WallClock,
    reported: &mut WatchedPods,
    display: &mut dyn Display,
) -> io::Result<()> {
    let mut ticks = interval_at(Instant::now() + TICK, TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        // Biased: lines first, each of which is drawn; a display that draws often needs no tick.
        tokio::select! {
            biased;
            line = watch.next() => {
                let Ok(Some(line)) = line else { return Ok(()) };
                if let Some(changes) = reported.take(wanted(line, args)) {
                    display.changed(&changes, &reported.known, clock.now())?;
                }
            }
            _ = ticks.tick() => {
                if reported.back.take_if(|back| back.elapsed() >= BACK_FOR).is_some() {
                    display.notice(None, &reported.known, clock.now())?;
                }
                display.tick(&reported.known, clock.now())?;
            }
        }
    }
}

/// Filters a line of a watch by the arguments.
fn wanted(mut line: WatchLine<Pod>, args: &Args) -> Option<WatchLine<Pod>> {
    line.refused.retain(|refused| args.selects_manifest(refused));
    line.object.as_ref().is_none_or(|item| args.selects(&item.pod)).then_some(line)
}

/// The pods that the watch has reported.
#[derive(Debug)]
struct WatchedPods {
    known: DisplayState,
    /// The pods reported so far, while the initial list is received.
    coming: Option<DisplayState>,
    /// When the agent answered again.
    back: Option<Instant>,
}

impl Default for WatchedPods {
    fn default() -> Self {
        Self { known: DisplayState::default(), coming: Some(DisplayState::default()), back: None }
    }
}

impl WatchedPods {
    /// Applies a line of the watch and returns the changes; `None` during the initial list.
    fn take(&mut self, line: Option<WatchLine<Pod>>) -> Option<Vec<PodChange>> {
        let line = line?;
        let known = self.coming.as_mut().unwrap_or(&mut self.known);
        match line.kind {
            WatchKind::Refused => {
                known.refused = line.refused;
                return self.coming.is_none().then(Vec::new);
            }
            WatchKind::Synced => {
                let coming = self.coming.take()?;
                let changed = changes(&self.known.pods, &coming.pods);
                let changed = changed.into_iter().map(owned).collect();
                self.known = coming;
                return Some(changed);
            }
            WatchKind::Added | WatchKind::Modified | WatchKind::Deleted => {}
        }
        let item = line.object?;
        let uid = view::uid(&item.pod);
        if let Some(coming) = &mut self.coming {
            coming.pods.insert(uid, item);
            return None;
        }
        let pods: &mut Pods = &mut self.known.pods;
        Some(vec![if line.kind == WatchKind::Deleted {
            pods.remove(&uid);
            Change::Deleted(item)
        } else if pods.insert(uid, item.clone()).is_none() {
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
