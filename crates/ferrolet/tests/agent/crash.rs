//! The agent dies before and after each of its effects; the next one ends up where the first would
//! have, and starts nothing again that ran.

use std::future::pending;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use model::ids::{ContainerId, SandboxId};
use model::observed::{Container, ContainerState, ContainerStatus, Sandbox, SandboxStatus};
use model::ports::files::{
    DirectoryWatch, Entry, FileError, FileKind, FileVersion, Found, HostFiles,
};
use model::ports::runtime::{
    ContainerEvents, ContainerFilter, Image, Runtime, RuntimeError, RuntimeStatus, RuntimeVersion,
    SandboxFilter,
};
use model::verdict::Verdict;
use model::wanted::{ContainerConfig, SandboxConfig};
use testkit::files::MemoryFiles;
use testkit::runtime::MemoryRuntime;
use tokio_util::sync::CancellationToken;

use crate::world::World;

/// When the agent dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    Before(usize),
    After(usize),
}

/// The life of an agent, counted in effects.
#[derive(Debug)]
struct Life {
    effects: AtomicUsize,
    ends: Moment,
    over: CancellationToken,
}

impl Life {
    async fn effect<T>(&self, work: impl Future<Output = T>) -> T {
        let number = self.effects.fetch_add(1, Ordering::SeqCst) + 1;
        self.end_if(Moment::Before(number)).await;
        let done = work.await;
        self.end_if(Moment::After(number)).await;
        done
    }

    async fn end_if(&self, moment: Moment) {
        if self.over.is_cancelled() || self.ends == moment {
            self.over.cancel();
            pending::<()>().await;
        }
    }
}

/// A runtime that an agent dies over.
#[derive(Debug)]
struct MortalRuntime {
    life: Arc<Life>,
    inner: Arc<MemoryRuntime>,
}

#[async_trait]
impl Runtime for MortalRuntime {
    async fn version(&self) -> Result<RuntimeVersion, RuntimeError> {
        self.inner.version().await
    }
    async fn status(&self) -> Result<RuntimeStatus, RuntimeError> {
        self.inner.status().await
    }
    async fn run_pod_sandbox(&self, config: &SandboxConfig) -> Result<SandboxId, RuntimeError> {
        self.life.effect(self.inner.run_pod_sandbox(config)).await
    }
    async fn stop_pod_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        self.life.effect(self.inner.stop_pod_sandbox(id)).await
    }
    async fn remove_pod_sandbox(&self, verdict: &Verdict) -> Result<(), RuntimeError> {
        self.life.effect(self.inner.remove_pod_sandbox(verdict)).await
    }
    async fn list_pod_sandboxes(
        &self,
        filter: &SandboxFilter,
    ) -> Result<Vec<Sandbox>, RuntimeError> {
        self.inner.list_pod_sandboxes(filter).await
    }
    async fn pod_sandbox_status(&self, id: &SandboxId) -> Result<SandboxStatus, RuntimeError> {
        self.inner.pod_sandbox_status(id).await
    }
    async fn create_container(
        &self,
        sandbox: &SandboxId,
        config: &ContainerConfig,
        sandbox_config: &SandboxConfig,
    ) -> Result<ContainerId, RuntimeError> {
        self.life.effect(self.inner.create_container(sandbox, config, sandbox_config)).await
    }
    async fn start_container(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        self.life.effect(self.inner.start_container(id)).await
    }
    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), RuntimeError> {
        self.life.effect(self.inner.stop_container(id, grace)).await
    }
    async fn remove_container(&self, verdict: &Verdict) -> Result<(), RuntimeError> {
        self.life.effect(self.inner.remove_container(verdict)).await
    }
    async fn list_containers(
        &self,
        filter: &ContainerFilter,
    ) -> Result<Vec<Container>, RuntimeError> {
        self.inner.list_containers(filter).await
    }
    async fn container_status(&self, id: &ContainerId) -> Result<ContainerStatus, RuntimeError> {
        self.inner.container_status(id).await
    }
    async fn image_status(&self, image: &str) -> Result<Option<Image>, RuntimeError> {
        self.inner.image_status(image).await
    }
    async fn pull_image(&self, image: &str) -> Result<String, RuntimeError> {
        self.life.effect(self.inner.pull_image(image)).await
    }
    async fn list_images(&self) -> Result<Vec<Image>, RuntimeError> {
        self.inner.list_images().await
    }
    async fn remove_image(&self, verdict: &Verdict) -> Result<(), RuntimeError> {
        self.life.effect(self.inner.remove_image(verdict)).await
    }
    async fn container_events(&self) -> Result<ContainerEvents, RuntimeError> {
        self.inner.container_events().await
    }
}

/// Files that an agent dies over.
#[derive(Debug)]
struct MortalFiles {
    life: Arc<Life>,
    inner: Arc<MemoryFiles>,
}

