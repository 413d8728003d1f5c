//! Pods and their changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::stream;
use hyper::StatusCode;
use k8s_openapi::api::core::v1::Pod;
use model::ids::PodUid;
use podspec::view;
use serde::Serialize;
use tokio::sync::watch;

use crate::decide::{Change, changes};
use crate::parts::{Parts, PodAndStatus};
use crate::respond::{Answer, BrokenOff, json, json_lines};
use crate::wire::{
    LastEvent, PodItem, PodItems, RefusedManifest, WaitingVolume, WatchKind, WatchLine,
};

/// A pod in responses.
#[derive(Debug, Clone, PartialEq)]
struct PodSnapshot {
    pod: PodAndStatus,
    last_event: Option<LastEvent>,
    waiting_volumes: Vec<WaitingVolume>,
}

impl PodSnapshot {
    fn item(&self) -> PodItem<Pod> {
        PodItem {
            pod: self.pod.joined(),
            last_event: self.last_event.clone(),
            waiting_volumes: self.waiting_volumes.clone(),
            // These change with every attempt, so only lists contain them.
            probes: Vec::new(),
        }
    }
}

fn snapshot(parts: &Parts) -> BTreeMap<PodUid, PodSnapshot> {
    let with_uid = |pod: PodAndStatus| {
        let uid = view::uid(&pod.pod);
        let last_event = parts.events.last(&uid);
        let waiting_volumes = parts.pods.waiting_volumes(&uid);
        (uid, PodSnapshot { pod, last_event, waiting_volumes })
    };
    parts.pods.pods().into_iter().map(with_uid).collect()
}

/// All pods.
pub(crate) fn list(parts: &Parts) -> Answer {
    let snapshot = snapshot(parts);
    let item = |(uid, snapshot): (&PodUid, &PodSnapshot)| PodItem {
        probes: parts.pods.probes(uid),
        ..snapshot.item()
    };
    let items = snapshot.iter().map(item).collect();
    json(StatusCode::OK, &PodItems { items, refused: parts.pods.refused() })
}

/// All pods, followed by changes, until the reader disconnects.
pub(crate) fn watch(parts: Arc<Parts>) -> Answer {
    let watching = Watching {
        pod_changes: parts.pods.changes(),
        event_changes: parts.events.changes(),
        parts,
        sent: None,
    };
    json_lines(stream::unfold(watching, Watching::next))
}

/// The state of a watch.
struct Watching {
    parts: Arc<Parts>,
    pod_changes: watch::Receiver<u64>,
    event_changes: watch::Receiver<u64>,
    /// The last sent state; `None` at the beginning.
    sent: Option<State>,
}

/// All pods and refused manifests at one time.
#[derive(Debug, Default)]
struct State {
    pods: BTreeMap<PodUid, PodSnapshot>,
    refused: Vec<RefusedManifest>,
}

impl Watching {
    /// The next lines. Called when the previous ones are sent, so that a slow reader skips intermediate states.
    async fn next(mut self) -> Option<(Result<Vec<u8>, BrokenOff>, Self)> {
        loop {
            if self.sent.is_some() {
                // Biased: both only trigger a look, and a pending one is handled in the next turn.
                let open = tokio::select! {
                    biased;
                    changed = self.pod_changes.changed() => changed.is_ok(),
                    changed = self.event_changes.changed() => changed.is_ok(),
                };
                if !open {
                    return None;
                }
            }
            // Marked as seen before the look, so that a change during it triggers another look.
            self.pod_changes.borrow_and_update();
            self.event_changes.borrow_and_update();
            let now = State { pods: snapshot(&self.parts), refused: self.parts.pods.refused() };
            let lines = lines(self.sent.as_ref(), &now);
            self.sent = Some(now);
            match lines {
                Ok(lines) if lines.is_empty() => {}
                lines => return Some((lines.map_err(Into::into), self)),
            }
        }
    }
}

fn lines(sent: Option<&State>, now: &State) -> Result<Vec<u8>, serde_json::Error> {
    let nothing = State::default();
    let before = sent.unwrap_or(&nothing);
    let mut lines = Vec::new();
    for change in changes(&before.pods, &now.pods) {
        let (kind, pod) = match change {
            Change::Added(pod) => (WatchKind::Added, pod),
            Change::Modified(pod) => (WatchKind::Modified, pod),
            Change::Deleted(pod) => (WatchKind::Deleted, pod),
        };
        let object = Some(pod.item());
        write_line(&mut lines, &WatchLine { kind, object, refused: Vec::new() })?;
    }
    let plain = |kind, refused| WatchLine::<Pod> { kind, object: None, refused };
    if before.refused != now.refused {
        write_line(&mut lines, &plain(WatchKind::Refused, now.refused.clone()))?;
    }
    if sent.is_none() {
        write_line(&mut lines, &plain(WatchKind::Synced, Vec::new()))?;
    }
    Ok(lines)
}

fn write_line(lines: &mut Vec<u8>, line: &impl Serialize) -> Result<(), serde_json::Error> {
    serde_json::to_writer(&mut *lines, line)?;
    lines.push(b'\n');
    Ok(())
}
