//! Log files in memory pass the contract of the port.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use model::ports::log_files::LogFiles;
use testkit::contract::{self, assert_kept};
use testkit::files::MemoryFiles;

#[derive(Debug, Default)]
struct Memory(Arc<MemoryFiles>);

impl contract::log_files::Harness for Memory {
    fn files(&self) -> Arc<dyn LogFiles> {
        Arc::clone(&self.0) as _
    }

    fn directory(&self) -> PathBuf {
        "/var/log/pods".into()
    }

    fn write(&self, path: &Path, content: &[u8]) {
        self.0.write(path, content);
    }

    fn append(&self, path: &Path, content: &[u8]) {
        self.0.append(self.0.inode(path).unwrap(), content);
    }

    fn put_link(&self, path: &Path, target: &Path) {
        self.0.put_link(path, target);
    }

    fn content(&self, path: &Path) -> Option<Vec<u8>> {
        self.0.content(path)
    }

    fn unzipped(&self, path: &Path) -> Result<Vec<u8>> {
        self.0.unzipped(path).context("not compressed")
    }

    fn mode(&self, path: &Path) -> u32 {
        self.0.mode(path).unwrap()
    }
}

#[tokio::test]
async fn memory_log_files_pass_the_contract() {
    let reports = contract::log_files::run(Memory::default).await;
    assert_eq!(assert_kept(&reports), [], "these cases were skipped");
}
