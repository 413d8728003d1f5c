//! Pods from manifests: a file, or all files of a directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use model::chain::Chain;
use model::ports::files::{FileError, FileKind, HostFiles};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// The complete set of pods of a source; `None` until it was read for the first time.
pub type PodSetWatch = watch::Receiver<Option<Arc<Vec<Pod>>>>;

/// Where and how often to look.
#[derive(Debug, Clone)]
pub struct FileSourceSettings {
    /// `staticPodPath`: a file, or a directory whose files are read in the order of their names.
    pub path: PathBuf,
    /// `fileCheckFrequency`.
    pub period: Duration,
    /// The name of this node, which becomes part of the pods' names.
    pub node_name: String,
}

/// Reads manifests now and then.
#[derive(Debug)]
pub struct FileSource {
    settings: FileSourceSettings,
    files: Arc<dyn HostFiles>,
    /// What each file said last, so that a file is read into a pod only when it changed, and a file
    /// that became unreadable keeps its pod.
    known: BTreeMap<PathBuf, Manifest>,
    /// Read by the sync loop; closed when the source ends.
    pods: watch::Sender<Option<Arc<Vec<Pod>>>>,
}

#[derive(Debug)]
struct Manifest {
    content: Vec<u8>,
    /// The last version that made sense.
    pod: Option<Pod>,
}

/// Makes a source of the manifests at a path.
pub fn file_source(
    settings: FileSourceSettings,
    files: Arc<dyn HostFiles>,
) -> (FileSource, PodSetWatch) {
    let (pods, receiver) = watch::channel(None);
    (FileSource { settings, files, known: BTreeMap::new(), pods }, receiver)
}

impl FileSource {
    /// Reads the manifests until told to stop.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            self.read().await;
            // Biased: stopping comes once.
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(self.settings.period) => {}
            }
        }
    }

    /// Reads all manifests once and tells what they say, if that is new.
    async fn read(&mut self) {
        let paths = match self.manifest_paths().await {
            Ok(paths) => paths,
            // The pods stay as they were: a directory that cannot be read says nothing about them.
            Err(error) => {
                warn!(error = %Chain(&error), "cannot look for manifests");
                return;
            }
        };
        self.known.retain(|path, _| paths.contains(path));
        for path in paths {
            self.read_manifest(path).await;
        }
        let pods: Vec<Pod> = self.known.values().filter_map(|known| known.pod.clone()).collect();
        self.pods.send_if_modified(|told| {
            if told.as_deref() == Some(&pods) {
                return false;
            }
            *told = Some(Arc::new(pods));
            true
        });
    }

    async fn manifest_paths(&self) -> Result<Vec<PathBuf>, FileError> {
        let path = &self.settings.path;
        let kind = match self.files.kind(path).await {
            Ok(kind) => kind,
            Err(error) if error.is_not_found() => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        if kind != FileKind::Directory {
            return Ok(vec![path.clone()]);
        }
        let mut paths = Vec::new();
        for name in self.files.list(path).await? {
            let entry = path.join(&name);
            if name.starts_with('.') {
                continue;
            }
            match self.files.kind(&entry).await {
                Ok(FileKind::File) => paths.push(entry),
                // No recursion; and what vanished or dangles is no manifest.
                Ok(_) => {}
                Err(error) if error.is_not_found() => {}
                // It may well be one: reading it says what is wrong and leaves its pod as it was.
                Err(_) => paths.push(entry),
            }
        }
        Ok(paths)
    }

    async fn read_manifest(&mut self, path: PathBuf) {
        let limit = u64::try_from(podspec::MAX_MANIFEST_BYTES).unwrap_or(u64::MAX);
        let content = match self.files.read(&path, limit).await {
            Ok(content) => content,
            Err(error) => {
                warn!(error = %Chain(&error), "cannot read a manifest; its pod stays as it was");
                return;
            }
        };
        let known = self.known.get(&path);
        if known.is_some_and(|known| known.content == content) {
            return;
        }
        let last_good = self.known.remove(&path).and_then(|known| known.pod);
        let pod = self.pod(&path, &content).or(last_good);
        self.known.insert(path, Manifest { content, pod });
    }

    /// The pod of a manifest, ready to run; what is wrong with it is logged, naming the file and the
    /// field.
    fn pod(&self, path: &Path, content: &[u8]) -> Option<Pod> {
        let file = path.display();
        let origin = podspec::Origin::File(path.to_path_buf());
        match podspec::read_manifest(content, &origin, &self.settings.node_name) {
            Ok(manifest) => {
                for warning in &manifest.warnings {
                    warn!(%file, %warning, "manifest");
                }
                // A file holds one pod; only a URL may give a list.
                let pod = manifest.pods.into_iter().next()?;
                info!(%file, pod = %podspec::view::pod_name(&pod), "manifest read");
                Some(pod)
            }
            Err(error) => {
                warn!(%file, error = %Chain(&error), "manifest refused; the last good version stays");
                None
            }
        }
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
