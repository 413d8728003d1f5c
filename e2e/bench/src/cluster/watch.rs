//! Watches pods and records when each was first ready, and when it was gone.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures_util::StreamExt as _;
use hyper::Request;
use kube::Client;
use kube::core::WatchEvent;
use serde::Deserialize;
use serde_json::Value;
use testbed::wait;
use tokio::task::JoinHandle;

use crate::api::Api;

/// Longer than any measurement.
const WATCH_SECONDS: u32 = 3000;
/// The pause before a watch is started again.
const PAUSE: Duration = Duration::from_millis(10);

/// The relevant fields of a pod.
#[derive(Debug, Clone, Deserialize)]
struct Pod {
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Clone, Deserialize)]
struct Metadata {
    name: String,
    #[serde(rename = "resourceVersion")]
    version: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct Status {
    #[serde(default)]
    conditions: Vec<Condition>,
    #[serde(default, rename = "containerStatuses")]
    containers: Vec<ContainerStatus>,
}

#[derive(Debug, Clone, Deserialize)]
struct ContainerStatus {
    #[serde(default)]
    state: State,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct State {
    #[serde(default)]
    terminated: Option<Value>,
}

#[derive(Debug, Clone, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl Pod {
    fn is_ready(&self) -> bool {
        self.status.conditions.iter().any(|one| one.kind == "Ready" && one.status == "True")
    }

    fn has_terminated(&self) -> bool {
        self.status.containers.iter().any(|one| one.state.terminated.is_some())
    }
}

/// The times of events.
#[derive(Debug, Default)]
struct PodTimes {
    present: BTreeMap<String, Instant>,
    ready: BTreeMap<String, Instant>,
    unready: BTreeMap<String, Instant>,
    terminated: BTreeMap<String, Instant>,
    gone: BTreeMap<String, Instant>,
    /// Why the watch has failed.
    broken: Option<String>,
}

impl PodTimes {
    /// Records an event; returns its resource version, from which a watch continues.
    fn hear(&mut self, event: WatchEvent<Pod>, now: Instant) -> Result<Option<String>> {
        let version = match &event {
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) | WatchEvent::Deleted(pod) => {
                Some(pod.metadata.version.clone())
            }
            _ => None,
        };
        match event {
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) => self.shown(&pod, now),
            WatchEvent::Deleted(pod) => {
                self.gone.entry(pod.metadata.name).or_insert(now);
            }
            WatchEvent::Error(status) => bail!("{status:?}"),
            WatchEvent::Bookmark(_) => {}
        }
        Ok(version)
    }

    /// Records the first time of each state of a pod.
    fn shown(&mut self, pod: &Pod, now: Instant) {
        let ready = if pod.is_ready() { &mut self.ready } else { &mut self.unready };
        let terminated = pod.has_terminated().then_some(&mut self.terminated);
        for times in [Some(&mut self.present), Some(ready), terminated].into_iter().flatten() {
            if !times.contains_key(&pod.metadata.name) {
                times.insert(pod.metadata.name.clone(), now);
            }
        }
    }
}

/// A watch of a namespace's pods. It ends when it is dropped.
#[derive(Debug)]
pub(super) struct PodWatch {
    /// Written by the task that watches.
    seen: Arc<Mutex<PodTimes>>,
    watching: JoinHandle<()>,
}

impl PodWatch {
    /// Starts the watch.
    pub(super) fn start(api: &Api, namespace: &str) -> Result<Self> {
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let list = api.call("GET", &format!("{path}?limit=1"), &Value::Null)?;
        let version = list["metadata"]["resourceVersion"].as_str();
        let version = version.context("a list has a version")?.to_owned();
        let seen = Arc::<Mutex<PodTimes>>::default();
        let (client, kept) = (api.client.clone(), Arc::clone(&seen));
        let watching = api.tasks.spawn(async move {
            let Err(error) = watch(&client, &path, version, &kept).await;
            lock(&kept).broken = Some(format!("{error:#}"));
        });
        Ok(Self { seen, watching })
    }

