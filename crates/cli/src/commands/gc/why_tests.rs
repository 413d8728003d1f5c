use journal::{DiskJournal, SMALLEST, SearchResult};
use model::ids::PodName;
use model::ports::journal::{Journal as _, Outcome};
use model::verdict::{Detail, Input, Owner, Subject, Verdict};
use std::sync::Arc;
use std::time::Duration;
use testkit::clock::VirtualClock;

use super::*;

const ID: &str = "4f6c0e1d2a3b4c5d6e7f4f6c0e1d2a3b4c5d6e7f4f6c0e1d2a3b4c5d6e7fabcd";

fn verdict(subject: Subject) -> Verdict {
    Verdict {
        subject,
        name: "main".into(),
        owner: Some(Owner { uid: "u1".into(), pod: Some(PodName::new("default", "web-node")) }),
        rule: "per-container-cap",
        detail: Detail::default()
            .with("cap", Input::Number(1))
            .with("position", Input::Number(2))
            .with("instances", Input::Number(2))
            .with("age", Input::Span(Duration::from_secs(90))),
        at: Timestamp::UNIX_EPOCH,
    }
}

fn entry(subject: Subject, outcome: Outcome<'_>, second: i64) -> Entry {
    let time = Timestamp::from_second(second).unwrap();
    Entry::new(&verdict(subject), outcome, time, "0.1.0")
}

fn answer(entries: Vec<Entry>) -> WhyAnswer {
    WhyAnswer { what: "x".to_owned(), found: SearchResult { entries, ..SearchResult::default() } }
}

#[test]
fn removed_container_is_shown_with_rule_numbers_and_logs() {
    let log = "/var/log/pods/default_web-node_u1/main/0.log";
    let link = format!("/var/log/containers/web-node_default_main-{ID}.log");
    let entries = vec![
        entry(Subject::Container(ID.into()), Outcome::Removed, 1000),
        entry(Subject::LogLink(link.clone().into()), Outcome::Removed, 1000),
        entry(Subject::ContainerLog(log.into()), Outcome::Removed, 999),
    ];
    let text = answer_text(&answer(entries), Timestamp::from_second(1180).unwrap());
    assert_eq!(
        text,
        format!(
            "container main (4f6c0e1d2a3b4) of pod default/web-node was removed 3m ago, at 1970-01-01 00:16:40 UTC: \
             dead instance 2 of 2 of its container, counted from the newest; 1 is kept.\n\
             \x20 rule:  per-container-cap: cap 1, position 2, instances 2, age 1m30s\n\
             \x20 id:    {ID}\n\
             \x20 with:  {log}\n\
             \x20 with:  {link}\n"
        )
    );
}

#[test]
fn removal_in_the_future_is_shown_as_just_now() {
    let entries = vec![entry(Subject::Container(ID.into()), Outcome::Removed, 1_000_000)];
    let text = answer_text(&answer(entries), Timestamp::from_second(1180).unwrap());
    assert!(text.contains(" was removed 0s ago, at 1970-01-12 13:46:40 UTC: "), "{text}");
}

#[test]
fn removal_in_progress_at_a_kill_is_shown() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join(JOURNAL);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _inside = runtime.enter();
    let open = || {
        let segments = Arc::new(HostSegments::new(place.clone()));
        let clock = Arc::new(VirtualClock::starting_at(Timestamp::UNIX_EPOCH));
        DiskJournal::new(segments, clock, "0.1.0", SMALLEST)
    };
    let killed = open();
    drop(killed.begun(&verdict(Subject::Container(ID.into()))));
    killed.sync();
    std::mem::forget(killed);
    let query_why =
        || answer_text(&from_files(place.clone(), "main", 10).unwrap(), Timestamp::UNIX_EPOCH);
    let text = query_why();
    let expected = " of pod default/web-node was being removed, with an unknown outcome, ";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("\n  error: the process ended before the answer\n"), "{text}");
    let next = open();
    for left in next.take_unfinished() {
        next.settle(left, EntryOutcome::Removed, "");
    }
    drop(next);
    let text = query_why();
    assert!(text.contains(" of pod default/web-node was removed 0s ago"), "{text}");
    assert!(text.contains(", foundGone after a restart\n"), "{text}");
    assert_eq!(text.matches("\n  id:").count(), 1, "{text}");
}

#[test]
fn link_is_grouped_with_its_container_and_failure_stands_alone() {
    let other = "ff6c0e1d2a3b4c5d6e7f4f6c0e1d2a3b4c5d6e7f4f6c0e1d2a3b4c5d6e7fabcd";
    let link = format!("/links/web_default_main-{other}.log");
    let entries = vec![
        entry(Subject::Container(ID.into()), Outcome::Failed("busy\u{1b}[2J"), 1000),
        entry(Subject::LogLink(link.into()), Outcome::Removed, 1000),
    ];
    let text = answer_text(&answer(entries), Timestamp::from_second(1001).unwrap());
    assert_eq!(text.matches("\n  id:").count(), 2, "{text}");
    assert!(text.contains("could not be removed 1s ago"), "{text}");
    assert!(text.contains(": reason for its removal: "), "not the reason of the failure: {text}");
    assert!(text.contains("  error: busy [2J\n"), "{text}");
}

