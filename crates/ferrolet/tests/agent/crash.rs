//! The agent dies before and after each of its effects; the next one reaches the state that the first would have
//! reached, and restarts no running container. Here in one process with a clock that the test moves,
//! so that minutes pass quickly; for a killed process, see `e2e/tests/soak/crashes.rs`.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ferrolet::wiring::Agent;
use model::intercept::Intercepted;
use model::observed::{Container, ContainerState};
use model::ports::cgroups::Cgroups;
use model::ports::files::HostFiles;
use model::ports::runtime::Runtime;
use testkit::crash_point::{CrashPoint, Death, Moment};
use tokio_util::sync::CancellationToken;

use crate::harness::Harness;

/// Stops all tasks of an agent when one of them dies.
#[derive(Debug)]
struct AgentDeath(CancellationToken);

#[async_trait]
impl Death for AgentDeath {
    async fn die(&self) {
        self.0.cancel();
        pending::<()>().await;
    }

    fn is_over(&self) -> bool {
        self.0.is_cancelled()
    }
}

/// The state to compare: which containers run, ended, or are left over.
fn end_state(harness: &Harness) -> Vec<(String, u32, ContainerState)> {
    let containers = harness.runtime.containers().into_iter();
    let states = containers.map(|c| (format!("{}/{}", c.pod.name, c.name), c.attempt, c.state));
    let mut states: Vec<_> = states.collect();
    states.sort();
    states
}

/// An init container, a sidecar, and a container with hooks.
const STAGED: &str = "
  initContainers:
  - {name: init, image: 'ferrolet.test/workload:1', args: [sleep, '1']}
  - {name: side, image: 'ferrolet.test/workload:1', args: [sleep, forever], restartPolicy: Always}
  containers:
  - name: main
    image: ferrolet.test/workload:1
    args: [sleep, forever]
    lifecycle: {postStart: {exec: {command: [/workload, sleep, '1']}}}
";

/// Starts an agent that dies at a moment, if there is one; the token is cancelled at its death.
pub(crate) fn start_with_crash(
    harness: &Harness,
    ends: Option<Moment>,
) -> (Agent, CancellationToken) {
    let over = CancellationToken::new();
    let crash = Arc::new(CrashPoint::new(ends, AgentDeath(over.clone())));
    let runtime = Runtime::new(Arc::clone(&harness.runtime)).intercepted(&crash);
    let files = Intercepted::new(Arc::clone(&harness.files) as Arc<dyn HostFiles>, &crash);
    let cgroups = Intercepted::new(Arc::clone(&harness.cgroups) as Arc<dyn Cgroups>, &crash);
    let agent = harness.start_with(runtime, Arc::new(files), Arc::new(cgroups));
    (agent, over)
}

/// Pods are added and one is removed; returns whether the agent died on the way.
async fn scenario(harness: &Harness, ends: Option<Moment>) -> bool {
    harness.write_manifest("web", "Always", "[sleep, forever]");
    harness.write_manifest("job", "Never", "[exit, \"0\"]");
    harness.write_manifest("gone", "Always", "[sleep, forever]");
    harness.write_spec("staged", STAGED);
    let (agent, over) = start_with_crash(harness, ends);
    let steps = async {
        tokio::time::sleep(Duration::from_mins(2)).await;
        harness.remove_manifest("gone");
        tokio::time::sleep(Duration::from_mins(2)).await;
    };
    dies_in(agent, over, steps).await
}

/// Returns whether the agent dies during the steps; at their end it is killed in any case.
pub(crate) async fn dies_in(
    agent: Agent,
    over: CancellationToken,
    steps: impl Future<Output = ()>,
) -> bool {
    // Biased: it dies once.
    let died = tokio::select! {
        biased;
        () = over.cancelled() => true,
        () = steps => false,
    };
    // Like kill -9: all tasks stop, nothing is cleaned up.
    drop(agent);
    died
}

// behaviour: WRK-23, GC-79, CGR-13
#[tokio::test(start_paused = true)]
async fn next_agent_reaches_the_same_state_after_a_crash_at_any_step() {
    let harness = Harness::new();
    scenario(&harness, None).await;
    let expected = end_state(&harness);
    assert_eq!(expected.len(), 5, "{expected:?}");
    let cgroups = harness.pod_cgroups();
    assert_eq!(cgroups.len(), 2, "those of the running pods: {cgroups:?}");
    let mut deaths = 0;
    for effect in 1.. {
        let mut lived = true;
        for moment in [Moment::Before(effect), Moment::After(effect)] {
            let harness = Harness::new();
            if !scenario(&harness, Some(moment)).await {
                continue;
            }
            (lived, deaths) = (false, deaths + 1);
            let ran: Vec<Container> = harness.runtime.containers();
            let _agent = harness.start();
            tokio::time::sleep(Duration::from_mins(2)).await;
            harness.remove_manifest("gone");
            tokio::time::sleep(Duration::from_mins(2)).await;
            assert_eq!(end_state(&harness), expected, "{moment:?}");
            assert_eq!(harness.pod_cgroups(), cgroups, "{moment:?}");
            let after = harness.runtime.containers();
            let stays = |ran: &&Container| *ran.pod.name != *"gone-node";
            let started = |ran: &&Container| ran.state != ContainerState::Created;
            for container in ran.iter().filter(stays).filter(started) {
                let still = after.iter().find(|after| after.id == container.id);
                let still = still.unwrap_or_else(|| panic!("{moment:?}: {container:?} is gone"));
                assert!(
                    &*container.name == "init" || still.state == container.state,
                    "{moment:?}: {container:?}"
                );
            }
        }
        if lived {
            break;
        }
    }
    assert!(deaths > 30, "only {deaths} deaths");
}
