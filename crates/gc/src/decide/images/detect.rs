//! Which images exist, and what uses them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use model::ids::ContainerId;
use model::ports::runtime::{Image, ImageUse};

use crate::decide::images::candidates::full_name;

/// The identity of an image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImageKey {
    /// The runtime's id.
    pub id: String,
    /// The handler it was pulled for; empty for the default one, and if handlers make no difference.
    pub handler: String,
}

impl fmt::Display for ImageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.id)?;
        if self.handler.is_empty() { Ok(()) } else { write!(f, ",{}", self.handler) }
    }
}

impl ImageKey {
    /// Parses the text form.
    pub fn parse(text: &str) -> Self {
        let (id, handler) = text.split_once(',').unwrap_or((text, ""));
        Self { id: id.to_owned(), handler: handler.to_owned() }
    }
}

/// The record of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// When it was first detected.
    pub first_detected: Timestamp,
    /// When it was last seen in use, if ever.
    pub last_used: Option<Timestamp>,
}

/// The records of all images.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Records {
    /// By image.
    pub images: BTreeMap<ImageKey, Times>,
    /// The time since when uses are observed. Earlier uses are unknown.
    pub since: Option<Timestamp>,
}

/// The state of the runtime.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// All images.
    pub images: Vec<Image>,
    /// The image of every container, live or dead.
    pub uses: Vec<ImageUse>,
    /// The images that containers mount, as the runtime refers to them.
    pub mounted: Vec<(ContainerId, String)>,
    /// The images of sandboxes, by name or id, if the runtime reports them.
    pub sandboxes: BTreeSet<String>,
    /// Creation times of containers since the last list, by the name of their image. The containers may be
    /// gone.
    pub made_since: BTreeMap<String, Timestamp>,
    /// Whether handlers make a difference.
    pub per_handler: bool,
}

/// The use of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Use {
    /// The number of its containers, and one of them.
    Containers(usize, ContainerId),
    /// A container mounts it.
    Volume(ContainerId),
    /// A sandbox was made from it.
    Sandbox,
}

/// An existing image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedImage {
    /// Its identity.
    pub key: ImageKey,
    /// Its full names: with a tag, then with a digest.
    pub names: Arc<[String]>,
    /// Its size in bytes, including shared layers.
    pub size: u64,
    /// Whether the runtime reports it as pinned.
    pub pinned: bool,
    /// When it was first detected and last used.
    pub times: Times,
    /// Its current use.
    pub used: Option<Use>,
}

/// The result of a detection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Detected {
    /// The new records.
    pub records: Records,
    /// All images, in the order of their keys.
    pub images: Vec<ObservedImage>,
    /// The names of images without an id, which cannot be removed.
    pub without_id: Vec<String>,
}

/// Detects uses at `now`. The image list began at `began`: new images count from then.
pub fn detect(records: &Records, listing: &Listing, began: Timestamp, now: Timestamp) -> Detected {
    let mut detected = Detected::default();
    let mut seen: BTreeMap<ImageKey, ObservedImage> = BTreeMap::new();
    for image in &listing.images {
        let names: Vec<String> =
            image.repo_tags.iter().chain(&image.repo_digests).cloned().collect();
        if image.id.is_empty() {
            detected.without_id.push(names.into_iter().next().unwrap_or_default());
            continue;
        }
        let key = key(listing, &image.id, &image.runtime_handler);
        let known = records.images.get(&key).copied();
        let times = known.unwrap_or(Times { first_detected: began, last_used: None });
        let entry = seen.entry(key.clone()).or_insert_with(|| ObservedImage {
            key,
            names: Arc::default(),
            size: image.size,
            pinned: false,
            times: not_after(times, now),
            used: None,
        });
        // The same image may be listed twice; one pinned entry is enough.
        entry.pinned |= image.pinned;
        entry.size = image.size;
        entry.names = entry.names.iter().cloned().chain(names).collect();
    }
    let references = References::of(listing);
    for (name, at) in &listing.made_since {
        for key in references.meant_by(name) {
            if let Some(image) = seen.get_mut(&key) {
                image.times.last_used = image.times.last_used.max(Some((*at).min(now)));
            }
        }
    }
    for (key, used) in uses(listing, &references) {
        if let Some(image) = seen.get_mut(&key) {
            image.times.last_used = Some(now);
            image.used = Some(used);
        }
    }
    detected.images = seen.into_values().collect();
    let images = detected.images.iter().map(|image| (image.key.clone(), image.times)).collect();
    let since = records.since.map_or(began, |since| since.min(now));
    detected.records = Records { images, since: Some(since) };
    detected
}

fn key(listing: &Listing, id: &str, handler: &str) -> ImageKey {
    let handler = if listing.per_handler { handler } else { "" };
    ImageKey { id: id.to_owned(), handler: handler.to_owned() }
}

/// A clock that was set back must not keep images until it has caught up.
fn not_after(times: Times, now: Timestamp) -> Times {
    Times {
        first_detected: times.first_detected.min(now),
        last_used: times.last_used.map(|used| used.min(now)),
    }
}

/// Images by the ids and names that may refer to them.
struct References<'a>(BTreeMap<&'a str, BTreeSet<ImageKey>>);

impl<'a> References<'a> {
    fn of(listing: &'a Listing) -> Self {
        let mut references: BTreeMap<&str, BTreeSet<ImageKey>> = BTreeMap::new();
        for image in &listing.images {
            let names = image.repo_tags.iter().chain(&image.repo_digests);
            for name in names.chain([&image.id]) {
                let key = key(listing, &image.id, &image.runtime_handler);
                references.entry(name.as_str()).or_default().insert(key);
            }
        }
        Self(references)
    }

    /// All images with an id, or with a name in the runtime's form.
    fn referred(&self, reference: &str) -> BTreeSet<ImageKey> {
        self.0.get(reference).cloned().unwrap_or_default()
    }

    /// All images with a requested name.
    fn meant_by(&self, name: &str) -> BTreeSet<ImageKey> {
        let named = self.referred(name);
        if named.is_empty() { self.referred(&full_name(name)) } else { named }
    }
}

/// Every used image with its use.
fn uses(listing: &Listing, references: &References<'_>) -> BTreeMap<ImageKey, Use> {
    let referred = |reference: &str| references.referred(reference);
    let mut used: BTreeMap<ImageKey, Use> = BTreeMap::new();
    for image in &listing.uses {
        // An image is removed by its id, for all handlers, so a use for any handler counts. A runtime that
        // reports a name instead means every image of that name.
        for key in referred(&image.image_id) {
            match used.get_mut(&key) {
                Some(Use::Containers(count, _)) => *count += 1,
                _ => drop(used.insert(key, Use::Containers(1, image.container.clone()))),
            }
        }
    }
    for (container, reference) in &listing.mounted {
        for key in referred(reference) {
            used.entry(key).or_insert_with(|| Use::Volume(container.clone()));
        }
    }
    for key in listing.sandboxes.iter().flat_map(|reference| referred(reference)) {
        used.entry(key).or_insert(Use::Sandbox);
    }
    used
}
