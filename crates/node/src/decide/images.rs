//! Selects the images for the node status.

use k8s_openapi::api::core::v1::ContainerImage;
use model::ports::runtime::Image;

/// The maximum number of names per image.
const MOST_NAMES: usize = 5;

/// The largest images, at most `most`; each with its digests and then its tags.
pub fn images(mut all: Vec<Image>, most: Option<usize>) -> Vec<ContainerImage> {
    // Ties are sorted by id: equal lists must not look like a change.
    all.sort_by(|one, other| other.size.cmp(&one.size).then_with(|| other.id.cmp(&one.id)));
    all.truncate(most.unwrap_or(usize::MAX));
    let listed = all.into_iter().map(|image| {
        let mut names = image.repo_digests;
        names.extend(image.repo_tags);
        names.truncate(MOST_NAMES);
        ContainerImage {
            names: Some(names).filter(|names| !names.is_empty()),
            size_bytes: i64::try_from(image.size).ok(),
        }
    });
    listed.collect()
}
