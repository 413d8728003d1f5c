//! Which images may be removed, and in which order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use model::ids::PodName;
use model::ports::runtime::Image;
use model::verdict::{Detail, Input, Subject};
use podspec::image_name::ImageName;

use crate::decide::images::{Detected, ObservedImage, Pins, Policy, Times, Use};
use crate::plan::{Fate, Item};

/// Why an image of a pod is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Keeper {
    /// A static pod.
    Static,
    /// A node-critical pod.
    Critical,
}

/// An image in the specification of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptImage {
    /// Its name in the specification.
    pub name: String,
    /// The kind of the pod.
    pub keeper: Keeper,
    /// The pod.
    pub pod: PodName,
}

/// The inputs of decisions about images, except the disk usage.
#[derive(Debug)]
pub struct ImageFacts<'a> {
    /// The images.
    pub detected: &'a Detected,
    /// The policy.
    pub policy: &'a Policy,
    /// The images that the operator pins.
    pub pins: &'a Pins,
    /// Labels of images by id; only those that are known and needed.
    pub labels: &'a BTreeMap<String, BTreeMap<String, String>>,
    /// Names of images that are about to be used.
    pub claimed: &'a BTreeSet<String>,
    /// Images of pods that the operator wants to keep; `None` until all of them are known.
    pub of_pods: Option<&'a [KeptImage]>,
    /// The start of the pass.
    pub now: Timestamp,
    /// When the agent started. No image was protected before.
    pub began: Timestamp,
    /// Whether images were observed before.
    pub observed: Observed,
}

/// Whether an agent has observed the images since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observed {
    /// An agent has.
    Yes,
    /// No agent has: this is the first listing, so the ages of images are unknown.
    No,
}

/// An image that may be removed, for all its handlers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its id, by which it is removed.
    pub id: String,
    /// Its full names.
    pub names: Arc<[String]>,
    /// Its size in bytes, including shared layers; the largest that is reported for any handler.
    pub size: u64,
    /// When it was first detected and last used; the latest for any handler.
    pub times: Times,
    /// How long the agent has known the image; at most the time since the agent started.
    pub known_for: Duration,
    /// Whether its first detection is meaningful.
    pub observed: Observed,
}

/// Candidates, least recently used first, and images that always stay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SortedImages {
    /// Images that may be removed.
    pub candidates: Vec<Candidate>,
    /// Images that stay.
    pub kept: Vec<Item>,
}

/// Removes images that must stay from the list. Images that were never used come first, then the least recently
/// used; equal ones by first detection.
pub fn sort(facts: &ImageFacts<'_>) -> SortedImages {
    let claimed = meant(facts.claimed);
    let of_pods: BTreeMap<String, &KeptImage> = facts
        .of_pods
        .unwrap_or_default()
        .iter()
        .flat_map(|image| [(image.name.clone(), image), (full_name(&image.name), image)])
        .collect();
    let mut sorted = SortedImages::default();
    // An image is removed by its id, for all handlers: a reason to keep it for one of them keeps it for all.
    // Entries are ordered by key, so those of one id are adjacent.
    for handlers in facts.detected.images.chunk_by(|one, next| one.key.id == next.key.id) {
        let Some((first, others)) = handlers.split_first() else { continue };
        let candidate = Candidate::of(first, others, facts);
        match handlers.iter().find_map(|image| keeper(facts, image, &claimed, &of_pods)) {
            Some((rule, detail)) => sorted.kept.push(candidate.item(Fate::Keep, rule, detail)),
            None => sorted.candidates.push(candidate),
        }
    }
    sorted.candidates.sort_by(|a, b| {
        let order = |one: &Candidate| (one.times.last_used, one.times.first_detected);
        order(a).cmp(&order(b)).then_with(|| a.id.cmp(&b.id))
    });
    sorted
}

/// The rule that keeps an image, with its inputs beyond the image itself.
fn keeper(
    facts: &ImageFacts<'_>,
    image: &ObservedImage,
    claimed: &BTreeSet<String>,
    of_pods: &BTreeMap<String, &KeptImage>,
) -> Option<(&'static str, Detail)> {
    let text = |text: &str| Input::Text(text.to_owned());
    let detail = Detail::default();
    if let Some(used) = &image.used {
        let detail = match used {
            Use::Containers(count, container) => detail
                .with("containers", Input::Number(i64::try_from(*count).unwrap_or(i64::MAX)))
                .with("container", text(container.as_str())),
            Use::Volume(container) => detail.with("mountedBy", text(container.as_str())),
            Use::Sandbox => detail.with("sandbox", Input::Flag(true)),
        };
        return Some(("image-in-use", detail));
    }
    if image.pinned {
        return Some(("image-pinned", detail));
    }
    if let Some(name) = is_claimed(&image.key.id, &image.names, claimed) {
        return Some(("being-pulled", detail.with("claimed", text(name))));
    }
    let labels = facts.labels.get(&image.key.id);
    if facts.pins.look_at_labels() && labels.is_none() {
        return Some(("labels-unknown", detail));
    }
    if let Some((pattern, rule)) = facts.pins.matching(&image.names, labels) {
        return Some((rule, detail.with("pin", text(pattern))));
    }
    if facts.of_pods.is_none() {
        return Some(("source-not-ready", detail));
    }
    // A pod may refer to the image by its id.
    let of_pod = image.names.iter().chain([&image.key.id]).find_map(|name| of_pods.get(name));
    of_pod.map(|image| {
        let rule = match image.keeper {
            Keeper::Static => "kept-for-static-pod",
            Keeper::Critical => "kept-for-critical-pod",
        };
        (rule, detail.with("pod", Input::Text(image.pod.to_string())))
    })
}

