//! The commands that query an agent, with a server of the test on a real socket.
#![allow(clippy::disallowed_methods, reason = "containers write their logs to real files")]
#![allow(clippy::unwrap_used, reason = "tests, helpers included")]

mod garbage;
mod node;
mod streams;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Parser as _;
use cli::commands::display::TableLines;
use cli::commands::pods_table::Layout;
use cli::commands::{describe, events, gc, get_node, get_pods, logs, watch_pods};
use k8s_openapi::List;
use k8s_openapi::api::core::v1::Pod;
use model::ids::PodName;
use model::ports::clock::WallClock as _;
use model::ports::incidents::{Incident, IncidentKind};
use model::verdict::{Detail, Input, Subject};
use server::wire::{GcDone, GcItem, GcLine, GcVerdict};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use self::garbage::item;
use self::node::Node;

/// The time limit of every wait.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug, clap::Parser)]
struct GetPods {
    #[command(flatten)]
    args: get_pods::Args,
}

#[derive(Debug, clap::Parser)]
struct WhyOutput {
    #[command(flatten)]
    args: gc::why::Args,
}

#[derive(Debug, clap::Parser)]
struct History {
    #[command(flatten)]
    args: cli::commands::why::Args,
}

#[derive(Debug, clap::Parser)]
struct Logs {
    #[command(flatten)]
    args: logs::Args,
}

#[derive(Debug, clap::Parser)]
struct Describe {
    #[command(flatten)]
    args: describe::Args,
}

#[derive(Debug, clap::Parser)]
struct Events {
    #[command(flatten)]
    args: events::Args,
}

#[derive(Debug, clap::Parser)]
struct GetNode {
    #[command(flatten)]
    args: get_node::Args,
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    ["command"].into_iter().chain(line.split(' ').filter(|word| !word.is_empty()))
}

async fn get(node: &Node, line: &str) -> anyhow::Result<String> {
    let mut out = Vec::new();
    let args = GetPods::parse_from(words(line)).args;
    get_pods::get_pods(&node.client(), &args, node.clock.now(), &mut out).await?;
    Ok(String::from_utf8(out)?)
}

async fn read_logs(node: &Node, line: &str) -> Result<String, String> {
    let mut out = Vec::new();
    let args = Logs::parse_from(words(line)).args;
    let read = timeout(PATIENCE, logs::logs(&node.client(), &args, &mut out)).await;
    read.expect("an end in time").map_err(|error| format!("{error:#}"))?;
    Ok(String::from_utf8(out).unwrap())
}

/// A writer whose text can be read while more is written.
#[derive(Debug, Clone, Default)]
struct OutputBuffer(Arc<Mutex<Vec<u8>>>);

impl io::Write for OutputBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl OutputBuffer {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// Waits until the text meets a condition.
    async fn until(&self, wanted: impl Fn(&str) -> bool) {
        let waiting = async {
            while !wanted(&self.text()) {
                sleep(Duration::from_millis(5)).await;
            }
        };
        let seen = timeout(PATIENCE, waiting).await;
        assert!(seen.is_ok(), "{}", self.text());
    }
}

#[tokio::test]
async fn pods_are_listed_as_a_table_and_as_objects() {
    let node = Node::new();
    let _server = node.start();
    node.run("default", "web");
    node.run("kube-system", "dns");
    node.record_event("default", "web", "Started");
    let table = get(&node, "").await.unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 2, "{table}");
    let cells: Vec<&str> = lines[1].split_whitespace().collect();
    let expected = ["web", "1/1", "Running", "0", "10m", "10.0.0.7", "0s", "ago", "Started:"];
    assert_eq!(cells[..9], expected, "{table}");
    let all = get(&node, "-A").await.unwrap();
    let names: Vec<_> = all.lines().map(|line| line.split_whitespace().nth(1).unwrap()).collect();
    assert_eq!(names, ["NAME", "web", "dns"], "by namespace");
    let json: List<Pod> = serde_json::from_str(&get(&node, "-A -o json").await.unwrap()).unwrap();
    let text = get(&node, "-A -o yaml").await.unwrap();
    assert!(text.starts_with("apiVersion: v1\n") && text.contains("\nkind: PodList\n"), "{text}");
    let yaml: List<Pod> = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(json, yaml);
    assert_eq!(json.items, [node.pod("default", "web"), node.pod("kube-system", "dns")]);
}

