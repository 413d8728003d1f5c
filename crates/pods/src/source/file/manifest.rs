//! One manifest file: its content, and its last good version.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use model::chain::Chain;
use model::ids::{PodName, PodUid};
use model::ports::files::{FileVersion, HostFiles};
use podspec::{Origin, view};
use tokio::time::Instant;
use tracing::{info, warn};

use crate::decide::claims::Claim;
use crate::decide::support::held_back;
use crate::source::last_good::{Digest, LastGood, digest};
use crate::source::problem::Problem;
use crate::source::stored_manifest::StoredManifest;
use crate::source::{Refusal, SupportCheck};

/// After this time, a further change of a file certainly changes its version. Within this time, the clock of the
/// file system may be too coarse to tell two changes apart.
const SETTLED: Duration = Duration::from_secs(2);

/// The context for reading a manifest.
#[derive(Debug)]
pub(super) struct ReadContext<'a> {
    pub(super) files: &'a dyn HostFiles,
    pub(super) last_good: &'a LastGood,
    pub(super) node_name: &'a str,
    pub(super) now: Timestamp,
    pub(super) support: &'a dyn SupportCheck,
}

#[derive(Debug)]
pub(super) struct Manifest {
    origin: Origin,
    path: PathBuf,
    /// The last version read, unless reading failed.
    seen: Option<ReadFile>,
    /// The pod of the last good version.
    pod: Option<Arc<Pod>>,
    /// When the stored copy that the pod was read from was written; `None` if the pod was read from the file itself.
    copy: Option<Timestamp>,
    /// The stored copy of the last good version.
    kept: StoredManifest,
    /// The text, until the pod has its name and the text is stored.
    unkept: Option<String>,
    /// The name of its pod, and how similar the stored copy of an earlier agent is.
    holds: Option<PodName>,
    likeness: u8,
    /// The name that another pod holds, and the message about it.
    contested: Problem,
    /// The problem of reading the file.
    problem: Problem,
    /// The problem of its content.
    refusal: Option<String>,
}

/// The priority of a manifest whose pod already has the name.
const HOLDS: u8 = 3;

/// A name that the pod of another manifest has.
#[derive(Debug, thiserror::Error)]
#[error("{pod} is already the pod of {}", holder.display())]
struct NameTaken {
    pod: PodName,
    holder: PathBuf,
}

#[derive(Debug)]
struct ReadFile {
    version: FileVersion,
    /// When this version was read first.
    at: Instant,
    /// Whether an equal version guarantees equal content.
    is_settled: bool,
    content: Digest,
}

