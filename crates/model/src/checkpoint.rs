//! A small file that keeps a value across restarts of the agent.
//!
//! Input: a value that can be serialized as JSON, and a path. Output: the same value, after a
//! restart. The first line of the file has the version of the format and a checksum; the value follows.
//!
//! Invariants:
//! - a read returns what was written, or an error: a file that is truncated, damaged or of another version
//!   is [useless](UnusableFile), with the reason;
//! - a write that fails or is interrupted leaves the previous content;
//! - [`take_over`](Checkpoint::take_over) never loses a file that may be intact: an unreadable file is an
//!   error, and a useless one is moved aside;
//! - a file is never read beyond its bound.

use std::fmt::Write as _;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::ports::files::{FileError, HostFiles};

/// The file format of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// Increases with each change of the format.
    pub version: u32,
    /// The maximum number of bytes to read back.
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

/// Why a file is useless.
#[derive(Debug, thiserror::Error)]
pub enum UnusableFile {
    /// It exists, and cannot be read.
    #[error("cannot be read")]
    Unreadable(#[source] FileError),
    /// It is damaged.
    #[error("is damaged")]
    Syntax(#[source] serde_json::Error),
    /// Its checksum is wrong.
    #[error("is damaged: its checksum is wrong")]
    Checksum,
    /// An agent of another version wrote it.
    #[error("has version {0}, not {1}")]
    Version(u32, u32),
}

impl UnusableFile {
    /// The suffix of a file that is moved aside for this reason.
    fn suffix(&self) -> String {
        match self {
            Self::Version(version, _) => format!("version-{version}"),
            Self::Unreadable(_) | Self::Syntax(_) | Self::Checksum => "damaged".to_owned(),
        }
    }
}

/// How often an unreadable file is tried, and the pause in between: a disk may recover slowly,
/// or the process may be out of file descriptors for a moment.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(200);

/// What [`Checkpoint::take_over`] found.
#[derive(Debug)]
pub struct TakenOver<T> {
    /// The last value, if a usable one was written.
    pub value: Option<T>,
    /// The useless file, if there was one.
    pub aside: Option<MovedAside>,
}

/// A useless file that was moved aside.
#[derive(Debug)]
pub struct MovedAside {
    /// Its new path.
    pub path: PathBuf,
    /// Why it is useless.
    pub why: UnusableFile,
}

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    version: u32,
    /// Of everything after this line.
    checksum: String,
}

impl<T: Serialize + DeserializeOwned> Checkpoint<T> {
    /// A checkpoint in a file. Nothing is read or written yet.
    pub fn new(files: Arc<dyn HostFiles>, path: PathBuf, format: Format) -> Self {
        Self { files, path, format, value: PhantomData }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The last value, if one was written.
    pub async fn read(&self) -> Result<Option<T>, UnusableFile> {
        let bytes = self.bytes().await.map_err(UnusableFile::Unreadable)?;
        bytes.map(|bytes| self.value(&bytes)).transpose()
    }

    /// Reads the value for a process that writes the file from now on. A file that is damaged or of another
    /// version is copied aside and counts as absent. A file that cannot be read or copied is an error.
    pub async fn take_over(&self) -> Result<TakenOver<T>, FileError> {
        let nothing = TakenOver { value: None, aside: None };
        let Some(bytes) = self.bytes_in_the_end().await? else { return Ok(nothing) };
        match self.value(&bytes) {
            Ok(value) => Ok(TakenOver { value: Some(value), ..nothing }),
            Err(why) => {
                let mut path = self.path.clone().into_os_string();
                path.push(format!(".{}", why.suffix()));
                let path = PathBuf::from(path);
                self.files.write_durably(&path, &bytes).await?;
                Ok(TakenOver { aside: Some(MovedAside { path, why }), ..nothing })
            }
        }
    }

    async fn bytes_in_the_end(&self) -> Result<Option<Vec<u8>>, FileError> {
        let mut tries = 1;
        loop {
            match self.bytes().await {
                Err(_) if tries < TRIES => tokio::time::sleep(PAUSE).await,
                read => return read,
            }
            tries += 1;
        }
    }

    async fn bytes(&self) -> Result<Option<Vec<u8>>, FileError> {
        match self.files.read(&self.path, self.format.limit).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn value(&self, bytes: &[u8]) -> Result<T, UnusableFile> {
        let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
        let (header, value) = bytes.split_at(end);
        let header: Header = serde_json::from_slice(header).map_err(UnusableFile::Syntax)?;
        if header.version != self.format.version {
            return Err(UnusableFile::Version(header.version, self.format.version));
        }
        let value = value.get(1..).unwrap_or_default();
        if header.checksum != checksum(header.version, value) {
            return Err(UnusableFile::Checksum);
        }
        serde_json::from_slice(value).map_err(UnusableFile::Syntax)
    }

    /// Replaces the value, durably. JSON must be able to express it.
    pub async fn write(&self, value: &T) -> Result<(), FileError> {
        let bytes = file_content(self.format.version, value);
        self.files.write_durably(&self.path, &bytes).await
    }

    /// Like `write`, with a value that serializes as `T` and borrows its parts: a large one needs no copy.
    pub async fn write_borrowed<S: Serialize>(&self, value: &S) -> Result<(), FileError> {
        let bytes = file_content(self.format.version, value);
        self.files.write_durably(&self.path, &bytes).await
    }

    /// Removes the file, if there is one.
    pub async fn remove(&self) -> Result<(), FileError> {
        self.files.remove_written(&self.path).await
    }
}

/// The header and the value in one buffer. All checksums have the same length, so the right one replaces that of no
/// value.
fn file_content<S: Serialize>(version: u32, value: &S) -> Vec<u8> {
    let header = |value: &[u8]| {
        let header = Header { version, checksum: checksum(version, value) };
        serde_json::to_vec(&header).expect("the header serializes to JSON")
    };
    let mut bytes = header(&[]);
    let end = bytes.len();
    bytes.push(b'\n');
    serde_json::to_writer(&mut bytes, value).expect("the value serializes to JSON");
    let header = header(&bytes[end + 1..]);
    bytes[..end].copy_from_slice(&header);
    bytes
}

fn checksum(version: u32, value: &[u8]) -> String {
    let hash = Sha256::new().chain_update(version.to_le_bytes()).chain_update(value).finalize();
    hash.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string does not fail");
        text
    })
}
