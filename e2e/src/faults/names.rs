//! Whether the names of pods and containers are free in the runtime. It reserves names that it does not list: those of
//! cancelled calls, and of objects that it did not remove completely. An agent that finds a name reserved by an
//! unlisted object uses the next attempt number.

use anyhow::{Context, Result, ensure};
use cri::CriRuntime;
use model::ids::{PodName, PodUid, SandboxId};
use model::observed::{Container, Sandbox};
use model::ports::runtime::{ContainerFilter, ContainerService, SandboxFilter, SandboxService};
use model::verdict::Subject;
use model::wanted::{ContainerConfig, SandboxConfig};
use testbed::wait;
use testkit::wanted;

use super::{CONTAINERS, FaultyNode, INIT, STAGE};
use crate::node::NODE_NAME;
use crate::tidy::wait_tidy;

/// How many attempt numbers of a name a round may have used.
const NUMBERS: u32 = 3;

/// The image of containers that never start.
const IMAGE: &str = "ferrolet.test/workload:1";

impl FaultyNode {
    /// Creates everything under each name that sandboxes and containers of these pods may have had, and removes it
    /// again, once nothing is left of them. The runtime takes a moment to undo a cancelled call.
    pub(super) fn names_are_free(&self, pods: &[&str]) -> Result<()> {
        for pod in pods {
            let what = format!("the names of {pod} are free");
            self.node.explained(wait::until(&what, STAGE, || {
                let taken = self.node.with_runtime(async |cri| take_names(&cri, pod).await);
                Ok(taken.map_err(|error| format!("{error:#}")))
            }))?;
        }
        wait_tidy(&self.node, &[], STAGE).context("the objects that reserved names are gone")
    }

    /// Fails unless every sandbox and container has attempt number 0: this holds unless a call failed or something
    /// of earlier pods is left.
    pub(super) fn all_are_the_first(&self) -> Result<()> {
        let (sandboxes, containers) = self.node.with_runtime(async |cri| {
            let sandboxes = cri.list_pod_sandboxes(&SandboxFilter::default()).await?;
            let containers = cri.list_containers(&ContainerFilter::default()).await?;
            Ok((sandboxes, containers))
        })?;
        let later = later(&sandboxes, &containers);
        self.node.explained(match later.as_slice() {
            [] => Ok(()),
            _ => Err(anyhow::anyhow!("names before these are still taken: {}", later.join(", "))),
        })?;
        ensure!(!sandboxes.is_empty() && !containers.is_empty(), "nothing runs");
        Ok(())
    }
}

/// Creates a sandbox and containers of a pod under each attempt number, and removes them again.
async fn take_names(cri: &CriRuntime, pod: &str) -> Result<()> {
    let name = PodName::new("default", format!("{pod}-{NODE_NAME}"));
    let uid = PodUid::from(format!("uid-of-{pod}"));
    for number in 0..NUMBERS {
        let config = SandboxConfig { attempt: number, ..wanted::sandbox(&name, &uid) };
        let sandbox = cri.run_pod_sandbox(&config).await;
        let sandbox = sandbox.with_context(|| format!("take number {number} of the sandbox"))?;
        let taken = match number {
            0 => take_containers(cri, &sandbox, &config).await,
            _ => Ok(()),
        };
        cri.stop_pod_sandbox(&sandbox).await?;
        cri.remove_pod_sandbox(&wanted::removal(Subject::Sandbox(sandbox))).await?;
        taken?;
    }
    Ok(())
}

/// Does the same for containers in a sandbox.
async fn take_containers(
    cri: &CriRuntime,
    sandbox: &SandboxId,
    config: &SandboxConfig,
) -> Result<()> {
    for name in CONTAINERS.into_iter().chain([INIT]) {
        for attempt in 0..NUMBERS {
            let container = wanted::container(config, name, IMAGE, &["sleep", "forever"]);
            let container = ContainerConfig { attempt, ..container };
            let made = cri.create_container(sandbox, &container, config).await;
            let id = made.with_context(|| format!("take number {attempt} of {name}"))?;
            cri.remove_container(&wanted::removal(Subject::Container(id))).await?;
        }
    }
    Ok(())
}

/// Sandboxes and containers with an attempt number above 0.
fn later(sandboxes: &[Sandbox], containers: &[Container]) -> Vec<String> {
    let sandboxes = sandboxes.iter().map(|one| (one.pod.to_string(), one.attempt));
    let containers =
        containers.iter().map(|one| (format!("{} of {}", one.name, one.pod), one.attempt));
    let later = sandboxes.chain(containers).filter(|(_, number)| *number > 0);
    later.map(|(name, number)| format!("{name} has number {number}")).collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use model::ids::PodName;
    use model::observed::{ContainerState, SandboxState};

    use super::*;

    #[test]
    fn attempt_number_above_zero_shows_a_name_conflict() {
        let sandbox = |attempt| Sandbox {
            id: "s".into(),
            pod_uid: "u".into(),
            pod: PodName::new("default", "web"),
            attempt,
            state: SandboxState::Ready,
            created_at: Timestamp::UNIX_EPOCH,
        };
        let container = |attempt| Container {
            attempt,
            pod: PodName::new("default", "web"),
            ..testkit::observed::listed_container("c", "main", ContainerState::Running)
        };
        assert_eq!(later(&[sandbox(0)], &[container(0)]), [""; 0]);
        assert_eq!(later(&[sandbox(1)], &[container(0)]).len(), 1);
        let found = later(&[sandbox(0)], &[container(0), container(2)]);
        assert!(found.len() == 1 && found[0].contains("main") && found[0].ends_with('2'));
    }
}
