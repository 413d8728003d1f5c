//! Removes images one after the other until there is enough space.
//!
//! The caller requests the next image from the sweep, and reports the result. A sweep never adds up the sizes
//! of
//! images: layers are shared, so the caller reports the measured disk usage.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use model::verdict::{Detail, Input, Subject};

use crate::decide::images::candidates::bytes;
use crate::decide::images::worth::worth;
use crate::decide::images::{Candidate, Policy, RemovalGain, Shown, Usage, human_size};
use crate::plan::{Fate, Item};

/// After this many consecutive removals without gain, further ones will not help either.
const FRUITLESS: u32 = 3;

/// The goal of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// Until this much space is available.
    Room {
        /// The disk usage before.
        usage: Usage,
        /// The space that must be available.
        target: u64,
        /// Whether the available space is computed from sizes instead of measured.
        estimated: bool,
    },
    /// Every candidate: the node is under disk pressure.
    Everything,
}

/// Why a sweep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Every candidate is removed.
    Exhausted,
    /// There is enough space.
    Enough,
    /// Removals gain no space.
    Fruitless,
    /// The disk can no longer be measured.
    Blind,
}

/// A sweep in progress.
#[derive(Debug)]
pub struct Sweep {
    queue: VecDeque<Candidate>,
    goal: Goal,
    minimum_age: Duration,
    thresholds: (u32, u32),
    now: Timestamp,
    available: u64,
    freed: u64,
    fruitless: u32,
    /// The reported size of the image that was returned last.
    size: u64,
    ended: Option<End>,
    items: Vec<Item>,
}

/// The result of a sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SweepResult {
    /// The fate of every image.
    pub items: Vec<Item>,
    /// Bytes that became available. If all images are removed without a measure: the sum of their sizes.
    pub freed: u64,
    /// Why it ended.
    pub end: End,
    /// Whether the goal is reached.
    pub is_enough: bool,
}

impl Sweep {
    /// A sweep over the candidates in this order, in a pass that began at `now`.
    pub fn new(candidates: Vec<Candidate>, goal: Goal, policy: &Policy, now: Timestamp) -> Self {
        let available = match goal {
            Goal::Room { usage, .. } => usage.space.available,
            Goal::Everything => 0,
        };
        Self {
            queue: candidates.into(),
            goal,
            minimum_age: policy.minimum_age,
            thresholds: (policy.high_threshold, policy.low_threshold),
            now,
            available,
            freed: 0,
            fruitless: 0,
            size: 0,
            ended: None,
            items: Vec::new(),
        }
    }

    /// The next image to remove, with its item.
    pub fn next_step(&mut self) -> Option<(Candidate, Item)> {
        while self.ended.is_none() {
            let Some(candidate) = self.queue.pop_front() else {
                self.ended = Some(End::Exhausted);
                break;
            };
            if candidate.times.last_used.is_some_and(|used| used >= self.now) {
                let item =
                    candidate.item(Fate::Keep, "used-since-the-pass-began", Detail::default());
                self.items.push(item);
            } else if candidate.known_for < self.minimum_age {
                // The age of an image that this listing is the first to contain is unknown.
                let known_for = if candidate.times.first_detected >= self.now {
                    Input::Nothing
                } else {
                    Input::Span(candidate.known_for)
                };
                let detail = Detail::default()
                    .with("knownFor", known_for)
                    .with("minimumAge", Input::Span(self.minimum_age));
                self.items.push(candidate.item(Fate::Keep, "younger-than-minimum-age", detail));
            } else {
                let (rule, detail) = self.reason();
                let item = candidate.item(Fate::Remove, rule, detail);
                self.size = candidate.size;
                return Some((candidate, item));
            }
        }
        None
    }

    fn reason(&self) -> (&'static str, Detail) {
        let detail = Detail::default();
        match self.goal {
            Goal::Everything => ("node-short-of-disk", detail),
            Goal::Room { usage, target, estimated } => {
                let number = |number: u32| Input::Number(i64::from(number));
                let detail = detail
                    .with("usedPercent", number(usage.percent))
                    .with("highThresholdPercent", number(self.thresholds.0))
                    .with("lowThresholdPercent", number(self.thresholds.1))
                    .with("capacity", bytes(usage.space.capacity))
                    .with("availableBefore", bytes(self.available))
                    .with("availableWanted", bytes(target))
                    .with("estimated", Input::Flag(estimated));
                ("disk-over-high-threshold", detail)
            }
        }
    }

    /// The available space at the last measurement.
    pub fn available(&self) -> u64 {
        self.available
    }

    /// The image was removed; `shown` is the measurement after it, if any.
    pub fn removed(&mut self, mut item: Item, shown: Option<Shown>) {
        let Goal::Room { target, .. } = self.goal else {
            self.items.push(item);
            self.freed = self.freed.saturating_add(self.size);
            return;
        };
        let Some(shown) = shown else {
            self.ended = Some(End::Blind);
            self.items.push(item);
            return;
        };
        let available = shown.available;
        item.detail = item.detail.with("availableAfter", bytes(available));
        self.items.push(item);
        match worth(self.size, self.available, shown) {
            RemovalGain::Gained(bytes) => {
                self.fruitless = 0;
                self.freed = self.freed.saturating_add(bytes);
            }
            RemovalGain::Nothing => self.fruitless += 1,
            // Whether it helped is unclear.
            RemovalGain::Unclear => {}
        }
        self.available = available;
        if available >= target {
            self.ended = Some(End::Enough);
        } else if self.fruitless >= FRUITLESS {
            self.ended = Some(End::Fruitless);
        }
    }

