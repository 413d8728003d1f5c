//! Reports to the cluster that the agent cannot start.

use std::time::Duration;

use events::about_node;
use jiff::Timestamp;
use model::chain::Chain;
use model::cluster::ClusterEvent;
use model::ports::cluster::{ApiError, ClusterEvents};
use model::ports::events::{EventType, NodeEvent};
use tokio::time::timeout;
use tracing::debug;

/// How long the failing start waits for the writes.
const PATIENCE: Duration = Duration::from_secs(5);

/// Writes earlier events, then the error that aborts the start of this node's agent. The log has both,
/// so the wait is limited.
pub(crate) async fn report_setup_failed(
    server: &dyn ClusterEvents,
    node: &str,
    mut events: Vec<(Timestamp, NodeEvent)>,
    error: &anyhow::Error,
    now: Timestamp,
) {
    let (kind, reason) = (EventType::Warning, "KubeletSetupFailed");
    events.push((now, NodeEvent { kind, reason, message: format!("{error:#}") }));
    match timeout(PATIENCE, write(server, node, events)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            debug!(error = %Chain(&error), "Cannot write the events of the failed start");
        }
        Err(_) => debug!("Cannot write the events of the failed start in time"),
    }
}

async fn write(
    server: &dyn ClusterEvents,
    node: &str,
    events: Vec<(Timestamp, NodeEvent)>,
) -> Result<(), ApiError> {
    for (at, NodeEvent { kind, reason, message }) in events {
        let is_warning = kind == EventType::Warning;
        let event = ClusterEvent::new(about_node(node), is_warning, reason.into(), message, at);
        server.write_event(&event).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use testkit::clock::VirtualClock;
    use testkit::cluster::{ApiCall, CallFault, MemoryCluster};
    use tokio::time::Instant;

    use super::*;

    // behaviour: CGR-23, NODE-42
    #[tokio::test(start_paused = true)]
    async fn failed_start_is_reported_and_does_not_wait_for_a_slow_api_server() {
        let cluster = MemoryCluster::new(VirtualClock::new());
        let error = anyhow::anyhow!("no such file").context("make the cgroup /kubepods");
        let (reason, message) = ("FailedNodeAllocatableEnforcement", "no limits".to_owned());
        let before = NodeEvent { kind: EventType::Warning, reason, message };
        let (first, then) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(1).unwrap());
        report_setup_failed(&cluster, "n", vec![(first, before)], &error, then).await;
        let written = cluster.events();
        let found = written.iter().map(|one| (&*one.reason, &*one.message, one.at));
        let why = "make the cgroup /kubepods: no such file";
        let expected = [(reason, "no limits", first), ("KubeletSetupFailed", why, then)];
        assert_eq!(found.collect::<Vec<_>>(), expected);
        for one in &written {
            assert_eq!((one.about.kind, &*one.about.name), ("Node", "n"));
            assert!(one.is_warning);
        }
        cluster.inject_fault(ApiCall::Event, CallFault::Late(Duration::from_hours(1)), 1);
        let begin = Instant::now();
        report_setup_failed(&cluster, "n", Vec::new(), &error, then).await;
        assert_eq!(begin.elapsed(), PATIENCE);
    }
}
