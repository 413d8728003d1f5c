//! A panic in the work for one pod is the failure of that pod alone.

use std::path::Path;
use std::time::Duration;

use ferrolet::wiring::Agent;
use model::cgroup::CgroupName;
use model::ids::PodName;
use model::observed::Container;
use model::ports::events::EventType;
use testkit::cluster::MemoryPods;
use testkit::runtime::{Fault, Method, Rule};

use crate::cluster;
use crate::harness::Harness;

const IMAGE: &str = "ferrolet.test/workload:1";

/// Why a static pod is rejected that is too large for the node.
const REFUSED: &str = "UnexpectedAdmissionError";

/// The ports of an agent of a cluster, whose work for one pod panics. Another pod runs at the same
/// time.
struct Bench {
    harness: Harness,
    api: MemoryPods,
}

/// A step for a pod, and how a test makes it panic.
struct Case {
    /// Its name in metrics and events.
    step: &'static str,
    /// The pod's name in events.
    pod: &'static str,
    /// Makes the pod reach the step, which then panics each time.
    breaks: fn(&Bench),
    /// Whether the pod has recovered.
    has_recovered: fn(&Bench, &Agent) -> bool,
}

const CASES: [Case; 6] = [
    Case {
        step: "pod_worker",
        pod: "late-node",
        breaks: |bench| {
            let rule = Rule::on(Method::RunPodSandbox, Fault::panic()).object("default/late-node");
            bench.harness.runtime.inject(rule);
            bench.harness.write_manifest("late", "Always", "[sleep, forever]");
        },
        has_recovered: |bench, _| bench.harness.running("late").len() == 1,
    },
    Case {
        step: "sync_loop",
        pod: "large-node",
        breaks: |bench| {
            bench.harness.events.panic_on(Some(("large-node", REFUSED)));
            let container = format!(
                "{{name: main, image: \"{IMAGE}\", resources: {{requests: {{cpu: \"3\"}}}}}}"
            );
            bench.harness.write_spec("large", &format!("  containers: [{container}]\n"));
        },
        has_recovered: |_, agent| {
            let pods = agent.pods().pods().into_iter();
            let mut large =
                pods.filter(|one| one.pod.metadata.name.as_deref() == Some("large-node"));
            let status = large.next().and_then(|one| one.status);
            status.is_some_and(|status| status.reason.as_deref() == Some(REFUSED))
        },
    },
    Case {
        step: "relist",
        pod: "web-node",
        breaks: |bench| {
            let web = bench.web();
            let rule = Rule::on(Method::ContainerStatus, Fault::panic()).object(web.id.as_str());
            bench.harness.runtime.inject(rule);
            bench.harness.runtime.kill_container(&web.id, 1);
        },
        has_recovered: |bench, _| bench.harness.running("web").len() == 1,
    },
    Case {
        step: "status_write",
        pod: "api",
        breaks: |bench| {
            bench.api.panic_on(["PATCH default/api"]);
            bench.api.make(cluster::sleeper("api"));
        },
        has_recovered: |bench, _| {
            let status = cluster::status(&bench.api, "api");
            status.is_some_and(|status| status.phase.as_deref() == Some("Running"))
        },
    },
    Case {
        step: "mirror_pod",
        pod: "late-node",
        breaks: |bench| {
            bench.api.panic_on(["POST default/late-node"]);
            bench.harness.write_manifest("late", "Always", "[sleep, forever]");
        },
        has_recovered: |bench, _| bench.has_mirror("late-node"),
    },
    Case {
        step: "container_gc",
        pod: "web-node",
        breaks: |bench| {
            let id = bench.web().id;
            let rule = Rule::on(Method::RemoveContainer, Fault::panic()).object(id.as_str());
            bench.harness.runtime.inject(rule);
            bench.harness.remove_manifest("web");
        },
        has_recovered: |bench, _| {
            let sandboxes = bench.harness.runtime.sandboxes();
            sandboxes.iter().all(|sandbox| &*sandbox.pod.name != "web-node")
        },
    },
];

/// How many panics were counted.
fn panics(harness: &Harness, step: &str) -> u64 {
    let metrics = harness.metrics();
    let start = format!("ferrolet_pod_panics_total{{step=\"{step}\"}} ");
    let count = metrics.lines().find_map(|line| line.strip_prefix(&start));
    count.and_then(|count| count.parse().ok()).expect("panics are counted")
}

impl Bench {
    fn web(&self) -> Container {
        self.harness.running("web").pop().expect("web runs")
    }

    fn has_mirror(&self, name: &str) -> bool {
        self.api.pod(&PodName::new("default", name)).is_some()
    }

    fn panics(&self, step: &str) -> u64 {
        panics(&self.harness, step)
    }

