//! The resources that running containers actually have.

use std::collections::BTreeMap;

use model::ids::ContainerId;
use model::labels;
use model::observed::ContainerStatus;

use crate::Size;

/// The resources applied to containers since their creation.
pub type Sizes = BTreeMap<ContainerId, Actual>;

/// The resources of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Actual {
    /// The resources applied last, if known.
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
    /// The maximum that it may have.
    #[must_use]
    pub fn most(self) -> Size {
        self.unsure.map_or(self.size, |unsure| self.size.most(unsure))
    }

    /// Whether it certainly has exactly this size.
    pub fn is(self, size: Size) -> bool {
        self.unsure.is_none() && self.size == size
    }
}

/// The resources of a running instance: those recorded, or those it was created with. They are unknown for an
/// instance that another agent created.
pub fn actual(running: &ContainerStatus, sizes: &Sizes) -> Option<Actual> {
    let made_with = || running.annotations.get(labels::CONTAINER_SIZE)?.parse::<Size>().ok();
    sizes.get(&running.id).copied().or_else(|| made_with().map(Actual::from))
}
