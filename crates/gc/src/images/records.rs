//! What is remembered of images, on disk: a restart must not make all images look unused.
//!
//! A file that cannot be made sense of is as good as none, and never a reason to stop.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use model::chain::Chain;
use model::ports::files::{FileError, HostFiles};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tracing::warn;

use crate::decide::images::{ImageKey, Records, Times};

/// The version of what is written here.
const VERSION: u32 = 1;

/// The largest file to read back: some hundred thousand images.
const LIMIT: u64 = 32 << 20;

/// The file.
#[derive(Debug)]
pub(crate) struct RecordsFile {
    files: Arc<dyn HostFiles>,
    path: PathBuf,
    /// What is on disk, so that it is not written again.
    written: Option<Records>,
    /// Whether the last write failed; said once.
    failing: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Saved {
    version: u32,
    /// Of the rest, as it is written.
    checksum: String,
    records: SavedRecords,
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedRecords {
    since: Option<Timestamp>,
    images: Vec<SavedImage>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SavedImage {
    image: String,
    first_detected: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    last_used: Option<Timestamp>,
}

/// Why a file is of no use.
#[derive(Debug, thiserror::Error)]
enum Useless {
    #[error("cannot be read")]
    Unreadable(#[source] FileError),
    #[error("is damaged")]
    Syntax(#[source] serde_json::Error),
    #[error("has version {0}, not {VERSION}")]
    Version(u32),
    #[error("is damaged: its checksum is wrong")]
    Checksum,
}

impl RecordsFile {
    pub(crate) fn new(files: Arc<dyn HostFiles>, state: &Path) -> Self {
        Self { files, path: state.join("image-use.json"), written: None, failing: false }
    }

    /// What an earlier agent remembered; nothing if there is none, or none that can be trusted.
    pub(crate) async fn load(&mut self) -> Records {
        match self.read().await {
            Ok(Some(records)) => {
                self.written = Some(records.clone());
                records
            }
            Ok(None) => Records::default(),
            Err(error) => {
                let error = Chain(&error);
                warn!(file = %self.path.display(), %error, "use times of images are lost; starting over");
                Records::default()
            }
        }
    }

    async fn read(&self) -> Result<Option<Records>, Useless> {
        let bytes = match self.files.read(&self.path, LIMIT).await {
            Ok(bytes) => bytes,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(Useless::Unreadable(error)),
        };
        let saved: Saved = serde_json::from_slice(&bytes).map_err(Useless::Syntax)?;
        if saved.version != VERSION {
            return Err(Useless::Version(saved.version));
        }
        if saved.checksum != checksum(&saved.records) {
            return Err(Useless::Checksum);
        }
        let SavedRecords { since, images } = saved.records;
        let images = images.into_iter().map(|image| {
            let SavedImage { image, first_detected, last_used } = image;
            (ImageKey::parse(&image), Times { first_detected, last_used })
        });
        Ok(Some(Records { images: images.collect(), since }))
    }

    /// Puts what is remembered on disk. Failing that costs memory of uses after a restart, and nothing
    /// else.
    pub(crate) async fn save(&mut self, records: &Records) {
        if self.written.as_ref() == Some(records) {
            return;
        }
        let images = records.images.iter().map(|(key, times)| SavedImage {
            image: key.to_string(),
            first_detected: times.first_detected,
            last_used: times.last_used,
        });
        let saved = SavedRecords { since: records.since, images: images.collect() };
        let saved = Saved { version: VERSION, checksum: checksum(&saved), records: saved };
        let bytes = serde_json::to_vec(&saved).expect("texts, numbers and times are JSON");
        match self.files.write_durably(&self.path, &bytes).await {
            Ok(()) => {
                self.written = Some(records.clone());
                self.failing = false;
            }
            Err(error) => {
                if !std::mem::replace(&mut self.failing, true) {
                    warn!(error = %Chain(&error), "cannot keep the use times of images");
                }
            }
        }
    }
}

fn checksum(records: &SavedRecords) -> String {
    let bytes = serde_json::to_vec(records).expect("texts, numbers and times are JSON");
    Sha256::digest(&bytes).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes all text");
        text
    })
}
