//! What containers have of the node.

use std::collections::BTreeMap;

use model::ids::ContainerId;
use model::labels;
use model::observed::ContainerStatus;

use crate::Size;

/// What containers were given since they were made.
pub type Sizes = BTreeMap<ContainerId, Actual>;

/// What a container has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Actual {
    /// What it was given last, as far as is known.
    pub size: Size,
    /// The size of a later update whose outcome is unknown.
    pub unsure: Option<Size>,
}

impl From<Size> for Actual {
    fn from(size: Size) -> Self {
        Self { size, unsure: None }
    }
}

impl Actual {
    /// The most that it may have.
    #[must_use]
    pub fn most(self) -> Size {
        self.unsure.map_or(self.size, |unsure| self.size.most(unsure))
    }

    /// Whether it has just that for sure.
    pub fn is(self, size: Size) -> bool {
        self.unsure.is_none() && self.size == size
    }
}

/// What a running instance was given last: what is on record, or what it was made with. It is unknown for an
/// instance that another agent made.
pub fn actual(running: &ContainerStatus, sizes: &Sizes) -> Option<Actual> {
    let made_with = || running.annotations.get(labels::CONTAINER_SIZE)?.parse::<Size>().ok();
    sizes.get(&running.id).copied().or_else(|| made_with().map(Actual::from))
}
