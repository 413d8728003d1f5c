//! Health and readiness of the controller.

use std::fmt::Write as _;
use std::sync::Arc;

use podgc::cache::SharedCache;
use podgc::election::Election;

/// The inputs of the checks.
#[derive(Debug, Clone)]
pub(crate) struct Health {
    pub(crate) election: Option<Arc<Election>>,
    pub(crate) cache: Arc<SharedCache>,
}

/// A check and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Check {
    name: &'static str,
    problem: Option<&'static str>,
}

impl Health {
    /// A leader far behind its lease is unhealthy. The controller itself is healthy while it runs, as upstream's.
    fn alive(&self) -> Vec<Check> {
        let overdue = self.election.as_ref().is_some_and(|election| election.is_overdue());
        let problem = overdue.then_some("the lease was not renewed in time");
        vec![
            Check { name: "ping", problem: None },
            Check { name: "leaderElection", problem },
            Check { name: "pod-garbage-collector-controller", problem: None },
        ]
    }

    /// A candidate is ready; a leader is ready when its cache has all pods and nodes.
    fn ready(&self) -> Vec<Check> {
        let mut checks = self.alive();
        let waits = self.election.as_ref().is_some_and(|election| !election.leads());
        let is_unknown = !waits && !self.cache.is_synced();
        let problem = is_unknown.then_some("not all pods and nodes are known yet");
        checks.push(Check { name: "informer-sync", problem });
        checks
    }

    /// The result for a health path: whether all checks pass, and the text.
    pub(crate) fn answer(&self, path: &str, verbose: bool) -> Option<(bool, String)> {
        let (root, name) = match path.trim_start_matches('/').split_once('/') {
            Some((root, name)) => (root, Some(name)),
            None => (path.trim_start_matches('/'), None),
        };
        let checks = match root {
            "healthz" | "livez" => self.alive(),
            "readyz" => self.ready(),
            _ => return None,
        };
        if let Some(name) = name {
            let check = checks.into_iter().find(|check| check.name == name)?;
            return Some(report(&[check], root, false));
        }
        Some(report(&checks, root, verbose))
    }
}

/// Whether all checks pass, and the text of the page.
fn report(checks: &[Check], root: &str, verbose: bool) -> (bool, String) {
    let well = checks.iter().all(|check| check.problem.is_none());
    if well && !verbose {
        return (true, "ok".to_owned());
    }
    let mut text = String::new();
    for Check { name, problem } in checks {
        match problem {
            None => writeln!(text, "[+]{name} ok"),
            Some(problem) => writeln!(text, "[-]{name} failed: {problem}"),
        }
        .expect("a string takes every text");
    }
    let end = if well { "passed" } else { "failed" };
    writeln!(text, "{root} check {end}").expect("a string takes every text");
    (well, text)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use podgc::cache::Cache;
    use podgc::election::{ElectionPorts, ElectionSettings};
    use podgc::metrics::Metrics;
    use prometheus::Registry;
    use testkit::cluster::MemoryCluster;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn health() -> Health {
        let cache = Arc::new(SharedCache::new(Cache::default()));
        Health { election: None, cache }
    }

    /// The health of a candidate in an election.
    fn candidate(cluster: &MemoryCluster, identity: &str) -> Health {
        let settings = ElectionSettings::new(&config::pod_gc::Election::default(), identity);
        let clock = Arc::new(cluster.clock());
        let ports = ElectionPorts::new(&Arc::new(cluster.clone()), clock);
        let metrics = Metrics::new(&Registry::new()).unwrap();
        let election = Some(Arc::new(Election::new(settings, ports, metrics)));
        Health { election, ..health() }
    }

    fn is_well(health: &Health, path: &str) -> bool {
        health.answer(path, false).unwrap().0
    }

    // behaviour: PGC-100
    #[tokio::test(start_paused = true)]
    async fn leader_twenty_seconds_behind_its_lease_is_unhealthy() {
        let health = candidate(&MemoryCluster::default(), "a");
        tokio::time::advance(SECOND * 100).await;
        assert!(is_well(&health, "/healthz"), "it never was a leader");
        health.election.as_ref().unwrap().win().await;
        // The lease is for 15 seconds, and is not renewed.
        tokio::time::advance(SECOND * 35).await;
        assert!(is_well(&health, "/healthz"));
        tokio::time::advance(SECOND).await;
        for path in ["/healthz", "/livez", "/readyz", "/healthz/leaderElection"] {
            assert!(!is_well(&health, path), "{path}");
        }
        assert!(is_well(&health, "/healthz/ping"));
        let (_, text) = health.answer("/livez", false).unwrap();
        assert!(text.contains("[-]leaderElection failed: the lease was not renewed"), "{text}");
    }

    // behaviour: PGC-101
    #[tokio::test(start_paused = true)]
    async fn candidate_is_ready_and_leader_is_ready_when_synced() {
        let cluster = MemoryCluster::default();
        let (leader, waits) = (candidate(&cluster, "a"), candidate(&cluster, "b"));
        leader.election.as_ref().unwrap().win().await;
        let other = waits.election.as_ref().unwrap();
        tokio::time::timeout(SECOND, other.win()).await.unwrap_err();
        assert!(!is_well(&leader, "/readyz"));
        assert!(is_well(&waits, "/readyz"));
    }

    // behaviour: PGC-100
    #[test]
    fn health_is_reported_as_a_whole_and_by_check() {
        let health = health();
        let ok = Some((true, "ok".to_owned()));
        assert_eq!(health.answer("/healthz", false), ok);
        assert_eq!(health.answer("/livez/ping", false), ok);
        assert_eq!(health.answer("/healthz/pod-garbage-collector-controller", false), ok);
        assert_eq!(health.answer("/healthz/other", false), None);
        assert_eq!(health.answer("/other", false), None);
        let (_, verbose) = health.answer("/livez", true).unwrap();
        assert!(verbose.ends_with("livez check passed\n"), "{verbose}");
    }

    // behaviour: PGC-101
    #[test]
    fn controller_is_ready_when_synced() {
        use model::ports::cluster::{Change, Sink};
        let health = health();
        let (ready, text) = health.answer("/readyz", false).unwrap();
        assert!(!ready && text.contains("[-]informer-sync failed"), "{text}");
        Sink::<model::cluster::PodRecord, _>::receive(&*health.cache, Change::Complete);
        Sink::<model::cluster::NodeRecord, _>::receive(&*health.cache, Change::Complete);
        assert_eq!(health.answer("/readyz", false), Some((true, "ok".to_owned())));
    }
}