#[test]
fn journal_is_read_from_disk_when_no_agent_runs() {
    let root = tempfile::tempdir().unwrap();
    let segments = HostSegments::new(root.path().join(JOURNAL));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _inside = runtime.enter();
    let clock = Arc::new(VirtualClock::new());
    let journal = DiskJournal::new(Arc::new(segments), clock, "0.1.0", SMALLEST);
    journal.record(&verdict(Subject::Container(ID.into())), Outcome::Removed);
    journal.sync();
    let args = |what: &str, output| Args {
        place: Place { root_dir: root.path().to_owned() },
        what: what.to_owned(),
        limit: 20,
        output,
    };
    let query_why = |what: &str, output| {
        let (mut out, args) = (Vec::new(), args(what, output));
        let agent = args.place.agent();
        let requested = runtime.block_on(why(&agent, &args, Timestamp::UNIX_EPOCH, &mut out));
        (String::from_utf8(out).unwrap(), requested.map_err(|error| error.to_string()))
    };
    for what in [ID, "4f6c", "main", "web-node", "default/web", "default/web-node/main"] {
        let (text, requested) = query_why(what, None);
        assert_eq!(requested, Ok(()), "{what}");
        assert!(
            text.starts_with("container main (4f6c0e1d2a3b4) of pod default/web-node was removed")
        );
    }
    let (text, _) = query_why("main", Some(Output::Json));
    assert!(text.contains("\"stillThere\": null"), "unknown without an agent: {text}");
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["entries"][0]["rule"], "per-container-cap");
    assert_eq!(value["entries"][0]["detail"]["age"], "1m30s");
    let (text, requested) = query_why("absent", None);
    let message = requested.unwrap_err();
    assert!(
        text.is_empty() && message.starts_with("nothing called \"absent\" was removed"),
        "{message}"
    );
}

// behaviour: GC-107
#[test]
fn existing_items_are_shown_with_their_plan_and_its_problems() {
    let item = GcItem {
        kind: "container".to_owned(),
        id: ID.to_owned(),
        name: "main".to_owned(),
        pod: Some("default/web".to_owned()),
        pod_uid: None,
        verdict: GcVerdict::Keep,
        rule: "running".to_owned(),
        detail: journal::Inputs::default(),
    };
    let there = "\n  container main (4f6c0e1d2a3b4) of pod default/web exists and is kept: it runs (running)";
    let gap = "; some items could not be listed: the disk is on fire";
    let unseen = "; existing items are unknown: the disk is on fire";
    let rows = [
        ("main", None, there.to_owned(), Some(1)),
        ("main", Some("the disk is on\u{1b}fire"), format!("{gap}{there}"), Some(1)),
        ("other", None, String::new(), Some(0)),
        ("other", Some("the disk is on fire"), unseen.to_owned(), None),
    ];
    for (what, problem, expected, reported) in rows {
        let plan = GcPlan {
            generated_at: Timestamp::UNIX_EPOCH,
            source: server::wire::GcSource::Agent,
            policy: journal::Inputs::default(),
            items: vec![item.clone()],
            warnings: Vec::new(),
            problems: problem.into_iter().map(str::to_owned).collect(),
        };
        let there = Existing::of_plan(plan, what);
        assert_eq!(there.items.as_ref().map(Vec::len), reported, "{what}");
        let back = [
            (None, "it has no entries"),
            (Timestamp::from_second(1000).ok(), "to 1970-01-01 00:16:40 UTC"),
        ];
        for (since, to) in back {
            let found = SearchResult { since, ..SearchResult::default() };
            let requested = WhyAnswer { what: what.to_owned(), found };
            let head = format!("nothing called {what:?} was removed");
            let begin = format!("{head}, as far as the journal goes back ({to})");
            assert_eq!(unknown(&head, &requested, &there), begin + &expected);
        }
    }
}

#[tokio::test]
async fn missing_journal_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    let place = Place { root_dir: root.path().join("nope") };
    let args = Args { place, what: "web".to_owned(), limit: 20, output: None };
    let mut out = Vec::new();
    let agent = args.place.agent();
    let requested = why(&agent, &args, Timestamp::UNIX_EPOCH, &mut out).await;
    let journal = root.path().join("nope/ferrolet/journal");
    assert_eq!(
        requested.unwrap_err().to_string(),
        format!("there is no journal in {}, and no agent runs there", journal.display())
    );
    assert!(out.is_empty());
}

// behaviour: GC-115
#[test]
fn items_removed_together_are_one_group_with_the_pod_name() {
    let gone = |subject: Subject, name: &str, second: i64| {
        let detail = Detail::default().with("pod", Input::Text("gone".to_owned()));
        let verdict =
            Verdict { rule: "pod-is-gone", name: name.into(), detail, ..verdict(subject) };
        let time = Timestamp::from_second(second).unwrap();
        Entry::new(&verdict, Outcome::Removed, time, "0.1.0")
    };
    let only_uid = |entry: Entry| Entry { pod: None, ..entry };
    let entries = vec![
        only_uid(gone(Subject::PodLogs("/var/log/pods/default_web-node_u1".into()), "", 1002)),
        gone(Subject::Sandbox("5aba".into()), "", 1001),
        gone(Subject::Container(ID.into()), "main", 1000),
        only_uid(gone(Subject::Container("c0ffee".into()), "side", 100)),
    ];
    let text = answer_text(&answer(entries), Timestamp::from_second(1182).unwrap());
    assert_eq!(
        text,
        "1 container, 1 log, 1 sandbox of pod default/web-node were removed 3m ago, at 1970-01-01 00:16:42 UTC: its pod is gone.
  rule:  pod-is-gone: pod gone
  log /var/log/pods/default_web-node_u1
  sandbox 5aba
  container main (4f6c0e1d2a3b4)
container side (c0ffee) of pod default/web-node was removed 18m ago, at 1970-01-01 00:01:40 UTC: its pod is gone.
  rule:  pod-is-gone: pod gone
  id:    c0ffee
"
    );
}