#[tokio::test]
async fn missing_agent_error_names_the_socket() {
    let node = Node::new();
    let error = format!("{:#}", get(&node, "").await.unwrap_err());
    assert!(error.starts_with("no agent answers at /") && error.contains("agent.sock"), "{error}");
    drop(node.start());
    let error = format!("{:#}", get(&node, "").await.unwrap_err());
    assert!(error.starts_with("no agent answers at /"), "{error}");
}

#[tokio::test]
async fn pod_is_described_by_short_name_with_its_own_events() {
    let node = Node::new();
    let _server = node.start();
    node.run("default", "web-node");
    node.record_event("default", "web-node", "Started");
    node.record_event("default", "other", "Failed");
    let mut out = Vec::new();
    let args = Describe::parse_from(words("web")).args;
    describe::describe(&node.client(), &args, node.clock.now(), &mut out).await.unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with("Name:                web-node\n"), "{text}");
    assert!(text.contains("about Started") && !text.contains("Failed"), "{text}");
    let args = Describe::parse_from(words("absent")).args;
    let error = describe::describe(&node.client(), &args, node.clock.now(), &mut Vec::new()).await;
    assert_eq!(error.unwrap_err().to_string(), "pod \"absent\" not found");
}

#[tokio::test]
async fn refused_manifests_are_in_the_list_and_described() {
    let node = Node::new();
    let _server = node.start();
    node.run("default", "web-node");
    let list = get(&node, "-o json").await.unwrap();
    assert!(!list.contains("refused"), "{list}");
    node.refuse("/m/web.yaml", Some("default/web-node"));
    node.refuse("/m/new.yaml", None);
    node.refuse("/m/dns.yaml", Some("kube-system/dns-node"));
    let list: serde_json::Value =
        serde_json::from_str(&get(&node, "-o json").await.unwrap()).unwrap();
    let refused = list["refused"].as_array().unwrap();
    assert_eq!(refused.len(), 2, "the other namespace is not selected: {list:#}");
    assert_eq!(refused[0]["pod"], "default/web-node");
    let describe = async |line: &str| {
        let mut out = Vec::new();
        let args = Describe::parse_from(words(line)).args;
        describe::describe(&node.client(), &args, node.clock.now(), &mut out).await.unwrap();
        String::from_utf8(out).unwrap()
    };
    let text = describe("pod web").await;
    assert!(text.contains("/m/web.yaml was refused: spec: bad"), "{text}");
    let text = describe("new").await;
    assert!(text.contains("Refused") && text.contains("spec: bad"), "{text}");
}

#[tokio::test]
async fn pods_can_be_listed_by_name() {
    let node = Node::new();
    let _server = node.start();
    node.run("default", "web-node");
    node.run("default", "db-node");
    let table = get(&node, "web").await.unwrap();
    assert!(table.contains("web-node") && !table.contains("db-node"), "{table}");
    let error = get(&node, "other").await.unwrap_err().to_string();
    assert_eq!(error, "pod \"other\" not found");
}

#[tokio::test]
async fn following_a_log_reports_that_the_agent_stopped() {
    let node = Node::new();
    let server = node.start();
    node.run("default", "web-node");
    node.log("default", "web-node", "one");
    let seen = OutputBuffer::default();
    let (client, mut out) = (node.client(), seen.clone());
    let args = Logs::parse_from(words("web -f")).args;
    let following = timeout(PATIENCE, logs::logs(&client, &args, &mut out));
    let living = async {
        seen.until(|text| text == "one\n").await;
        drop(server);
    };
    let (ended, ()) = tokio::join!(following, living);
    let error = format!("{:#}", ended.expect("an end in time").unwrap_err());
    assert!(
        error.starts_with("the agent closed the connection early") && !error.contains("body"),
        "{error}"
    );
}

