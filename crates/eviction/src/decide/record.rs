//! What the journal records about an eviction: why this pod and not another.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use model::ports::incidents::{Incident, IncidentKind};
use model::quantity::Quantity;
use model::verdict::{Detail, Input};
use podspec::view;

use super::local_storage::Violation;
use super::observation::{bytes, count};
use super::rank::Ranked;
use super::signal::Resource;
use super::tracker::Crossed;

/// How many pods of a ranking are recorded.
const MOST_RANKED: usize = 20;

/// An amount of a resource, as users write it.
pub fn amount(resource: Resource, amount: i64) -> Quantity {
    match resource {
        Resource::Memory | Resource::EphemeralStorage => bytes(amount),
        Resource::Inodes | Resource::Pids => count(amount),
    }
}

/// A pod of a ranking as a line: `default/web: usage 300Mi, request 100Mi, priority 0, exceeds its request`.
pub fn line(resource: Resource, ranked: &Ranked) -> String {
    let usage = match ranked.usage {
        Some(usage) => format!("usage {}", amount(resource, usage)),
        None => "usage unknown".to_owned(),
    };
    let has_request = resource != Resource::Pids;
    let mut parts = vec![format!("{}: {usage}", ranked.name)];
    parts.extend(has_request.then(|| format!("request {}", bytes(ranked.request))));
    parts.push(format!("priority {}", ranked.priority));
    parts.extend((has_request && ranked.exceeds).then(|| "exceeds its request".to_owned()));
    parts.extend(ranked.critical.then(|| "critical".to_owned()));
    parts.join(", ")
}

/// The incident of a pod that is evicted by a threshold, at this position of the ranking.
pub fn by_threshold(
    crossed: &Crossed,
    ranking: &[Ranked],
    position: usize,
    grace: Duration,
) -> Option<Incident> {
    let (resource, victim) = (crossed.resource(), ranking.get(position)?);
    let critical = ranking[..position].iter().map(|ranked| ranked.name.to_string());
    let lines = ranking.iter().take(MOST_RANKED).map(|ranked| line(resource, ranked));
    let number = |number: usize| Input::Number(i64::try_from(number).unwrap_or(i64::MAX));
    let usage = victim.usage.map(|usage| amount(resource, usage).to_string());
    let mut detail = Detail::default()
        .with("resource", Input::Text(resource.as_str().to_owned()))
        .with("threshold", Input::Text(crossed.quantity().to_string()))
        .with("available", Input::Text(crossed.available().to_string()))
        .with("usage", usage.map_or(Input::Nothing, Input::Text));
    if resource != Resource::Pids {
        detail = detail
            .with("request", Input::Text(bytes(victim.request).to_string()))
            .with("exceedsRequest", Input::Flag(victim.exceeds));
    }
    let detail = detail
        .with("priority", Input::Number(victim.priority.into()))
        .with("position", number(position + 1))
        .with("pods", number(ranking.len()))
        .with("critical", Input::Texts(critical.collect()))
        .with("ranking", Input::Texts(lines.collect()))
        .with("gracePeriod", Input::Span(grace));
    Some(incident(&victim.pod, crossed.threshold.signal.as_str(), detail))
}

/// The incident of a pod that is evicted by a limit of local storage.
pub fn by_limit(pod: &Pod, violation: &Violation, grace: Duration) -> Incident {
    let mut detail = Detail::default();
    if !violation.name.is_empty() {
        detail = detail.with("name", Input::Text(violation.name.clone()));
    }
    let detail = detail
        .with("usage", Input::Text(violation.used.to_string()))
        .with("limit", Input::Text(violation.limit.to_string()))
        .with("gracePeriod", Input::Span(grace));
    incident(pod, violation.signal, detail)
}

fn incident(pod: &Pod, rule: &'static str, detail: Detail) -> Incident {
    let uid = view::uid(pod);
    Incident {
        kind: IncidentKind::Eviction,
        pod: view::pod_name(pod),
        id: uid.to_string(),
        uid,
        container: String::new(),
        rule: rule.into(),
        detail,
        at: None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use testkit::pods::pod;

    use super::*;
    use crate::decide::observation::Observed;
    use crate::decide::signal::Signal;
    use crate::decide::threshold::{Level, Threshold};

    fn ranked(name: &str, usage: Option<i64>, critical: bool) -> Ranked {
        let pod = Arc::new(pod(name).build());
        Ranked {
            name: view::pod_name(&pod),
            uid: view::uid(&pod),
            pod,
            priority: 7,
            usage,
            request: 1 << 20,
            exceeds: usage.is_some_and(|usage| usage > 1 << 20),
            critical,
        }
    }

    // behaviour: EVI-61
    #[test]
    fn eviction_is_recorded_with_its_ranking_and_numbers() {
        let level = Level::Amount("100Mi".parse().unwrap());
        let signal = Signal::MemoryAvailable;
        let threshold = Threshold { signal, level, grace: Duration::ZERO, minimum_reclaim: None };
        let observed =
            Observed { available: 5 << 20, capacity: 1 << 30, at: Timestamp::UNIX_EPOCH };
        let crossed = Crossed { threshold, observed };
        let ranking = [
            ranked("agent", Some(9 << 20), true),
            ranked("web", Some(3 << 20), false),
            ranked("db", Some(1000), false),
            ranked("new", None, false),
        ];
        let incident = by_threshold(&crossed, &ranking, 1, Duration::from_secs(1)).unwrap();
        assert_eq!(incident.rule, "memory.available");
        assert_eq!((incident.id.as_str(), incident.kind.as_str()), ("uid-of-web", "eviction"));
        assert_eq!(
            incident.detail.to_string(),
            "resource memory, threshold 100Mi, available 5Mi, usage 3Mi, request 1Mi, \
             exceedsRequest true, priority 7, position 2, pods 4, critical default/agent, \
             ranking default/agent: usage 9Mi, request 1Mi, priority 7, exceeds its request, critical \
             default/web: usage 3Mi, request 1Mi, priority 7, exceeds its request \
             default/db: usage 1k, request 1Mi, priority 7 \
             default/new: usage unknown, request 1Mi, priority 7, gracePeriod 1s"
        );
        assert_eq!(by_threshold(&crossed, &ranking, 4, Duration::ZERO), None);
    }

    // behaviour: EVI-61
    #[test]
    fn eviction_by_a_limit_is_recorded_with_its_numbers() {
        let violation = Violation {
            signal: "emptydirfs.limit",
            message: String::new(),
            name: "cache".to_owned(),
            used: bytes(2048),
            limit: bytes(1024),
        };
        let incident = by_limit(&pod("web").build(), &violation, Duration::from_secs(1));
        assert_eq!(incident.rule, "emptydirfs.limit");
        let expected = "name cache, usage 2Ki, limit 1Ki, gracePeriod 1s";
        assert_eq!(incident.detail.to_string(), expected);
    }
}
