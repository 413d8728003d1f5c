//! Values of clients that the runtime in memory does not use, stored to be returned.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::ids::{ContainerId, SandboxId};
use proto::runtime_v1 as cri;

/// Of a container.
#[derive(Debug, Clone, Default)]
pub(super) struct KeptContainer {
    pub(super) mounts: Vec<cri::Mount>,
    pub(super) resources: Option<cri::LinuxContainerResources>,
    pub(super) stop_signal: i32,
}

/// Of a sandbox.
#[derive(Debug, Default)]
struct KeptSandbox {
    runtime_handler: String,
    containers: BTreeMap<ContainerId, Arc<KeptContainer>>,
}

/// By sandbox, because its containers are removed with it.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Written by calls that create, change or remove objects; never held across an await.
    sandboxes: Mutex<BTreeMap<SandboxId, KeptSandbox>>,
}

impl Kept {
    pub(super) fn keep_sandbox(&self, id: SandboxId, runtime_handler: String) {
        self.sandboxes().entry(id).or_default().runtime_handler = runtime_handler;
    }

    pub(super) fn forget_sandbox(&self, id: &SandboxId) {
        self.sandboxes().remove(id);
    }

    pub(super) fn runtime_handler(&self, id: &SandboxId) -> String {
        self.sandboxes().get(id).map(|kept| kept.runtime_handler.clone()).unwrap_or_default()
    }

    pub(super) fn keep_container(
        &self,
        sandbox: SandboxId,
        id: ContainerId,
        container: KeptContainer,
    ) {
        let mut sandboxes = self.sandboxes();
        sandboxes.entry(sandbox).or_default().containers.insert(id, Arc::new(container));
    }

    pub(super) fn forget_container(&self, sandbox: &SandboxId, id: &ContainerId) {
        if let Some(kept) = self.sandboxes().get_mut(sandbox) {
            kept.containers.remove(id);
        }
    }

    pub(super) fn container(
        &self,
        sandbox: &SandboxId,
        id: &ContainerId,
    ) -> Option<Arc<KeptContainer>> {
        self.sandboxes().get(sandbox)?.containers.get(id).cloned()
    }

    fn sandboxes(&self) -> MutexGuard<'_, BTreeMap<SandboxId, KeptSandbox>> {
        self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
