//! Incidents in segments in memory.

use std::time::Duration;

use model::ids::PodName;
use model::ports::journal::{Journal as _, Outcome};
use model::verdict::{Detail, Input, Subject};
use testkit::clock::VirtualClock;
use testkit::segments::MemorySegments;

use super::*;
use crate::entry::EntryOutcome;

fn kill() -> Incident {
    Incident {
        kind: IncidentKind::Kill,
        pod: PodName::new("shop", "web"),
        uid: "u1".into(),
        container: "main".to_owned(),
        id: "c1".to_owned(),
        rule: "liveness-probe".into(),
        detail: Detail::default()
            .with("failures", Input::Number(3))
            .with("gracePeriod", Input::Span(Duration::from_secs(30))),
        at: None,
    }
}

fn restart(id: &str) -> Incident {
    let detail = Detail::default().with("exitCode", Input::Number(1));
    let (kind, rule) = (IncidentKind::Restart, "exit".into());
    Incident { kind, id: id.to_owned(), rule, detail, ..kill() }
}

fn rejection() -> Incident {
    let detail = Detail::default().with("message", Input::Text("not enough cpu".to_owned()));
    let (kind, rule) = (IncidentKind::Rejection, "OutOfcpu".into());
    Incident { kind, container: String::new(), id: "u1".to_owned(), rule, detail, ..kill() }
}

fn journal(segments: &MemorySegments) -> IncidentJournal {
    IncidentJournal::new(segments, Arc::new(VirtualClock::new()), "0.1.0", SMALLEST)
}

fn all(journal: &IncidentJournal) -> Vec<Entry> {
    journal.find(&Query::new("shop/web"), 100).unwrap().entries
}

// behaviour: WHY-1
#[tokio::test(start_paused = true)]
async fn incidents_are_found_newest_first_by_pod_and_container() {
    let segments = MemorySegments::default();
    let journal = journal(&segments);
    for incident in [rejection(), kill(), restart("c2")] {
        journal.record_incident(incident);
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    let other = Incident { pod: PodName::new("shop", "db"), uid: "u2".into(), ..restart("c3") };
    journal.record_incident(other);
    let found = all(&journal);
    let facts: Vec<_> = found
        .iter()
        .map(|entry| (entry.kind.as_str(), entry.rule.as_str(), entry.outcome))
        .collect();
    let expected = [
        ("restart", "exit", EntryOutcome::Restarted),
        ("kill", "liveness-probe", EntryOutcome::Killed),
        ("rejection", "OutOfcpu", EntryOutcome::Rejected),
    ];
    assert_eq!(facts, expected);
    assert_eq!(found[1].detail.to_string(), "failures 3, gracePeriod 30s");
    assert!(found.iter().all(Entry::is_incident));
    assert_eq!(found, find_incidents(&segments, &Query::new("web"), 10).unwrap().entries);
    assert_eq!(journal.find(&Query::new("web/main"), 10).unwrap().entries.len(), 2);
}

// behaviour: WHY-2
#[tokio::test(start_paused = true)]
async fn incident_is_recorded_once_across_agent_restarts() {
    let segments = MemorySegments::default();
    let first = journal(&segments);
    for incident in [kill(), kill(), rejection(), rejection(), restart("c2")] {
        first.record_incident(incident);
    }
    assert_eq!(all(&first).len(), 3);
    let next = journal(&segments);
    for incident in [kill(), rejection(), restart("c3")] {
        next.record_incident(incident);
    }
    next.record_incident(Incident { rule: "pod-deleted".into(), ..kill() });
    assert_eq!(all(&next).len(), 5);
}

#[tokio::test(start_paused = true)]
async fn future_incident_time_is_replaced() {
    let segments = MemorySegments::default();
    let clock = Arc::new(VirtualClock::new());
    let journal = IncidentJournal::new(&segments, Arc::clone(&clock) as _, "0.1.0", SMALLEST);
    let now = clock.now();
    let at = |seconds: i64| Some(now + jiff::SignedDuration::from_secs(seconds));
    journal.record_incident(Incident { at: at(-60), ..kill() });
    journal.record_incident(Incident { at: at(60), ..rejection() });
    let times: Vec<_> = all(&journal).iter().map(|entry| entry.time).collect();
    assert_eq!(times, [now, at(-60).unwrap()]);
}

// behaviour: WHY-3
#[tokio::test(start_paused = true)]
async fn crash_loop_does_not_displace_removals() {
    let segments = MemorySegments::default();
    let clock = Arc::new(VirtualClock::new());
    let shared = Arc::new(segments.clone());
    let removals = DiskJournal::new(shared, Arc::clone(&clock) as _, "0.1.0", SMALLEST);
    let mut verdict = testkit::wanted::removal(Subject::Container("c0".into()));
    verdict.name = "main".into();
    removals.record(&verdict, Outcome::Removed);
    let incidents = journal(&segments);
    for number in 0..10_000 {
        incidents.record_incident(restart(&format!("c{number}")));
    }
    let found = removals.find(&Query::new("main"), 10).unwrap();
    assert_eq!(found.entries.len(), 1);
    let merged = found.merged_with(incidents.find(&Query::new("main"), 3).unwrap());
    assert_eq!((merged.entries.len(), merged.more), (4, true));
}

#[test]
fn remembered_incidents_are_bounded() {
    let mut recorded = RecordedIncidents::default();
    let of = |number: usize| Incident { id: number.to_string(), ..kill() };
    for number in 0..=MOST_REMEMBERED {
        assert!(recorded.add(&of(number)));
    }
    assert_eq!((recorded.keys.len(), recorded.order.len()), (MOST_REMEMBERED, MOST_REMEMBERED));
    assert!(!recorded.add(&of(1)) && recorded.add(&of(0)), "the oldest is forgotten first");
}
