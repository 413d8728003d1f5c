//! Which version of a manifest runs when the newest one cannot.

use std::io::ErrorKind;
use std::time::Duration;

use ferrolet::wiring::Agent;
use model::observed::Container;
use model::ports::files::{HostFiles as _, draft_of};
use testkit::http::Page;

use crate::harness::Harness;

const URL: &str = "http://pods.example/list";
const COPIES: &str = "/var/lib/kubelet/ferrolet/state/manifests";
const MAIN: &str =
    "  containers: [{name: main, image: \"ferrolet.test/workload:1\", args: [sleep, forever]}]\n";
const NOT_SUPPORTED: [(&str, &str); 3] = [
    ("readinessGates: [{conditionType: x}]", "not supported: spec.readinessGates"),
    (
        "securityContext: {sysctls: [{name: net.core.somaxconn, value: '9'}]}",
        "forbidden sysctl: \"net.core.somaxconn\" not allowlisted",
    ),
    ("os: {name: windows}", "Failed to admit pod as the OS field doesn't match node OS"),
];

/// Waits until a manifest is refused with a message while its last good version stays.
async fn refused(harness: &Harness, agent: &Agent, message: &str) {
    let is_so = |_: &Harness| {
        let refused = agent.pods().refused();
        refused.iter().any(|one| one.message.contains(message) && one.last_good_stays).then_some(())
    };
    harness.until(message, is_so).await;
}

/// Waits for several syncs, and checks that the container was not replaced.
async fn stays(harness: &Harness, pod: &str, container: &Container) {
    tokio::time::sleep(Duration::from_mins(12)).await;
    assert_eq!(harness.one_runs(pod).await.id, container.id);
}

// behaviour: SRC-67
#[tokio::test(start_paused = true)]
async fn unsupported_edit_keeps_the_container_across_restarts() {
    let harness = Harness::new();
    harness.write_manifest("web", "Always", "[sleep, forever]");
    let mut agent = harness.start();
    let before = harness.one_runs("web").await;
    for (field, message) in NOT_SUPPORTED {
        harness.write_spec("web", &format!("  {field}\n{MAIN}"));
        refused(&harness, &agent, message).await;
        stays(&harness, "web", &before).await;
        agent.stop().await;
        agent = harness.start();
        refused(&harness, &agent, message).await;
        stays(&harness, "web", &before).await;
    }
    // It has a worker, so it is restarted.
    assert!(harness.runtime.kill_container(&before.id, 1));
    let restarted = |harness: &Harness| {
        let running = harness.running("web");
        running.into_iter().find(|now| now.id != before.id && now.pod_uid == before.pod_uid)
    };
    let before = harness.until("it is restarted", restarted).await;
    harness.write_manifest("web", "OnFailure", "[sleep, forever]");
    harness.replaced("web", &before).await;
    assert!(agent.pods().refused().is_empty());
    agent.stop().await;
}

// behaviour: SRC-67
#[tokio::test(start_paused = true)]
async fn unsupported_edit_of_a_page_keeps_the_containers_across_restarts() {
    let page = |field: &str| {
        let pod = |name: &str, field: &str| {
            let spec = format!("  {field}\n{MAIN}").replace("\n  ", "\n    ");
            format!("- metadata: {{name: {name}}}\n  spec:\n  {spec}")
        };
        let items = pod("web", field) + &pod("other", "");
        Page::ok(format!("apiVersion: v1\nkind: PodList\nitems:\n{items}"))
    };
    let mut harness = Harness::new();
    harness.url = Some(URL);
    harness.web.put(URL, page(""));
    let agent = harness.start();
    let (web, other) = (harness.one_runs("web").await, harness.one_runs("other").await);
    let (field, message) = NOT_SUPPORTED[0];
    harness.web.put(URL, page(field));
    refused(&harness, &agent, message).await;
    agent.stop().await;
    let agent = harness.start();
    refused(&harness, &agent, message).await;
    stays(&harness, "web", &web).await;
    stays(&harness, "other", &other).await;
    agent.stop().await;
}

const PATH: &str = "/manifests/web.yaml";

fn version(metadata: &str, image: &str) -> String {
    let main = MAIN.replace("workload:1", image);
    format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: web{metadata}}}\nspec:\n{main}")
}

/// A node whose pod runs in a second version, of which no copy could be stored; its agent is stopped, and its
/// manifest is invalid.
async fn outdated(metadata: &str, broken: &str) -> (Harness, Container) {
    let harness = Harness::new();
    harness.files.write(PATH, version(metadata, "workload:1"));
    let agent = harness.start();
    let first = harness.one_runs("web").await;
    let names = harness.files.list(COPIES.as_ref()).await.expect("copies are stored");
    harness.files.fail(format!("{COPIES}/{}", draft_of(&names[0])), ErrorKind::StorageFull);
    harness.runtime.add_image(&testkit::runtime::RemoteImage::new("ferrolet.test/workload:2"));
    harness.files.write(PATH, version(metadata, "workload:2"));
    let second = |harness: &Harness| {
        let running = harness.running("web");
        (running.len() == 1 && running[0].id != first.id).then(|| running[0].clone())
    };
    let second = harness.until("the second version runs", second).await;
    harness.files.write(PATH, broken);
    agent.stop().await;
    (harness, second)
}

// behaviour: SRC-68
#[tokio::test(start_paused = true)]
async fn older_copy_does_not_end_a_newer_pod_whose_containers_run() {
    let unsupported = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec:\n  {}\n{MAIN}",
        NOT_SUPPORTED[0].0
    );
    for metadata in ["", ", uid: fixed"] {
        for broken in ["kind: [", &unsupported] {
            let (harness, second) = outdated(metadata, broken).await;
            let agent = harness.start();
            stays(&harness, "web", &second).await;
            // Once the pod has ended, the stored copy is used.
            assert!(harness.runtime.kill_container(&second.id, 1));
            let first = |harness: &Harness| {
                let mut running = harness.running("web");
                (running.len() == 1 && running[0].id != second.id).then(|| running.remove(0))
            };
            harness.until("the stored version runs", first).await;
            agent.stop().await;
        }
    }
}

// behaviour: SRC-68
#[tokio::test(start_paused = true)]
async fn newer_pod_is_replaced_when_its_manifest_can_be_used_again() {
    let (harness, second) = outdated("", "kind: [").await;
    let agent = harness.start();
    stays(&harness, "web", &second).await;
    // Also if it is the same as the copy.
    harness.files.write(PATH, version("", "workload:1"));
    let first = harness.replaced("web", &second).await;
    harness.write_manifest("web", "OnFailure", "[sleep, forever]");
    harness.replaced("web", &first).await;
    agent.stop().await;
    // The same if the manifest was corrected while no agent ran.
    let (harness, second) = outdated("", "kind: [").await;
    harness.write_manifest("web", "OnFailure", "[sleep, forever]");
    let agent = harness.start();
    harness.replaced("web", &second).await;
    agent.stop().await;
}
