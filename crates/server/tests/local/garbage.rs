//! Plans, passes and records of garbage collection.

use std::sync::Arc;

use hyper::StatusCode;
use journal::{DiskJournal, Inputs, SMALLEST};
use model::ports::journal::{Journal as _, Outcome};
use model::verdict::Subject;
use serde_json::{Value, json};
use server::wire::{GcItem, GcVerdict};
use testkit::clock::VirtualClock;
use testkit::wanted::removal;

use crate::harness::{Harness, Lines};

fn item(id: &str, verdict: GcVerdict) -> GcItem {
    GcItem {
        kind: "container".to_owned(),
        id: id.to_owned(),
        name: "main".to_owned(),
        pod: Some("default/web".to_owned()),
        pod_uid: None,
        verdict,
        rule: "per-container-cap".to_owned(),
        detail: serde_json::from_str::<Inputs>(r#"{"position":2,"cap":1}"#).unwrap(),
    }
}

#[tokio::test]
async fn gc_plan_has_its_documented_form() {
    let harness = Harness::new();
    *harness.agent.items.lock().unwrap() = vec![item("c1", GcVerdict::Remove)];
    let (status, content) = harness.get("/gc/plan").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        serde_json::from_str::<Value>(&content).unwrap(),
        json!({
            "generatedAt": "1970-01-01T00:00:00Z",
            "source": "agent",
            "policy": {},
            "items": [{
                "kind": "container", "id": "c1", "name": "main", "pod": "default/web",
                "podUid": null, "verdict": "remove", "rule": "per-container-cap",
                "detail": {"position": 2, "cap": 1},
            }],
            "warnings": [],
            "problems": [],
        })
    );
    assert!(content.contains(r#"{"position":2,"cap":1}"#), "in the order of the rule: {content}");
}

#[tokio::test]
async fn gc_pass_is_streamed_line_by_line() {
    let harness = Harness::new();
    *harness.agent.items.lock().unwrap() = vec![item("c1", GcVerdict::Remove)];
    let mut lines = Lines::of(harness.send("POST", "/gc/run", "").await);
    let line: Value = serde_json::from_str(&lines.next().await.unwrap()).unwrap();
    assert_eq!((&line["type"], &line["item"]["id"]), (&json!("REMOVED"), &json!("c1")));
    let line: Value = serde_json::from_str(&lines.next().await.unwrap()).unwrap();
    let done = json!({
        "type": "DONE", "removed": {"container": 1}, "failed": {}, "kept": {}, "leftOut": 0, "problems": [],
    });
    assert_eq!(line, done);
    assert_eq!(lines.next().await, None);
    let problem = harness.problem("GET", "/gc/run").await;
    assert_eq!(problem, (405, "/gc/run only supports POST".to_owned()));
}

#[tokio::test]
async fn removals_are_returned_newest_first_within_bounds() {
    let harness = Harness::new();
    let segments = Arc::new(harness.agent.journal.clone());
    let journal = DiskJournal::new(segments, Arc::new(VirtualClock::new()), "0.1.0", SMALLEST);
    for number in 0..30 {
        let verdict = removal(Subject::Container(format!("c{number}").into()));
        journal.record(&verdict, Outcome::Removed);
    }
    let ids = |content: &str| -> Vec<String> {
        let value: Value = serde_json::from_str(content).unwrap();
        let entries = value["entries"].as_array().unwrap().iter();
        entries.map(|entry| entry["id"].as_str().unwrap().to_owned()).collect()
    };
    let (_, content) = harness.get("/gc/why?what=c1&limit=5").await;
    assert_eq!(ids(&content), ["c1"]);
    let (_, content) = harness.get("/gc/why?what=c&limit=2").await;
    assert_eq!(ids(&content), ["c29", "c28"]);
    let (_, content) = harness.get("/gc/why?what=c").await;
    assert_eq!(ids(&content).len(), 20);
    let (status, content) = harness.get("/gc/why?what=a%2Fb").await;
    assert_eq!((status, ids(&content)), (StatusCode::OK, vec![]));
    for path in ["/gc/why", "/gc/why?what=", "/gc/why?what=c&limit=0", "/gc/why?what=c&limit=1001"]
    {
        assert_eq!(harness.problem("GET", path).await.0, 400, "{path}");
    }
    let (_, content) = harness.get("/why?what=c&limit=2").await;
    assert_eq!(ids(&content), ["c29", "c28"]);
    assert_eq!(harness.problem("GET", "/why").await.0, 400);
    *harness.agent.problem.lock().unwrap() = Some("on fire".to_owned());
    assert_eq!(harness.problem("GET", "/gc/why?what=c").await, (500, "on fire".to_owned()));
}
