//! The disk as an agent reaches it: files go wrong, and the agent dies over them.

use std::io;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use model::ports::files::{
    DirectoryWatch, Entry, FileError, FileVersion, Found, Heard, HostFiles, Removed,
};
use model::verdict::Verdict;
use podspec::Origin;

use crate::faulty::faulty;
use crate::history::Event;
use crate::life::Life;
use crate::outside::{Asked, Outside};
use crate::removal::Removal;

/// The disk of one agent.
#[derive(Debug)]
pub(crate) struct FaultyFiles {
    pub(crate) outside: Arc<Outside>,
    pub(crate) life: Arc<Life>,
}

impl FaultyFiles {
    async fn reading<T>(
        &self,
        operation: &'static str,
        path: &Path,
        work: impl Future<Output = Result<T, FileError>>,
    ) -> Result<T, FileError> {
        self.call((Asked::FileRead, operation), path, work).await
    }

    async fn writing<T>(
        &self,
        operation: &'static str,
        path: &Path,
        work: impl Future<Output = Result<T, FileError>>,
    ) -> Result<T, FileError> {
        if matches!(operation, "write" | "remove") {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let name = name.get(..12).unwrap_or(&name);
            self.outside.say(format!("agent {}  {operation} {name}", self.life.number));
        }
        self.call((Asked::FileWrite, operation), path, work).await
    }

    async fn call<T>(
        &self,
        (asked, operation): (Asked, &'static str),
        path: &Path,
        work: impl Future<Output = Result<T, FileError>>,
    ) -> Result<T, FileError> {
        let what = format!("{operation} {}", path.display());
        let broken = || {
            let source = io::Error::other("input/output error");
            FileError { operation, path: path.to_owned(), source }
        };
        faulty((&self.outside, &self.life), (asked, &what), broken, work).await
    }
}

#[async_trait]
impl HostFiles for FaultyFiles {
    async fn list(&self, directory: &Path) -> Result<Vec<String>, FileError> {
        let listed = self.reading("list", directory, self.outside.files.list(directory)).await;
        if listed.is_err() {
            self.outside.record(Event::Unread(directory.to_owned()));
        }
        listed
    }

    async fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
        self.reading("read", path, self.outside.files.read(path, limit)).await
    }

    async fn look(&self, path: &Path) -> Result<Found, FileError> {
        self.reading("look at", path, self.outside.files.look(path)).await
    }

    async fn entries(&self, directory: &Path) -> Result<Vec<Entry>, FileError> {
        let entries =
            self.reading("list", directory, self.outside.files.entries(directory)).await?;
        let names = entries.iter().map(|entry| entry.name.clone()).collect();
        self.outside.record(Event::Listed(directory.to_owned(), names));
        Ok(entries)
    }

    async fn read_version(
        &self,
        path: &Path,
        limit: u64,
    ) -> Result<(FileVersion, Vec<u8>), FileError> {
        let read = self.reading("read", path, self.outside.files.read_version(path, limit)).await;
        if read.is_ok() {
            self.outside.record(Event::OriginRead(Origin::File(path.to_owned())));
        }
        read
    }

    async fn watch(&self, directory: &Path) -> Result<Box<dyn DirectoryWatch>, FileError> {
        let watch = self.reading("watch", directory, self.outside.files.watch(directory)).await?;
        Ok(Box::new(FaultyWatch { watch, outside: Arc::clone(&self.outside) }))
    }

    async fn write_durably(&self, path: &Path, content: &[u8]) -> Result<(), FileError> {
        self.writing("write", path, self.outside.files.write_durably(path, content)).await
    }

    async fn overwrite(&self, path: &Path, content: &[u8], mode: u32) -> Result<(), FileError> {
        self.writing("overwrite", path, self.outside.files.overwrite(path, content, mode)).await
    }

    async fn remove_written(&self, path: &Path) -> Result<(), FileError> {
        self.writing("remove", path, self.outside.files.remove_written(path)).await
    }

    async fn create_directory(
        &self,
        root: &Path,
        below: &Path,
        mode: u32,
    ) -> Result<(), FileError> {
        let work = self.outside.files.create_directory(root, below, mode);
        self.writing("create directory", &root.join(below), work).await
    }

    async fn create_file(&self, root: &Path, below: &Path, mode: u32) -> Result<(), FileError> {
        let work = self.outside.files.create_file(root, below, mode);
        self.writing("create file", &root.join(below), work).await
    }

    async fn read_end(&self, root: &Path, below: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
        let work = self.outside.files.read_end(root, below, limit);
        self.reading("read", &root.join(below), work).await
    }

    async fn link(&self, target: &Path, link: &Path) -> Result<(), FileError> {
        self.writing("link", link, self.outside.files.link(target, link)).await
    }

    async fn remove(&self, root: &Path, verdict: &Verdict) -> Result<Removed, FileError> {
        let _removal = Removal::new(&self.outside, &self.life, verdict);
        let work = HostFiles::remove(&*self.outside.files, root, verdict);
        self.writing("remove", root, work).await
    }
}

/// Notices of a directory, some of which are lost.
#[derive(Debug)]
struct FaultyWatch {
    watch: Box<dyn DirectoryWatch>,
    outside: Arc<Outside>,
}

#[async_trait]
impl DirectoryWatch for FaultyWatch {
    async fn heard(&mut self) -> Option<Heard> {
        loop {
            let heard = self.watch.heard().await?;
            if self.outside.fault(Asked::FileHint).is_none() {
                return Some(heard);
            }
            self.outside.say("FAULT    a notice of a directory is lost");
        }
    }
}
