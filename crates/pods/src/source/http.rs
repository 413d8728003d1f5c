//! Pods from a URL that serves a manifest: one pod, or a list of them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use model::chain::Chain;
use model::ids::PodUid;
use model::ports::clock::WallClock;
use model::ports::files::HostFiles;
use model::ports::http::{Get, Headers, HttpError, HttpGet};
use podspec::Origin;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::last_good::{Digest, LastGood, digest};
use super::problem::Problem;
use super::refusal::{self, Refusal, RefusalList};
use super::stored_manifest::StoredManifest;
use super::{CopyTimes, PodList, SourceWatch, SupportCheck, copies};
use crate::decide::support::set_held_back;

/// The timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The minimum period of requests: more frequent ones would keep the agent busy.
const SHORTEST_PERIOD: Duration = Duration::from_millis(100);

/// Settings of the HTTP source.
#[derive(Debug, Clone)]
pub struct HttpSourceSettings {
    /// `staticPodURL`.
    pub url: String,
    /// `staticPodURLHeader`.
    pub headers: Headers,
    /// `httpCheckFrequency`.
    pub period: Duration,
    /// The name of this node, which becomes part of the pods' names.
    pub node_name: String,
    /// The directory for the last good version, only for this source.
    pub last_good: PathBuf,
    /// The clock for the time at which a pod was first seen.
    pub clock: Arc<dyn WallClock>,
    /// Checks what the node can run: a manifest that it cannot run does not replace the last good version.
    pub support: Arc<dyn SupportCheck>,
}

/// Polls a URL.
#[derive(Debug)]
pub struct HttpSource {
    http: Arc<dyn HttpGet>,
    request: Get,
    origin: Origin,
    /// The URL for logs and refusals, without secrets.
    shown: String,
    period: Duration,
    node_name: String,
    last_good: LastGood,
    clock: Arc<dyn WallClock>,
    support: Arc<dyn SupportCheck>,
    kept: StoredManifest,
    /// The digest of the last response body, valid or not.
    seen: Option<Digest>,
    problem: Problem,
    /// The problem of the last response.
    refusal: Option<String>,
    /// Read by the sync loop; closed when the source ends.
    pods: watch::Sender<Option<PodList>>,
    refusals: watch::Sender<RefusalList>,
    copies: watch::Sender<CopyTimes>,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("cannot get the manifest")]
    Http(#[source] HttpError),
    #[error("unexpected HTTP status {0}")]
    Status(u16),
}

/// Creates a source of the manifest at a URL.
pub fn http_source(
    settings: HttpSourceSettings,
    http: Arc<dyn HttpGet>,
    files: Arc<dyn HostFiles>,
) -> (HttpSource, SourceWatch) {
    let (pods, pod_watch) = watch::channel(None);
    let (refusals, refusal_watch) = watch::channel(RefusalList::default());
    let (copies, copy_watch) = watch::channel(CopyTimes::default());
    let HttpSourceSettings { url, headers, period, node_name, last_good, clock, support } =
        settings;
    let origin = Origin::Url(url.clone());
    let source = HttpSource {
        http,
        shown: without_secrets(&url),
        request: Get { url, headers, limit: podspec::MAX_MANIFEST_BYTES as u64, timeout: TIMEOUT },
        kept: StoredManifest::new(origin.clone()),
        origin,
        period: period.max(SHORTEST_PERIOD),
        node_name,
        last_good: LastGood::new(files, last_good, Arc::clone(&clock)),
        clock,
        support,
        seen: None,
        problem: Problem::default(),
        refusal: None,
        pods,
        refusals,
        copies,
    };
    let (unread, copies) = (None, Some(copy_watch));
    (source, SourceWatch { pods: pod_watch, refusals: refusal_watch, unread, copies })
}

