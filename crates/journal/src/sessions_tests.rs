//! Sessions in segments in memory.

use std::time::Duration;

use model::ids::{ObjectId, PodName};
use model::ports::journal::{Journal as _, Outcome};
use model::ports::streaming::SessionKind;
use model::verdict::{Detail, Owner, Subject, Verdict};
use testkit::clock::VirtualClock;
use testkit::segments::MemorySegments;

use super::*;
use crate::entry::EntryOutcome;

fn exec() -> Session {
    Session {
        kind: SessionKind::Exec,
        pod: PodName::new("shop", "web"),
        uid: "u1".into(),
        container: "main".to_owned(),
        object: ObjectId::Container("c1".into()),
        user: "alice".to_owned(),
        address: Some([10, 0, 0, 9].into()),
        program: Some("sh".to_owned()),
        ports: Vec::new(),
        refusal: None,
    }
}

fn port_forward() -> Session {
    Session {
        kind: SessionKind::PortForward,
        container: String::new(),
        object: ObjectId::Sandbox("s1".into()),
        address: None,
        program: None,
        ports: vec![80, 443],
        refusal: Some("no such sandbox".to_owned()),
        ..exec()
    }
}

#[tokio::test(start_paused = true)]
async fn sessions_are_found_by_pod_and_container() {
    let segments = MemorySegments::default();
    let clock = Arc::new(VirtualClock::new());
    let journal = SessionJournal::new(&segments, Arc::clone(&clock) as _, "0.1.0", SMALLEST);
    journal.record_session(&exec());
    tokio::time::sleep(Duration::from_secs(5)).await;
    journal.record_session(&port_forward());
    journal.record_session(&Session {
        pod: PodName::new("shop", "db"),
        uid: "u2".into(),
        ..exec()
    });
    let found = journal.find(&Query::new("shop/web"), 10).unwrap().entries;
    let kinds: Vec<&str> = found.iter().map(|entry| entry.kind.as_str()).collect();
    assert_eq!(kinds, ["port-forward", "exec"]);
    let texts: Vec<String> = found.iter().map(|entry| entry.detail.to_string()).collect();
    assert_eq!(texts, ["user alice, ports 80 443", "user alice, from 10.0.0.9, program sh"]);
    assert_eq!((found[0].outcome, found[1].outcome), (EntryOutcome::Refused, EntryOutcome::Opened));
    assert_eq!(found[0].error.as_deref(), Some("no such sandbox"));
    assert_eq!(found, find_sessions(&segments, &Query::new("web"), 10).unwrap().entries);
    assert_eq!(journal.find(&Query::new("web/main"), 10).unwrap().entries.len(), 1);
}

// behaviour: STR-15
#[tokio::test(start_paused = true)]
async fn sessions_do_not_displace_removals() {
    let segments = MemorySegments::default();
    let clock = Arc::new(VirtualClock::new());
    let shared = Arc::new(segments.clone());
    let removals = DiskJournal::new(shared, Arc::clone(&clock) as _, "0.1.0", SMALLEST);
    let sessions = SessionJournal::new(&segments, Arc::clone(&clock) as _, "0.1.0", SMALLEST);
    let verdict = Verdict {
        subject: Subject::Container("c0".into()),
        name: "main".into(),
        owner: Some(Owner { uid: "u1".into(), pod: Some(PodName::new("shop", "web")) }),
        rule: "pod-is-gone",
        detail: Detail::default(),
        at: clock.now(),
    };
    removals.record(&verdict, Outcome::Removed);
    for _ in 0..10_000 {
        sessions.record_session(&exec());
    }
    let query = Query::new("shop/web");
    let found = removals.find(&query, 10).unwrap();
    assert_eq!(found.entries.len(), 1);
    let merged = found.merged_with(sessions.find(&query, 3).unwrap());
    assert_eq!((merged.entries.len(), merged.more), (4, true));
}
