//! Lists images and their uses, and measures their disk. Changes nothing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use model::ids::{ContainerId, SandboxId};
use model::lists;
use model::observed::{ContainerStatus, SandboxState};
use model::panics::{PanicStep, PanicSubject};
use model::ports::disk::DiskSpace;
use model::ports::runtime::{ContainerFilter, Image, ImageUse, RuntimeError, SandboxFilter};
use tracing::{debug, warn};

use super::error::panicked;
use super::{ImageGcError, ImageGcParts, ImageGcSettings};
use crate::decide::images::{Detected, ImageFacts, KeptImage, Listing, Observed, Records, detect};

/// How many sandboxes are inspected in a pass until one reports its image.
const SANDBOXES_INSPECTED: usize = 4;

/// State shared by all passes and plans. Only the task writes records.
#[derive(Debug)]
pub(crate) struct Collector {
    pub(crate) parts: ImageGcParts,
    pub(crate) settings: ImageGcSettings,
    /// Never held across an await.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    records: Records,
    /// The start of the agent, on a clock that may have been set back since.
    began: Timestamp,
    /// Labels of images by id: an id stands for its content.
    labels: BTreeMap<String, BTreeMap<String, String>>,
    /// The newest sandbox whose image was requested, and its image.
    sandbox: Option<(SandboxId, Option<String>)>,
    /// Whether several image file systems were logged.
    several: bool,
}

/// A snapshot of images and their uses.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) detected: Detected,
    labels: BTreeMap<String, BTreeMap<String, String>>,
    of_pods: Option<Vec<KeptImage>>,
    claimed: BTreeSet<String>,
    /// Images used since the last snapshot, if known.
    pub(crate) made_since: BTreeMap<String, Timestamp>,
    /// Its start.
    pub(crate) now: Timestamp,
    /// The start of the agent, capped at `now`: a clock that was set back must not keep images until it has
    /// caught up.
    pub(crate) began: Timestamp,
}

impl Snapshot {
    pub(crate) fn facts<'a>(
        &'a self,
        collector: &'a Collector,
        observed: Observed,
    ) -> ImageFacts<'a> {
        ImageFacts {
            detected: &self.detected,
            policy: &collector.settings.policy,
            pins: &collector.settings.pins,
            labels: &self.labels,
            claimed: &self.claimed,
            of_pods: self.of_pods.as_deref(),
            now: self.now,
            began: self.began,
            observed,
        }
    }
}

