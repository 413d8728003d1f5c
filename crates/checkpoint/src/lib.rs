//! A small file through which the agent tells something to the next one.
//!
//! Input: a value that can be written as JSON, and where it is kept. Output: the same value, after a
//! restart. The file has a line with the version of the format and a checksum, and then the value.
//!
//! Invariants:
//! - what is read is what was written, or an error: a file that was cut off or damaged anywhere, or that
//!   another version wrote, is [useless](Useless) and says why;
//! - a write that fails or is cut short leaves what was there before;
//! - a file is never read beyond its bound.

use std::fmt::Write as _;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::ports::files::{FileError, HostFiles};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// How a value is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// Grows whenever the value is written in another way.
    pub version: u32,
    /// The most bytes to read back.
    pub limit: u64,
}

/// A value that outlives the agent.
#[derive(Debug)]
pub struct Checkpoint<T> {
    files: Arc<dyn HostFiles>,
    path: PathBuf,
    format: Format,
    value: PhantomData<fn(T) -> T>,
}

/// Why a file is of no use.
#[derive(Debug, thiserror::Error)]
pub enum Useless {
    /// It is there, and cannot be read.
    #[error("cannot be read")]
    Unreadable(#[source] FileError),
    /// It is not as it was written.
    #[error("is damaged")]
    Syntax(#[source] serde_json::Error),
    /// It is not as it was written.
    #[error("is damaged: its checksum is wrong")]
    Checksum,
    /// Another agent wrote it.
    #[error("has version {0}, not {1}")]
    Version(u32, u32),
}

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    version: u32,
    /// Of all that follows.
    checksum: String,
}

impl<T: Serialize + DeserializeOwned> Checkpoint<T> {
    /// One that is kept in a file. Nothing is read or written yet.
    pub fn new(files: Arc<dyn HostFiles>, path: PathBuf, format: Format) -> Self {
        Self { files, path, format, value: PhantomData }
    }

    /// Where it is kept.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was written last, if anything was.
    pub async fn read(&self) -> Result<Option<T>, Useless> {
        let bytes = match self.files.read(&self.path, self.format.limit).await {
            Ok(bytes) => bytes,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(Useless::Unreadable(error)),
        };
        let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
        let (header, value) = bytes.split_at(end);
        let header: Header = serde_json::from_slice(header).map_err(Useless::Syntax)?;
        if header.version != self.format.version {
            return Err(Useless::Version(header.version, self.format.version));
        }
        let value = value.get(1..).unwrap_or_default();
        if header.checksum != checksum(header.version, value) {
            return Err(Useless::Checksum);
        }
        serde_json::from_slice(value).map(Some).map_err(Useless::Syntax)
    }

    /// Writes a value in place of the one before, durably. It must be one that JSON can express.
    pub async fn write(&self, value: &T) -> Result<(), FileError> {
        let value = serde_json::to_vec(value).expect("what is kept can be written as JSON");
        let version = self.format.version;
        let header = Header { version, checksum: checksum(version, &value) };
        let header = serde_json::to_vec(&header).expect("a number and a text are JSON");
        self.files.write_durably(&self.path, &[&header[..], b"\n", &value].concat()).await
    }

    /// Removes the file, if there is one.
    pub async fn remove(&self) -> Result<(), FileError> {
        self.files.remove_written(&self.path).await
    }
}

fn checksum(version: u32, value: &[u8]) -> String {
    let hash = Sha256::new().chain_update(version.to_le_bytes()).chain_update(value).finalize();
    hash.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes all text");
        text
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use testkit::files::MemoryFiles;

    use super::*;

    type Kept = (String, Vec<i64>);

    const FORMAT: Format = Format { version: 3, limit: 1 << 20 };
    const FILE: &str = "/state/kept.json";

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
    }

    fn kept(files: &Arc<MemoryFiles>, format: Format) -> Checkpoint<Kept> {
        Checkpoint::new(Arc::clone(files) as _, FILE.into(), format)
    }

    fn written(value: &Kept) -> Arc<MemoryFiles> {
        let files = Arc::new(MemoryFiles::new());
        block_on(kept(&files, FORMAT).write(value)).unwrap();
        files
    }

    proptest! {
        /// What is kept comes back; what was damaged in any one byte does not, and nothing else does.
        #[test]
        fn what_is_written_comes_back_unless_it_is_damaged(
            value in (".{0,40}", prop::collection::vec(any::<i64>(), 0..4)),
            at in any::<proptest::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let files = written(&value);
            let checkpoint = kept(&files, FORMAT);
            prop_assert_eq!(block_on(checkpoint.read()).unwrap(), Some(value.clone()));
            let good = files.content(FILE).unwrap();
            let at = at.index(good.len());
            let mut damaged = good.clone();
            damaged[at] = byte;
            files.write(FILE, damaged);
            let read = block_on(checkpoint.read());
            prop_assert!(read.is_err() || matches!(&read, Ok(Some(read)) if *read == value));
            files.write(FILE, good[..at].to_vec());
            prop_assert!(block_on(checkpoint.read()).is_err(), "cut off");
        }
    }

    #[test]
    fn what_was_never_written_or_is_removed_is_nothing() {
        let files = Arc::new(MemoryFiles::new());
        let checkpoint = kept(&files, FORMAT);
        assert_eq!(block_on(checkpoint.read()).unwrap(), None);
        block_on(checkpoint.write(&("a".into(), vec![1]))).unwrap();
        assert_eq!(checkpoint.path(), Path::new(FILE));
        block_on(checkpoint.remove()).unwrap();
        block_on(checkpoint.remove()).unwrap();
        assert_eq!(block_on(checkpoint.read()).unwrap(), None);
    }

    #[test]
    fn another_version_is_told_apart_and_never_guessed_at() {
        let files = written(&("a".into(), vec![1]));
        let error = block_on(kept(&files, Format { version: 4, ..FORMAT }).read()).unwrap_err();
        assert_eq!(error.to_string(), "has version 3, not 4");
        let text = String::from_utf8(files.content(FILE).unwrap()).unwrap();
        files.write(FILE, text.replace("\"version\":3", "\"version\":4"));
        let error = block_on(kept(&files, Format { version: 4, ..FORMAT }).read()).unwrap_err();
        assert!(matches!(error, Useless::Checksum), "{error}");
    }

    #[test]
    fn a_file_that_is_too_large_or_cannot_be_read_is_of_no_use() {
        let files = written(&("a".repeat(100), vec![]));
        let error = block_on(kept(&files, Format { limit: 50, ..FORMAT }).read()).unwrap_err();
        assert!(matches!(error, Useless::Unreadable(_)), "{error}");
        files.fail(FILE, std::io::ErrorKind::PermissionDenied);
        let error = block_on(kept(&files, FORMAT).read()).unwrap_err();
        assert!(matches!(error, Useless::Unreadable(_)), "{error}");
        let value = ("b".to_owned(), vec![]);
        block_on(kept(&files, FORMAT).write(&value)).unwrap_err();
    }
}