    /// The image could not be removed.
    pub fn failed(&mut self, candidate: &Candidate, error: &str) {
        self.items.push(not_removed(candidate, error));
    }

    /// Records the available space, which may have changed for other reasons.
    pub fn measured(&mut self, available: u64) {
        self.freed = self.freed.saturating_add(available.saturating_sub(self.available));
        self.available = available;
        if let Goal::Room { target, .. } = self.goal
            && available >= target
        {
            self.ended = Some(End::Enough);
        }
    }

    /// The image was claimed meanwhile, under this name.
    pub fn claimed(&mut self, candidate: &Candidate, name: &str) {
        self.items.push(claimed(candidate, name));
    }

    /// The fates of all images; candidates that were not reached stay.
    pub fn finish(mut self) -> SweepResult {
        let end = self.ended.unwrap_or(End::Exhausted);
        let rule = match end {
            End::Exhausted | End::Enough => "enough-space-freed",
            End::Fruitless => "removals-gain-nothing",
            End::Blind => "disk-cannot-be-measured",
        };
        let left = std::mem::take(&mut self.queue);
        let available = bytes(self.available);
        self.items.extend(left.iter().map(|candidate| {
            let detail = Detail::default().with("available", available.clone());
            candidate.item(Fate::Keep, rule, detail)
        }));
        let is_enough = match self.goal {
            Goal::Room { target, .. } => self.available >= target,
            Goal::Everything => true,
        };
        SweepResult { items: self.items, freed: self.freed, end, is_enough }
    }
}

/// Upstream's event for insufficient space after all possible removals.
pub const FREE_DISK_SPACE_FAILED: &str = "FreeDiskSpaceFailed";

/// The message of that event after a sweep of a disk with this usage; `None` if there is enough space.
pub fn not_enough(usage: Usage, swept: &SweepResult) -> Option<String> {
    let message = || {
        format!(
            "Insufficient free disk space on the node's image filesystem ({}% of {} used). \
             Failed to free sufficient space by deleting unused images (freed {} bytes). \
             Investigate disk usage, as it could be used by active images, logs, volumes, or \
             other data.",
            usage.percent,
            human_size(usage.space.capacity),
            swept.freed
        )
    };
    (!swept.is_enough).then(message)
}

/// Predicts the sweep from image sizes, as if each removal freed the full size of its image.
pub fn predict(mut sweep: Sweep) -> SweepResult {
    while let Some((candidate, item)) = sweep.next_step() {
        let available = sweep.available().saturating_add(candidate.size);
        sweep.removed(item, Some(available.into()));
    }
    sweep.finish()
}

/// The ids of images that remain after a pass with these items.
pub fn stay(items: &[Item]) -> BTreeSet<String> {
    let stays = items.iter().filter(|item| item.fate == Fate::Keep);
    let ids = stays.filter_map(|item| match &item.subject {
        Subject::Image(id) => Some(id.clone()),
        _ => None,
    });
    ids.collect()
}

/// The rule for an image whose removal failed.
pub const NOT_REMOVED: &str = "removal-failed";

/// The item of an image whose removal failed.
pub fn not_removed(candidate: &Candidate, error: &str) -> Item {
    let detail = Detail::default().with("error", Input::Text(error.to_owned()));
    candidate.item(Fate::Keep, NOT_REMOVED, detail)
}

/// The item of an image that is about to be used.
pub fn claimed(candidate: &Candidate, name: &str) -> Item {
    let detail = Detail::default().with("claimed", Input::Text(name.to_owned()));
    candidate.item(Fate::Keep, "being-pulled", detail)
}

/// These images were not observed, so their ages and uses are unknown. On a disk that is too full, an agent would
/// remove some of them.
pub fn not_observed(candidates: &[Candidate], usage: Usage, policy: &Policy) -> Vec<Item> {
    kept("image-age-unknown", candidates, usage, policy)
}

/// Keeps everything: the disk cannot be measured.
pub fn blind(candidates: &[Candidate], error: &str) -> Vec<Item> {
    let keep = |candidate: &Candidate| {
        let detail = Detail::default().with("error", Input::Text(error.to_owned()));
        candidate.item(Fate::Keep, "disk-cannot-be-measured", detail)
    };
    candidates.iter().map(keep).collect()
}

/// Keeps everything: there is enough space.
pub fn all_stay(candidates: &[Candidate], usage: Usage, policy: &Policy) -> Vec<Item> {
    kept("below-high-threshold", candidates, usage, policy)
}

/// Keeps everything by a rule about the disk usage.
fn kept(rule: &'static str, candidates: &[Candidate], usage: Usage, policy: &Policy) -> Vec<Item> {
    let number = |number: u32| Input::Number(i64::from(number));
    let keep = |candidate: &Candidate| {
        let detail = Detail::default()
            .with("usedPercent", number(usage.percent))
            .with("highThresholdPercent", number(policy.high_threshold));
        candidate.item(Fate::Keep, rule, detail)
    };
    candidates.iter().map(keep).collect()
}