impl Manifest {
    pub(super) fn new(path: PathBuf) -> Self {
        let origin = Origin::File(path.clone());
        let kept = StoredManifest::new(origin.clone());
        Self {
            origin,
            path,
            seen: None,
            pod: None,
            copy: None,
            kept,
            unkept: None,
            holds: None,
            likeness: 0,
            contested: Problem::default(),
            problem: Problem::default(),
            refusal: None,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The pod of the last good version.
    pub(super) fn pod(&self) -> Option<Arc<Pod>> {
        self.pod.clone()
    }

    /// The pod's uid and when its stored copy was written, if the pod was read from a stored copy.
    pub(super) fn copy(&self) -> Option<(PodUid, Timestamp)> {
        let pod = self.pod.as_deref()?;
        Some((view::uid(pod), self.copy?))
    }

    /// Its claim to a pod name.
    pub(super) fn claim(&self) -> Option<Claim> {
        let pod = self.pod.as_ref()?;
        let (name, uid) = (view::pod_name(pod), view::uid(pod));
        let strength = if self.holds.as_ref() == Some(&name) { HOLDS } else { self.likeness };
        Some(Claim { pod: name, uid, strength })
    }

    /// Whether it has content that is not stored yet; also while its pod has no name.
    pub(super) fn is_unsettled(&self) -> bool {
        self.unkept.is_some()
    }

    /// Stores the text. Called when its pod has got its name.
    pub(super) async fn granted(&mut self, disk: &LastGood) {
        self.contested.clear();
        self.holds = self.pod.as_deref().map(view::pod_name);
        if let Some(text) = self.unkept.take() {
            self.kept.keep(text, disk).await;
        }
    }

    /// Called when the pod of another manifest has its pod's name or uid.
    pub(super) fn contested_by(&mut self, holder: &Path) {
        self.holds = None;
        let Some(pod) = self.pod.as_deref().map(view::pod_name) else { return };
        let taken = NameTaken { pod, holder: holder.to_owned() };
        if self.contested.is_new(&taken) {
            warn!(file = %self.path.display(), error = %taken, "Manifest rejected");
        }
    }

    /// Its problem, for operators.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        let pod = self.pod.as_deref();
        let contested = self.contested.text();
        let unreadable = self.problem.text().or(self.refusal.as_deref());
        let message = unreadable.or(contested)?.to_owned();
        Some(Refusal {
            manifest: self.path.display().to_string(),
            message,
            pod: pod.map(view::pod_name),
            uid: pod.filter(|_| contested.is_some()).map(view::uid),
            last_good_stays: unreadable.is_some() && pod.is_some() && contested.is_none(),
        })
    }

    /// Whether the file must be read when it is found in this version.
    pub(super) fn needs(&self, found: Option<FileVersion>) -> bool {
        !self.is_known(found) || self.kept.is_lacking()
    }

    fn is_known(&self, found: Option<FileVersion>) -> bool {
        self.seen.as_ref().is_some_and(|seen| seen.is_settled && Some(seen.version) == found)
    }

    /// Reads the file, unless it is known in the found version. Returns whether the pod changed.
    pub(super) async fn refresh(
        &mut self,
        found: Option<FileVersion>,
        with: &ReadContext<'_>,
    ) -> bool {
        if self.is_known(found) {
            self.kept.keep_again(with.last_good).await;
            return false;
        }
        let limit = podspec::MAX_MANIFEST_BYTES as u64;
        match with.files.read_version(&self.path, limit).await {
            Ok((version, content)) => {
                self.problem.clear();
                let digest = digest(&content);
                if self.is_same(version, digest) {
                    self.kept.keep_again(with.last_good).await;
                    return false;
                }
                let at = Instant::now();
                self.seen = Some(ReadFile { version, at, is_settled: false, content: digest });
                self.read(content, with).await
            }
            // It existed a moment ago: the next scan shows whether it was deleted.
            Err(error) if error.is_not_found() => false,
            Err(error) => {
                if self.problem.is_new(&error) {
                    warn!(error = %Chain(&error), "Cannot read manifest, keeping its pod");
                }
                self.seen = None;
                self.restore(with).await
            }
        }
    }

    /// Whether this is the content that was read before; records the version.
    fn is_same(&mut self, version: FileVersion, content: Digest) -> bool {
        let Some(seen) = self.seen.as_mut().filter(|seen| seen.content == content) else {
            return false;
        };
        if seen.version == version {
            seen.is_settled = seen.at.elapsed() >= SETTLED;
        } else {
            *seen = ReadFile { version, at: Instant::now(), is_settled: false, content };
        }
        true
    }

    /// Decodes new content. Returns whether the pod changed.
    async fn read(&mut self, content: Vec<u8>, with: &ReadContext<'_>) -> bool {
        let Some(pod) = self.make_pod(&content, with) else { return self.restore(with).await };
        let is_supported = with.support.unsupported(&pod).is_none();
        // For the comparison with the last good version.
        let is_restored = !is_supported && self.restore(with).await;
        self.refusal = held_back(&pod, self.pod.as_deref(), |pod| with.support.unsupported(pod));
        if let Some(error) = &self.refusal {
            let file = self.path.display();
            warn!(%file, error, "Manifest rejected, keeping its last good version, if any");
            return is_restored;
        }
        self.copy = None;
        self.likeness = self.kept.likeness(digest(&content), with.last_good).await;
        let text = String::from_utf8(content).expect("a decoded manifest is UTF-8");
        // A manifest that the node cannot run never becomes the last good version.
        self.unkept = is_supported.then_some(text);
        let pod = Some(Arc::new(pod));
        let changed = self.pod != pod || is_restored;
        if changed {
            self.pod = pod;
        }
        changed
    }

    /// The pod of a manifest; logs problems with the file and the line or the field.
    fn make_pod(&mut self, content: &[u8], with: &ReadContext<'_>) -> Option<Pod> {
        let file = self.path.display();
        match podspec::read_manifest(content, &self.origin, with.node_name) {
            Ok(manifest) => {
                for warning in &manifest.warnings {
                    warn!(%file, %warning, "Manifest has a warning");
                }
                // A file contains one pod; only a URL may serve a list.
                let mut pod = manifest.pods.into_iter().next()?;
                podspec::mark_seen(&mut pod, self.pod.as_deref(), &with.now.to_string());
                info!(%file, pod = %view::pod_name(&pod), "Manifest read");
                Some(pod)
            }
            Err(error) => {
                let message = Chain(&error).to_string();
                warn!(%file, error = message, "Manifest rejected, keeping its last good version, if any");
                self.refusal = Some(message);
                None
            }
        }
    }

    /// After a restart, takes the pod from the last good version on disk. Returns whether there was one.
    async fn restore(&mut self, with: &ReadContext<'_>) -> bool {
        let kept = self.kept.restore(with.last_good).await;
        let refusal = self.refusal.take();
        let written = kept.as_ref().and_then(|copy| copy.written);
        let pod = kept.and_then(|copy| self.make_pod(copy.content.as_bytes(), with));
        self.refusal = refusal;
        let Some(pod) = pod else { return false };
        self.copy = written;
        self.likeness = 2;
        let (file, name) = (self.path.display(), view::pod_name(&pod));
        info!(%file, pod = %name, "Restored the last good version of the manifest from disk");
        self.pod = Some(Arc::new(pod));
        true
    }
}
