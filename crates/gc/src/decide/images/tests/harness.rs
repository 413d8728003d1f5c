//! A simulated node with images, containers and a disk.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use model::ports::disk::DiskSpace;
use model::ports::runtime::{Image, ImageUse};

use crate::decide::images::sweep::{self, predict};
use crate::decide::images::*;
use crate::plan::Item;

/// The start of the agent.
pub(super) const BEGAN: Timestamp = Timestamp::constant(1_767_225_600, 0);

pub(super) fn at(seconds: u64) -> Timestamp {
    BEGAN + Duration::from_secs(seconds)
}

pub(super) fn image(id: &str, size: u64) -> Image {
    Image {
        id: id.to_owned(),
        repo_tags: vec![format!("registry.test/{id}:1")],
        repo_digests: Vec::new(),
        size,
        pinned: false,
        user: None,
        runtime_handler: String::new(),
    }
}

pub(super) fn using(container: &str, image: &str) -> ImageUse {
    ImageUse {
        container: container.into(),
        pod_uid: None,
        image_id: image.into(),
        runtime_handler: "".into(),
    }
}

/// A node as a pass sees it.
#[derive(Debug, Clone)]
pub(super) struct Harness {
    pub(super) policy: Policy,
    pub(super) listing: Listing,
    pub(super) records: Records,
    pub(super) pins: Pins,
    pub(super) claimed: BTreeSet<String>,
    pub(super) of_pods: Option<Vec<KeptImage>>,
    pub(super) began: Timestamp,
}

impl Harness {
    pub(super) fn new(images: Vec<Image>) -> Self {
        let policy = Policy { minimum_age: Duration::ZERO, ..Policy::default() };
        Self {
            policy,
            listing: Listing { images, ..Listing::default() },
            records: Records::default(),
            pins: Pins::default(),
            claimed: BTreeSet::new(),
            of_pods: Some(Vec::new()),
            began: BEGAN,
        }
    }

    pub(super) fn image(&mut self, id: &str) -> &mut Image {
        let images = &mut self.listing.images;
        images.iter_mut().find(|image| image.id == id).expect("the test created it")
    }

    /// Detects images and stores the records.
    pub(super) fn detect(&mut self, seconds: u64) -> Detected {
        let detected = detect(&self.records, &self.listing, at(seconds), at(seconds));
        self.records = detected.records.clone();
        detected
    }

    /// The decisions by age and then by disk usage, computed from sizes, of a pass at this time.
    pub(super) fn plan(&self, seconds: u64, space: DiskSpace) -> Vec<Item> {
        let detected = detect(&self.records, &self.listing, at(seconds), at(seconds));
        let labels = BTreeMap::new();
        let facts = ImageFacts {
            detected: &detected,
            policy: &self.policy,
            pins: &self.pins,
            labels: &labels,
            claimed: &self.claimed,
            of_pods: self.of_pods.as_deref(),
            now: at(seconds),
            began: self.began,
            observed: Observed::Yes,
        };
        let SortedImages { candidates, kept } = sort(&facts);
        let ages = by_age(&facts, candidates);
        let mut items: Vec<Item> = ages.old.into_iter().map(|(_, item)| item).collect();
        let usage = Usage::of(space).expect("the test's disk has a capacity");
        if usage.is_too_much(&self.policy) {
            let target = usage.target(&self.policy);
            let goal = Goal::Room { usage, target, estimated: true };
            items.extend(predict(Sweep::new(ages.rest, goal, &self.policy, at(seconds))).items);
        } else {
            items.extend(sweep::all_stay(&ages.rest, usage, &self.policy));
        }
        items.extend(kept);
        items
    }

    /// The fate of each image as `id rule`, in order.
    pub(super) fn fates(&self, seconds: u64, space: DiskSpace) -> Vec<String> {
        let items = self.plan(seconds, space);
        items.iter().map(|item| format!("{} {}", id(item), item.rule)).collect()
    }
}

pub(super) fn id(item: &Item) -> &str {
    match &item.subject {
        model::verdict::Subject::Image(id) => id,
        other => panic!("{other} is not an image"),
    }
}

pub(super) fn disk(capacity: u64, available: u64) -> DiskSpace {
    DiskSpace { capacity, available, ..DiskSpace::default() }
}

/// A disk without available space.
pub(super) fn full() -> DiskSpace {
    disk(1_000_000, 0)
}
