//! What the cluster hears of an agent that cannot start.

use std::time::Duration;

use events::about_node;
use jiff::Timestamp;
use model::chain::Chain;
use model::cluster::ClusterEvent;
use model::ports::cluster::ClusterEvents;
use tokio::time::timeout;
use tracing::debug;

/// How long the end of the agent waits for it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Tells why the agent of that node does not start. Whoever does not hear it in time can read it in the log.
pub(crate) async fn tell_setup_failed(
    server: &dyn ClusterEvents,
    node: &str,
    error: &anyhow::Error,
    now: Timestamp,
) {
    let said = ("KubeletSetupFailed".into(), format!("{error:#}"));
    let event = ClusterEvent::new(about_node(node), true, said, now);
    match timeout(PATIENCE, server.write_event(&event)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!(error = %Chain(&error), "the cluster does not hear of it"),
        Err(_) => debug!("the cluster does not hear of it in time"),
    }
}

#[cfg(test)]
mod tests {
    use testkit::clock::VirtualClock;
    use testkit::cluster::{Ask, MemoryCluster, Trouble};
    use tokio::time::Instant;

    use super::*;

    // behaviour: NODE-42
    #[tokio::test(start_paused = true)]
    async fn the_cluster_hears_why_an_agent_does_not_start_and_it_ends_all_the_same() {
        let cluster = MemoryCluster::new(VirtualClock::new());
        let error = anyhow::anyhow!("no such file").context("make the cgroup /kubepods");
        tell_setup_failed(&cluster, "n", &error, Timestamp::UNIX_EPOCH).await;
        let told = cluster.events();
        let found = told.iter().map(|one| (one.about.kind, &*one.about.name, &*one.reason));
        assert_eq!(found.collect::<Vec<_>>(), [("Node", "n", "KubeletSetupFailed")]);
        assert_eq!(told[0].message, "make the cgroup /kubepods: no such file");
        assert!(told[0].is_warning);
        cluster.trouble(Ask::Event, Trouble::Late(Duration::from_hours(1)), 1);
        let begin = Instant::now();
        tell_setup_failed(&cluster, "n", &error, Timestamp::UNIX_EPOCH).await;
        assert_eq!(begin.elapsed(), PATIENCE);
    }
}
