//! Looking at images, at who uses them, and at the disk that they lie on. Changes nothing.

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
use crate::decide::images::{Detected, KeptImage, Listing, Observed, Records, Situation, detect};

/// How many sandboxes are inspected in a pass until one reports its image.
const SANDBOXES_INSPECTED: usize = 4;

/// What all passes and plans share. Records are written by the task alone.
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
    /// When the agent began, on a clock that may have been set back since.
    began: Timestamp,
    /// Labels of images by id: an id stands for its content.
    labels: BTreeMap<String, BTreeMap<String, String>>,
    /// The newest sandbox whose image was asked for, and its image.
    sandbox: Option<(SandboxId, Option<String>)>,
    /// Whether it was said that there are several file systems.
    several: bool,
}

/// What a look gave.
#[derive(Debug)]
pub(crate) struct Looked {
    pub(crate) detected: Detected,
    labels: BTreeMap<String, BTreeMap<String, String>>,
    of_pods: Option<Vec<KeptImage>>,
    claimed: BTreeSet<String>,
    /// What was used since the last look, as far as it is known.
    pub(crate) made_since: BTreeMap<String, Timestamp>,
    /// When it began.
    pub(crate) now: Timestamp,
    /// When the agent began, never later than that: a clock that was set back must not keep images for as
    /// long as it was ahead.
    pub(crate) began: Timestamp,
}

impl Looked {
    pub(crate) fn situation<'a>(
        &'a self,
        collector: &'a Collector,
        observed: Observed,
    ) -> Situation<'a> {
        Situation {
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

    /// Remembers what was seen.
    pub(crate) fn remember_look(&self, looked: &Looked) {
        let mut state = self.state();
        state.records = looked.detected.records.clone();
        state.began = looked.began;
    }

    /// Forgets an image that was removed, for whichever handlers it was pulled.
    pub(crate) fn forget(&self, id: &str) {
        self.state().records.images.retain(|key, _| key.id != id);
    }

    /// Looks at all images. Who calls this watches the claims from before on.
    pub(crate) async fn look(&self) -> Result<Looked, ImageGcError> {
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
        Ok(Looked { detected, labels, of_pods, claimed, made_since, now, began })
    }

    /// The images that containers have mounted. What a container mounts never changes, so what was
    /// once seen of it will do.
    async fn mounted(&self, uses: &[ImageUse]) -> Result<Vec<(ContainerId, String)>, ImageGcError> {
        let mut mounted = Vec::new();
        for ImageUse { container, pod_uid, .. } in uses {
            let known = pod_uid.as_ref().and_then(|pod| self.parts.pods.mounted(pod, container));
            let images = match known {
                Some(images) => images,
                None => match self.container_status(container).await {
                    Ok(status) => super::mounted_images(&status),
                    // It went after it was listed, and its mounts with it.
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

    /// The image that sandboxes are made from, where the runtime tells: that of the newest. Runtimes pin
    /// it as well; old ones forget to, and a node without it starts no pod.
    async fn sandbox_image(&self) -> Result<Option<String>, ImageGcError> {
        let known = self.state().sandbox.clone();
        match (self.newest_sandbox_image(known.as_ref()).await, known) {
            (Ok(image), _) => Ok(image),
            // The image of an earlier sandbox is used instead.
            (Err(error), Some((_, image))) => {
                debug!(%error, "cannot tell the image of a sandbox");
                Ok(image)
            }
            // Any image may be it.
            (Err(error), None) => Err(ImageGcError::Sandboxes(error)),
        }
    }

    /// The image of the newest sandbox; of one that cannot be inspected, that of the next newest.
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
                // It went after it was listed.
                Err(error) if error.is_not_found() => {}
                // So would all others.
                Err(error) if error.is_unavailable() => return Err(error),
                Err(error) => {
                    warn!(sandbox = %sandbox.id, %error, "Cannot inspect sandbox for its image");
                    failed.get_or_insert(error);
                }
            }
        }
        failed.map_or_else(|| Ok(known_image()), Err)
    }

    /// The labels of images, if somebody wants to know. Each is asked for once.
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
                Err(error) => debug!(%error, "cannot tell the labels of an image"),
            }
        }
        self.state().labels.clone_from(&known);
        known
    }

    /// Where images lie: the first of the runtime's file systems.
    pub(crate) async fn directory(&self) -> Result<PathBuf, ImageGcError> {
        let found =
            self.parts.runtime.images.image_fs_info().await.map_err(ImageGcError::Filesystem)?;
        if found.len() > 1 && !std::mem::replace(&mut self.state().several, true) {
            let all: Vec<_> =
                found.iter().map(|one| one.mount_point.display().to_string()).collect();
            warn!(
                filesystems = all.join(", "),
                "images lie on several file systems; only the first is looked after"
            );
        }
        let first = found.into_iter().next().ok_or(ImageGcError::NoFilesystem)?;
        Ok(first.mount_point)
    }

    /// The room on the disk. One that is not known here has none, as upstream has it.
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
