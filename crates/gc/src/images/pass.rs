//! A pass over the images, and its plan.

use std::path::{Path, PathBuf};

use model::chain::Chain;
use model::panics::{PanicStep, PanicSubject};
use model::ports::events::{EventType, NodeEvent};
use model::ports::runtime::{Code, RuntimeError};
use tokio::time::{Instant, sleep};
use tracing::{debug, info, warn};

use super::error::panicked;
use super::metrics::Reason;
use super::snapshot::{Collector, Snapshot};
use super::{Errors, ImageGcError, Kind, PassReport};
use crate::decide::images::sweep::{
    all_stay, blind, claimed, not_enough, not_observed, not_removed, predict,
};
use crate::decide::images::{
    Candidate, FREE_DISK_SPACE_FAILED, Goal, Observed, Settling, Shown, SortedImages, Sweep,
    SweepResult, Usage, by_age, sort,
};
use crate::plan::{Item, Plan};

/// Upstream's event message for a disk without capacity.
const NO_CAPACITY: &str = "invalid capacity 0 on image filesystem";

/// The disk with the images.
struct ImageDisk {
    /// Its directory.
    directory: PathBuf,
    /// Its usage.
    usage: Usage,
}

/// The result of one removal.
enum Removal {
    Done,
    /// The image was claimed first, under this name.
    Claimed(String),
    Failed(RuntimeError),
}

impl Collector {
    /// What a pass would do now.
    pub(super) async fn plan(&self, observed: Observed) -> PassReport {
        let _watch = self.parts.claims.watch();
        match self.look().await {
            Ok(snapshot) => self.planned(&snapshot, observed).await,
            Err(error) => PassReport { error: Some(error), ..PassReport::default() },
        }
    }

    async fn planned(&self, snapshot: &Snapshot, observed: Observed) -> PassReport {
        let facts = snapshot.facts(self, observed);
        let SortedImages { candidates, kept } = sort(&facts);
        let ages = by_age(&facts, candidates);
        let by_age: u64 = ages.old.iter().map(|(candidate, _)| candidate.size).sum();
        let mut items: Vec<Item> = ages.old.into_iter().map(|(_, item)| item).collect();
        let policy = &self.settings.policy;
        let (mut problem, mut predicted_failure) = (None, None);
        items.extend(match self.disk().await.map(|disk| disk.usage.with(by_age)) {
            Ok(usage) if !usage.is_too_much(policy) => all_stay(&ages.rest, usage, policy),
            Ok(usage) if observed == Observed::No => not_observed(&ages.rest, usage, policy),
            Ok(usage) => {
                let goal = Goal::Room { usage, target: usage.target(policy), estimated: true };
                let swept = predict(Sweep::new(ages.rest, goal, policy, snapshot.now));
                predicted_failure = not_enough(usage, &swept);
                swept.items
            }
            Err(error) => {
                let items = blind(&ages.rest, &Chain(&error).to_string());
                problem = Some(error);
                items
            }
        });
        items.extend(kept);
        let (plan, not_enough) = (Plan { items }, predicted_failure);
        PassReport { plan, error: problem, not_enough, ..PassReport::default() }
    }

    /// The disk with the images.
    async fn disk(&self) -> Result<ImageDisk, ImageGcError> {
        let directory = self.directory().await?;
        let space = self.space(&directory).await?;
        if space.available > space.capacity {
            debug!(
                space.available,
                space.capacity, "Image filesystem has more available space than capacity"
            );
        }
        match Usage::of(space) {
            Some(usage) => Ok(ImageDisk { directory, usage }),
            None => Err(ImageGcError::NoCapacity(directory)),
        }
    }