/// The name under which an image is claimed, if any.
fn is_claimed<'a>(id: &'a str, names: &'a [String], claimed: &BTreeSet<String>) -> Option<&'a str> {
    let digests = names.iter().filter_map(|name| digest(name));
    let mut names = names.iter().map(String::as_str).chain([id]).chain(digests);
    names.find(|name| claimed.contains(*name))
}

impl Candidate {
    /// The candidate of an image, from its entries for all handlers.
    fn of(first: &ObservedImage, others: &[ObservedImage], facts: &ImageFacts<'_>) -> Self {
        let Times { mut first_detected, mut last_used } = first.times;
        let (mut names, mut size) = (Arc::clone(&first.names), first.size);
        for other in others {
            first_detected = first_detected.max(other.times.first_detected);
            last_used = last_used.max(other.times.last_used);
            size = size.max(other.size);
            let new = other.names.iter().filter(|name| !names.contains(name));
            let new: Vec<String> = new.cloned().collect();
            names = names.iter().cloned().chain(new).collect();
        }
        Self {
            id: first.key.id.clone(),
            names,
            size,
            times: Times { first_detected, last_used },
            known_for: since(facts.began.max(first_detected), facts.now),
            observed: facts.observed,
        }
    }

    /// The claimed name among the image's names at the time of the list and its current ones.
    pub fn claimed_now(&self, now: Option<&Image>, claimed: &BTreeSet<String>) -> Option<String> {
        let now =
            now.into_iter().flat_map(|image| image.repo_tags.iter().chain(&image.repo_digests));
        let names: Vec<String> = self.names.iter().chain(now).cloned().collect();
        is_claimed(&self.id, &names, &meant(claimed)).map(ToOwned::to_owned)
    }

    /// How long the image has been unused; an image that was never used counts from its first
    /// detection.
    pub fn unused_for(&self, now: Timestamp) -> Duration {
        let last = self.times.last_used.unwrap_or(self.times.first_detected);
        since(last.max(self.times.first_detected), now)
    }

    /// The item of this candidate, with the inputs of its rule beyond the image itself.
    pub fn item(&self, fate: Fate, rule: &'static str, detail: Detail) -> Item {
        Item {
            subject: Subject::Image(self.id.clone()),
            name: self.names.first().map_or("", String::as_str).into(),
            owner: None,
            fate,
            rule,
            detail: Detail(detail.0.into_iter().chain(self.about().0).collect()),
        }
    }

    /// The details that are reported for every image.
    fn about(&self) -> Detail {
        let Times { first_detected, last_used } = self.times;
        let first_detected = match self.observed {
            Observed::Yes => Input::Time(first_detected),
            Observed::No => Input::Nothing,
        };
        let detail = Detail::default()
            .with("size", bytes(self.size))
            .with("lastUsed", last_used.map_or(Input::Nothing, Input::Time))
            .with("firstDetected", first_detected);
        match &*self.names {
            [] | [_] => detail,
            // Later queries may use any of these names.
            names => detail.with("names", Input::Texts(names.to_vec())),
        }
    }
}

/// An amount of bytes as an input; larger amounts are capped.
pub(crate) fn bytes(amount: u64) -> Input {
    Input::Number(i64::try_from(amount).unwrap_or(i64::MAX))
}

/// The time since `then`; zero if it is in the future.
pub(crate) fn since(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or(Duration::ZERO)
}

/// The possible meanings of requested names: the unchanged name (an id may look like one), the full name, and
/// the name with a digest.
fn meant(names: &BTreeSet<String>) -> BTreeSet<String> {
    let digests = names.iter().filter_map(|name| digest(name)).map(ToOwned::to_owned);
    names.iter().flat_map(|name| [name.clone(), full_name(name)]).chain(digests).collect()
}

/// The digest in a name. It identifies the same image in every repository, even during a pull.
fn digest(name: &str) -> Option<&str> {
    Some(name.split_once('@')?.1)
}

/// A name in the form that runtimes list; an invalid name stays unchanged.
pub(crate) fn full_name(name: &str) -> String {
    match ImageName::parse(name) {
        Some(parts) if parts.is_latest() && parts.tag.is_none() => {
            format!("{}:latest", parts.in_full())
        }
        Some(parts) => parts.in_full(),
        None => name.to_owned(),
    }
}
