//! A small file through which the agent tells something to the next one.
//!
//! Input: a value that can be written as JSON, and where it is kept. Output: the same value, after a
//! restart. The file has a line with the version of the format and a checksum, and then the value.
//!
//! Invariants:
//! - what is read is what was written, or an error: a file that was cut off or damaged anywhere, or that
//!   another version wrote, is [useless](Useless) and says why;
//! - a write that fails or is cut short leaves what was there before;
//! - whoever [takes over](Checkpoint::take_over) never loses a file that is as it should: one that cannot be
//!   read is an error, and one that is of no use is kept aside;
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

impl Useless {
    /// What tells a file of this kind, kept aside, from the others.
    fn word(&self) -> String {
        match self {
            Self::Version(version, _) => format!("version-{version}"),
            Self::Unreadable(_) | Self::Syntax(_) | Self::Checksum => "damaged".to_owned(),
        }
    }
}

/// How often a file that cannot be read is tried, and how long to wait in between: a disk may be slow to
/// come back, or all files be taken for a moment.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(200);

/// What was found by whoever goes on with a file.
#[derive(Debug)]
pub struct TakenOver<T> {
    /// What was written last, if anything was and is of use.
    pub value: Option<T>,
    /// What was of no use.
    pub aside: Option<Aside>,
}

/// A file that is of no use, and where it is kept.
#[derive(Debug)]
pub struct Aside {
    /// Where.
    pub path: PathBuf,
    /// Why it is of no use.
    pub why: Useless,
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
        let bytes = self.bytes().await.map_err(Useless::Unreadable)?;
        bytes.map(|bytes| self.value(&bytes)).transpose()
    }

    /// The same for whoever writes it from now on: what is damaged, or of another version, is copied to a
    /// file beside it and counts as nothing. What cannot be read at all, or kept, is an error.
    pub async fn take_over(&self) -> Result<TakenOver<T>, FileError> {
        let nothing = TakenOver { value: None, aside: None };
        let Some(bytes) = self.bytes_in_the_end().await? else { return Ok(nothing) };
        match self.value(&bytes) {
            Ok(value) => Ok(TakenOver { value: Some(value), ..nothing }),
            Err(why) => {
                let mut path = self.path.clone().into_os_string();
                path.push(format!(".{}", why.word()));
                let path = PathBuf::from(path);
                self.files.write_durably(&path, &bytes).await?;
                Ok(TakenOver { aside: Some(Aside { path, why }), ..nothing })
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

    fn value(&self, bytes: &[u8]) -> Result<T, Useless> {
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
        serde_json::from_slice(value).map_err(Useless::Syntax)
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
