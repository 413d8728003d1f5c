//! Which version of a manifest runs when the newest one cannot.

use std::io::ErrorKind;
use std::time::Duration;

use ferrolet::wiring::Agent;
use model::observed::Container;
use model::ports::files::{HostFiles as _, draft_of};
use testkit::http::Page;

use crate::world::World;

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
async fn refused(world: &World, agent: &Agent, message: &str) {
    let is_so = |_: &World| {
        let refused = agent.pods().refused();
        refused.iter().any(|one| one.message.contains(message) && one.last_good_stays).then_some(())
    };
    world.until(message, is_so).await;
}

/// Gives the agent time for several syncs; the container stays the same.
async fn stays(world: &World, pod: &str, container: &Container) {
    tokio::time::sleep(Duration::from_mins(12)).await;
    assert_eq!(world.one_runs(pod).await.id, container.id);
}

// behaviour: SRC-67
#[tokio::test(start_paused = true)]
async fn unsupported_edit_keeps_the_container_also_over_a_restart() {
    let world = World::new();
    world.write_manifest("web", "Always", "[sleep, forever]");
    let mut agent = world.start();
    let before = world.one_runs("web").await;
    for (field, message) in NOT_SUPPORTED {
        world.write_spec("web", &format!("  {field}\n{MAIN}"));
        refused(&world, &agent, message).await;
        stays(&world, "web", &before).await;
        agent.stop().await;
        agent = world.start();
        refused(&world, &agent, message).await;
        stays(&world, "web", &before).await;
    }
    // It has a worker, so it is restarted.
    assert!(world.runtime.kill_container(&before.id, 1));
    let restarted = |world: &World| {
        let running = world.running("web");
        running.into_iter().find(|now| now.id != before.id && now.pod_uid == before.pod_uid)
    };
    let before = world.until("it is restarted", restarted).await;
    world.write_manifest("web", "OnFailure", "[sleep, forever]");
    world.replaced("web", &before).await;
    assert!(agent.pods().refused().is_empty());
    agent.stop().await;
}

// behaviour: SRC-67
#[tokio::test(start_paused = true)]
async fn unsupported_edit_of_a_page_keeps_the_containers_also_over_a_restart() {
    let page = |field: &str| {
        let pod = |name: &str, field: &str| {
            let spec = format!("  {field}\n{MAIN}").replace("\n  ", "\n    ");
            format!("- metadata: {{name: {name}}}\n  spec:\n  {spec}")
        };
        let items = pod("web", field) + &pod("other", "");
        Page::ok(format!("apiVersion: v1\nkind: PodList\nitems:\n{items}"))
    };
    let mut world = World::new();
    world.url = Some(URL);
    world.web.put(URL, page(""));
    let agent = world.start();
    let (web, other) = (world.one_runs("web").await, world.one_runs("other").await);
    let (field, message) = NOT_SUPPORTED[0];
    world.web.put(URL, page(field));
    refused(&world, &agent, message).await;
    agent.stop().await;
    let agent = world.start();
    refused(&world, &agent, message).await;
    stays(&world, "web", &web).await;
    stays(&world, "other", &other).await;
    agent.stop().await;
}

const PATH: &str = "/manifests/web.yaml";

fn version(metadata: &str, image: &str) -> String {
    let main = MAIN.replace("workload:1", image);
    format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: web{metadata}}}\nspec:\n{main}")
}

/// A node whose pod runs in a second version, of which no copy could be stored; its agent is stopped, and its
/// manifest is invalid.
async fn outdated(metadata: &str, broken: &str) -> (World, Container) {
    let world = World::new();
    world.files.write(PATH, version(metadata, "workload:1"));
    let agent = world.start();
    let first = world.one_runs("web").await;
    let names = world.files.list(COPIES.as_ref()).await.expect("copies are stored");
    world.files.fail(format!("{COPIES}/{}", draft_of(&names[0])), ErrorKind::StorageFull);
    world.runtime.add_image(&testkit::runtime::RemoteImage::new("ferrolet.test/workload:2"));
    world.files.write(PATH, version(metadata, "workload:2"));
    let second = |world: &World| {
        let running = world.running("web");
        (running.len() == 1 && running[0].id != first.id).then(|| running[0].clone())
    };
    let second = world.until("the second version runs", second).await;
    world.files.write(PATH, broken);
    agent.stop().await;
    (world, second)
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
            let (world, second) = outdated(metadata, broken).await;
            let agent = world.start();
            stays(&world, "web", &second).await;
            // Once the pod has ended, the stored copy is used.
            assert!(world.runtime.kill_container(&second.id, 1));
            let first = |world: &World| {
                let mut running = world.running("web");
                (running.len() == 1 && running[0].id != second.id).then(|| running.remove(0))
            };
            world.until("the stored version runs", first).await;
            agent.stop().await;
        }
    }
}

// behaviour: SRC-68
#[tokio::test(start_paused = true)]
async fn newer_pod_is_replaced_when_its_manifest_can_be_used_again() {
    let (world, second) = outdated("", "kind: [").await;
    let agent = world.start();
    stays(&world, "web", &second).await;
    // Also if it is the same as the copy.
    world.files.write(PATH, version("", "workload:1"));
    let first = world.replaced("web", &second).await;
    world.write_manifest("web", "OnFailure", "[sleep, forever]");
    world.replaced("web", &first).await;
    agent.stop().await;
    // The same if the manifest was corrected while no agent ran.
    let (world, second) = outdated("", "kind: [").await;
    world.write_manifest("web", "OnFailure", "[sleep, forever]");
    let agent = world.start();
    world.replaced("web", &second).await;
    agent.stop().await;
}
