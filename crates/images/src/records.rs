//! Pull intents and records on disk. One task reads and writes them, in the order of the requests.

mod start;
mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use model::chain::Chain;
use model::ports::clock::WallClock;
use model::ports::files::{FileError, HostFiles};
use model::ports::runtime::ImageService;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use self::store::{ReadError, Store};
use crate::decide::record::{
    PulledRecord, RecordedAccess, decode_intent, encode_intent, file_name,
};
use crate::metrics::AccessMetrics;

/// How many requests may wait.
const WAITING: usize = 64;

/// The ports and settings of the records.
#[derive(Debug)]
pub struct RecordParts {
    /// The host's files.
    pub files: Arc<dyn HostFiles>,
    /// The images of the runtime, to find out how interrupted pulls have ended.
    pub images: Arc<dyn ImageService>,
    /// The time of records.
    pub clock: Arc<dyn WallClock>,
    /// Counts the files.
    pub metrics: AccessMetrics,
    /// How many pulls may be in progress, for the size of the cache of intents.
    pub most_intents: usize,
    /// How many records are kept in memory.
    pub most_records: usize,
}

/// The recorded facts about a present image.
#[derive(Debug, Clone)]
pub(crate) struct RecordedFacts {
    pub(crate) record: Option<Arc<PulledRecord>>,
    pub(crate) has_intent: bool,
}

/// Access to be added to the record of an image.
#[derive(Debug, Clone)]
pub(crate) struct AddedAccess {
    /// The full name of the image without a tag; `None` for a name that cannot be parsed.
    pub(crate) repository: Option<String>,
    pub(crate) image_ref: String,
    pub(crate) access: RecordedAccess,
}

#[derive(Debug)]
enum Request {
    Look { image: String, image_ref: String, reply: oneshot::Sender<Option<RecordedFacts>> },
    Begin { image: String, reply: oneshot::Sender<Result<(), FileError>> },
    Succeed { image: String, added: AddedAccess, reply: oneshot::Sender<()> },
    Fail { image: String, reply: oneshot::Sender<()> },
    Add { added: AddedAccess, reply: oneshot::Sender<()> },
    Prune { began: Timestamp, image_refs: BTreeSet<String> },
}

/// Sends requests to the task. Clones send to the same task.
#[derive(Debug, Clone)]
pub struct PullRecords {
    /// Closed when the task ends.
    requests: mpsc::Sender<Request>,
}

/// The task that reads and writes the records.
#[derive(Debug)]
pub struct RecordTask {
    parts: RecordParts,
    /// Closed when the last handle is dropped.
    requests: mpsc::Receiver<Request>,
    intents: Store<()>,
    records: Store<PulledRecord>,
    /// How many pulls of each image are in progress.
    in_flight: BTreeMap<String, usize>,
}

/// The records below a root directory, and the task that owns them.
pub fn pull_records(parts: RecordParts, root_dir: &Path) -> (PullRecords, RecordTask) {
    let (requests, received) = mpsc::channel(WAITING);
    let directory = root_dir.join("image_manager");
    let files = || Arc::clone(&parts.files);
    let intents = Store::new(files(), directory.join("pulling"), parts.most_intents);
    let records = Store::new(files(), directory.join("pulled"), parts.most_records);
    let in_flight = BTreeMap::new();
    let task = RecordTask { parts, requests: received, intents, records, in_flight };
    (PullRecords { requests }, task)
}

impl PullRecords {
    /// Sends a request; `None` if the task has ended, which only happens while the agent stops.
    async fn request<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> Request) -> Option<T> {
        let (reply, replied) = oneshot::channel();
        self.requests.send(request(reply)).await.ok()?;
        replied.await.ok()
    }

    /// The recorded facts about an image; `None` if they cannot be read.
    pub(crate) async fn look(&self, image: &str, image_ref: &str) -> Option<RecordedFacts> {
        let (image, image_ref) = (image.to_owned(), image_ref.to_owned());
        self.request(|reply| Request::Look { image, image_ref, reply }).await.flatten()
    }

    /// Writes the intent of a pull.
    pub(crate) async fn begin(&self, image: &str) -> Result<(), FileError> {
        let image = image.to_owned();
        self.request(|reply| Request::Begin { image, reply }).await.unwrap_or_else(|| {
            let source = std::io::Error::other("the agent stops");
            Err(FileError { operation: "write", path: "image_manager/pulling".into(), source })
        })
    }

    /// Writes the record of a pull, and removes its intent.
    pub(crate) async fn succeed(&self, image: &str, added: AddedAccess) {
        let image = image.to_owned();
        self.request(|reply| Request::Succeed { image, added, reply }).await;
    }

    /// Removes the intent of a pull.
    pub(crate) async fn fail(&self, image: &str) {
        let image = image.to_owned();
        self.request(|reply| Request::Fail { image, reply }).await;
    }

    /// Adds access to a record.
    pub(crate) async fn add(&self, added: AddedAccess) {
        self.request(|reply| Request::Add { added, reply }).await;
    }

    /// Removes the records of images that no longer exist. `began` is the start of the collection,
    /// `image_refs` are the remaining images.
    pub async fn prune(&self, began: Timestamp, image_refs: BTreeSet<String>) {
        // The next collection prunes again.
        self.requests.send(Request::Prune { began, image_refs }).await.ok();
    }
}

