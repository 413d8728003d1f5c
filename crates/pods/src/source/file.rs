//! Pods from manifests: a file, or all files of a directory.
//!
//! Changes are found at once by watching the directory; a scan every `fileCheckFrequency` finds changes that the
//! watch missed. Both run the same scan, which reads only changed files.

mod manifest;
mod watching;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use model::chain::Chain;
use model::ids::PodUid;
use model::ports::clock::WallClock;
use model::ports::files::{FileError, FileKind, FileVersion, HostFiles};
use podspec::Origin;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::last_good::LastGood;
use super::problem::Problem;
use super::refusal::{self, Refusal, RefusalList};
use super::{CopyTimes, PodList, SourceWatch, SupportCheck, copies};
use crate::decide::claims::contest;

use manifest::{Manifest, ReadContext};
use watching::Watching;

/// How long changes are gathered before a scan. An editor that writes, renames and sets the
/// mode makes one change, and a replaced file is not taken for a deleted one.
const GATHER: Duration = Duration::from_millis(40);

/// How many manifests are read and stored concurrently.
const READ_AT_A_TIME: usize = 16;

/// The minimum scan period: more frequent scans would keep the agent busy.
const SHORTEST_PERIOD: Duration = Duration::from_millis(100);

/// Settings of the file source.
#[derive(Debug, Clone)]
pub struct FileSourceSettings {
    /// `staticPodPath`: a file, or a directory whose files are read in the order of their names.
    pub path: PathBuf,
    /// `fileCheckFrequency`: the period of scans without a change.
    pub period: Duration,
    /// The name of this node, which becomes part of the pods' names.
    pub node_name: String,
    /// The directory for the last good versions, only for this source.
    pub last_good: PathBuf,
    /// The clock for the time at which a pod was first seen.
    pub clock: Arc<dyn WallClock>,
    /// Checks what the node can run: a manifest that it cannot run does not replace the last good version.
    pub support: Arc<dyn SupportCheck>,
}

/// Reads manifests when they change, and periodically.
#[derive(Debug)]
pub struct FileSource {
    settings: FileSourceSettings,
    files: Arc<dyn HostFiles>,
    last_good: LastGood,
    watching: Watching,
    /// The last content of each file: a file is decoded only when it changed, and a file that became unreadable
    /// keeps its pod. Boxed, because a map reserves space for more entries than it has.
    known: BTreeMap<PathBuf, Box<Manifest>>,
    /// A problem with the path itself.
    problem: Problem,
    /// Read by the sync loop; closed when the source ends.
    pods: watch::Sender<Option<PodList>>,
    refusals: watch::Sender<RefusalList>,
    copies: watch::Sender<CopyTimes>,
}

/// Why the manifests cannot be listed.
#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error("list manifests")]
    Files(#[source] FileError),
    #[error("{} is neither a file nor a directory", .0.display())]
    Special(PathBuf),
}

/// The manifest files found, with their versions if those are known.
type Manifests = BTreeMap<PathBuf, Option<FileVersion>>;

/// Creates a source of the manifests at a path.
pub fn file_source(
    settings: FileSourceSettings,
    files: Arc<dyn HostFiles>,
) -> (FileSource, SourceWatch) {
    let (pods, pod_watch) = watch::channel(None);
    let (refusals, refusal_watch) = watch::channel(RefusalList::default());
    let (copies, copy_watch) = watch::channel(CopyTimes::default());
    let (directory, clock) = (settings.last_good.clone(), Arc::clone(&settings.clock));
    let source = FileSource {
        last_good: LastGood::new(Arc::clone(&files), directory, clock),
        watching: Watching::new(settings.path.clone()),
        known: BTreeMap::new(),
        problem: Problem::default(),
        settings,
        files,
        pods,
        refusals,
        copies,
    };
    let (unread, copies) = (None, Some(copy_watch));
    (source, SourceWatch { pods: pod_watch, refusals: refusal_watch, unread, copies })
}

