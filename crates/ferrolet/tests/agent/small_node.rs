//! A node that is too small for the requests of its pods, in random histories from seeds. Pods
//! are added, removed and resized; calls and cgroup writes fail, and agents are killed. At any time the
//! allocations of all pods fit on the node. In the end each pod has its requests, waits for them,
//! or was rejected.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ferrolet::wiring::Agent;
use k8s_openapi::api::core::v1::PodStatus;
use model::cgroup::{CgroupName, cpu};
use model::ids::ContainerId;
use model::observed::SandboxState;
use model::ports::runtime::Code;
use podspec::quantity::Quantity;
use testkit::crash_point::Moment;
use testkit::random::Random;
use testkit::runtime::{Fault, Method, Rule};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::crash::start_with_crash;
use crate::harness::Harness;

const SEEDS: u64 = 30;
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
/// The millicores and mebibytes of the node.
const CPU: i64 = 2000;
const MEMORY: i64 = 1024;
/// The time between two checks.
const TICK: Duration = Duration::from_millis(500);
/// Event reasons that must occur, in all histories together.
const REASONS: [&str; 5] = [
    "ResizeStarted",
    "ResizeCompleted",
    "ResizeDeferred",
    "Preempting",
    "UnexpectedAdmissionError",
];

/// The requests of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Requests {
    milli: i64,
    mebibytes: i64,
    /// Whether the resources are pod-level; otherwise they belong to the container.
    whole: bool,
    priority: Option<i64>,
}

impl Requests {
    fn any(random: &mut Random) -> Self {
        Self {
            milli: random.pick(&[125, 250, 500, 750, 1000, 1500]),
            mebibytes: random.pick(&[32, 64, 128, 256, 640]),
            whole: random.chance(40),
            priority: random.pick(&[None, Some(0), Some(1000), Some(2_000_001_000)]),
        }
    }

    /// Other amounts.
    fn changed(self, random: &mut Random) -> Self {
        Self { whole: self.whole, priority: self.priority, ..Self::any(random) }
    }

    fn manifest(self, name: &str) -> String {
        let Self { milli, mebibytes, whole, priority } = self;
        let resources = format!("{{requests: {{cpu: {milli}m, memory: {mebibytes}Mi}}}}");
        let (of_pod, of_container) =
            if whole { (&*resources, "{}") } else { ("null", &*resources) };
        let priority = priority.map_or_else(|| "null".to_owned(), |number| number.to_string());
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, uid: uid-of-{name}}}\nspec:\n  \
             terminationGracePeriodSeconds: 1\n  priority: {priority}\n  resources: {of_pod}\n  \
             containers: [{{name: main, image: 'ferrolet.test/workload:1', args: [sleep, forever], \
             resources: {of_container}}}]\n"
        )
    }
}

fn cgroup(name: &str) -> CgroupName {
    let path = format!("/kubepods/burstable/poduid-of-{name}");
    CgroupName::parse(&path).expect("the name of a cgroup")
}