impl RecordTask {
    /// Runs until it is stopped; requests in progress are dropped.
    pub async fn run(mut self, stop: CancellationToken) {
        // Biased: an agent that stops does nothing else.
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.serve() => {}
        }
    }

    async fn serve(&mut self) {
        self.start().await;
        self.count();
        while let Some(request) = self.requests.recv().await {
            self.handle(request).await;
            self.count();
        }
    }

    /// The callers of requests may be gone, so no reply needs a receiver.
    async fn handle(&mut self, request: Request) {
        match request {
            Request::Look { image, image_ref, reply } => {
                let facts = self.look(&image, &image_ref).await;
                reply.send(facts).ok();
            }
            Request::Begin { image, reply } => {
                let begun = self.begin(&image).await;
                reply.send(begun).ok();
            }
            Request::Succeed { image, added, reply } => {
                self.succeed(&image, &added).await;
                reply.send(()).ok();
            }
            Request::Fail { image, reply } => {
                self.end(&image).await;
                reply.send(()).ok();
            }
            Request::Add { added, reply } => {
                self.add(&added).await;
                reply.send(()).ok();
            }
            Request::Prune { began, image_refs } => self.prune(began, &image_refs).await,
        }
    }

    fn count(&self) {
        self.parts.metrics.set_intents(self.intents.usage());
        self.parts.metrics.set_records(self.records.usage());
    }

    async fn look(&mut self, image: &str, image_ref: &str) -> Option<RecordedFacts> {
        let record = match self.record(image_ref).await {
            Ok(record) => record,
            Err(error) => {
                warn!(image, image_ref, error = %Chain(&*error), "Cannot read the pull record of an image");
                return None;
            }
        };
        if record.is_some() || self.in_flight.contains_key(image) {
            return Some(RecordedFacts { record, has_intent: true });
        }
        let name = file_name(image);
        let decode = |content: &[u8]| -> Result<(), ReadError> {
            decode_intent(&name, content)?;
            Ok(())
        };
        match self.intents.get(&name, decode).await {
            Ok(intent) => Some(RecordedFacts { record, has_intent: intent.is_some() }),
            Err(error) => {
                warn!(image, error = %Chain(&*error), "Cannot read the pull intent of an image");
                None
            }
        }
    }

    async fn record(&mut self, image_ref: &str) -> Result<Option<Arc<PulledRecord>>, ReadError> {
        self.record_in(&file_name(image_ref)).await
    }

    async fn record_in(&mut self, name: &str) -> Result<Option<Arc<PulledRecord>>, ReadError> {
        let decode = |content: &[u8]| -> Result<PulledRecord, ReadError> {
            Ok(PulledRecord::decode(name, content)?.record)
        };
        self.records.get(name, decode).await
    }

    async fn begin(&mut self, image: &str) -> Result<(), FileError> {
        // The intent of a pull in progress is on disk.
        if !self.in_flight.contains_key(image) {
            let name = file_name(image);
            self.intents.put(&name, &encode_intent(image), Arc::new(())).await?;
        }
        *self.in_flight.entry(image.to_owned()).or_default() += 1;
        Ok(())
    }

    async fn succeed(&mut self, image: &str, added: &AddedAccess) {
        if self.add(added).await {
            self.end(image).await;
        }
        // Otherwise the intent stays, and the pull remains in progress: the image must not count as preloaded. The
        // next start tries again to record it.
    }

    /// A pull has ended. Its intent goes with the last pull of the image.
    async fn end(&mut self, image: &str) {
        if let Some(count) = self.in_flight.get_mut(image).filter(|count| **count > 1) {
            *count -= 1;
            return;
        }
        if let Err(error) = self.intents.remove(&file_name(image)).await {
            warn!(image, error = %Chain(&error), "Cannot remove the pull intent of an image");
        }
        self.in_flight.remove(image);
    }

    /// Adds access to the record of an image, which is created if need be. Returns whether the record is on disk.
    async fn add(&mut self, added: &AddedAccess) -> bool {
        let AddedAccess { repository, image_ref, access } = added;
        let before = self.record(image_ref).await.unwrap_or_else(|error| {
            warn!(image_ref, error = %Chain(&*error), "Cannot read a pull record, replacing it");
            None
        });
        let now = self.parts.clock.now();
        let mut record =
            before.as_deref().cloned().unwrap_or_else(|| PulledRecord::new(image_ref, now));
        let is_changed =
            repository.as_ref().is_some_and(|repository| record.merge(repository, access, now));
        if before.is_some() && !is_changed {
            return true;
        }
        let (name, content) = (file_name(image_ref), record.encode());
        match self.records.put(&name, &content, Arc::new(record)).await {
            Ok(()) => true,
            Err(error) => {
                warn!(image_ref, error = %Chain(&error), "Cannot write the pull record of an image");
                false
            }
        }
    }

    async fn prune(&mut self, began: Timestamp, image_refs: &BTreeSet<String>) {
        let kept: BTreeSet<String> =
            image_refs.iter().map(|image_ref| file_name(image_ref)).collect();
        let gone: Vec<String> =
            self.records.names().filter(|name| !kept.contains(*name)).cloned().collect();
        for name in gone {
            match self.record_in(&name).await {
                Ok(Some(record)) if record.is_older_than(began) => {
                    debug!(
                        image_ref = record.image_ref,
                        "Removing the pull record of a removed image"
                    );
                    if let Err(error) = self.records.remove(&name).await {
                        warn!(error = %Chain(&error), "Cannot remove the pull record of an image");
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    warn!(error = %Chain(&*error), "Keeping a pull record that cannot be read");
                }
            }
        }
    }
}
