//! The stored copy of one manifest.

use model::chain::Chain;
use podspec::Origin;
use tracing::warn;

use super::last_good::{Copy, Digest, LastGood, digest};
use super::problem::Problem;

/// Keeps the last good version of one manifest on disk.
#[derive(Debug)]
pub(super) struct StoredManifest {
    origin: Origin,
    on_disk: OnDisk,
    problem: Problem,
}

#[derive(Debug)]
enum OnDisk {
    /// Not read yet.
    Unknown,
    /// This content, if any.
    Content(Option<Digest>),
    /// Not this content, which should be there.
    Lacks(String),
}

impl StoredManifest {
    pub(super) fn new(origin: Origin) -> Self {
        Self { origin, on_disk: OnDisk::Unknown, problem: Problem::default() }
    }

    /// The similarity of the stored copy to a manifest: 2 for the same content, 1 for other content, 0 for
    /// no copy.
    pub(super) async fn likeness(&mut self, content: Digest, disk: &LastGood) -> u8 {
        if let OnDisk::Unknown = self.on_disk {
            self.look(disk).await;
        }
        match self.on_disk {
            OnDisk::Content(Some(kept)) if kept == content => 2,
            OnDisk::Content(Some(_)) | OnDisk::Lacks(_) => 1,
            OnDisk::Content(None) | OnDisk::Unknown => 0,
        }
    }

    /// Stores a good version, if it is not on disk.
    pub(super) async fn keep(&mut self, content: String, disk: &LastGood) {
        if let OnDisk::Unknown = self.on_disk {
            self.look(disk).await;
        }
        let new = digest(content.as_bytes());
        if matches!(self.on_disk, OnDisk::Content(Some(old)) if old == new) {
            return;
        }
        self.on_disk = match disk.keep(&self.origin, &content).await {
            Ok(()) => {
                self.problem.clear();
                OnDisk::Content(Some(new))
            }
            Err(error) => {
                if self.problem.is_new(&error) {
                    let error = Chain(&error);
                    warn!(%error, "Cannot store manifest for the next start");
                }
                OnDisk::Lacks(content)
            }
        };
    }

    /// Whether the content should be on disk and is not.
    pub(super) fn is_lacking(&self) -> bool {
        matches!(self.on_disk, OnDisk::Lacks(_))
    }

    /// Retries a failed write.
    pub(super) async fn keep_again(&mut self, disk: &LastGood) {
        if let OnDisk::Lacks(content) = &mut self.on_disk {
            let content = std::mem::take(content);
            self.keep(content, disk).await;
        }
    }

    /// The version stored before this start of the agent; only once, and only while there is no newer one.
    pub(super) async fn restore(&mut self, disk: &LastGood) -> Option<Copy> {
        match self.on_disk {
            OnDisk::Unknown => self.look(disk).await,
            _ => None,
        }
    }

    async fn look(&mut self, disk: &LastGood) -> Option<Copy> {
        let copy = disk.load(&self.origin).await;
        let content = copy.as_ref().map(|copy| digest(copy.content.as_bytes()));
        self.on_disk = OnDisk::Content(content);
        copy
    }
}
