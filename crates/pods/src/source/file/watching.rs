//! Chooses the directory to watch for changes of the manifests.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use model::chain::Chain;
use model::ports::files::{DirectoryChange, DirectoryWatch, FileKind, FileVersion, HostFiles};
use tracing::warn;

use crate::source::problem::Problem;

/// Watches the directory of manifests; its parent while it does not exist, or if the path is that of
/// a single file.
#[derive(Debug)]
pub(super) struct Watching {
    path: PathBuf,
    current: Option<Current>,
    problem: Problem,
}

#[derive(Debug)]
struct Current {
    directory: PathBuf,
    /// Identifies the directory: another one may replace it.
    version: FileVersion,
    watch: Box<dyn DirectoryWatch>,
}

impl Watching {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, current: None, problem: Problem::default() }
    }

    /// Watches the right directory, if that is possible.
    pub(super) async fn renew(&mut self, files: &dyn HostFiles) {
        let Some((directory, version)) = self.directory(files).await else {
            self.current = None;
            return;
        };
        let is_current = |current: &Current| {
            current.directory == directory && current.version.same_file(&version)
        };
        if self.current.as_ref().is_some_and(is_current) {
            return;
        }
        self.current = None;
        match files.watch(&directory).await {
            Ok(watch) => {
                self.problem.clear();
                self.current = Some(Current { directory, version, watch });
            }
            Err(error) if self.problem.is_new(&error) => {
                warn!(
                    error = %Chain(&error),
                    "Cannot watch static pod directory, falling back to polling"
                );
            }
            Err(_) => {}
        }
    }

    async fn directory(&self, files: &dyn HostFiles) -> Option<(PathBuf, FileVersion)> {
        let is_directory = |path: PathBuf| async move {
            let found = files.look(&path).await.ok()?;
            (found.kind == FileKind::Directory).then_some((path, found.version))
        };
        match is_directory(self.path.clone()).await {
            Some(directory) => Some(directory),
            None => is_directory(self.path.parent()?.to_owned()).await,
        }
    }

    /// Waits for a change; never returns when nothing is watched. Cancel safe.
    pub(super) async fn changed(&mut self) {
        loop {
            let Some(current) = &mut self.current else { return std::future::pending().await };
            match current.watch.next_change().await {
                // Another entry of the parent directory.
                Some(DirectoryChange::Names(names))
                    if !concerns(&self.path, &current.directory, &names) => {}
                Some(_) => return,
                None => {
                    self.current = None;
                    return;
                }
            }
        }
    }
}

/// Whether a change of these entries of a directory may affect the path.
fn concerns(path: &Path, directory: &Path, names: &BTreeSet<OsString>) -> bool {
    directory == path || path.file_name().is_some_and(|name| names.contains(name))
}