    /// Waits until all pods were ready; returns when the last one was.
    pub(super) fn all_ready(&self, names: &[String], time: Duration) -> Result<Instant> {
        self.last("ready", names, time, |seen| &seen.ready)
    }

    /// Clears the times at which pods were ready or not, before they change together.
    pub(super) fn clear_readiness(&self) {
        let mut seen = lock(&self.seen);
        seen.ready.clear();
        seen.unready.clear();
    }

    /// Waits until the watch has received all pods; returns when it received the last one.
    pub(super) fn all_present(&self, names: &[String], time: Duration) -> Result<Instant> {
        self.last("present", names, time, |seen| &seen.present)
    }

    /// Waits until all pods are not ready; returns when the last one was.
    pub(super) fn all_unready(&self, names: &[String], time: Duration) -> Result<Instant> {
        self.last("not ready", names, time, |seen| &seen.unready)
    }

    /// Waits until a container of each pod has terminated; returns when the last one had.
    pub(super) fn all_terminated(&self, names: &[String], time: Duration) -> Result<Instant> {
        self.last("terminated", names, time, |seen| &seen.terminated)
    }

    /// Waits until all pods are gone; returns when the last one was.
    pub(super) fn all_gone(&self, names: &[String], time: Duration) -> Result<Instant> {
        self.last("gone", names, time, |seen| &seen.gone)
    }

    fn last(
        &self,
        what: &str,
        names: &[String],
        time: Duration,
        of: fn(&PodTimes) -> &BTreeMap<String, Instant>,
    ) -> Result<Instant> {
        wait::until(&format!("{} pods are {what}", names.len()), time, || {
            let seen = lock(&self.seen);
            ensure!(seen.broken.is_none(), "the watch failed: {:?}", seen.broken);
            let times: Vec<Instant> =
                names.iter().filter_map(|name| of(&seen).get(name).copied()).collect();
            let last = times.iter().max().copied().filter(|_| times.len() == names.len());
            Ok(last.ok_or_else(|| format!("{} are", times.len())))
        })
    }
}

impl Drop for PodWatch {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

/// Watches until an error. The API server may end a watch at any time, for example that of a slow watcher: it continues
/// where it ended.
async fn watch(
    client: &Client,
    path: &str,
    mut version: String,
    seen: &Mutex<PodTimes>,
) -> Result<Infallible> {
    loop {
        let uri =
            format!("{path}?watch=true&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}");
        let request = Request::get(uri).body(Vec::new()).context("make a request")?;
        let events = client.request_events::<Pod>(request).await.context("watch pods")?;
        let mut events = pin!(events);
        while let Some(event) = events.next().await {
            let event = event.context("watch pods")?;
            if let Some(resource_version) = lock(seen).hear(event, Instant::now())? {
                version = resource_version;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn lock(seen: &Mutex<PodTimes>) -> MutexGuard<'_, PodTimes> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(kind: &str, ready: Option<&str>) -> WatchEvent<Pod> {
        let status = ready.map_or_else(
            || json!({ "phase": "Pending" }),
            |ready| json!({ "conditions": [{ "type": "Ready", "status": ready }] }),
        );
        let metadata = json!({ "name": "web", "resourceVersion": "7" });
        let object = json!({ "metadata": metadata, "status": status });
        serde_json::from_value(json!({ "type": kind, "object": object })).unwrap()
    }

    #[test]
    fn first_ready_time_and_end_of_a_pod_count() {
        let mut seen = PodTimes::default();
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        for (second, kind, ready) in [
            (1, "ADDED", None),
            (2, "MODIFIED", Some("False")),
            (3, "MODIFIED", Some("True")),
            (4, "MODIFIED", Some("True")),
            (5, "MODIFIED", Some("False")),
            (6, "DELETED", Some("False")),
        ] {
            let version = seen.hear(event(kind, ready), at(second)).unwrap();
            assert_eq!(version.as_deref(), Some("7"));
        }
        assert_eq!((seen.ready["web"], seen.gone["web"]), (at(3), at(6)));
    }
}
