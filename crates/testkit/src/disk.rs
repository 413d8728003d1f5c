//! A disk in memory, with the images of a runtime on it.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use model::ports::disk::{DiskSpace, Disks, FileUsage, ListedUsage, WalkBudget};
use model::ports::files::FileError;
use model::volume::Place;
use tokio::time::Instant;

use crate::runtime::MemoryRuntime;

/// One disk, mounted at one directory. Other paths have no disk.
#[derive(Debug)]
pub struct MemoryDisk {
    directory: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    capacity: u64,
    /// Bytes of other programs.
    others: u64,
    runtime: Option<Arc<MemoryRuntime>>,
    /// How long removed content still takes space.
    lag: Duration,
    /// Bytes of images at the last measurement, and the bytes of earlier ones that are still to be freed.
    images: u64,
    leaving: Vec<(Instant, u64)>,
    broken: Option<ErrorKind>,
    looks: usize,
    /// The files of directories, and what whole directories or single files take.
    listed: BTreeMap<PathBuf, ListedUsage>,
    taken: BTreeMap<PathBuf, FileUsage>,
    walks: Vec<(PathBuf, WalkBudget)>,
}

impl MemoryDisk {
    /// An empty disk.
    pub fn new(directory: impl Into<PathBuf>, capacity: u64) -> Self {
        let state = State {
            capacity,
            others: 0,
            runtime: None,
            lag: Duration::ZERO,
            images: 0,
            leaving: Vec::new(),
            broken: None,
            looks: 0,
            listed: BTreeMap::new(),
            taken: BTreeMap::new(),
            walks: Vec::new(),
        };
        Self { directory: directory.into(), state: Mutex::new(state) }
    }

    /// Puts the images of a runtime on the disk; shared layers take space once.
    #[must_use]
    pub fn holding(self, runtime: Arc<MemoryRuntime>) -> Self {
        self.state().runtime = Some(runtime);
        self
    }

    /// Removed content takes space for this much longer.
    pub fn set_lag(&self, lag: Duration) {
        self.state().lag = lag;
    }

    /// Sets the bytes of other programs.
    pub fn set_others(&self, bytes: u64) {
        self.state().others = bytes;
    }

    /// Sets the capacity.
    pub fn set_capacity(&self, bytes: u64) {
        self.state().capacity = bytes;
    }

    /// Makes every measurement fail; `None` clears this.
    pub fn fail(&self, kind: Option<ErrorKind>) {
        self.state().broken = kind;
    }

    /// Sets the plain files of a directory.
    pub fn set_listed(&self, directory: impl Into<PathBuf>, usage: ListedUsage) {
        self.state().listed.insert(directory.into(), usage);
    }

    /// Sets what a directory with its content, or a file, takes.
    pub fn set_taken(&self, path: impl Into<PathBuf>, usage: FileUsage) {
        self.state().taken.insert(path.into(), usage);
    }

    /// The number of walks through directories.
    pub fn walks(&self) -> usize {
        self.state().walks.len()
    }

    /// The directories of these walks, with their budgets.
    pub fn walked(&self) -> Vec<(PathBuf, WalkBudget)> {
        self.state().walks.clone()
    }

    /// The number of measurements, without those of volumes.
    pub fn looks(&self) -> usize {
        self.state().looks
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn look(&mut self, directory: &Path, path: &Path) -> Result<DiskSpace, ErrorKind> {
        if let Some(kind) = self.broken {
            return Err(kind);
        }
        if !path.starts_with(directory) {
            return Err(ErrorKind::NotFound);
        }
        let now = Instant::now();
        let images = self.runtime.as_ref().map_or(0, |runtime| runtime.image_bytes());
        if images < self.images && !self.lag.is_zero() {
            self.leaving.push((now + self.lag, self.images - images));
        }
        self.images = images;
        self.leaving.retain(|(until, _)| now < *until);
        let leaving: u64 = self.leaving.iter().map(|(_, bytes)| bytes).sum();
        let used = self.others.saturating_add(images).saturating_add(leaving);
        let available = self.capacity.saturating_sub(used);
        Ok(DiskSpace {
            capacity: self.capacity,
            available,
            free: available,
            ..DiskSpace::default()
        })
    }
}

#[async_trait]
impl Disks for MemoryDisk {
    async fn space(&self, path: &Path) -> Result<DiskSpace, FileError> {
        self.state().looks += 1;
        self.volume_space(path).await
    }

    async fn volume_space(&self, path: &Path) -> Result<DiskSpace, FileError> {
        let looked = self.state().look(&self.directory, path);
        looked.map_err(|kind| failed(path, kind))
    }

    async fn listed_usage(&self, directory: &Path) -> Result<ListedUsage, FileError> {
        let found = self.state().listed.get(directory).cloned();
        found.ok_or_else(|| failed(directory, ErrorKind::NotFound))
    }

    async fn file_usage(&self, file: &Path) -> Result<FileUsage, FileError> {
        let found = self.state().taken.get(file).copied();
        found.ok_or_else(|| failed(file, ErrorKind::NotFound))
    }

    async fn walked_usage(
        &self,
        place: &Place,
        budget: WalkBudget,
    ) -> Result<FileUsage, FileError> {
        self.state().walks.push((place.path(), budget));
        self.file_usage(&place.path()).await
    }
}

fn failed(path: &Path, kind: ErrorKind) -> FileError {
    FileError {
        operation: "measure the disk of",
        path: path.to_owned(),
        source: io::Error::from(kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::VirtualClock;
    use crate::contract::disk::disks_contract;
    use crate::runtime::RemoteImage;

    #[tokio::test]
    async fn memory_adapter_passes_the_contract() {
        let disk = MemoryDisk::new("/images", 1000);
        disk.set_others(300);
        disks_contract(&disk, Path::new("/images/below"), Path::new("/nowhere")).await.unwrap();
        disk.fail(Some(ErrorKind::PermissionDenied));
        disk.space(Path::new("/images")).await.unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn shared_layers_are_counted_once_and_freed_late() {
        let runtime = Arc::new(MemoryRuntime::new(Arc::new(VirtualClock::new())));
        let one = RemoteImage::new("a").layers([("base", 100), ("a", 20)]);
        let two = RemoteImage::new("b").layers([("base", 100), ("b", 30)]);
        runtime.add_image(&one);
        let id = runtime.add_image(&two);
        assert_eq!(runtime.images().iter().map(|image| image.size).sum::<u64>(), 250);
        let disk = MemoryDisk::new("/", 1000).holding(Arc::clone(&runtime));
        disk.set_lag(Duration::from_secs(2));
        let available = async || disk.space(Path::new("/")).await.unwrap().available;
        assert_eq!(available().await, 850);
        runtime.drop_image(&id);
        assert_eq!(available().await, 850);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(available().await, 880);
        assert_eq!(disk.looks(), 3);
    }
}
