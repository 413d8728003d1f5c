//! Executes the removals.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use model::cgroup::CgroupName;
use model::chain::Chain;
use model::ids::{PodName, PodUid};
use model::lists;
use model::observed::{RuntimePod, pods_by_uid};
use model::ports::cgroups::{CgroupError, Cgroups};
use model::ports::clock::WallClock;
use model::ports::files::{FileError, HostFiles};
use model::ports::runtime::{Runtime, RuntimeError};
use model::ports::volumes::VolumeHost;
use model::verdict::{Detail, Owner, Subject, Verdict};
use model::volume::VolumeLayout;
use runtime::LogLayout;
use runtime::decide::{CLASSES, cgroups_of_pod, class_cgroup};

use super::decide::{PodRemoval, RULE, grace, may_run, plan};
use super::volumes;

/// How many pods are removed at a time.
const AT_A_TIME: usize = 8;

/// Receives progress, a line at a time.
pub type ReportProgress<'a> = &'a (dyn Fn(&str) + Sync);

/// The ports with which pods are removed.
#[derive(Debug)]
pub struct Cleaner {
    /// The container runtime.
    pub runtime: Runtime,
    /// The host's files.
    pub files: Arc<dyn HostFiles>,
    /// The volumes of the host.
    pub volumes: Arc<dyn VolumeHost>,
    /// The wall clock.
    pub clock: Arc<dyn WallClock>,
    /// The directory of pod logs.
    pub logs: LogLayout,
    /// The parent of pod directories.
    pub pods: PathBuf,
    /// The host's cgroups and the cgroup of all pods, if pods have cgroups.
    pub cgroups: Option<(Arc<dyn Cgroups>, CgroupName)>,
}

/// The result.
#[derive(Debug)]
pub struct Cleaned {
    /// How many pods were removed.
    pub removed: usize,
    /// The pods that were not.
    pub failed: Vec<PodName>,
}

/// A step that failed.
#[derive(Debug, thiserror::Error)]
enum StepError {
    #[error(transparent)]
    Runtime(RuntimeError),
    #[error(transparent)]
    File(FileError),
    #[error(transparent)]
    Cgroup(CgroupError),
}

/// An item that does not exist any more needs no stop or removal.
fn unless_gone(result: Result<(), RuntimeError>) -> Result<(), StepError> {
    match result {
        Err(error) if !error.is_not_found() => Err(StepError::Runtime(error)),
        _ => Ok(()),
    }
}

impl Cleaner {
    /// Removes all pods. A pod that cannot be removed does not block others.
    pub async fn clean(&self, report: ReportProgress<'_>) -> Result<Cleaned, RuntimeError> {
        let removals = self.plan().await?;
        let removed = stream::iter(&removals).map(async |removal| {
            if !removal.stop.is_empty() {
                report(&format!("{}: stopping", removal.pod));
            }
            match self.remove(removal).await {
                Ok(()) => {
                    report(&format!("{}: removed (uid {})", removal.pod, removal.uid));
                    None
                }
                Err(error) => {
                    report(&format!("{}: {}", removal.pod, Chain(&error)));
                    Some(removal.pod.clone())
                }
            }
        });
        let mut failed: Vec<PodName> =
            removed.buffer_unordered(AT_A_TIME).filter_map(async |failed| failed).collect().await;
        for removal in self.still_there(&removals).await? {
            if !failed.contains(&removal.pod) {
                report(&format!("{}: the runtime still lists parts of it", removal.pod));
                failed.push(removal.pod.clone());
            }
        }
        self.remove_empty_cgroups(report).await;
        Ok(Cleaned { removed: removals.len() - failed.len(), failed })
    }

