//! The read-only ports of an agent: disk space and container logs. Reads fail or are slow, and the agent dies
//! during them.

use std::io;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use model::ports::disk::{DiskSpace, Disks, FileUsage, ListedUsage, WalkBudget};
use model::ports::files::FileError;
use model::ports::logs::{ContainerLogs, Ended, LogRequest, LogText};
use model::volume::Place;

use crate::faulty::{Attempt, faulty};
use crate::life::Life;
use crate::outside::{FaultPoint, Outside};

/// The read-only ports of one agent.
#[derive(Debug)]
pub(crate) struct FaultyReads {
    pub(crate) outside: Arc<Outside>,
    pub(crate) life: Arc<Life>,
}

impl FaultyReads {
    async fn call<T>(
        &self,
        point: FaultPoint,
        operation: &'static str,
        path: &Path,
        work: impl Future<Output = Result<T, FileError>>,
    ) -> Result<T, FileError> {
        let what = format!("{operation} {}", path.display());
        let broken = || {
            let source = io::Error::other("input/output error");
            FileError { operation, path: path.to_owned(), source }
        };
        let attempt = Attempt { point, what: &what, broken };
        faulty(&self.outside, &self.life, attempt, work).await
    }
}

#[async_trait]
impl Disks for FaultyReads {
    async fn space(&self, path: &Path) -> Result<DiskSpace, FileError> {
        self.call(FaultPoint::Disk, "measure", path, self.outside.disk.space(path)).await
    }

    async fn volume_space(&self, path: &Path) -> Result<DiskSpace, FileError> {
        self.call(FaultPoint::Disk, "measure", path, self.outside.disk.volume_space(path)).await
    }

    async fn listed_usage(&self, directory: &Path) -> Result<ListedUsage, FileError> {
        let work = self.outside.disk.listed_usage(directory);
        self.call(FaultPoint::Disk, "list", directory, work).await
    }

    async fn file_usage(&self, file: &Path) -> Result<FileUsage, FileError> {
        self.call(FaultPoint::Disk, "stat", file, self.outside.disk.file_usage(file)).await
    }

    async fn walked_usage(
        &self,
        place: &Place,
        budget: WalkBudget,
    ) -> Result<FileUsage, FileError> {
        let work = self.outside.disk.walked_usage(place, budget);
        self.call(FaultPoint::Disk, "walk", &place.path(), work).await
    }
}

#[async_trait]
impl ContainerLogs for FaultyReads {
    async fn open(
        &self,
        path: &Path,
        request: &LogRequest,
        follow: Option<Ended>,
    ) -> Result<LogText, FileError> {
        let work = self.outside.logs.open(path, request, follow);
        self.call(FaultPoint::Log, "open", path, work).await
    }
}
