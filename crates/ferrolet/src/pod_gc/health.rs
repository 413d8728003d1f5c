//! Whether the controller is well, and whether it is ready.

use std::fmt::Write as _;
use std::sync::Arc;

use podgc::cache::SharedCache;
use podgc::election::Election;

/// What health depends on.
#[derive(Debug, Clone)]
pub(super) struct Health {
    pub(super) election: Option<Arc<Election>>,
    pub(super) cache: Arc<SharedCache>,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Check {
    name: &'static str,
    problem: Option<&'static str>,
}

impl Health {
    /// A leader that is far behind its lease is not well; the controller itself always is while it runs,
    /// as upstream says.
    fn alive(&self) -> Vec<Check> {
        let overdue = self.election.as_ref().is_some_and(|election| election.is_overdue());
        let problem = overdue.then_some("the lease was not renewed in time");
        vec![
            Check { name: "ping", problem: None },
            Check { name: "leaderElection", problem },
            Check { name: "pod-garbage-collector-controller", problem: None },
        ]
    }

    /// One that waits for its turn is ready; one that leads is when it knows all pods and nodes.
    fn ready(&self) -> Vec<Check> {
        let mut checks = self.alive();
        let waits = self.election.as_ref().is_some_and(|election| !election.leads());
        let is_unknown = !waits && !self.cache.is_synced();
        let problem = is_unknown.then_some("not all pods and nodes are known yet");
        checks.push(Check { name: "informer-sync", problem });
        checks
    }

    /// The answer for a path, if it is one of ours: whether all is well, and the text.
    pub(super) fn answer(&self, path: &str, verbose: bool) -> Option<(bool, String)> {
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
            return Some(told(&[check], root, false));
        }
        Some(told(&checks, root, verbose))
    }
}

fn told(checks: &[Check], root: &str, verbose: bool) -> (bool, String) {
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
    use podgc::cache::Cache;

    use super::*;

    fn health() -> Health {
        let cache = Arc::new(SharedCache::new(Cache::default()));
        Health { election: None, cache }
    }

    // behaviour: PGC-100
    #[test]
    fn health_is_told_in_whole_and_by_its_parts() {
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
    fn it_is_ready_once_all_is_known() {
        use model::ports::cluster::{Change, Sink};
        let health = health();
        let (ready, text) = health.answer("/readyz", false).unwrap();
        assert!(!ready && text.contains("[-]informer-sync failed"), "{text}");
        Sink::<model::cluster::PodRecord, _>::hear(&*health.cache, Change::Complete);
        Sink::<model::cluster::NodeRecord, _>::hear(&*health.cache, Change::Complete);
        assert_eq!(health.answer("/readyz", false), Some((true, "ok".to_owned())));
    }
}
