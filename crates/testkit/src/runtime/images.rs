//! The images of the runtime, and the images of the registry.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::ports::runtime::{Image, ImageUser};

use super::numbers;
use super::script::Script;

/// An image in the registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteImage {
    name: String,
    content: String,
    layers: BTreeMap<String, u64>,
    pinned: bool,
    pull_takes: Duration,
    entrypoint: Vec<String>,
    cmd: Vec<String>,
    runs_anything: bool,
    user: Option<ImageUser>,
    labels: BTreeMap<String, String>,
}

impl RemoteImage {
    /// An image of 1 MB with the workload. Its content is derived from its name.
    pub fn new(name: &str) -> Self {
        let name = normalized(name);
        Self {
            content: name.clone(),
            layers: BTreeMap::from([(name.clone(), 1_000_000)]),
            name,
            pinned: false,
            pull_takes: Duration::ZERO,
            entrypoint: vec!["/workload".into()],
            cmd: Vec::new(),
            runs_anything: false,
            user: None,
            labels: BTreeMap::new(),
        }
    }

    /// Sets the content: images with equal content are one image with several names, and a name with changed
    /// content is a new image.
    #[must_use]
    pub fn content(mut self, content: &str) -> Self {
        content.clone_into(&mut self.content);
        self
    }

    /// Sets the size in bytes.
    #[must_use]
    pub fn size(mut self, bytes: u64) -> Self {
        self.layers = BTreeMap::from([(self.name.clone(), bytes)]);
        self
    }