impl FileSource {
    /// Reads the manifests until `stop` is cancelled.
    pub async fn run(mut self, stop: CancellationToken) {
        let period = self.settings.period.max(SHORTEST_PERIOD);
        let reading = async {
            loop {
                self.look().await;
                // The result does not matter: the next scan finds all changes.
                timeout(period, self.gather()).await.ok();
            }
        };
        // Biased: `stop` is cancelled once.
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = reading => {}
        }
    }

    /// Waits for a change, and then a moment for further changes.
    async fn gather(&mut self) {
        self.watching.changed().await;
        let end = Instant::now() + GATHER;
        while timeout_at(end, self.watching.changed()).await.is_ok() {}
    }

    /// Scans all manifests, reads those that changed, and publishes their pods if they changed.
    async fn look(&mut self) {
        // Before the scan, so that a change after it is noticed.
        self.watching.renew(&*self.files).await;
        let manifests = match self.manifests().await {
            Ok(found) => found,
            // Keep the pods: an unreadable directory does not show which manifests were deleted.
            Err(error) => {
                if self.problem.is_new(&error) {
                    let path = self.settings.path.display();
                    warn!(%path, error = %Chain(&error), "Cannot read static pod path, keeping pods");
                }
                self.publish_refusals();
                return;
            }
        };
        let had_problem = self.problem.text().is_some();
        self.problem.clear();
        let is_first = self.pods.borrow().is_none();
        if !is_first && !had_problem && self.is_as_known(&manifests) {
            return;
        }
        let mut changed = is_first;
        if is_first {
            let origins: Vec<Origin> = manifests.keys().cloned().map(Origin::File).collect();
            self.last_good.forget_others(&origins).await;
        }
        changed |= self.forget_all_but(&manifests).await;
        changed |= self.refresh(manifests).await;
        if changed || self.known.values().any(|manifest| manifest.is_unsettled()) {
            let pods = self.settle().await;
            if changed {
                copies::add(&self.copies, &self.copy_times());
                self.pods.send_replace(Some(Arc::new(pods)));
            }
        }
        copies::set(&self.copies, self.copy_times());
        self.publish_refusals();
    }

    /// Decides which pod gets a name that several manifests use, and stores the manifests of the winners. Returns all
    /// pods in the order of their manifests, with pods that did not get their name at the end.
    async fn settle(&mut self) -> Vec<Arc<Pod>> {
        let (wanting, claims): (Vec<&mut Manifest>, Vec<_>) = self
            .known
            .values_mut()
            .map(|manifest| &mut **manifest)
            .filter_map(|manifest| manifest.claim().map(|claim| (manifest, claim)))
            .unzip();
        let winners = contest(&claims);
        let holders: Vec<Option<PathBuf>> =
            winners.iter().map(|by| by.map(|index| wanting[index].path().to_owned())).collect();
        let (mut pods, mut late) = (Vec::new(), Vec::new());
        let mut under_way = FuturesUnordered::new();
        for (manifest, holder) in wanting.into_iter().zip(&holders) {
            let Some(holder) = holder else {
                pods.extend(manifest.pod());
                if under_way.len() == READ_AT_A_TIME {
                    under_way.next().await;
                }
                under_way.push(manifest.granted(&self.last_good).boxed());
                continue;
            };
            late.extend(manifest.pod());
            manifest.contested_by(holder);
        }
        while under_way.next().await.is_some() {}
        pods.append(&mut late);
        pods
    }

    fn copy_times(&self) -> BTreeMap<PodUid, jiff::Timestamp> {
        self.known.values().filter_map(|manifest| manifest.copy()).collect()
    }

    /// Publishes the problems of manifests, if they changed.
    fn publish_refusals(&self) {
        let path = self.problem.text().map(|message| Refusal {
            manifest: self.settings.path.display().to_string(),
            message: message.to_owned(),
            pod: None,
            uid: None,
            last_good_stays: !self.known.is_empty(),
        });
        let manifests = self.known.values().filter_map(|manifest| manifest.refusal());
        refusal::publish(&self.refusals, path.into_iter().chain(manifests).collect());
    }

    /// Whether exactly these manifests are known and none needs work. This is the usual case, so it is checked first.
    /// Both are in the order of their paths.
    fn is_as_known(&self, manifests: &Manifests) -> bool {
        self.known.len() == manifests.len()
            && self.known.iter().zip(manifests).all(|((known, manifest), (path, version))| {
                known == path && !manifest.needs(*version) && !manifest.is_unsettled()
            })
    }

    /// Reads changed manifests, some concurrently. Returns whether pods changed.
    async fn refresh(&mut self, manifests: Manifests) -> bool {
        for path in manifests.keys() {
            let known = self.known.entry(path.clone());
            known.or_insert_with_key(|path| Box::new(Manifest::new(path.clone())));
        }
        let node_name = &self.settings.node_name;
        let now = self.settings.clock.now();
        let (files, support) = (&*self.files, &*self.settings.support);
        let reading = ReadContext { files, last_good: &self.last_good, node_name, now, support };
        // Both are in the order of their paths, and of the same paths.
        let both = self.known.values_mut().zip(manifests.into_values());
        let mut under_way = FuturesUnordered::new();
        let mut changed = false;
        for (manifest, version) in both.filter(|(manifest, version)| manifest.needs(*version)) {
            if under_way.len() == READ_AT_A_TIME {
                changed |= under_way.next().await == Some(true);
            }
            under_way.push(manifest.refresh(version, &reading).boxed());
        }
        while let Some(one) = under_way.next().await {
            changed |= one;
        }
        changed
    }

    /// Forgets deleted manifests. Returns whether one of them had a pod.
    async fn forget_all_but(&mut self, manifests: &Manifests) -> bool {
        let is_gone = |path: &PathBuf| !manifests.contains_key(path);
        let gone: Vec<PathBuf> = self.known.keys().filter(|path| is_gone(path)).cloned().collect();
        let mut had_pods = false;
        for path in gone {
            let manifest = self.known.remove(&path);
            had_pods |= manifest.is_some_and(|manifest| manifest.pod().is_some());
            self.last_good.forget(&Origin::File(path)).await;
        }
        had_pods
    }

    /// Lists the manifests. A missing one counts as deleted only if it is missing twice: editors
    /// move a file away before they put the new one in its place.
    async fn manifests(&self) -> Result<Manifests, LookError> {
        let manifests = self.find().await?;
        let is_there = |path: &PathBuf| manifests.contains_key(path);
        if self.is_as_known(&manifests) || self.known.keys().all(is_there) {
            return Ok(manifests);
        }
        sleep(GATHER).await;
        self.find().await
    }

    /// Lists the manifests once.
    async fn find(&self) -> Result<Manifests, LookError> {
        let path = &self.settings.path;
        let found = match self.files.look(path).await {
            Ok(found) => found,
            Err(error) if error.is_not_found() => return Ok(Manifests::new()),
            Err(error) => return Err(LookError::Files(error)),
        };
        match found.kind {
            FileKind::File => {
                return Ok(Manifests::from([(path.clone(), Some(found.version))]));
            }
            FileKind::Special => return Err(LookError::Special(path.clone())),
            FileKind::Directory => {}
        }
        let entries = self.files.entries(path).await.map_err(LookError::Files)?.into_iter();
        // Entries are sorted, and building a map from a sorted list is faster than inserting.
        let manifests = entries
            .filter(|entry| !entry.name.as_encoded_bytes().starts_with(b"."))
            .filter_map(|entry| {
                let version = match entry.found {
                    Ok(found) if found.kind == FileKind::File => Some(found.version),
                    // No recursion; an entry that vanished or is a dangling link is not a manifest.
                    Ok(_) => return None,
                    Err(error) if error.is_not_found() => return None,
                    // It may be a manifest: reading it reports the problem and keeps its pod.
                    Err(_) => None,
                };
                Some((path.join(entry.name), version))
            })
            .collect();
        Ok(manifests)
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