#[tokio::test]
async fn logs_are_read_by_options_and_followed_to_the_end() {
    let node = Node::new();
    let _server = node.start();
    node.run("default", "web-node");
    node.log("default", "web-node", "one");
    node.log("default", "web-node", "two");
    assert_eq!(read_logs(&node, "web").await.unwrap(), "one\ntwo\n");
    assert_eq!(read_logs(&node, "default/web --tail 1").await.unwrap(), "two\n");
    assert_eq!(read_logs(&node, "web -n default --tail 1").await.unwrap(), "two\n");
    let timed = read_logs(&node, "web --tail 1 --timestamps").await.unwrap();
    assert_eq!(timed, "2025-12-31T23:59:59.000000000Z two\n");
    assert_eq!(read_logs(&node, "web --since 1h").await.unwrap(), "one\ntwo\n");
    let error = read_logs(&node, "web --previous").await.unwrap_err();
    assert!(error.starts_with("previous terminated container \"main\""), "{error}");
    let seen = OutputBuffer::default();
    let (client, mut out) = (node.client(), seen.clone());
    let args = Logs::parse_from(words("web -f")).args;
    let following = timeout(PATIENCE, logs::logs(&client, &args, &mut out));
    let living = async {
        seen.until(|text| text == "one\ntwo\n").await;
        node.log("default", "web-node", "three");
        seen.until(|text| text == "one\ntwo\nthree\n").await;
        node.end("default", "web-node");
    };
    let (ended, ()) = tokio::join!(following, living);
    ended.expect("an end in time").unwrap();
}

#[tokio::test]
async fn watch_shows_changes_and_reconnects_to_a_new_agent() {
    let node = Node::new();
    let server = node.start();
    node.run("default", "web");
    let (out, notices) = (OutputBuffer::default(), OutputBuffer::default());
    let (stop, stopped) = oneshot::channel::<()>();
    let (client, args) = (node.client(), GetPods::parse_from(words("--watch")).args);
    let mut display = TableLines::new(out.clone(), notices.clone(), Layout::default());
    let stopped = async { drop(stopped.await) };
    let watching = watch_pods::watch_pods(&client, &args, &*node.clock, &mut display, stopped);
    let living = async {
        out.until(|text| text.lines().count() == 2).await;
        node.run("elsewhere", "hidden");
        node.end("default", "web");
        out.until(|text| text.contains("Error")).await;
        drop(server);
        notices.until(|text| text.contains("the connection to the agent is lost")).await;
        node.run("default", "db");
        node.remove("default", "web");
        let _server = node.start();
        out.until(|text| text.contains("Deleted") && text.contains("db")).await;
        stop.send(()).unwrap();
    };
    let (ended, ()) = tokio::join!(timeout(PATIENCE, watching), living);
    ended.expect("an end in time").unwrap();
    let text = out.text();
    assert!(text.lines().count() == 5 && !text.contains("hidden"), "{text}");
    assert!(notices.text().contains("the agent answers again"), "{}", notices.text());
}

async fn why(node: &Node, line: &str) -> Result<String, String> {
    let mut out = Vec::new();
    let args = WhyOutput::parse_from(words(line)).args;
    let requested = gc::why::why(&node.client(), &args, node.clock.now(), &mut out).await;
    requested.map_err(|error| format!("{error:#}"))?;
    Ok(String::from_utf8(out).unwrap())
}

#[tokio::test]
async fn gc_why_shows_removals_or_existing_items() {
    let node = Node::new();
    let _server = node.start();
    let mut verdict = testkit::wanted::removal(Subject::Container("0123456789abcdef0123".into()));
    verdict.name = "main".into();
    node.garbage.removed(&verdict);
    let there = item("container", "c0ffee0123456789", GcVerdict::Keep, "running", "{}");
    node.garbage.items.lock().unwrap().push(GcItem { name: "side car".to_owned(), ..there });
    for what in ["main", "0123456", "containerd://0123456789abcdef0123"] {
        let reported = why(&node, what).await.unwrap();
        assert!(
            reported.starts_with("container main (0123456789abc) was removed 0s ago"),
            "{reported}"
        );
    }
    let reported = why(&node, "c0ffee").await.unwrap_err();
    assert!(reported.ends_with("exists and is kept: it runs (running)"), "{reported}");
    let json: serde_json::Value =
        serde_json::from_str(&why(&node, "main -o json").await.unwrap()).unwrap();
    assert_eq!(json["stillThere"], serde_json::json!([]));
    assert_eq!(json["entries"][0]["name"], "main");
    assert_eq!(json["since"], json["entries"][0]["time"]);
    let reported = why(&node, "frog/toad?&x=1").await.unwrap_err();
    let nothing = "nothing called \"frog/toad?&x=1\" was removed, as far as the journal goes back (to 2026-01-01 00:0";
    assert!(reported.starts_with(nothing) && reported.ends_with(" UTC)"), "{reported}");
    node.garbage
        .problems
        .lock()
        .unwrap()
        .push("failed to list containers: disconnected".to_owned());
    let reported = why(&node, "frog").await.unwrap_err();
    let expected = "; existing items are unknown: failed to list containers: disconnected";
    assert!(reported.ends_with(expected), "{reported}");
    let json: serde_json::Value =
        serde_json::from_str(&why(&node, "main -o json").await.unwrap()).unwrap();
    assert_eq!(json["stillThere"], serde_json::Value::Null);
    assert_eq!(json["problems"], serde_json::json!([&expected[2..]]));
}

