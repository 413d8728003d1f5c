//! Ports through which an agent dies: before or after the n-th of its effects.
//!
//! Whatever changes the outside counts as an effect; looking at it does not. What dying means is up to
//! the test: the end of a process, or of all tasks of an agent in this one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use async_trait::async_trait;
use model::cgroup::{CgroupDriver, CgroupName, CgroupValues};
use model::ids::{ContainerId, SandboxId};
use model::observed::{Container, ContainerStatus, Sandbox, SandboxStatus};
use model::ports::cgroups::{CgroupError, Cgroups, Limits};
use model::ports::files::{
    DirectoryWatch, Entry, FileError, FileVersion, Found, HostFiles, Removed,
};
use model::ports::runtime::{
    ContainerEvents, ContainerFilter, ContainerService, ExecOutput, Image, ImageFilesystem,
    ImageService, ImageUse, Runtime, RuntimeError, RuntimeInfo, RuntimeStatus, RuntimeVersion,
    SandboxFilter, SandboxService,
};
use model::verdict::Verdict;
use model::wanted::{ContainerConfig, LinuxResources, SandboxConfig};

/// When an agent dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Before an effect, counted from 1.
    Before(usize),
    /// After it.
    After(usize),
}

impl std::fmt::Display for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Before(effect) => write!(f, "before:{effect}"),
            Self::After(effect) => write!(f, "after:{effect}"),
        }
    }
}

impl std::str::FromStr for Moment {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (side, effect) = text.split_once(':').context("no moment: want before:N or after:N")?;
        let effect = effect.parse().with_context(|| format!("{effect:?} is no number"))?;
        match side {
            "before" => Ok(Self::Before(effect)),
            "after" => Ok(Self::After(effect)),
            _ => bail!("{side:?} is neither before nor after"),
        }
    }
}

/// What dying is.
#[async_trait]
pub trait Death: Debug + Send + Sync {
    /// Ends the agent; never returns. Called again by whatever part of it has not noticed yet.
    async fn die(&self);
    /// Whether the agent is dead already, so that none of its effects may happen any more.
    fn is_over(&self) -> bool;
}

/// The life of an agent, counted in effects.
#[derive(Debug)]
pub struct Life {
    effects: AtomicUsize,
    ends: Option<Moment>,
    death: Box<dyn Death>,
}

impl Life {
    /// One that ends then, or never.
    pub fn new(ends: Option<Moment>, death: impl Death + 'static) -> Self {
        Self { effects: AtomicUsize::new(0), ends, death: Box::new(death) }
    }

    async fn effect<T>(&self, work: impl Future<Output = T>) -> T {
        let number = self.effects.fetch_add(1, Ordering::SeqCst) + 1;
        self.end_if(Moment::Before(number)).await;
        let done = work.await;
        self.end_if(Moment::After(number)).await;
        done
    }

    async fn end_if(&self, moment: Moment) {
        if self.death.is_over() || self.ends == Some(moment) {
            self.death.die().await;
        }
    }
}

/// Cgroups that an agent dies over.
#[derive(Debug)]
pub struct MortalCgroups {
    /// The agent's.
    pub life: Arc<Life>,
    /// The cgroups themselves.
    pub inner: Arc<dyn Cgroups>,
}

#[async_trait]
impl Cgroups for MortalCgroups {
    fn driver(&self) -> CgroupDriver {
        self.inner.driver()
    }
    async fn check(&self, name: &CgroupName) -> Result<(), CgroupError> {
        self.inner.check(name).await
    }
    async fn create(
        &self,
        name: &CgroupName,
        values: &CgroupValues,
    ) -> Result<Limits, CgroupError> {
        self.life.effect(self.inner.create(name, values)).await
    }
    async fn update(&self, name: &CgroupName, values: &CgroupValues) -> Result<(), CgroupError> {
        self.life.effect(self.inner.update(name, values)).await
    }
    async fn has(&self, name: &CgroupName, values: &CgroupValues) -> Result<bool, CgroupError> {
        self.inner.has(name, values).await
    }
    async fn values(&self, name: &CgroupName) -> Result<CgroupValues, CgroupError> {
        self.inner.values(name).await
    }
    async fn memory_usage(
        &self,
        name: &CgroupName,
        part: Option<&str>,
    ) -> Result<Option<u64>, CgroupError> {
        self.inner.memory_usage(name, part).await
    }
    async fn children(&self, name: &CgroupName) -> Result<BTreeSet<CgroupName>, CgroupError> {
        self.inner.children(name).await
    }
    async fn remove(&self, verdict: &Verdict) -> Result<Removed, CgroupError> {
        self.life.effect(self.inner.remove(verdict)).await
    }
}

/// A runtime that an agent dies over.
#[derive(Debug)]
pub struct MortalRuntime {
    /// The agent's.
    pub life: Arc<Life>,
    /// The runtime itself.
    pub inner: Runtime,
}

#[async_trait]
impl SandboxService for MortalRuntime {
    async fn run_pod_sandbox(&self, config: &SandboxConfig) -> Result<SandboxId, RuntimeError> {
        self.life.effect(self.inner.sandboxes.run_pod_sandbox(config)).await
    }