    /// The removed pods that the runtime still lists: its earlier answer that they do not exist was
    /// wrong.
    async fn still_there<'a>(
        &self,
        removals: &'a [PodRemoval],
    ) -> Result<Vec<&'a PodRemoval>, RuntimeError> {
        if removals.is_empty() {
            return Ok(Vec::new());
        }
        let left = self.list().await?;
        Ok(removals.iter().filter(|removal| left.contains_key(&removal.uid)).collect())
    }

    async fn list(&self) -> Result<BTreeMap<PodUid, RuntimePod>, RuntimeError> {
        let (sandboxes, containers) = lists::everything(&self.runtime).await?;
        let mut pods = pods_by_uid(sandboxes, containers);
        // Items without a pod were not created by an agent.
        pods.retain(|uid, _| !uid.is_empty());
        Ok(pods)
    }

    async fn plan(&self) -> Result<Vec<PodRemoval>, RuntimeError> {
        let pods = self.list().await?;
        let containers = pods.values().flat_map(|pod| &pod.containers);
        let looks = containers.filter(|container| may_run(container)).map(async |container| {
            // Without a status the default grace period is used.
            let status = self.runtime.containers.container_status(&container.id).await.ok()?;
            Some((container.id.clone(), grace(&status.annotations)))
        });
        let looks = stream::iter(looks.collect::<Vec<_>>()).buffer_unordered(AT_A_TIME);
        let graces: BTreeMap<_, _> = looks.filter_map(async |found| found).collect().await;
        Ok(plan(&pods, &graces))
    }

    async fn remove(&self, removal: &PodRemoval) -> Result<(), StepError> {
        let stops = removal
            .stop
            .iter()
            .map(|stop| self.runtime.containers.stop_container(&stop.id, stop.grace));
        for stopped in join_all(stops).await {
            unless_gone(stopped)?;
        }
        for id in &removal.sandboxes {
            unless_gone(self.runtime.sandboxes.stop_pod_sandbox(id).await)?;
        }
        for (id, name) in &removal.containers {
            let link = self.logs.container_link(&removal.pod, name, id);
            self.remove_file(removal, Subject::LogLink(link), name).await?;
            let verdict = self.verdict(removal, Subject::Container(id.clone()), name);
            unless_gone(self.runtime.containers.remove_container(&verdict).await)?;
        }
        let logs = self.logs.pod_directory(&removal.pod, &removal.uid);
        self.remove_file(removal, Subject::PodLogs(logs), "").await?;
        self.remove_volumes(removal).await?;
        let own = self.pods.join(removal.uid.as_str());
        self.remove_file(removal, Subject::PodDirectory(own), "").await?;
        for id in &removal.sandboxes {
            let verdict = self.verdict(removal, Subject::Sandbox(id.clone()), "");
            unless_gone(self.runtime.sandboxes.remove_pod_sandbox(&verdict).await)?;
        }
        if let Some((cgroups, root)) = &self.cgroups {
            for name in cgroups_of_pod(root, &removal.uid) {
                let verdict = self.verdict(removal, Subject::Cgroup(name), "");
                cgroups.remove(&verdict).await.map_err(StepError::Cgroup)?;
            }
        }
        Ok(())
    }

    async fn remove_volumes(&self, removal: &PodRemoval) -> Result<(), StepError> {
        let layout = VolumeLayout { pods: self.pods.clone() };
        let on_disk = volumes::unmount(&*self.volumes, &layout, &removal.uid).await;
        for id in on_disk.map_err(StepError::File)? {
            let path = layout.volume(&removal.uid, &id).path();
            self.remove_file(removal, Subject::Volume(path), &id.name).await?;
        }
        Ok(())
    }

    /// Removes the parents of pod cgroups, if no pod cgroup is left in them.
    async fn remove_empty_cgroups(&self, report: ReportProgress<'_>) {
        let Some((cgroups, root)) = &self.cgroups else { return };
        let classes = CLASSES.into_iter().map(|class| class_cgroup(root, class));
        for name in classes.chain([root.clone()]) {
            let is_empty = cgroups.children(&name).await.is_ok_and(|children| children.is_empty());
            if !is_empty || name.is_root() {
                continue;
            }
            let verdict = Verdict {
                subject: Subject::Cgroup(name.clone()),
                name: "".into(),
                owner: None,
                rule: RULE,
                detail: Detail::default(),
                at: self.clock.now(),
            };
            if let Err(error) = cgroups.remove(&verdict).await {
                report(&format!("cgroup {name}: {}", Chain(&error)));
            }
        }
    }

    async fn remove_file(
        &self,
        removal: &PodRemoval,
        subject: Subject,
        name: &str,
    ) -> Result<(), StepError> {
        let root = match subject {
            Subject::LogLink(_) => &self.logs.container_links,
            Subject::PodDirectory(_) | Subject::Volume(_) => &self.pods,
            _ => &self.logs.pod_logs,
        };
        let verdict = self.verdict(removal, subject, name);
        self.files.remove(root, &verdict).await.map(drop).map_err(StepError::File)
    }

    fn verdict(&self, removal: &PodRemoval, subject: Subject, name: &str) -> Verdict {
        Verdict {
            subject,
            name: name.into(),
            owner: Some(Owner { uid: removal.uid.clone(), pod: Some(removal.pod.clone()) }),
            rule: RULE,
            detail: Detail::default(),
            at: self.clock.now(),
        }
    }
}

#[cfg(test)]
#[path = "remove_pods_tests.rs"]
mod tests;
