//! The images of an agent's calls, and the state of an image that is to be removed.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::history::{ImagePull, ImageRemoval};
use crate::outside::Outside;

/// Images of calls in progress, by name or id, with the number of calls.
pub(crate) type WantedImages = BTreeMap<String, usize>;

/// A call in progress that pulls an image, or creates a container of it. It ends when the agent has the
/// response, has cancelled the call, or is dead.
#[derive(Debug)]
pub(crate) struct WantedImage {
    outside: Arc<Outside>,
    image: String,
}

impl WantedImage {
    pub(crate) fn new(outside: &Arc<Outside>, image: &str) -> Self {
        outside.wanted_images(|wanted| *wanted.entry(image.to_owned()).or_default() += 1);
        Self { outside: Arc::clone(outside), image: image.to_owned() }
    }
}

impl Drop for WantedImage {
    fn drop(&mut self) {
        self.outside.wanted_images(|wanted| {
            if let Some(count) = wanted.get_mut(&self.image) {
                *count -= 1;
            }
            wanted.retain(|_, count| *count > 0);
        });
    }
}

/// An image to remove, with everything that should keep it. `kept` is the list of pinned images of the agent's
/// settings.
pub(crate) fn image_removal(outside: &Outside, id: &str, kept: &str) -> ImageRemoval {
    let mut users = outside.runtime.containers();
    users.retain(|container| *container.image_ref == *id);
    let images = outside.runtime.images();
    let image = images.iter().find(|image| image.id == id);
    let names = image.iter().flat_map(|image| image.repo_tags.iter().chain(&image.repo_digests));
    let names: Vec<&str> = names.map(String::as_str).chain([id]).collect();
    let wanted = outside.wanted_images(|wanted| wanted.clone());
    ImageRemoval {
        id: id.to_owned(),
        names: names.iter().map(ToString::to_string).collect(),
        users: users.into_iter().map(|container| container.id).collect(),
        pinned: image.is_some_and(|image| image.pinned) || names.contains(&kept),
        wanted: wanted.into_keys().filter(|name| names.contains(&name.as_str())).collect(),
    }
}

/// An image to pull, and whether it is present.
pub(crate) fn image_pull(outside: &Outside, image: &str) -> ImagePull {
    let images = outside.runtime.images();
    let has_name = |name: &String| name == image;
    let is_there = images
        .iter()
        .any(|one| one.id == image || one.repo_tags.iter().chain(&one.repo_digests).any(has_name));
    ImagePull { image: image.to_owned(), is_there }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{FETCHED, KEPT, PINNED};

    #[tokio::test(start_paused = true)]
    async fn image_removal_reports_pins_and_users_of_the_image() {
        let outside = Arc::new(Outside::new());
        let id = |name: &str| {
            let images = outside.runtime.images();
            let image = images.into_iter().find(|image| image.repo_tags == [name]);
            image.expect("every node has it").id
        };
        let removal = |name: &str| image_removal(&outside, &id(name), KEPT);
        assert!(removal(PINNED).pinned && removal(KEPT).pinned);
        let had = crate::plan::HAD[0];
        assert!(!removal(had).pinned && removal(had).wanted.is_empty());
        assert!(image_pull(&outside, had).is_there && !image_pull(&outside, FETCHED).is_there);
        let (by_name, by_id) =
            (WantedImage::new(&outside, had), WantedImage::new(&outside, &id(had)));
        let again = WantedImage::new(&outside, had);
        assert_eq!(removal(had).wanted.len(), 2);
        drop((by_name, by_id));
        assert_eq!(removal(had).wanted, [had]);
        drop(again);
        assert_eq!(removal(had).wanted, [""; 0]);
    }
}
