//! The node resources of a pod: its directories, its cgroup, and the objects it refers to.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::join;
use k8s_openapi::api::core::v1::Pod;
use model::chain::Chain;
use model::ports::events::EventType::Warning;
use model::ports::events::Events;
use model::ports::files::HostFiles;
use model::ports::objects::PodObjects;
use model::wait::Wait;
use podspec::objects::pod_objects;
use podspec::view;
use tokio_util::sync::CancellationToken;

use crate::cgroups::PodCgroups;
use crate::decide::{Needs, go_text};
use crate::error::{ReleaseError, SyncError};
use crate::report::Reporter;
use crate::volumes::PodVolumes;

/// A pod that is prepared for its actions.
#[derive(Debug)]
pub(crate) struct PreparedPod {
    _prepared: (),
}

/// Whether the actions of a pod can continue.
#[derive(Debug)]
pub(crate) enum Preparation {
    Ready(PreparedPod),
    NotReady(Wait),
}

/// Prepares the node resources of a pod, and releases them.
#[derive(Debug)]
pub(crate) struct PodSetup {
    pub(crate) files: Arc<dyn HostFiles>,
    /// The root of the pods' directories.
    pub(crate) pods_dir: PathBuf,
    /// The objects that pods refer to; `None` without an API server.
    pub(crate) objects: Option<Arc<dyn PodObjects>>,
    /// The pods' cgroups; `None` if disabled.
    pub(crate) cgroups: Option<Arc<PodCgroups>>,
    pub(crate) volumes: Arc<dyn PodVolumes>,
    pub(crate) events: Arc<dyn Events>,
}

impl PodSetup {
    /// Prepares the node resources of the pod. Kills and removals come before this, so that they never wait.
    /// Waits for its volumes, unless the pod is terminating.
    pub(crate) async fn prepare(
        &self,
        pod: &Pod,
        needs: Needs,
        cancel: &CancellationToken,
    ) -> Result<Preparation, SyncError> {
        if needs.cgroup {
            self.cgroup(pod).await?;
        }
        if needs.start {
            self.directories(pod).await?;
            if let Some(wait) = self.volumes.wait(pod, cancel).await {
                return Ok(Preparation::NotReady(wait));
            }
        }
        Ok(Preparation::Ready(PreparedPod { _prepared: () }))
    }

    /// Registers the objects that the pod refers to, so that they are watched.
    pub(crate) fn register_objects(&self, pod: &Pod) {
        if let Some(objects) = &self.objects {
            objects.register(&view::uid(pod), pod_objects(pod));
        }
    }

    /// Ends the registration of the pod's objects.
    pub(crate) fn unregister_objects(&self, pod: &Pod) {
        if let Some(objects) = &self.objects {
            objects.unregister(&view::uid(pod));
        }
    }

    /// Removes the cgroup of a terminated pod.
    pub(crate) async fn release_cgroup(&self, pod: &Pod) -> Result<(), ReleaseError> {
        match &self.cgroups {
            Some(cgroups) => cgroups.release(pod).await.map_err(ReleaseError::Cgroup),
            None => Ok(()),
        }
    }

    /// Creates the pod's directories, in parallel.
    async fn directories(&self, pod: &Pod) -> Result<(), SyncError> {
        let (files, root, uid) = (&self.files, &self.pods_dir, view::uid(pod));
        let [volumes, plugins] =
            ["volumes", "plugins"].map(|name| Path::new(uid.as_str()).join(name));
        let made = join(
            files.create_directory(root, &volumes, 0o750),
            files.create_directory(root, &plugins, 0o750),
        );
        let (volumes, plugins) = made.await;
        volumes.and(plugins).map_err(|error| {
            let message =
                format!("error making pod data directories: {}", go_text::file_error(&error));
            Reporter::of_pod(&*self.events, pod).event(Warning, "Failed", message);
            SyncError::PodDirectory(error)
        })
    }

    /// Creates the pod's cgroup, if it is missing.
    async fn cgroup(&self, pod: &Pod) -> Result<(), SyncError> {
        let Some(cgroups) = &self.cgroups else { return Ok(()) };
        cgroups.ensure(pod).await.map_err(|error| {
            let message = format!("unable to ensure pod container exists: {}", Chain(&error));
            let reporter = Reporter::of_pod(&*self.events, pod);
            reporter.event(Warning, "FailedCreatePodContainer", message);
            SyncError::Cgroup(error)
        })
    }
}