    /// A pass. Its snapshot is recorded first.
    pub(super) async fn pass(&self, kind: Kind, snapshot: &Snapshot) -> PassReport {
        let facts = snapshot.facts(self, Observed::Yes);
        let SortedImages { candidates, kept } = sort(&facts);
        let mut report = PassReport::default();
        match kind {
            Kind::Everything => {
                let policy = &self.settings.policy;
                let sweep = Sweep::new(candidates, Goal::Everything, policy, snapshot.now);
                let (swept, errors) = self.sweep(sweep, None, &mut report.claimed).await;
                report.error = space_error(u64::MAX >> 1, swept.freed, errors);
                report.made_room = report.error.is_none();
                report.plan.items = swept.items;
            }
            Kind::Ordinary => {
                let ages = by_age(&facts, candidates);
                let by_age = self.remove_old(ages.old, &mut report).await;
                let by_space = self.make_room(snapshot, ages.rest, &mut report).await;
                report.made_room &= by_age.is_none();
                report.error = ImageGcError::and(by_age, by_space);
            }
        }
        report.plan.items.extend(kept);
        report
    }

    /// Removes images that are unused for too long.
    async fn remove_old(
        &self,
        old: Vec<(Candidate, Item)>,
        report: &mut PassReport,
    ) -> Option<ImageGcError> {
        let mut errors = Errors::default();
        for (candidate, item) in old {
            report.plan.items.push(match self.remove(&candidate, &item, Reason::Age).await {
                Removal::Done => item,
                Removal::Claimed(name) => {
                    let kept = claimed(&candidate, &name);
                    report.claimed.push(kept.clone());
                    kept
                }
                Removal::Failed(error) => {
                    let kept = not_removed(&candidate, &error.to_string());
                    errors.0.push(error);
                    kept
                }
            });
        }
        let maximum_age = self.settings.policy.maximum_age;
        (!errors.0.is_empty()).then_some(ImageGcError::Age { maximum_age, errors })
    }

    /// Removes images if the disk is too full.
    async fn make_room(
        &self,
        snapshot: &Snapshot,
        candidates: Vec<Candidate>,
        report: &mut PassReport,
    ) -> Option<ImageGcError> {
        let policy = &self.settings.policy;
        let disk = match self.disk().await {
            Ok(disk) => disk,
            Err(error) => {
                if matches!(error, ImageGcError::NoCapacity(_)) {
                    self.warn("InvalidDiskCapacity", NO_CAPACITY.to_owned());
                }
                report.plan.items.extend(blind(&candidates, &Chain(&error).to_string()));
                return Some(error);
            }
        };
        if !disk.usage.is_too_much(policy) {
            report.plan.items.extend(all_stay(&candidates, disk.usage, policy));
            return None;
        }
        self.free(snapshot, candidates, &disk, report).await
    }

    /// Removes the least recently used images until the space of the low threshold is available.
    async fn free(
        &self,
        snapshot: &Snapshot,
        candidates: Vec<Candidate>,
        disk: &ImageDisk,
        report: &mut PassReport,
    ) -> Option<ImageGcError> {
        let (policy, usage) = (&self.settings.policy, disk.usage);
        let target = usage.target(policy);
        let wanted = target.saturating_sub(usage.space.available);
        info!(
            used = usage.percent,
            high = policy.high_threshold,
            low = policy.low_threshold,
            wanted,
            "Disk usage on image filesystem is over the high threshold"
        );
        let goal = Goal::Room { usage, target, estimated: false };
        let sweep = Sweep::new(candidates, goal, policy, snapshot.now);
        let disk = Some((&*disk.directory, target));
        let (swept, errors) = self.sweep(sweep, disk, &mut report.claimed).await;
        let failure_message = not_enough(usage, &swept);
        report.plan.items.extend(swept.items);
        if let Some(error) = space_error(wanted, swept.freed, errors) {
            return Some(error);
        }
        report.made_room = true;
        failure_message.map(|message| {
            self.warn(FREE_DISK_SPACE_FAILED, message.clone());
            ImageGcError::NotEnough(message)
        })
    }