struct History {
    random: Random,
    harness: Harness,
    /// The current agent, and the token that is cancelled at its death.
    agent: Option<(Agent, CancellationToken)>,
    wanted: BTreeMap<&'static str, Requests>,
    /// Pods that were removed, perhaps for a time, and still have containers. Their resources do not
    /// count any more, like upstream for static pods.
    parting: BTreeSet<&'static str>,
    /// Running containers, which must not be restarted.
    running: BTreeMap<&'static str, ContainerId>,
    /// The events of the history, for failure messages.
    steps: Vec<String>,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut harness = Harness::new();
        harness.allocatable = vec![("cpu", "2"), ("memory", "1Gi")];
        Self {
            random: Random::new(seed),
            harness,
            agent: None,
            wanted: BTreeMap::new(),
            parting: BTreeSet::new(),
            running: BTreeMap::new(),
            steps: vec![format!("seed {seed}")],
        }
    }

    fn log(&mut self, what: String) {
        self.steps.push(what);
    }

    /// Starts the next agent; it may die at one of its effects.
    fn start(&mut self, mortal: bool) {
        // As kill -9.
        self.agent = None;
        let dies = mortal && self.random.chance(60);
        let (before, effect) = (self.random.chance(50), self.random.place(80) + 1);
        let moment = if before { Moment::Before(effect) } else { Moment::After(effect) };
        let ends = dies.then_some(moment);
        self.log(format!("an agent starts, which ends {ends:?}"));
        self.agent = Some(start_with_crash(&self.harness, ends));
        // The test may have missed containers that an agent stopped before it died.
        let runs = |name: &str, id: &ContainerId| {
            self.harness.running(name).iter().any(|one| one.id == *id)
        };
        self.running.retain(|name, id| runs(name, id));
    }

    fn status(&self, name: &str) -> Option<PodStatus> {
        let (agent, _) = self.agent.as_ref()?;
        let name = format!("{name}-node");
        let mut all = agent.pods().pods().into_iter();
        let found = all.find(|known| known.pod.metadata.name.as_ref() == Some(&name))?;
        Some((*found.status?).clone())
    }

    fn has_failed(&self, name: &str) -> bool {
        self.status(name).is_some_and(|status| status.phase.as_deref() == Some("Failed"))
    }

    fn lives(&self, name: &str) -> bool {
        let uid = format!("uid-of-{name}");
        let mut sandboxes = self.harness.runtime.sandboxes().into_iter();
        let lives =
            sandboxes.any(|one| one.pod_uid.as_str() == uid && one.state == SandboxState::Ready);
        lives || !self.harness.running(name).is_empty()
    }

    /// The published allocation of a pod in millicores and mebibytes.
    fn given(&self, name: &str) -> Option<(i64, i64)> {
        let given = self.status(name)?.allocated_resources?;
        let amount = |name: &str| Quantity::parse(&given[name].0).expect("an amount");
        Some((amount("cpu").milli_value(), amount("memory").value() >> 20))
    }

    /// Checks that the allocations of admitted pods fit, and that no container was restarted.
    fn look(&mut self) {
        let left: BTreeSet<&'static str> =
            self.parting.iter().copied().filter(|name| self.lives(name)).collect();
        self.parting = left;
        let counted: Vec<&'static str> = self.wanted.keys().copied().collect();
        let mut together = (0, 0);
        for name in counted {
            if self.parting.contains(name) || self.has_failed(name) || !self.lives(name) {
                self.running.remove(name);
                continue;
            }
            if let Some((milli, mebibytes)) = self.given(name) {
                together = (together.0 + milli, together.1 + mebibytes);
            }
            let Some(now) = self.harness.running(name).first().map(|one| one.id.clone()) else {
                continue;
            };
            let before = self.running.entry(name).or_insert_with(|| now.clone());
            assert_eq!(*before, now, "{name} was restarted: {:#?}", self.steps);
        }
        let fits = together.0 <= CPU && together.1 <= MEMORY;
        assert!(fits, "pods have {together:?} together: {:#?}", self.steps);
    }

    /// Lets time pass.
    async fn pass(&mut self, time: Duration) {
        let end = Instant::now() + time;
        loop {
            self.look();
            let now = Instant::now();
            if now >= end {
                return;
            }
            let over = self.agent.as_ref().map(|(_, over)| over.clone()).unwrap_or_default();
            // Biased: an agent dies once.
            tokio::select! {
                biased;
                () = over.cancelled() => self.start(true),
                () = tokio::time::sleep_until(end.min(now + TICK)) => {}
            }
        }
    }

    fn write(&mut self) {
        let name = self.random.pick(&NAMES);
        let size = match self.wanted.get(name) {
            Some(before) => before.changed(&mut self.random),
            None => Requests::any(&mut self.random),
        };
        self.log(format!("{name} requests {size:?}"));
        self.wanted.insert(name, size);
        self.harness.files.write(format!("/manifests/{name}.yaml"), size.manifest(name));
    }

    fn remove(&mut self) {
        let name = self.random.pick(&NAMES);
        if self.wanted.remove(name).is_some() {
            self.log(format!("{name} is removed"));
            self.parting.insert(name);
            self.running.remove(name);
            self.harness.remove_manifest(name);
        }
    }

    fn inject_fault(&mut self) {
        let method = self.random.pick(&[
            Method::RunPodSandbox,
            Method::CreateContainer,
            Method::StopContainer,
            Method::UpdateContainerResources,
            Method::UpdatePodSandboxResources,
        ]);
        let delay = Fault::delay(self.random.millis(10, 4000));
        // The pod does not wait for a victim that takes too long.
        let error =
            if method == Method::StopContainer { delay } else { Fault::error(Code::Internal) };
        let fault = self.random.pick(&[error, delay]);
        self.log(format!("{fault:?} on {method:?}"));
        self.harness.runtime.inject(Rule::on(method, fault).times(1 + self.random.place(3)));
    }

    fn inject_cgroup_fault(&mut self) {
        let (name, unlimited) = (self.random.pick(&NAMES), self.random.chance(50));
        self.log(format!("the cgroup of {name} cannot be limited: {unlimited}"));
        self.harness.cgroups.set_unlimited(&cgroup(name), unlimited);
    }

    fn step(&mut self) {
        match self.random.between(0, 99) {
            0..50 => self.write(),
            50..62 => self.remove(),
            62..72 => {
                self.agent = None;
                if self.random.chance(50) {
                    self.write();
                }
                self.start(true);
            }
            72..88 => self.inject_fault(),
            _ => self.inject_cgroup_fault(),
        }
    }

    /// Ends all faults.
    async fn end_faults(&mut self) {
        self.harness.runtime.clear_faults();
        for name in NAMES {
            self.harness.cgroups.set_unlimited(&cgroup(name), false);
        }
        self.start(false);
        self.pass(Duration::from_mins(10)).await;
    }

    /// In the end each pod has its requests, waits for them, was rejected or was preempted.
    fn is_settled(&self) {
        for name in NAMES {
            let steps = &self.steps;
            let (size, runs) = (self.wanted.get(name), self.harness.running(name).len());
            let Some(size) = size.filter(|_| !self.has_failed(name)) else {
                assert!(!self.lives(name), "{name} lives: {steps:#?}");
                continue;
            };
            assert_eq!(runs, 1, "{name}: {steps:#?}");
            let given = self.given(name).unwrap_or_default();
            let conditions =
                self.status(name).and_then(|reported| reported.conditions).unwrap_or_default();
            let of = |kind: &str| conditions.iter().find(|one| one.type_ == kind);
            let waits = of("PodResizePending").is_some();
            let has = given == (size.milli, size.mebibytes);
            assert!(has != waits, "{name} requests {size:?} and has {given:?}: {steps:#?}");
            assert_eq!(of("PodResizeInProgress"), None, "{name}: {steps:#?}");
            let shares = self.harness.cgroups.all()[&cgroup(name)].cpu_shares;
            assert_eq!(shares, Some(cpu::shares(given.0)), "{name}: {steps:#?}");
        }
    }
}

// behaviour: RSZ-31
#[tokio::test(start_paused = true)]
async fn allocations_fit_on_the_node_in_random_histories() {
    let mut reported = BTreeMap::from(REASONS.map(|reason| (reason, 0)));
    for seed in 0..SEEDS {
        let mut history = History::new(seed);
        history.start(true);
        for _ in 0..30 {
            history.step();
            let soon = history.random.millis(1, 800);
            let later = history.random.seconds(1, 20);
            let time = history.random.pick(&[soon, soon, later]);
            history.pass(time).await;
        }
        history.end_faults().await;
        history.is_settled();
        let reasons = history.harness.events.reasons();
        for (reason, count) in &mut reported {
            *count += reasons.iter().filter(|one| one == reason).count();
        }
    }
    assert!(reported.values().all(|count| *count > 5), "too little happened: {reported:?}");
}
