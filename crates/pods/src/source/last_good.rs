//! The last good version of every manifest, on disk: a restart of the agent while a manifest is
//! broken must not end its pod.
//!
//! One file for each manifest, named by a hash of its origin. An unreadable file counts as
//! missing, and never prevents the start.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use model::chain::Chain;
use model::checkpoint::{Checkpoint, Format};
use model::ports::clock::WallClock;
use model::ports::files::{FileError, HostFiles, is_draft};
use podspec::Origin;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tracing::warn;

/// The format of the files. A manifest is larger as JSON, but not by this much.
const FORMAT: Format = Format { version: 2, limit: 4 * podspec::MAX_MANIFEST_BYTES as u64 };

/// A hash that identifies content.
pub(super) type Digest = [u8; 32];

pub(super) fn digest(content: &[u8]) -> Digest {
    Sha256::digest(content).into()
}

/// The stored versions; the directory is used for nothing else.
#[derive(Debug)]
pub(super) struct LastGood {
    files: Arc<dyn HostFiles>,
    directory: PathBuf,
    clock: Arc<dyn WallClock>,
}

/// The content of a file in the directory.
#[derive(Debug, Serialize, Deserialize)]
struct Saved {
    /// The origin of the manifest; for operators, and to detect a file that was copied here.
    origin: String,
    content: String,
    /// When it was written; earlier agents did not record it.
    #[serde(default)]
    written: Option<Timestamp>,
}

/// A stored version of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Copy {
    pub(super) content: String,
    /// When it was written, if that is known.
    pub(super) written: Option<Timestamp>,
}

impl LastGood {
    pub(super) fn new(
        files: Arc<dyn HostFiles>,
        directory: PathBuf,
        clock: Arc<dyn WallClock>,
    ) -> Self {
        Self { files, directory, clock }
    }

    /// The last good version of a manifest, if there is one.
    pub(super) async fn load(&self, origin: &Origin) -> Option<Copy> {
        let file = self.file(origin);
        let path = file.path().display();
        match file.read().await {
            Ok(Some(Saved { origin: of, content, written })) if of == describe(origin) => {
                Some(Copy { content, written })
            }
            Ok(Some(_)) => {
                warn!(file = %path, "Ignoring stored manifest: it belongs to another origin");
                None
            }
            Ok(None) => None,
            Err(error) => {
                warn!(file = %path, error = %Chain(&error), "Ignoring unreadable stored manifest");
                None
            }
        }
    }

    /// Stores a good version in place of the previous one.
    pub(super) async fn keep(&self, origin: &Origin, content: &str) -> Result<(), FileError> {
        let written = Some(self.clock.now());
        let saved = Saved { origin: describe(origin), content: content.to_owned(), written };
        self.file(origin).write(&saved).await
    }

    /// Removes the copy of a deleted manifest.
    pub(super) async fn forget(&self, origin: &Origin) {
        self.remove(&self.path(origin)).await;
    }

    /// Removes the copies of all other manifests, and files left by a crash.
    pub(super) async fn forget_others(&self, origins: &[Origin]) {
        let keep: BTreeSet<String> = origins.iter().map(file_name).collect();
        let names = match self.files.list(&self.directory).await {
            Ok(names) => names,
            Err(error) if error.is_not_found() => return,
            Err(error) => {
                warn!(error = %Chain(&error), "Cannot list stored manifests");
                return;
            }
        };
        for name in names {
            let path = self.directory.join(&name);
            if is_draft(&name) || (is_file_name(&name) && !keep.contains(&name)) {
                self.remove(&path).await;
            } else if !keep.contains(&name) {
                warn!(file = %path.display(), "Skipping unknown file in the directory of stored manifests");
            }
        }
    }

    async fn remove(&self, path: &Path) {
        if let Err(error) = self.files.remove_written(path).await {
            // It is retried at the next request, or at the next start.
            warn!(error = %Chain(&error), "Cannot remove stored manifest");
        }
    }

    fn path(&self, origin: &Origin) -> PathBuf {
        self.directory.join(file_name(origin))
    }

    fn file(&self, origin: &Origin) -> Checkpoint<Saved> {
        Checkpoint::new(Arc::clone(&self.files), self.path(origin), FORMAT)
    }
}

fn file_name(origin: &Origin) -> String {
    let (kind, place) = match origin {
        Origin::File(path) => ("file:", path.as_os_str().as_encoded_bytes()),
        Origin::Url(url) => ("url:", url.as_bytes()),
    };
    let hash = Sha256::new().chain_update(kind).chain_update(place).finalize();
    format!("{}.json", hex(&hash))
}

fn is_file_name(name: &str) -> bool {
    name.strip_suffix(".json").is_some_and(|hash| {
        hash.len() == 64 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

fn describe(origin: &Origin) -> String {
    match origin {
        Origin::File(path) => path.to_string_lossy().into_owned(),
        Origin::Url(url) => url.clone(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        text
    })
}

#[cfg(test)]
#[path = "last_good_tests.rs"]
mod tests;
