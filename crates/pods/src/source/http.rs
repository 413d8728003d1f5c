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

use super::kept::Kept;
use super::last_good::{Digest, LastGood, digest};
use super::problem::Problem;
use super::refusal::{self, Refusal, RefusalList};
use super::{CopyTimes, PodList, SourceWatch, SupportCheck, copies};
use crate::decide::support::set_held_back;

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Asking more often than this would be all that the agent does.
const SHORTEST_PERIOD: Duration = Duration::from_millis(100);

/// What to ask, and how often.
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
    /// The directory for the last good version, for this source alone.
    pub last_good: PathBuf,
    /// Tells when a pod was first seen.
    pub clock: Arc<dyn WallClock>,
    /// What the node can run: no other version replaces the last good one.
    pub support: Arc<dyn SupportCheck>,
}

/// Asks a URL now and then.
#[derive(Debug)]
pub struct HttpSource {
    http: Arc<dyn HttpGet>,
    request: Get,
    origin: Origin,
    /// The URL as it may be told: without what may be secret.
    shown: String,
    period: Duration,
    node_name: String,
    last_good: LastGood,
    clock: Arc<dyn WallClock>,
    support: Arc<dyn SupportCheck>,
    kept: Kept,
    /// The last answer, good or bad.
    seen: Option<Digest>,
    problem: Problem,
    /// What is wrong with the last answer.
    refusal: Option<String>,
    /// Read by the sync loop; closed when the source ends.
    pods: watch::Sender<Option<PodList>>,
    refusals: watch::Sender<RefusalList>,
    copies: watch::Sender<CopyTimes>,
}

/// Why there is no news.
#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error("cannot get the manifest")]
    Http(#[source] HttpError),
    #[error("the server answers {0}")]
    Status(u16),
}

/// Makes a source of the manifest at a URL.
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
        kept: Kept::new(origin.clone()),
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
    /// Asks until told to stop.
    pub async fn run(mut self, stop: CancellationToken) {
        let asking = async {
            self.last_good.forget_others(std::slice::from_ref(&self.origin)).await;
            loop {
                self.ask().await;
                self.tell_refusal();
                sleep(self.period).await;
            }
        };
        // Biased: stopping comes once.
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = asking => {}
        }
    }

    /// Asks once and tells what the answer says, if that is new.
    async fn ask(&mut self) {
        let body = match self.get().await {
            Ok(body) => body,
            Err(error) => {
                if self.problem.is_news(&error) {
                    let (url, error) = (&self.shown, Chain(&error));
                    warn!(url, %error, "no news of static pods; they stay as they were");
                }
                self.restore().await;
                return;
            }
        };
        if self.problem.is_over() {
            info!(url = self.shown, "the server of static pods answers again");
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
        let text = String::from_utf8(body).expect("a manifest that was read is text");
        self.kept.keep(text, &self.last_good).await;
        self.forget_older().await;
        self.tell(pods, None);
    }

    /// Whether the last good version stays because the node cannot run a pod of this one.
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
        warn!(
            url = self.shown,
            error, "manifest refused; its last good version stays, if there is one"
        );
        if let Some((pods, written)) = restored {
            self.tell(pods, written);
        }
        true
    }

    /// What is on disk goes if it is not what was read last. To an agent that finds nothing nobody is a stranger before the
    /// server answers; by an older version it would end what runs by this one.
    async fn forget_older(&self) {
        if self.kept.is_lacking() {
            self.last_good.forget(&self.origin).await;
        }
    }

    async fn get(&self) -> Result<Vec<u8>, AskError> {
        let answer = self.http.get(&self.request).await.map_err(AskError::Http)?;
        if answer.status == 200 { Ok(answer.body) } else { Err(AskError::Status(answer.status)) }
    }

    /// The pods of an answer, ready to run; what is wrong with it is logged.
    fn make_pods(&mut self, body: &[u8]) -> Option<Vec<Pod>> {
        if body.is_empty() {
            info!(url = self.shown, "no static pods");
            return Some(Vec::new());
        }
        match podspec::read_manifest(body, &self.origin, &self.node_name) {
            Ok(manifest) => {
                for warning in &manifest.warnings {
                    warn!(url = self.shown, %warning, "manifest");
                }
                info!(url = self.shown, pods = manifest.pods.len(), "manifest read");
                Some(manifest.pods)
            }
            Err(error) => {
                let (url, error) = (&self.shown, Chain(&error).to_string());
                warn!(url, error, "manifest refused; its last good version stays, if there is one");
                self.refusal = Some(error);
                None
            }
        }
    }

    /// After a restart, takes the pods from the last good version on disk.
    async fn restore(&mut self) {
        let Some((pods, written)) = self.restored().await else { return };
        info!(url = self.shown, "the manifest's last good version is back from disk");
        self.tell(pods, written);
    }

    /// The pods of the last good version on disk, once, and when that was written.
    async fn restored(&mut self) -> Option<(Vec<Pod>, Option<Timestamp>)> {
        let copy = self.kept.restore(&self.last_good).await?;
        let refusal = self.refusal.take();
        let pods = self.make_pods(copy.content.as_bytes());
        self.refusal = refusal;
        Some((pods?, copy.written))
    }

    /// Tells what is wrong, if that is new.
    fn tell_refusal(&self) {
        let message = self.problem.text().or(self.refusal.as_deref());
        let refusal = message.map(|message| Refusal {
            manifest: self.shown.clone(),
            message: message.to_owned(),
            pod: None,
            uid: None,
            last_good_stays: self.pods.borrow().as_ref().is_some_and(|pods| !pods.is_empty()),
        });
        refusal::tell(&self.refusals, refusal.into_iter().collect());
    }

    /// Tells the pods, and when the stored copy was written if they are of one.
    fn tell(&self, mut pods: Vec<Pod>, written: Option<Timestamp>) {
        let (now, before) = (self.clock.now().to_string(), self.pods.borrow().clone());
        for pod in &mut pods {
            let mut all = before.iter().flat_map(|told| told.iter());
            let known = all.find(|known| known.metadata.uid == pod.metadata.uid);
            podspec::mark_seen(pod, known.map(|known| &**known), &now);
        }
        let of_copy = |pod: &Pod| Some((podspec::view::uid(pod), written?));
        let times: BTreeMap<PodUid, Timestamp> = pods.iter().filter_map(of_copy).collect();
        let pods: Vec<Arc<Pod>> = pods.into_iter().map(Arc::new).collect();
        copies::add(&self.copies, &times);
        self.pods.send_if_modified(|told| {
            let is_news = told.as_deref() != Some(&pods);
            if is_news {
                *told = Some(Arc::new(pods));
            }
            is_news
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