async fn history(node: &Node, line: &str) -> Result<String, String> {
    let mut out = Vec::new();
    let args = History::parse_from(words(line)).args;
    let requested =
        cli::commands::why::why(&node.client(), &args, node.clock.now(), &mut out).await;
    requested.map_err(|error| format!("{error:#}"))?;
    Ok(String::from_utf8(out).unwrap())
}

// behaviour: WHY-12, WHY-13
#[tokio::test]
async fn why_shows_incidents_among_removals_and_gc_why_shows_removals_alone() {
    let node = Node::new();
    let _server = node.start();
    let mut verdict = testkit::wanted::removal(Subject::Container("0123456789abcdef0123".into()));
    verdict.name = "main".into();
    node.garbage.removed(&verdict);
    let incident = Incident {
        kind: IncidentKind::Restart,
        pod: PodName::new("shop", "web"),
        uid: "u1".into(),
        container: "main".to_owned(),
        id: "c2".to_owned(),
        rule: "exit".into(),
        detail: Detail::default()
            .with("exitCode", Input::Number(1))
            .with("restartCount", Input::Number(4)),
        at: None,
    };
    node.garbage.happened(incident);
    let text = history(&node, "main").await.unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.contains(" container main restarted: exit code 1, restart 4\n"), "{text}");
    assert!(text.contains(" container main (0123456789abc) removed: "), "{text}");
    let text = history(&node, "main --limit 1").await.unwrap();
    assert_eq!(text.lines().last(), Some("There is more; --limit shows older lines."));
    let json: serde_json::Value =
        serde_json::from_str(&history(&node, "shop/web -o json").await.unwrap()).unwrap();
    assert_eq!(json["entries"][0]["kind"], "restart");
    assert_eq!(json["entries"][0]["detail"]["restartCount"], 4);
    let yaml = history(&node, "shop/web -o yaml").await.unwrap();
    assert!(yaml.contains("kind: restart") && yaml.contains("restartCount: 4"), "{yaml}");
    let removals = why(&node, "main").await.unwrap();
    assert!(removals.contains("was removed") && !removals.contains("restart"), "{removals}");
    let error = history(&node, "frog").await.unwrap_err();
    assert!(error.starts_with("nothing is recorded about \"frog\", as far as"), "{error}");
}

#[tokio::test]
async fn events_are_listed_for_all_pods_or_one() {
    let node = Node::new();
    let _server = node.start();
    node.run("default", "web");
    node.record_event("default", "web", "Started");
    node.record_event("default", "web-node", "Killing");
    node.record_event("shop", "web-2", "Pulled");
    let events = async |line: &str| {
        let (mut out, args) = (Vec::new(), Events::parse_from(words(line)).args);
        let listed = events::events(&node.client(), &args, node.clock.now(), &mut out).await;
        listed.map(|()| String::from_utf8(out).unwrap()).map_err(|error| error.to_string())
    };
    let text = events("").await.unwrap();
    let header = text.lines().next().unwrap().split("   ").collect::<Vec<_>>();
    assert_eq!(header[0], "LAST SEEN", "{text}");
    assert_eq!(text.lines().count(), 4, "{text}");
    assert!(text.contains("pod/default/web ") && text.contains("about Started"), "{text}");
    for (line, expected) in [("web", 2), ("default/web-node", 1), ("-n shop", 1), ("web-2", 1)] {
        let text = events(line).await.unwrap();
        assert_eq!(text.lines().count(), expected + 1, "{line}: {text}");
    }
    let json: serde_json::Value = serde_json::from_str(&events("-o json").await.unwrap()).unwrap();
    assert_eq!(json["items"][2]["reason"], "Pulled");
    assert_eq!(events("frog").await, Err("no events of pod \"frog\"".to_owned()));
}

