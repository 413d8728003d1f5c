//! Prepares the records at the start: migrates older formats, and looks up interrupted pulls in the runtime.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::chain::Chain;
use podspec::image_name::ImageName;
use tracing::{info, warn};

use super::store::ReadError;
use super::{AddedAccess, RecordTask};
use crate::decide::record::{
    PulledRecord, RecordedAccess, decode_intent, encode_intent, file_name,
};

impl RecordTask {
    pub(super) async fn start(&mut self) {
        self.migrate().await;
        let intents = self.interrupted_pulls().await;
        if !intents.is_empty() {
            self.settle(intents).await;
        }
    }

    /// Rewrites records of an older version. Unreadable records stay; their images must be pulled again.
    async fn migrate(&mut self) {
        let names = match self.records.list().await {
            Ok(names) => names,
            Err(error) => {
                warn!(error = %Chain(&error), "Cannot list pull records");
                return;
            }
        };
        for name in names {
            if let Err(error) = self.migrate_record(&name).await {
                warn!(file = name, error = %Chain(&*error), "Cannot migrate a pull record");
            }
        }
    }

    async fn migrate_record(&mut self, name: &str) -> Result<(), ReadError> {
        let decoded = PulledRecord::decode(name, &self.records.read(name).await?)?;
        if decoded.is_old {
            let content = decoded.record.encode();
            self.records.put(name, &content, Arc::new(decoded.record)).await?;
        }
        Ok(())
    }

    /// The images of pulls that were interrupted, by the full names under which the runtime lists them.
    async fn interrupted_pulls(&mut self) -> BTreeMap<String, Vec<String>> {
        let names = match self.intents.list().await {
            Ok(names) => names,
            Err(error) => {
                warn!(error = %Chain(&error), "Cannot list pull intents");
                return BTreeMap::new();
            }
        };
        let mut intents: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for name in names {
            match self.read_intent(&name).await {
                Ok(image) => intents.entry(listed_name(&image)).or_default().push(image),
                Err(error) => {
                    warn!(file = name, error = %Chain(&*error), "Cannot read a pull intent");
                }
            }
        }
        intents
    }

    /// The image of an intent. An intent of an older version is rewritten.
    async fn read_intent(&mut self, name: &str) -> Result<String, ReadError> {
        let content = self.intents.read(name).await?;
        let image = decode_intent(name, &content)?;
        let current = encode_intent(&image);
        if content != current {
            self.intents.put(name, &current, Arc::new(())).await?;
        }
        Ok(image)
    }

    /// Records the pulls whose image the runtime has, without credentials: pods must prove their access. Other intents
    /// stay, so that an image that appears later does not count as preloaded.
    async fn settle(&mut self, intents: BTreeMap<String, Vec<String>>) {
        let listed = match self.parts.images.list_images().await {
            Ok(listed) => listed,
            Err(error) => {
                warn!(%error, "Cannot list images, keeping the intents of interrupted pulls");
                return;
            }
        };
        for image in listed {
            let names = image.repo_tags.iter().chain(&image.repo_digests);
            let found: Vec<&String> =
                names.filter_map(|name| intents.get(name)).flatten().collect();
            for interrupted in found {
                info!(
                    image = interrupted,
                    image_ref = image.id,
                    "Found the image of an interrupted pull"
                );
                let added = AddedAccess {
                    repository: None,
                    image_ref: image.id.clone(),
                    access: RecordedAccess::default(),
                };
                if self.add(&added).await
                    && let Err(error) = self.intents.remove(&file_name(interrupted)).await
                {
                    warn!(error = %Chain(&error), "Cannot remove the intent of an interrupted pull");
                }
            }
        }
    }
}

/// The name under which the runtime lists an image.
fn listed_name(image: &str) -> String {
    ImageName::parse(image).map_or_else(|| image.to_owned(), |name| name.in_full())
}