impl Collector {
    pub(crate) fn new(parts: ImageGcParts, settings: ImageGcSettings) -> Self {
        let began = parts.clock.now();
        Self { parts, settings, state: Mutex::new(State { began, ..State::default() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn records(&self) -> Records {
        self.state().records.clone()
    }

    pub(crate) fn remember(&self, records: Records) {
        self.state().records = records;
    }

    /// Records the snapshot.
    pub(crate) fn remember_snapshot(&self, snapshot: &Snapshot) {
        let mut state = self.state();
        state.records = snapshot.detected.records.clone();
        state.began = snapshot.began;
    }

    /// Drops the records of a removed image, for all handlers.
    pub(crate) fn forget(&self, id: &str) {
        self.state().records.images.retain(|key, _| key.id != id);
    }

    /// Takes a snapshot. The caller watches claims from before this call.
    pub(crate) async fn look(&self) -> Result<Snapshot, ImageGcError> {
        let now = self.parts.clock.now();
        let made_since = self.parts.claims.uses();
        let images =
            self.parts.runtime.images.list_images().await.map_err(ImageGcError::ListImages)?;
        let uses = lists::image_uses(&self.parts.runtime, &ContainerFilter::default()).await;
        let uses = uses.map_err(ImageGcError::ListUses)?;
        let listing = Listing {
            mounted: self.mounted(&uses).await?,
            sandboxes: self.sandbox_image().await?.into_iter().collect(),
            images,
            uses,
            made_since: made_since.clone(),
            per_handler: self.settings.policy.per_handler,
        };
        let labels = self.labels(&listing.images).await;
        let detected = detect(&self.records(), &listing, now, self.parts.clock.now());
        let of_pods =
            if self.settings.keep_pods { self.parts.pods.named() } else { Some(Vec::new()) };
        let claimed = self.parts.claims.names();
        let began = self.state().began.min(now);
        Ok(Snapshot { detected, labels, of_pods, claimed, made_since, now, began })
    }

    /// The images that containers mount. The mounts of a container never change, so they are read once.
    async fn mounted(&self, uses: &[ImageUse]) -> Result<Vec<(ContainerId, String)>, ImageGcError> {
        let mut mounted = Vec::new();
        for ImageUse { container, pod_uid, .. } in uses {
            let known = pod_uid.as_ref().and_then(|pod| self.parts.pods.mounted(pod, container));
            let images = match known {
                Some(images) => images,
                None => match self.container_status(container).await {
                    Ok(status) => super::mounted_images(&status),
                    // The container was removed after the list, and its mounts with it.
                    Err(error) if error.is_not_found() => continue,
                    Err(error) => return Err(ImageGcError::Mounts(error)),
                },
            };
            mounted.extend(images.into_iter().map(|image| (container.clone(), image)));
        }
        Ok(mounted)
    }

    async fn container_status(&self, id: &ContainerId) -> Result<ContainerStatus, RuntimeError> {
        let (of, guard) = (PanicSubject::Object(id.as_str()), &self.parts.panics);
        let status = self.parts.runtime.containers.container_status(id);
        let status = guard.catch_async(PanicStep::ImageGc, of, status).await;
        status.unwrap_or_else(|panic| Err(panicked("ContainerStatus", id.as_str(), &panic)))
    }

    /// The sandbox image, if the runtime reports it: the image of the newest sandbox. Current runtimes pin it,
    /// old versions do not. A node without this image cannot start pods.
    async fn sandbox_image(&self) -> Result<Option<String>, ImageGcError> {
        let known = self.state().sandbox.clone();
        match (self.newest_sandbox_image(known.as_ref()).await, known) {
            (Ok(image), _) => Ok(image),
            // The image of an earlier sandbox is used instead.
            (Err(error), Some((_, image))) => {
                debug!(%error, "Cannot read the image of a sandbox");
                Ok(image)
            }
            // Any image may be the sandbox image.
            (Err(error), None) => Err(ImageGcError::Sandboxes(error)),
        }
    }

    /// The image of the newest sandbox that can be inspected.
    async fn newest_sandbox_image(
        &self,
        known: Option<&(SandboxId, Option<String>)>,
    ) -> Result<Option<String>, RuntimeError> {
        let filter = SandboxFilter { state: Some(SandboxState::Ready), ..SandboxFilter::default() };
        let mut listed = lists::sandboxes(&self.parts.runtime, &filter).await?;
        listed.sort_by_key(|sandbox| Reverse(sandbox.created_at));
        let known_image = || known.and_then(|(_, image)| image.clone());
        let mut failed = None;
        for sandbox in listed.into_iter().take(SANDBOXES_INSPECTED) {
            if known.is_some_and(|(known, _)| *known == sandbox.id) {
                return Ok(known_image());
            }
            match self.parts.runtime.sandboxes.sandbox_image(&sandbox.id).await {
                Ok(image) => {
                    self.state().sandbox = Some((sandbox.id, image.clone()));
                    return Ok(image);
                }
                // The sandbox was removed after the list.
                Err(error) if error.is_not_found() => {}
                // The other calls would fail too.
                Err(error) if error.is_unavailable() => return Err(error),
                Err(error) => {
                    warn!(sandbox = %sandbox.id, %error, "Cannot inspect sandbox for its image");
                    failed.get_or_insert(error);
                }
            }
        }
        failed.map_or_else(|| Ok(known_image()), Err)
    }

    /// The labels of images, if patterns need them. Each is requested once.
    async fn labels(&self, images: &[Image]) -> BTreeMap<String, BTreeMap<String, String>> {
        if !self.settings.pins.look_at_labels() {
            return BTreeMap::new();
        }
        let mut known = std::mem::take(&mut self.state().labels);
        known.retain(|id, _| images.iter().any(|image| image.id == *id));
        for image in images.iter().filter(|image| !image.id.is_empty()) {
            if known.contains_key(&image.id) {
                continue;
            }
            match self.parts.runtime.images.image_labels(&image.id).await {
                Ok(labels) => drop(known.insert(image.id.clone(), labels)),
                Err(error) => debug!(%error, "Cannot read the labels of an image"),
            }
        }
        self.state().labels.clone_from(&known);
        known
    }

    /// The directory of images: the first of the runtime's file systems.
    pub(crate) async fn directory(&self) -> Result<PathBuf, ImageGcError> {
        let found =
            self.parts.runtime.images.image_fs_info().await.map_err(ImageGcError::Filesystem)?;
        let found = found.images;
        if found.len() > 1 && !std::mem::replace(&mut self.state().several, true) {
            let all: Vec<_> =
                found.iter().map(|one| one.mount_point.display().to_string()).collect();
            warn!(
                filesystems = all.join(", "),
                "Several image filesystems, collecting only the first"
            );
        }
        let first = found.into_iter().next().ok_or(ImageGcError::NoFilesystem)?;
        Ok(first.mount_point)
    }

    /// The space on the disk. An unknown disk has no capacity, like upstream.
    pub(crate) async fn space(
        &self,
        directory: &std::path::Path,
    ) -> Result<DiskSpace, ImageGcError> {
        match self.parts.disks.space(directory).await {
            Ok(space) => Ok(space),
            Err(error) if error.is_not_found() => Ok(DiskSpace::default()),
            Err(error) => Err(ImageGcError::Measure(error)),
        }
    }
}