#[async_trait]
impl HostFiles for MortalFiles {
    async fn kind(&self, path: &Path) -> Result<FileKind, FileError> {
        self.inner.kind(path).await
    }
    async fn list(&self, directory: &Path) -> Result<Vec<String>, FileError> {
        self.inner.list(directory).await
    }
    async fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
        self.inner.read(path, limit).await
    }
    async fn look(&self, path: &Path) -> Result<Found, FileError> {
        self.inner.look(path).await
    }
    async fn entries(&self, directory: &Path) -> Result<Vec<Entry>, FileError> {
        self.inner.entries(directory).await
    }
    async fn read_version(
        &self,
        path: &Path,
        limit: u64,
    ) -> Result<(FileVersion, Vec<u8>), FileError> {
        self.inner.read_version(path, limit).await
    }
    async fn watch(&self, directory: &Path) -> Result<Box<dyn DirectoryWatch>, FileError> {
        self.inner.watch(directory).await
    }
    async fn write_durably(&self, path: &Path, content: &[u8]) -> Result<(), FileError> {
        self.life.effect(self.inner.write_durably(path, content)).await
    }
    async fn remove_written(&self, path: &Path) -> Result<(), FileError> {
        self.life.effect(self.inner.remove_written(path)).await
    }
    async fn create_directory(
        &self,
        root: &Path,
        below: &Path,
        mode: u32,
    ) -> Result<(), FileError> {
        self.life.effect(self.inner.create_directory(root, below, mode)).await
    }
    async fn link(&self, target: &Path, link: &Path) -> Result<(), FileError> {
        self.life.effect(self.inner.link(target, link)).await
    }
    async fn remove(&self, root: &Path, verdict: &Verdict) -> Result<(), FileError> {
        self.life.effect(HostFiles::remove(&*self.inner, root, verdict)).await
    }
}

/// What counts at the end: what runs, what ended, what is left over.
fn end_state(world: &World) -> Vec<(String, u32, ContainerState)> {
    let containers = world.runtime.containers().into_iter();
    let states = containers.map(|c| (format!("{}/{}", c.pod.name, c.name), c.attempt, c.state));
    let mut states: Vec<_> = states.collect();
    states.sort();
    states
}

/// Two pods come and one goes; answers whether the agent died on the way.
async fn story(world: &World, ends: Option<Moment>) -> bool {
    let over = CancellationToken::new();
    let ends = ends.unwrap_or(Moment::Before(usize::MAX));
    let life = Arc::new(Life { effects: AtomicUsize::new(0), ends, over: over.clone() });
    let runtime = MortalRuntime { life: Arc::clone(&life), inner: Arc::clone(&world.runtime) };
    let files = MortalFiles { life, inner: Arc::clone(&world.files) };
    world.write_manifest("web", "Always", "[sleep, forever]");
    world.write_manifest("job", "Never", "[exit, \"0\"]");
    world.write_manifest("gone", "Always", "[sleep, forever]");
    let agent = world.start_with(Arc::new(runtime), Arc::new(files));
    let tale = async {
        tokio::time::sleep(Duration::from_mins(2)).await;
        world.remove_manifest("gone");
        tokio::time::sleep(Duration::from_mins(2)).await;
    };
    let died = tokio::select! {
        biased;
        () = over.cancelled() => true,
        () = tale => false,
    };
    // As kill -9: nothing of it goes on, nothing is tidied up.
    drop(agent);
    died
}

#[tokio::test(start_paused = true)]
async fn whenever_the_agent_dies_the_next_one_ends_up_where_it_would_have() {
    let world = World::new();
    story(&world, None).await;
    let expected = end_state(&world);
    assert_eq!(expected.len(), 3, "{expected:?}");
    let mut deaths = 0;
    for effect in 1.. {
        let mut lived = true;
        for moment in [Moment::Before(effect), Moment::After(effect)] {
            let world = World::new();
            if !story(&world, Some(moment)).await {
                continue;
            }
            (lived, deaths) = (false, deaths + 1);
            let ran: Vec<Container> = world.runtime.containers();
            let _agent = world.start();
            tokio::time::sleep(Duration::from_mins(2)).await;
            world.remove_manifest("gone");
            tokio::time::sleep(Duration::from_mins(2)).await;
            assert_eq!(end_state(&world), expected, "{moment:?}");
            let after = world.runtime.containers();
            for container in ran.iter().filter(|ran| ran.state != ContainerState::Created) {
                let still = after.iter().find(|after| after.id == container.id);
                let still = still.unwrap_or_else(|| panic!("{moment:?}: {container:?} is gone"));
                let ended = *container.pod.name == *"gone-node";
                assert!(ended || still.state == container.state, "{moment:?}: {container:?}");
            }
        }
        if lived {
            break;
        }
    }
    assert!(deaths > 30, "only {deaths} deaths");
}
