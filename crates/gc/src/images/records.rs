//! Image records on disk: a restart must not make all images look unused.
//!
//! An unusable file is ignored, and never prevents a start.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use model::chain::Chain;
use model::checkpoint::{Checkpoint, Format};
use model::ports::files::HostFiles;
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::decide::images::{ImageKey, Records, Times};

/// Its format and largest size: some hundred thousand images.
const FORMAT: Format = Format { version: 2, limit: 32 << 20 };

/// The file.
#[derive(Debug)]
pub(crate) struct RecordsFile {
    file: Checkpoint<SavedRecords>,
    /// The content on disk, to skip equal writes.
    written: Option<Records>,
    /// Whether the last write failed; logged once.
    failing: bool,
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

impl RecordsFile {
    pub(crate) fn new(files: Arc<dyn HostFiles>, state: &Path) -> Self {
        let file = Checkpoint::new(files, state.join("image-use.json"), FORMAT);
        Self { file, written: None, failing: false }
    }

    /// The records of an earlier agent; empty if there are none, or none that can be trusted.
    pub(crate) async fn load(&mut self) -> Records {
        match self.file.read().await {
            Ok(Some(saved)) => {
                let records = Records::from(saved);
                self.written = Some(records.clone());
                records
            }
            Ok(None) => Records::default(),
            Err(error) => {
                let (file, error) = (self.file.path().display(), Chain(&error));
                warn!(%file, %error, "Image records are unusable, starting with new ones");
                Records::default()
            }
        }
    }

    /// Saves the records. A failure only loses use times after a restart.
    pub(crate) async fn save(&mut self, records: &Records) {
        if self.written.as_ref() == Some(records) {
            return;
        }
        match self.file.write(&records.into()).await {
            Ok(()) => {
                self.written = Some(records.clone());
                self.failing = false;
            }
            Err(error) => {
                if !std::mem::replace(&mut self.failing, true) {
                    warn!(error = %Chain(&error), "Cannot save image records");
                }
            }
        }
    }
}

impl From<&Records> for SavedRecords {
    fn from(records: &Records) -> Self {
        let images = records.images.iter().map(|(key, times)| SavedImage {
            image: key.to_string(),
            first_detected: times.first_detected,
            last_used: times.last_used,
        });
        Self { since: records.since, images: images.collect() }
    }
}

impl From<SavedRecords> for Records {
    fn from(SavedRecords { since, images }: SavedRecords) -> Self {
        let images = images.into_iter().map(|image| {
            let SavedImage { image, first_detected, last_used } = image;
            (ImageKey::parse(&image), Times { first_detected, last_used })
        });
        Self { images: images.collect(), since }
    }
}