    /// Sets the layers by name, with the bytes of each. Images share layers of the same name.
    #[must_use]
    pub fn layers<'a>(mut self, layers: impl IntoIterator<Item = (&'a str, u64)>) -> Self {
        self.layers = layers.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
        self
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, name: &str, value: &str) -> Self {
        self.labels.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Pins the image: the runtime asks not to remove it.
    #[must_use]
    pub fn pinned(mut self) -> Self {
        self.pinned = true;
        self
    }

    /// Sets the duration of a pull.
    #[must_use]
    pub fn pull_takes(mut self, time: Duration) -> Self {
        self.pull_takes = time;
        self
    }

    /// Sets the entry point.
    #[must_use]
    pub fn entrypoint<W: Into<String>>(mut self, words: impl IntoIterator<Item = W>) -> Self {
        self.entrypoint = words.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the default arguments.
    #[must_use]
    pub fn cmd<W: Into<String>>(mut self, words: impl IntoIterator<Item = W>) -> Self {
        self.cmd = words.into_iter().map(Into::into).collect();
        self
    }

    /// The image contains every program. One other than the workload runs until it is stopped.
    #[must_use]
    pub fn runs_anything(mut self) -> Self {
        self.entrypoint = vec!["/entrypoint".into()];
        self.runs_anything = true;
        self
    }

    /// Sets the default user.
    #[must_use]
    pub fn user(mut self, user: ImageUser) -> Self {
        self.user = Some(user);
        self
    }

    pub(super) fn time_to_pull(&self) -> Duration {
        self.pull_takes
    }

    fn id(&self) -> String {
        digest("config", &self.content)
    }

    /// Its name with the digest of its manifest.
    fn repo_digest(&self) -> String {
        let repository = match self.name.rsplit_once('@') {
            Some((repository, _)) => repository,
            None => self.name.rsplit_once(':').map_or(&*self.name, |(repository, _)| repository),
        };
        format!("{repository}@{}", digest("manifest", &self.content))
    }
}

/// An image of the runtime.
#[derive(Debug, Clone)]
pub(super) struct StoredImage {
    tags: BTreeSet<String>,
    digests: BTreeSet<String>,
    layers: BTreeMap<String, u64>,
    pinned: bool,
    entrypoint: Vec<String>,
    cmd: Vec<String>,
    runs_anything: bool,
    user: Option<ImageUser>,
    labels: BTreeMap<String, String>,
}

impl StoredImage {
    /// The full command line of a container: the container's command and arguments where set, else the image's.
    pub(super) fn command_line(&self, command: &[String], args: &[String]) -> Vec<String> {
        match (command, args) {
            ([], []) => [&*self.entrypoint, &*self.cmd].concat(),
            ([], args) => [&*self.entrypoint, args].concat(),
            (command, args) => [command, args].concat(),
        }
    }

    /// The script of a program that the director does not know.
    pub(super) fn script_of_unknown(&self) -> Script {
        if self.runs_anything { Script::FOREVER } else { Script::Missing }
    }

    /// Its first name with a tag.
    pub(super) fn tag(&self) -> Option<&str> {
        self.tags.first().map(String::as_str)
    }

    /// Its first name with a digest.
    pub(super) fn digest(&self) -> Option<&str> {
        self.digests.first().map(String::as_str)
    }

    fn seen(&self, id: &str) -> Image {
        Image {
            id: id.to_owned(),
            repo_tags: self.tags.iter().cloned().collect(),
            repo_digests: self.digests.iter().cloned().collect(),
            size: self.layers.values().sum(),
            pinned: self.pinned,
            user: self.user.clone(),
            runtime_handler: String::new(),
        }
    }
}

/// The images of the runtime, by id, and those of the registry, by name.
#[derive(Debug, Default)]
pub(super) struct Images {
    stored: BTreeMap<String, StoredImage>,
    /// The ids of stored images by tag or digest.
    names: BTreeMap<String, String>,
    registry: BTreeMap<String, RemoteImage>,
}

impl Images {
    pub(super) fn publish(&mut self, image: RemoteImage) {
        self.registry.insert(image.name.clone(), image);
    }

    pub(super) fn unpublish(&mut self, name: &str) {
        self.registry.remove(&normalized(name));
    }

    /// The image with this name in the registry.
    pub(super) fn remote(&self, name: &str) -> Option<&RemoteImage> {
        self.registry.get(&normalized(name))
    }

    /// Stores an image under its name, and returns its id. The name is removed from another image
    /// that has it.
    pub(super) fn import(&mut self, image: &RemoteImage) -> String {
        let id = image.id();
        let stored = self.stored.entry(id.clone()).or_insert_with(|| StoredImage {
            tags: BTreeSet::new(),
            digests: BTreeSet::new(),
            layers: image.layers.clone(),
            pinned: false,
            entrypoint: image.entrypoint.clone(),
            cmd: image.cmd.clone(),
            runs_anything: image.runs_anything,
            user: image.user.clone(),
            labels: image.labels.clone(),
        });
        stored.pinned |= image.pinned;
        self.name(&id, image.name.clone());
        id
    }

    /// Like `import`, for an image from a registry, which also has a digest.
    pub(super) fn pull(&mut self, image: &RemoteImage) -> String {
        let id = self.import(image);
        self.name(&id, image.repo_digest());
        id
    }

    /// Adds a name to a stored image and removes it from its previous owner.
    fn name(&mut self, id: &str, name: String) {
        if let Some(old) = self.names.insert(name.clone(), id.to_owned())
            && let Some(old) = self.stored.get_mut(&old)
        {
            old.tags.remove(&name);
            old.digests.remove(&name);
        }
        let image = self.stored.get_mut(id).expect("only stored images get names");
        let names = if name.contains('@') { &mut image.digests } else { &mut image.tags };
        names.insert(name);
    }

    /// The stored image with this name or id.
    pub(super) fn resolve(&self, reference: &str) -> Option<(&str, &StoredImage)> {
        let by_id = self.stored.get_key_value(reference);
        let by_name = || {
            let id = self.names.get(&normalized(reference))?;
            self.stored.get_key_value(id)
        };
        by_id.or_else(by_name).map(|(id, image)| (id.as_str(), image))
    }

    pub(super) fn status(&self, reference: &str) -> Option<Image> {
        self.resolve(reference).map(|(id, image)| image.seen(id))
    }

    pub(super) fn list(&self) -> Vec<Image> {
        self.stored.iter().map(|(id, image)| image.seen(id)).collect()
    }

    pub(super) fn labels(&self, reference: &str) -> BTreeMap<String, String> {
        self.resolve(reference).map(|(_, image)| image.labels.clone()).unwrap_or_default()
    }

    /// Bytes of all layers, each counted once.
    pub(super) fn bytes(&self) -> u64 {
        let layers: BTreeMap<&String, u64> = self
            .stored
            .values()
            .flat_map(|image| image.layers.iter().map(|(name, bytes)| (name, *bytes)))
            .collect();
        layers.values().sum()
    }

    /// Removes an image with all its names.
    pub(super) fn remove(&mut self, reference: &str) {
        let Some(id) = self.resolve(reference).map(|(id, _)| id.to_owned()) else {
            return;
        };
        self.stored.remove(&id);
        self.names.retain(|_, named| *named != id);
    }
}

/// A digest that is the same for equal text and looks like a real one; it need not be secure.
fn digest(kind: &str, text: &str) -> String {
    // FNV-1a
    let seed = kind
        .bytes()
        .chain([0])
        .chain(text.bytes())
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    format!("sha256:{}", numbers::hex64(seed))
}

/// An image's full name: with registry and tag. A name with a digest loses its tag.
fn normalized(name: &str) -> String {
    let (name, digest) = match name.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (name, None),
    };
    let full = match name.split_once('/') {
        Some((registry, _)) if registry.contains(['.', ':']) || registry == "localhost" => {
            name.to_owned()
        }
        Some(_) => format!("docker.io/{name}"),
        None => format!("docker.io/library/{name}"),
    };
    let last = full.rfind('/').map_or(0, |slash| slash + 1);
    let tag = full[last..].find(':').map(|colon| last + colon);
    match (digest, tag) {
        (Some(digest), tag) => format!("{}@{digest}", &full[..tag.unwrap_or(full.len())]),
        (None, Some(_)) => full,
        (None, None) => format!("{full}:latest"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_image_name_is_expanded() {
        let rows = [
            ("busybox", "docker.io/library/busybox:latest"),
            ("team/app:2", "docker.io/team/app:2"),
            ("ferrolet.test/workload", "ferrolet.test/workload:latest"),
            ("localhost:5000/app:2", "localhost:5000/app:2"),
            ("ferrolet.test/app:2@sha256:ab", "ferrolet.test/app@sha256:ab"),
        ];
        for (short, full) in rows {
            assert_eq!(normalized(short), full, "{short}");
        }
    }

    #[test]
    fn images_with_equal_content_are_one_image_with_several_names() {
        let mut images = Images::default();
        let one = images.pull(&RemoteImage::new("a.test/one:1").content("x"));
        let two = images.pull(&RemoteImage::new("a.test/two:1").content("x"));
        assert_eq!(one, two);
        let image = images.status(&one).unwrap();
        assert_eq!(image.repo_tags, ["a.test/one:1", "a.test/two:1"]);
        assert_eq!(image.repo_digests.len(), 2);
        images.remove("a.test/two:1");
        assert_eq!(images.status("a.test/one:1"), None);
        assert!(images.list().is_empty());
    }

    #[test]
    fn tag_moves_to_the_last_pulled_image() {
        let mut images = Images::default();
        let old = images.pull(&RemoteImage::new("a.test/app:1"));
        let new = images.pull(&RemoteImage::new("a.test/app:1").content("changed"));
        assert_ne!(old, new);
        assert_eq!(images.status("a.test/app:1").unwrap().id, new);
        assert!(images.status(&old).unwrap().repo_tags.is_empty());
        assert_eq!(images.status(&old).unwrap().repo_digests.len(), 1);
    }

    #[test]
    fn container_command_overrides_the_image() {
        let mut images = Images::default();
        images.pull(&RemoteImage::new("a.test/app").cmd(["sleep", "1"]));
        let (_, image) = images.resolve("a.test/app").unwrap();
        let words = |line: &str| line.split_whitespace().map(Into::into).collect::<Vec<String>>();
        let rows = [
            ("", "", "/workload sleep 1"),
            ("", "exit 2", "/workload exit 2"),
            ("/other", "", "/other"),
            ("/other", "exit 2", "/other exit 2"),
        ];
        for (command, args, line) in rows {
            let found = image.command_line(&words(command), &words(args));
            assert_eq!(found, words(line), "{command:?} {args:?}");
        }
    }
}
