//! Passes over an in-memory runtime and files.

mod away;
mod panics;
mod passes;
mod schedule;
mod together;

use std::time::Duration;

use model::ids::{ContainerId, PodName, SandboxId};
use model::ports::clock::WallClock as _;
use model::ports::runtime::{ContainerService, Runtime, SandboxService};
use model::verdict::Subject;
use testkit::clock::VirtualClock;
use testkit::events::KeptNodeEvents;
use testkit::files::MemoryFiles;
use testkit::runtime::{Call, MemoryRuntime, Method, RemoteImage};
use testkit::wanted;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::decide::test_pods::Pods;

const IMAGE: &str = "ferrolet.test/workload:1";

/// Stops containers as upstream does, without hooks.
#[derive(Debug)]
struct Stops(Arc<MemoryRuntime>);

#[async_trait]
impl StopUnknown for Stops {
    async fn stop(&self, container: &Container, _: &ContainerStatus) -> Result<(), String> {
        let stopped = self.0.stop_container(&container.id, Duration::from_secs(2)).await;
        stopped.map_err(|error| error.to_string())
    }
}

/// A collector on a node without an agent.
struct Bench {
    runtime: Arc<MemoryRuntime>,
    files: Arc<MemoryFiles>,
    events: Arc<KeptNodeEvents>,
    clock: Arc<VirtualClock>,
    parts: ContainerGcParts,
    tasks: JoinSet<()>,
}

impl Bench {
    fn new(pods: Pods, policy: ContainerPolicy) -> Self {
        let clock = Arc::new(VirtualClock::new());
        let runtime = Arc::new(MemoryRuntime::new(Arc::clone(&clock) as _));
        runtime.add_image(&RemoteImage::new(IMAGE).entrypoint(["/workload"]));
        let (files, events) = (Arc::new(MemoryFiles::new()), Arc::new(KeptNodeEvents::default()));
        files.write("/var/log/pods/.keep", "");
        let parts = ContainerGcParts {
            runtime: Runtime::new(Arc::clone(&runtime)),
            files: Arc::clone(&files) as _,
            clock: Arc::clone(&clock) as _,
            pods: Arc::new(pods),
            stop: Arc::new(Stops(Arc::clone(&runtime))),
            events: Arc::clone(&events) as _,
            logs: LogLayout {
                pod_logs: "/var/log/pods".into(),
                container_links: "/var/log/containers".into(),
            },
            policy,
            removals: Removals::default(),
            panics: PanicGuard::default(),
        };
        Self { runtime, files, events, clock, parts, tasks: JoinSet::new() }
    }

    async fn sandbox(&self, pod: &str, attempt: u32) -> SandboxId {
        let name = PodName::new("default", pod);
        let mut config = wanted::sandbox(&name, &format!("uid-{pod}").as_str().into());
        config.attempt = attempt;
        self.runtime.run_pod_sandbox(&config).await.unwrap()
    }

    /// Creates and starts a container in a sandbox.
    async fn container(&self, pod: &str, sandbox: &SandboxId, attempt: u32) -> ContainerId {
        let name = PodName::new("default", pod);
        let in_sandbox = wanted::sandbox(&name, &format!("uid-{pod}").as_str().into());
        let mut config = wanted::container(&in_sandbox, "main", IMAGE, &["sleep", "forever"]);
        config.attempt = attempt;
        config.log_path = format!("main/{attempt}.log");
        let id = self.runtime.create_container(sandbox, &config, &in_sandbox).await.unwrap();
        self.runtime.start_container(&id).await.unwrap();
        let log = format!("/var/log/pods/default_{pod}_uid-{pod}/main/{attempt}.log");
        self.files.write(&log, "hello\n");
        self.files.put_link(self.link(pod, &id), log);
        tokio::time::advance(Duration::from_secs(1)).await;
        id
    }

    /// Starts a container without labels in a sandbox of the pod `web`.
    async fn bare(&self, sandbox: &SandboxId, attempt: u32) -> ContainerId {
        let in_sandbox = wanted::sandbox(&PodName::new("default", "web"), &"uid-web".into());
        let mut config = wanted::container(&in_sandbox, "bare", IMAGE, &["sleep", "forever"]);
        config.labels.clear();
        (config.attempt, config.log_path) = (attempt, format!("bare/{attempt}.log"));
        let id = self.runtime.create_container(sandbox, &config, &in_sandbox).await.unwrap();
        self.runtime.start_container(&id).await.unwrap();
        let log = format!("/var/log/pods/default_web_uid-web/bare/{attempt}.log");
        self.files.write(log, "hello\n");
        id
    }

    fn link(&self, pod: &str, id: &ContainerId) -> std::path::PathBuf {
        self.parts.logs.container_link(&PodName::new("default", pod), "main", id)
    }

    /// A pod with this many exited containers in a dead sandbox.
    async fn dead_pod(&self, pod: &str, instances: u32) -> (SandboxId, Vec<ContainerId>) {
        let sandbox = self.sandbox(pod, 0).await;
        let mut ids = Vec::new();
        for attempt in 0..instances {
            let id = self.container(pod, &sandbox, attempt).await;
            self.runtime.kill_container(&id, 1);
            ids.push(id);
        }
        self.runtime.stop_pod_sandbox(&sandbox).await.unwrap();
        (sandbox, ids)
    }

    /// Makes one pass without a task.
    async fn pass(&self, aggressive: bool) -> Report {
        let mut ended = <_>::default();
        let mut survey = survey::all(&self.parts, aggressive, &mut ended).await;
        act::carry_out(&self.parts, &mut survey, &|_| {}).await
    }

    fn collector(&mut self) -> ContainerGc {
        let (task, gc) = container_gc(self.parts.clone());
        self.tasks.spawn(task.run(CancellationToken::new()));
        gc
    }

    fn containers(&self) -> Vec<ContainerId> {
        self.runtime.containers().into_iter().map(|container| container.id).collect()
    }

    fn sandboxes(&self) -> usize {
        self.runtime.sandboxes().len()
    }

    /// Every object that a plan could contain.
    async fn there(&self) -> BTreeSet<Subject> {
        let containers = self.containers().into_iter().map(Subject::Container);
        let sandboxes = self.runtime.sandboxes().into_iter().map(|one| Subject::Sandbox(one.id));
        let mut all: BTreeSet<Subject> = containers.chain(sandboxes).collect();
        let (logs, links) = (&self.parts.logs.pod_logs, &self.parts.logs.container_links);
        for name in self.files.list(logs).await.unwrap() {
            all.insert(Subject::PodLogs(logs.join(name)));
        }
        for name in self.files.list(links).await.unwrap_or_default() {
            all.insert(Subject::LogLink(links.join(name)));
        }
        all
    }

    /// The calls of some methods, in order.
    fn calls(&self, methods: &[Method]) -> Vec<Method> {
        let calls: Vec<Call> = self.runtime.calls();
        calls.iter().map(|call| call.method).filter(|method| methods.contains(method)).collect()
    }

    /// Waits for a condition, on a paused clock.
    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let waited = tokio::time::timeout(Duration::from_hours(1), async {
            while !holds(self) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        assert!(waited.await.is_ok(), "{what}: {:?}", self.runtime.containers());
    }
}

/// The removals of a plan.
fn removals(plan: &Plan) -> BTreeSet<Subject> {
    plan.removals().map(|item| item.subject.clone()).collect()
}

fn keep(per_container: usize) -> ContainerPolicy {
    ContainerPolicy { per_container: Some(per_container), ..ContainerPolicy::default() }
}
