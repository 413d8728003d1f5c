//! Space on file systems of the host.

use std::path::Path;

use async_trait::async_trait;
use model::ports::disk::{DiskSpace, Disks};
use model::ports::files::FileError;

use crate::Host;

#[async_trait]
impl Disks for Host {
    async fn space(&self, path: &Path) -> Result<DiskSpace, FileError> {
        self.call("measure the disk of", path, |path| {
            let found = rustix::fs::statvfs(path)?;
            let bytes = |blocks: u64| found.f_frsize.saturating_mul(blocks);
            Ok(DiskSpace { capacity: bytes(found.f_blocks), available: bytes(found.f_bavail) })
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use testkit::contract::disk::disks_contract;

    use super::*;

    #[tokio::test]
    async fn host_disks_pass_the_contract() {
        let directory = tempfile::tempdir().unwrap();
        let nowhere = directory.path().join("nowhere");
        disks_contract(&Host::default(), directory.path(), &nowhere).await.unwrap();
    }
}
