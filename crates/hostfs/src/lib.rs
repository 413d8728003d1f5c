//! The host's files: the real side of the files port.
//!
//! Input: paths from the configuration, and below them names that come from pods. Output: what is
//! there, and directories and links that the agent needs.
//!
//! Invariants:
//! - a path made of a pod's names never leaves the directory that the configuration names, and no
//!   symbolic link below it is followed: the kernel sees to that (`openat2`);
//! - no file is read beyond its limit, whatever its size says.
#![allow(
    clippy::disallowed_methods,
    reason = "this crate is where the agent reads and writes files"
)]

mod beneath;
mod claim;

use std::io::{self, Read as _};
use std::path::Path;

use async_trait::async_trait;
use model::ports::files::{FileError, FileKind, HostFiles};

pub use claim::{Claim, claim};

/// The files of this host.
#[derive(Debug, Clone, Copy, Default)]
pub struct Host;

/// Runs a blocking operation where it holds nobody up, and names it if it fails.
async fn blocking<T: Send + 'static>(
    operation: &'static str,
    path: &Path,
    work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> Result<T, FileError> {
    let owned = path.to_owned();
    let done = tokio::task::spawn_blocking(move || work(&owned)).await;
    let result = done.unwrap_or_else(|panicked| Err(io::Error::other(panicked)));
    result.map_err(|source| FileError { operation, path: path.to_owned(), source })
}

#[async_trait]
impl HostFiles for Host {
    async fn kind(&self, path: &Path) -> Result<FileKind, FileError> {
        blocking("look at", path, |path| {
            let kind = std::fs::metadata(path)?.file_type();
            Ok(if kind.is_file() {
                FileKind::File
            } else if kind.is_dir() {
                FileKind::Directory
            } else {
                FileKind::Special
            })
        })
        .await
    }

    async fn list(&self, directory: &Path) -> Result<Vec<String>, FileError> {
        blocking("list", directory, |directory| {
            let mut names = Vec::new();
            for entry in std::fs::read_dir(directory)? {
                names.push(entry?.file_name().to_string_lossy().into_owned());
            }
            names.sort();
            Ok(names)
        })
        .await
    }

    async fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
        blocking("read", path, move |path| {
            let mut content = Vec::new();
            // One byte more than allowed tells "just fits" from "too long"; the size in the metadata
            // is not asked, since a file may grow while it is read.
            std::fs::File::open(path)?.take(limit.saturating_add(1)).read_to_end(&mut content)?;
            if content.len() as u64 > limit {
                let message = format!("larger than {limit} bytes");
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
            }
            Ok(content)
        })
        .await
    }

    async fn create_directory(
        &self,
        root: &Path,
        below: &Path,
        mode: u32,
    ) -> Result<(), FileError> {
        let (whole, root, below) = (root.join(below), root.to_owned(), below.to_owned());
        blocking("create directory", &whole, move |_| beneath::create(&root, &below, mode)).await
    }

    async fn link(&self, target: &Path, link: &Path) -> Result<(), FileError> {
        let target = target.to_owned();
        blocking("make link", link, move |link| {
            if !target.exists() {
                return Ok(());
            }
            if let Some(directory) = link.parent() {
                std::fs::create_dir_all(directory)?;
            }
            match std::os::unix::fs::symlink(&target, link) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    if !std::fs::symlink_metadata(link)?.is_symlink() {
                        return Err(error);
                    }
                    std::fs::remove_file(link)?;
                    std::os::unix::fs::symlink(&target, link)
                }
                result => result,
            }
        })
        .await
    }
}
