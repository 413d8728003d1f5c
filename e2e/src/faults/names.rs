//! Whether the names of pods and containers are free in the runtime. An agent that finds a name taken, by
//! nothing that it can see, goes on to the next number: a name that stays reserved shows by that alone.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cri::{CriRuntime, Deadlines, Endpoint};
use model::observed::{Container, Sandbox};
use model::ports::runtime::{ContainerFilter, Runtime as _, SandboxFilter};

use super::FaultyNode;

impl FaultyNode {
    /// Fails unless every sandbox and every container has the first number of its name, which is its own
    /// when nothing went wrong and nothing is left of earlier pods.
    pub(super) fn all_are_the_first(&self) -> Result<()> {
        let socket = self.node.instance().containerd_socket();
        let endpoint = Endpoint::parse(&format!("unix://{}", socket.display()))?;
        let deadlines = Deadlines { request: Duration::from_secs(30) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("start a runtime for calls")?;
        let (sandboxes, containers) = runtime.block_on(async {
            let cri = CriRuntime::new(&endpoint, &endpoint, deadlines);
            let sandboxes = cri.list_pod_sandboxes(&SandboxFilter::default()).await?;
            let containers = cri.list_containers(&ContainerFilter::default()).await?;
            anyhow::Ok((sandboxes, containers))
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

/// Those whose number is not the first.
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
    fn a_number_that_is_not_the_first_shows_that_a_name_is_taken() {
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
