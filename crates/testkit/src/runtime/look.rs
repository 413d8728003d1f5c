//! Read access to the runtime's state, for servers that return more of it than the port. It is not a call: it
//! is not counted and no fault applies.

use jiff::Timestamp;
use model::ids::{ContainerId, SandboxId};
use model::observed::ContainerStatus;
use model::ports::runtime::{ContainerFilter, SandboxFilter};

use super::{Inner, MemoryRuntime};

pub(crate) use super::container::ContainerRecord;
pub(crate) use super::feed::SentEvent;
pub(crate) use super::script::duration;
pub(crate) use super::store::SandboxRecord;

/// A snapshot of the runtime.
pub(crate) struct Look<'a> {
    inner: &'a Inner,
    pub(crate) now: Timestamp,
}

impl MemoryRuntime {
    /// Reads the state under the lock of the runtime.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Look<'_>) -> T) -> T {
        let now = self.clock.now();
        let mut inner = self.inner();
        inner.store.advance(now);
        look(&Look { inner: &inner, now })
    }
}

impl Look<'_> {
    pub(crate) fn sandbox(&self, id: &SandboxId) -> Option<&SandboxRecord> {
        self.inner.store.sandbox(id)
    }

    pub(crate) fn sandboxes<'a>(
        &'a self,
        filter: &'a SandboxFilter,
    ) -> impl Iterator<Item = &'a SandboxRecord> {
        self.inner.store.chosen_sandboxes(filter)
    }

    pub(crate) fn container(&self, id: &ContainerId) -> Option<&ContainerRecord> {
        self.inner.store.seen_container(id)
    }

    pub(crate) fn containers<'a>(
        &'a self,
        filter: &'a ContainerFilter,
    ) -> impl Iterator<Item = &'a ContainerRecord> {
        self.inner.store.chosen_containers(filter)
    }

    pub(crate) fn status(&self, record: &ContainerRecord) -> ContainerStatus {
        let image = self.inner.images.resolve(&record.image_id).map(|(_, image)| image);
        record.status(image)
    }
}