    /// Waits until a step has panicked and was retried.
    async fn panics_again(&self, step: &str) {
        let again = async {
            while self.panics(step) < 3 {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let again = tokio::time::timeout(Duration::from_mins(5), again).await;
        assert!(again.is_ok(), "{step} panicked {} times", self.panics(step));
    }

    /// Waits until the other pod is synced: its dead container is restarted, and its mirror comes back.
    async fn other_is_looked_after(&self) {
        let before = self.harness.one_runs("other").await;
        assert!(self.harness.runtime.kill_container(&before.id, 1));
        let restarted = |harness: &Harness| {
            harness.running("other").into_iter().find(|container| container.id != before.id)
        };
        self.harness.until("the other pod is restarted", restarted).await;
        self.api.delete(&PodName::new("default", "other-node"), Duration::ZERO);
        let again = |_: &Harness| self.has_mirror("other-node").then_some(());
        self.harness.until("the mirror of the other pod is back", again).await;
    }
}

async fn panic_is_the_failure_of_its_pod(case: &Case) {
    let Case { step, pod, breaks, has_recovered } = case;
    let (mut harness, api) = Harness::in_cluster();
    harness.allocatable = vec![("cpu", "2")];
    for name in ["web", "other"] {
        harness.write_manifest(name, "Always", "[sleep, forever]");
    }
    let mut agent = harness.start();
    let bench = Bench { harness, api };
    for name in ["web", "other"] {
        bench.harness.one_runs(name).await;
        let mirror = format!("{name}-node");
        let there = |_: &Harness| bench.has_mirror(&mirror).then_some(());
        bench.harness.until("it has a mirror", there).await;
    }
    breaks(&bench);
    bench.panics_again(step).await;
    bench.other_is_looked_after().await;
    // Its back-off grows, except for periodic steps.
    let before = bench.panics(step);
    tokio::time::sleep(Duration::from_mins(1)).await;
    let in_a_minute = bench.panics(step) - before;
    assert!(in_a_minute <= 12, "{step}: {in_a_minute} panics in a minute");
    assert!(!has_recovered(&bench, &agent), "{step}: it cannot have recovered");
    let events = bench.harness.events.all().into_iter();
    let events: Vec<_> = events.filter(|event| event.reason == "InternalError").collect();
    assert!(!events.is_empty(), "{step}");
    for event in events {
        assert_eq!((event.kind, &*event.pod.name), (EventType::Warning, *pod), "{step}");
        let text = format!("Internal error in {step}, retrying; see the log of the agent");
        assert_eq!(event.message, text);
    }
    bench.harness.runtime.clear_faults();
    bench.api.panic_on([]);
    bench.harness.events.panic_on(None);
    let recovered = |_: &Harness| has_recovered(&bench, &agent).then_some(());
    bench.harness.until(&format!("{step}: the pod recovers"), recovered).await;
    let ended = tokio::time::timeout(Duration::from_mins(2), agent.task_ended()).await;
    assert!(ended.is_err(), "{step}: {ended:?}");
    bench.other_is_looked_after().await;
}

// behaviour: WRK-38
#[tokio::test(start_paused = true)]
async fn panic_in_any_step_for_a_pod_is_the_failure_of_that_pod() {
    for case in &CASES {
        panic_is_the_failure_of_its_pod(case).await;
    }
}

/// The first of two pods that are gone causes panics; the second is cleaned up.
async fn panic_leaves_the_next_in_turn(
    harness: &Harness,
    step: &str,
    is_there: [&dyn Fn() -> bool; 2],
) {
    harness.write_manifest("web", "Always", "[sleep, forever]");
    let mut agent = harness.start();
    harness.one_runs("web").await;
    harness.until("the other pod is cleaned up", |_| (!is_there[1]()).then_some(())).await;
    harness.until("it is retried", |_| (panics(harness, step) >= 2).then_some(())).await;
    assert!(is_there[0](), "{step}: it cannot be removed");
    let web = harness.one_runs("web").await;
    assert!(harness.runtime.kill_container(&web.id, 1));
    let restarted =
        |harness: &Harness| harness.running("web").into_iter().find(|one| one.id != web.id);
    harness.until("a dead container is restarted", restarted).await;
    harness.files.panic_on_removal(None);
    harness.cgroups.panic_on_removal(None);
    harness.until(&format!("{step}: it is removed"), |_| (!is_there[0]()).then_some(())).await;
    let ended = tokio::time::timeout(Duration::from_mins(2), agent.task_ended()).await;
    assert!(ended.is_err(), "{step}: {ended:?}");
}

// behaviour: WRK-38
#[tokio::test(start_paused = true)]
async fn panic_in_directory_removal_is_retried_and_delays_nothing() {
    let harness = Harness::new();
    let [first, other] = ["a", "b"].map(|uid| format!("/var/lib/kubelet/pods/{uid}"));
    for directory in [&first, &other] {
        harness.files.write(format!("{directory}/etc-hosts"), "text");
    }
    harness.files.panic_on_removal(Some(Path::new(&first)));
    let is_there = |directory: &str| harness.files.mode(directory).is_some();
    let is_there: [&dyn Fn() -> bool; 2] = [&|| is_there(&first), &|| is_there(&other)];
    panic_leaves_the_next_in_turn(&harness, "sync_loop", is_there).await;
}

// behaviour: WRK-38
#[tokio::test(start_paused = true)]
async fn panic_in_cgroup_removal_is_retried_and_delays_nothing() {
    let harness = Harness::new();
    let [first, other] = ["a", "b"].map(|uid| {
        let name = CgroupName::parse(&format!("/kubepods/besteffort/pod{uid}"));
        name.expect("a valid cgroup name")
    });
    for name in [&first, &other] {
        harness.cgroups.make(name);
    }
    harness.cgroups.panic_on_removal(Some(&first));
    let is_there = |name: &CgroupName| harness.cgroups.all().contains_key(name);
    let is_there: [&dyn Fn() -> bool; 2] = [&|| is_there(&first), &|| is_there(&other)];
    panic_leaves_the_next_in_turn(&harness, "cgroup_sweep", is_there).await;
}
