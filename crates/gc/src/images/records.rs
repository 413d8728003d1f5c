//! What is remembered of images, on disk: a restart must not make all images look unused.
//!
//! A file that cannot be made sense of is as good as none, and never a reason to stop.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use model::chain::Chain;
use model::checkpoint::{Checkpoint, Format};
use model::ports::files::HostFiles;
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::decide::images::{ImageKey, Records, Times};

/// How it is written: some hundred thousand images at most.
const FORMAT: Format = Format { version: 2, limit: 32 << 20 };

/// The file.
#[derive(Debug)]
pub(crate) struct RecordsFile {
    file: Checkpoint<SavedRecords>,
    /// What is on disk, so that it is not written again.
    written: Option<Records>,
    /// Whether the last write failed; said once.
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

    /// What an earlier agent remembered; nothing if there is none, or none that can be trusted.
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
                warn!(%file, %error, "use times of images are lost; starting over");
                Records::default()
            }
        }
    }

    /// Puts what is remembered on disk. Failing that costs memory of uses after a restart, and nothing
    /// else.
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
                    warn!(error = %Chain(&error), "cannot keep the use times of images");
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