    async fn stop_pod_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        self.life.effect(self.inner.sandboxes.stop_pod_sandbox(id)).await
    }

    async fn remove_pod_sandbox(&self, verdict: &Verdict) -> Result<(), RuntimeError> {
        self.life.effect(self.inner.sandboxes.remove_pod_sandbox(verdict)).await
    }

    async fn list_pod_sandboxes(
        &self,
        filter: &SandboxFilter,
    ) -> Result<Vec<Sandbox>, RuntimeError> {
        self.inner.sandboxes.list_pod_sandboxes(filter).await
    }

    async fn pod_sandbox_status(&self, id: &SandboxId) -> Result<SandboxStatus, RuntimeError> {
        self.inner.sandboxes.pod_sandbox_status(id).await
    }

    async fn update_pod_sandbox_resources(
        &self,
        id: &SandboxId,
        overhead: &LinuxResources,
        resources: &LinuxResources,
    ) -> Result<(), RuntimeError> {
        self.life
            .effect(self.inner.sandboxes.update_pod_sandbox_resources(id, overhead, resources))
            .await
    }

    async fn sandbox_image(&self, id: &SandboxId) -> Result<Option<String>, RuntimeError> {
        self.inner.sandboxes.sandbox_image(id).await
    }
}

#[async_trait]
impl ContainerService for MortalRuntime {
    async fn create_container(
        &self,
        sandbox: &SandboxId,
        config: &ContainerConfig,
        sandbox_config: &SandboxConfig,
    ) -> Result<ContainerId, RuntimeError> {
        self.life
            .effect(self.inner.containers.create_container(sandbox, config, sandbox_config))
            .await
    }

    async fn start_container(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        self.life.effect(self.inner.containers.start_container(id)).await
    }

    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), RuntimeError> {
        self.life.effect(self.inner.containers.stop_container(id, grace)).await
    }

    async fn update_container_resources(
        &self,
        id: &ContainerId,
        resources: &LinuxResources,
    ) -> Result<(), RuntimeError> {
        self.life.effect(self.inner.containers.update_container_resources(id, resources)).await
    }

    async fn remove_container(&self, verdict: &Verdict) -> Result<(), RuntimeError> {
        self.life.effect(self.inner.containers.remove_container(verdict)).await
    }

    async fn list_containers(
        &self,
        filter: &ContainerFilter,
    ) -> Result<Vec<Container>, RuntimeError> {
        self.inner.containers.list_containers(filter).await
    }

    async fn container_status(&self, id: &ContainerId) -> Result<ContainerStatus, RuntimeError> {
        self.inner.containers.container_status(id).await
    }

    async fn exec_sync(
        &self,
        id: &ContainerId,
        command: &[String],
        timeout: Option<Duration>,
    ) -> Result<ExecOutput, RuntimeError> {
        self.life.effect(self.inner.containers.exec_sync(id, command, timeout)).await
    }
}

#[async_trait]
impl ImageService for MortalRuntime {
    async fn image_status(&self, image: &str) -> Result<Option<Image>, RuntimeError> {
        self.inner.images.image_status(image).await
    }

    async fn pull_image(
        &self,
        image: &str,
        sandbox: Option<&SandboxConfig>,
    ) -> Result<String, RuntimeError> {
        self.life.effect(self.inner.images.pull_image(image, sandbox)).await
    }

    async fn list_images(&self) -> Result<Vec<Image>, RuntimeError> {
        self.inner.images.list_images().await
    }

    async fn remove_image(&self, verdict: &Verdict) -> Result<(), RuntimeError> {
        self.life.effect(self.inner.images.remove_image(verdict)).await
    }

    async fn list_image_uses(
        &self,
        filter: &ContainerFilter,
    ) -> Result<Vec<ImageUse>, RuntimeError> {
        self.inner.images.list_image_uses(filter).await
    }

    async fn image_labels(&self, image: &str) -> Result<BTreeMap<String, String>, RuntimeError> {
        self.inner.images.image_labels(image).await
    }

    async fn image_fs_info(&self) -> Result<Vec<ImageFilesystem>, RuntimeError> {
        self.inner.images.image_fs_info().await
    }
}

#[async_trait]
impl RuntimeInfo for MortalRuntime {
    async fn version(&self) -> Result<RuntimeVersion, RuntimeError> {
        self.inner.info.version().await
    }

    async fn status(&self) -> Result<RuntimeStatus, RuntimeError> {
        self.inner.info.status().await
    }

    async fn update_runtime_config(&self, pod_cidrs: &str) -> Result<(), RuntimeError> {
        self.life.effect(self.inner.info.update_runtime_config(pod_cidrs)).await
    }

    async fn container_events(&self) -> Result<ContainerEvents, RuntimeError> {
        self.inner.info.container_events().await
    }
}

/// Files that an agent dies over.
#[derive(Debug)]
pub struct MortalFiles {
    /// The agent's.
    pub life: Arc<Life>,
    /// The files themselves.
    pub inner: Arc<dyn HostFiles>,
}

#[async_trait]
impl HostFiles for MortalFiles {
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
    async fn overwrite(&self, path: &Path, content: &[u8], mode: u32) -> Result<(), FileError> {
        self.life.effect(self.inner.overwrite(path, content, mode)).await
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
    async fn create_file(&self, root: &Path, below: &Path, mode: u32) -> Result<(), FileError> {
        self.life.effect(self.inner.create_file(root, below, mode)).await
    }
    async fn read_end(&self, root: &Path, below: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
        self.inner.read_end(root, below, limit).await
    }
    async fn link(&self, target: &Path, link: &Path) -> Result<(), FileError> {
        self.life.effect(self.inner.link(target, link)).await
    }
    async fn remove(&self, root: &Path, verdict: &Verdict) -> Result<Removed, FileError> {
        self.life.effect(self.inner.remove(root, verdict)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_read_as_it_is_written() {
        for moment in [Moment::Before(1), Moment::After(12)] {
            assert_eq!(moment.to_string().parse::<Moment>().unwrap(), moment);
        }
        for text in ["", "before", "before:x", "during:1"] {
            text.parse::<Moment>().unwrap_err();
        }
    }
}