    /// Removes images one after the other, and measures the disk after each if there is one.
    async fn sweep(
        &self,
        mut sweep: Sweep,
        disk: Option<(&Path, u64)>,
        claims: &mut Vec<Item>,
    ) -> (SweepResult, Errors) {
        let mut errors = Errors::default();
        while let Some((candidate, item)) = sweep.next_step() {
            match self.remove(&candidate, &item, Reason::Space).await {
                Removal::Done => {
                    let shown = match disk {
                        Some((directory, target)) => {
                            let settling = Settling::new(sweep.available(), target);
                            self.settled(directory, settling).await
                        }
                        None => None,
                    };
                    sweep.removed(item, shown);
                }
                Removal::Claimed(name) => {
                    sweep.claimed(&candidate, &name);
                    claims.push(claimed(&candidate, &name));
                }
                Removal::Failed(error) => {
                    sweep.failed(&candidate, &error.to_string());
                    // The removal may have worked despite the error; then less is left to do.
                    if let Some((directory, _)) = disk
                        && error.may_have_happened()
                        && let Ok(space) = self.space(directory).await
                    {
                        sweep.measured(space.available.min(space.capacity));
                    }
                    errors.0.push(error);
                }
            }
        }
        (sweep.finish(), errors)
    }

    /// The measurements of the disk once it has released the space of a removal.
    async fn settled(&self, directory: &Path, mut settling: Settling) -> Option<Shown> {
        let removed = Instant::now();
        loop {
            let available = match self.space(directory).await {
                Ok(space) if space.capacity > 0 => space.available.min(space.capacity),
                Ok(_) => return None,
                Err(error) => {
                    warn!(error = %Chain(&error), "Cannot measure the space freed by a removal");
                    return None;
                }
            };
            match settling.measured(available, removed.elapsed()) {
                Some(pause) => sleep(pause).await,
                None => return settling.shown(),
            }
        }
    }

    /// Removes an image, unless it was claimed since the snapshot, by any of its current names. After a panic
    /// it counts as not removed.
    async fn remove(&self, candidate: &Candidate, item: &Item, reason: Reason) -> Removal {
        let (of, guard) = (PanicSubject::Object(&candidate.id), &self.parts.panics);
        let removal = self.remove_unguarded(candidate, item, reason);
        let removal = guard.catch_async(PanicStep::ImageGc, of, removal).await;
        removal
            .unwrap_or_else(|panic| Removal::Failed(panicked("RemoveImage", &candidate.id, &panic)))
    }

    async fn remove_unguarded(
        &self,
        candidate: &Candidate,
        item: &Item,
        reason: Reason,
    ) -> Removal {
        // A pull may have added a name since the list.
        let image = match self.parts.runtime.images.image_status(&candidate.id).await {
            Ok(image) => image,
            Err(error) if error.is_not_found() => None,
            Err(error) => {
                warn!(image = candidate.id, %error, "Cannot inspect image before its removal");
                return Removal::Failed(error);
            }
        };
        let claims = self.parts.claims.names();
        if let Some(name) = candidate.claimed_now(image.as_ref(), &claims) {
            return Removal::Claimed(name);
        }
        let Some(verdict) = item.verdict(self.parts.clock.now()) else {
            unreachable!("only items with a removal verdict get here");
        };
        match self.parts.runtime.images.remove_image(&verdict).await {
            Err(error)
                if error.code == Code::FailedPrecondition
                    && self.parts.claims.names().contains(&candidate.id) =>
            {
                Removal::Claimed(candidate.id.clone())
            }
            Err(error) if !error.is_not_found() => {
                warn!(%error, "Image removal failed");
                Removal::Failed(error)
            }
            _ => {
                self.parts.claims.changed();
                self.forget(&candidate.id);
                self.parts.metrics.removed(reason);
                Removal::Done
            }
        }
    }

    /// Records a warning event for the node.
    pub(super) fn warn(&self, reason: &'static str, message: String) {
        self.parts.events.record(NodeEvent { kind: EventType::Warning, reason, message });
    }
}

fn space_error(wanted: u64, freed: u64, errors: Errors) -> Option<ImageGcError> {
    (!errors.0.is_empty()).then_some(ImageGcError::Space { wanted, freed, errors })
}