#[tokio::test]
async fn node_is_shown_with_health_pods_and_version() {
    let node = Node::new();
    let _server = node.start();
    node.run("default", "web");
    let get = async |line: &str| {
        let (mut out, args) = (Vec::new(), GetNode::parse_from(words(line)).args);
        get_node::get_node(&node.client(), &args, &mut out).await.unwrap();
        String::from_utf8(out).unwrap()
    };
    let text = get("").await;
    assert!(text.contains("healthy") && text.contains("1 Running"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&get("-o json").await).unwrap();
    assert_eq!((&json["healthy"], &json["pods"]["Running"]), (&true.into(), &1.into()));
}

#[tokio::test]
async fn gc_plan_is_from_the_agent_and_names_the_alternative_without_one() {
    let node = Node::new();
    let error = gc::plan::from_agent(&node.client()).await.unwrap_err().to_string();
    assert!(error.contains("no agent answers") && error.contains("--container-runtime-endpoint"));
    let _server = node.start();
    let kept = item("image", "sha256:abc", GcVerdict::Keep, "image-pinned", r#"{"size":1}"#);
    node.garbage.items.lock().unwrap().push(kept.clone());
    let plan = gc::plan::from_agent(&node.client()).await.unwrap();
    assert_eq!(plan.items, [kept]);
}

#[tokio::test]
async fn gc_run_prints_every_step_and_fails_when_something_is_left() {
    let node = Node::new();
    let _server = node.start();
    let run = async |lines: Vec<GcLine>| {
        *node.garbage.lines.lock().unwrap() = lines;
        let mut out = Vec::new();
        let ended = gc::run::run_pass(&node.client(), None, &mut out).await;
        (String::from_utf8(out).unwrap(), ended.map_err(|error| error.to_string()))
    };
    let gone = item("container", "c1", GcVerdict::Remove, "pod-is-gone", "{}");
    let stuck = item("sandbox", "s1", GcVerdict::Remove, "pod-is-gone", "{}");
    let done = |removed: &[&str], failed: &[&str]| {
        let counts = |kinds: &[&str]| kinds.iter().map(|kind| ((*kind).to_owned(), 1)).collect();
        let (removed, failed) = (counts(removed), counts(failed));
        GcLine::Done(GcDone { removed, failed, ..GcDone::default() })
    };
    let removed = GcLine::Removed { item: gone.clone() };
    let (text, ended) = run(vec![removed.clone(), done(&["container"], &[])]).await;
    assert_eq!(
        text,
        "removed container main (c1) of pod default/web: its pod is gone (pod-is-gone)\n\
         removed 1 container\n"
    );
    assert_eq!(ended, Ok(()));
    let failed = GcLine::Failed { item: stuck, error: "busy".to_owned() };
    let (text, ended) = run(vec![failed, done(&[], &["sandbox"])]).await;
    assert_eq!(text, "not removed: sandbox s1 of pod default/web: busy\nremoved nothing\n");
    assert_eq!(ended, Err("could not remove 1 sandbox".to_owned()));
    let back = item("sandbox", "s1", GcVerdict::Keep, "pod-came-back", "{}");
    let (text, ended) = run(vec![GcLine::Kept { item: back }, done(&[], &[])]).await;
    assert_eq!(
        text,
        "kept sandbox s1 of pod default/web: its pod exists again (pod-came-back)\n\
         removed nothing\n"
    );
    assert_eq!(ended, Ok(()), "nothing is left that should be gone");
    let (_, ended) = run(vec![removed]).await;
    assert_eq!(ended, Err("the agent ended before the pass did".to_owned()));
    let kinds = |kind: &str, number| [(kind.to_owned(), number)].into();
    let (removed, failed) = (kinds("log", 2), kinds("container", 1));
    let last = GcDone { removed, failed, left_out: 3, ..GcDone::default() };
    let (text, ended) = run(vec![GcLine::Done(last)]).await;
    assert_eq!(text, "removed 2 logs (3 lines were left out, as they were read too slowly)\n");
    assert_eq!(ended, Err("could not remove 1 container".to_owned()));
}
