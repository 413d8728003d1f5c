//! Which directory to listen to for changes of the manifests.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use model::chain::Chain;
use model::ports::files::{DirectoryWatch, FileKind, FileVersion, Heard, HostFiles};
use tracing::warn;

use crate::source::problem::Problem;

/// Listens to the directory of manifests; to the one around it as long as there is none, or if the
/// path is that of a single file.
#[derive(Debug)]
pub(super) struct Watching {
    path: PathBuf,
    current: Option<Current>,
    problem: Problem,
}

#[derive(Debug)]
struct Current {
    directory: PathBuf,
    /// Which directory that was: another one may take its place.
    version: FileVersion,
    watch: Box<dyn DirectoryWatch>,
}

impl Watching {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, current: None, problem: Problem::default() }
    }

    /// Sees to it that the right directory is listened to, if that is possible.
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
                self.problem.is_over();
                self.current = Some(Current { directory, version, watch });
            }
            Err(error) if self.problem.is_news(&error) => {
                warn!(
                    error = %Chain(&error),
                    "changes of manifests are not heard of; they are found by looking now and then"
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

    /// Waits for a change. Waits for ever when there is nothing to listen to. Nothing is lost when
    /// the wait is given up.
    pub(super) async fn heard(&mut self) {
        loop {
            let Some(current) = &mut self.current else { return std::future::pending().await };
            match current.watch.heard().await {
                // Something else around it.
                Some(Heard::Names(names)) if !concerns(&self.path, &current.directory, &names) => {}
                Some(_) => return,
                None => {
                    self.current = None;
                    return;
                }
            }
        }
    }
}

/// Whether what happened in a directory may matter for the path.
fn concerns(path: &Path, directory: &Path, names: &BTreeSet<OsString>) -> bool {
    directory == path || path.file_name().is_some_and(|name| names.contains(name))
}