impl HttpSource {
    /// Polls until `stop` is cancelled.
    pub async fn run(mut self, stop: CancellationToken) {
        let requesting = async {
            self.last_good.forget_others(std::slice::from_ref(&self.origin)).await;
            loop {
                self.poll().await;
                self.publish_refusal();
                sleep(self.period).await;
            }
        };
        // Biased: `stop` is cancelled once.
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = requesting => {}
        }
    }

    /// Sends one request and publishes the pods of the response, if they changed.
    async fn poll(&mut self) {
        let body = match self.get().await {
            Ok(body) => body,
            Err(error) => {
                if self.problem.is_new(&error) {
                    let (url, error) = (&self.shown, Chain(&error));
                    warn!(url, %error, "Cannot get static pods from URL, keeping pods");
                }
                self.restore().await;
                return;
            }
        };
        if self.problem.clear() {
            info!(url = self.shown, "Static pod URL is reachable again");
        }
        let digest = digest(&body);
        if self.seen == Some(digest) {
            self.kept.keep_again(&self.last_good).await;
            self.forget_older().await;
            return;
        }
        self.seen = Some(digest);
        self.refusal = None;
        let Some(pods) = self.make_pods(&body) else { return self.restore().await };
        if self.holds_back(&pods).await {
            return;
        }
        let text = String::from_utf8(body).expect("a decoded manifest is UTF-8");
        self.kept.keep(text, &self.last_good).await;
        self.forget_older().await;
        self.publish(pods, None);
    }

    /// Whether the last good version stays in use because the node cannot run a pod of this one.
    async fn holds_back(&mut self, pods: &[Pod]) -> bool {
        let support = Arc::clone(&self.support);
        let unsupported = |pod: &Pod| support.unsupported(pod);
        if pods.iter().all(|pod| unsupported(pod).is_none()) {
            return false;
        }
        let restored = self.restored().await;
        let current = self.pods.borrow().clone().unwrap_or_default();
        let on_disk = restored.iter().flat_map(|(pods, _)| pods);
        let last_good: Vec<&Pod> = current.iter().map(|pod| &**pod).chain(on_disk).collect();
        self.refusal = set_held_back(pods, &last_good, unsupported);
        let Some(error) = &self.refusal else { return false };
        warn!(url = self.shown, error, "Manifest rejected, keeping its last good version, if any");
        if let Some((pods, written)) = restored {
            self.publish(pods, written);
        }
        true
    }

    /// Removes the stored copy if it is not the version that was read last. An agent that starts without a copy treats
    /// no pod as orphaned before the server responds; with an outdated copy it would end pods of the current version.
    async fn forget_older(&self) {
        if self.kept.is_lacking() {
            self.last_good.forget(&self.origin).await;
        }
    }

    async fn get(&self) -> Result<Vec<u8>, FetchError> {
        let answer = self.http.get(&self.request).await.map_err(FetchError::Http)?;
        if answer.status == 200 { Ok(answer.body) } else { Err(FetchError::Status(answer.status)) }
    }

    /// Decodes the pods of a response; logs its problems.
    fn make_pods(&mut self, body: &[u8]) -> Option<Vec<Pod>> {
        if body.is_empty() {
            info!(url = self.shown, "Manifest is empty, no static pods");
            return Some(Vec::new());
        }
        match podspec::read_manifest(body, &self.origin, &self.node_name) {
            Ok(manifest) => {
                for warning in &manifest.warnings {
                    warn!(url = self.shown, %warning, "Manifest has a warning");
                }
                info!(url = self.shown, pods = manifest.pods.len(), "Manifest read");
                Some(manifest.pods)
            }
            Err(error) => {
                let (url, error) = (&self.shown, Chain(&error).to_string());
                warn!(url, error, "Manifest rejected, keeping its last good version, if any");
                self.refusal = Some(error);
                None
            }
        }
    }

    /// After a restart, publishes the pods of the last good version on disk.
    async fn restore(&mut self) {
        let Some((pods, written)) = self.restored().await else { return };
        info!(url = self.shown, "Restored the last good version of the manifest from disk");
        self.publish(pods, written);
    }

    /// The pods of the last good version on disk and when it was written; only once after a start.
    async fn restored(&mut self) -> Option<(Vec<Pod>, Option<Timestamp>)> {
        let copy = self.kept.restore(&self.last_good).await?;
        let refusal = self.refusal.take();
        let pods = self.make_pods(copy.content.as_bytes());
        self.refusal = refusal;
        Some((pods?, copy.written))
    }

    /// Publishes the problem, if it changed.
    fn publish_refusal(&self) {
        let message = self.problem.text().or(self.refusal.as_deref());
        let refusal = message.map(|message| Refusal {
            manifest: self.shown.clone(),
            message: message.to_owned(),
            pod: None,
            uid: None,
            last_good_stays: self.pods.borrow().as_ref().is_some_and(|pods| !pods.is_empty()),
        });
        refusal::publish(&self.refusals, refusal.into_iter().collect());
    }

    /// Publishes the pods; `written` is when the stored copy was written, if they are from one.
    fn publish(&self, mut pods: Vec<Pod>, written: Option<Timestamp>) {
        let (now, before) = (self.clock.now().to_string(), self.pods.borrow().clone());
        for pod in &mut pods {
            let mut all = before.iter().flat_map(|pods| pods.iter());
            let known = all.find(|known| known.metadata.uid == pod.metadata.uid);
            podspec::mark_seen(pod, known.map(|known| &**known), &now);
        }
        let of_copy = |pod: &Pod| Some((podspec::view::uid(pod), written?));
        let times: BTreeMap<PodUid, Timestamp> = pods.iter().filter_map(of_copy).collect();
        let pods: Vec<Arc<Pod>> = pods.into_iter().map(Arc::new).collect();
        copies::add(&self.copies, &times);
        self.pods.send_if_modified(|published| {
            let changed = published.as_deref() != Some(&pods);
            if changed {
                *published = Some(Arc::new(pods));
            }
            changed
        });
        copies::set(&self.copies, times);
    }
}

/// A URL without user, password and query.
fn without_secrets(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = authority.rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{host}{path}")
        }
        None => "(not a URL)".to_owned(),
    }
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
