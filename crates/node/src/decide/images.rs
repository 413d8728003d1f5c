//! Which images the node tells of.

use k8s_openapi::api::core::v1::ContainerImage;
use model::ports::runtime::Image;

/// How many names of an image are told.
const MOST_NAMES: usize = 5;

/// The largest images, so many of them; each with its digests and then its tags.
pub fn images(mut all: Vec<Image>, most: Option<usize>) -> Vec<ContainerImage> {
    // By id where sizes are the same: equal lists must not look like a change.
    all.sort_by(|one, other| other.size.cmp(&one.size).then_with(|| other.id.cmp(&one.id)));
    all.truncate(most.unwrap_or(usize::MAX));
    let told = all.into_iter().map(|image| {
        let mut names = image.repo_digests;
        names.extend(image.repo_tags);
        names.truncate(MOST_NAMES);
        ContainerImage {
            names: Some(names).filter(|names| !names.is_empty()),
            size_bytes: i64::try_from(image.size).ok(),
        }
    });
    told.collect()
}
