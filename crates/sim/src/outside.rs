//! The environment of the agents of a history, which outlives them: the runtime with its containers, the disk,
//! the clock; the planned faults; and the record of the history.

mod faults;
mod removed_objects;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use jiff::{SignedDuration, Timestamp};
use model::cgroup::CgroupName;
use model::ids::{ContainerId, SandboxId};
use model::labels;
use model::observed::{Container, ContainerState, SandboxState};
use model::ports::clock::WallClock;
use model::ports::files::HostFiles as _;
use model::ports::runtime::ContainerService;
use testkit::cgroups::MemoryCgroups;
use testkit::clock::VirtualClock;
use testkit::disk::MemoryDisk;
use testkit::files::MemoryFiles;
use testkit::http::{MemoryHttp, Page};
use testkit::logs::MemoryLogs;
use testkit::runtime::{IMAGE_DIRECTORY, MemoryRuntime, RemoteImage};
use testkit::segments::MemorySegments;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::clock::NodeClock;
use crate::flag::Flag;
use crate::history::{Event, Instance, Record};
use crate::plan::{FETCHED, HAD, HOOKS, KEPT, PINNED};
use crate::trace::Trace;
use crate::wanted_images::WantedImages;

pub(crate) use faults::FaultPoint;
use faults::Store;
use removed_objects::Existing;

/// The limit of events between two quiet moments: two hundred times the usual number.
const EVENT_LIMIT: usize = 100_000;

/// The environment. No lock in it is held across an await.
#[derive(Debug)]
pub(crate) struct Outside {
    pub(crate) runtime: Arc<MemoryRuntime>,
    pub(crate) files: Arc<MemoryFiles>,
    pub(crate) journal: MemorySegments,
    pub(crate) disk: Arc<MemoryDisk>,
    /// The server of manifests.
    pub(crate) web: Arc<MemoryHttp>,
    /// The HTTP servers in pods.
    pub(crate) pod_web: Arc<MemoryHttp>,
    pub(crate) logs: Arc<MemoryLogs>,
    pub(crate) cgroups: Arc<MemoryCgroups>,
    pub(crate) clock: Arc<NodeClock>,
    /// Whether the runtime is down.
    pub(crate) away: Flag,
    /// Whether faults are over.
    pub(crate) calm: Flag,
    /// Effects of calls that were answered before.
    pub(crate) late: Mutex<JoinSet<()>>,
    /// Cloned for every call with a fault that is in progress; see [`Outside::under_way`].
    fault_guard: Arc<()>,
    /// Notified when the limit of events is exceeded.
    limit_reached: Notify,
    epoch: Timestamp,
    began: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    trace: Trace,
    faults: Store,
    /// The records since the invariants were last checked.
    news: Vec<Record>,
    containers: BTreeMap<ContainerId, Arc<Instance>>,
    sandboxes: BTreeMap<SandboxId, SandboxState>,
    there: Existing,
    wanted_images: WantedImages,
}

impl Outside {
    /// The CPU shares of a container.
    pub(crate) fn shares(&self, id: &ContainerId) -> Option<(ContainerId, i64)> {
        let config = self.runtime.container_config(id)?;
        Some((id.clone(), config.resources.cpu_shares))
    }

    /// The memory limit of a container in bytes.
    pub(crate) fn memory(&self, id: &ContainerId) -> Option<(ContainerId, i64)> {
        let config = self.runtime.container_config(id)?;
        Some((id.clone(), config.resources.memory_limit))
    }

    /// A node without pods.
    pub(crate) fn new() -> Self {
        let steady = VirtualClock::new();
        let runtime = MemoryRuntime::new(Arc::new(steady.clone())).keeping_no_calls();
        for image in HAD {
            let image = RemoteImage::new(image).entrypoint(["/workload"]);
            runtime.add_image(&image);
            // A removed image can be pulled again.
            runtime.publish(image.pull_takes(Duration::from_secs(1)));
        }
        // No pod uses these, but they must be kept.
        runtime.add_image(&RemoteImage::new(PINNED).pinned());
        runtime.add_image(&RemoteImage::new(KEPT));
        let far = RemoteImage::new(FETCHED).entrypoint(["/workload"]);
        runtime.publish(far.pull_takes(Duration::from_secs(3)));
        // Host-network pods see the names of the host.
        let files = MemoryFiles::default();
        files.write("/etc/hosts", "127.0.0.1 localhost\n");
        let cgroups = MemoryCgroups::default();
        for class in ["burstable", "besteffort"] {
            let name = CgroupName::parse(&format!("/kubepods/{class}"));
            cgroups.make(&name.expect("a plain path is a name"));
        }
        let pod_web = MemoryHttp::default();
        pod_web.put(format!("http://{HOOKS}:80/"), Page::ok("done"));
        let runtime = Arc::new(runtime);
        // The disk is always full: all images that may be removed are removed.
        let disk = MemoryDisk::new(IMAGE_DIRECTORY, 1000).holding(Arc::clone(&runtime));
        Self {
            runtime,
            disk: Arc::new(disk),
            files: Arc::new(files),
            journal: MemorySegments::default(),
            web: Arc::default(),
            pod_web: Arc::new(pod_web),
            logs: Arc::default(),
            cgroups: Arc::new(cgroups),
            epoch: steady.now(),
            clock: Arc::new(NodeClock::new(steady)),
            away: Flag::default(),
            calm: Flag::default(),
            late: Mutex::default(),
            fault_guard: Arc::default(),
            limit_reached: Notify::new(),
            began: Instant::now(),
            state: Mutex::default(),
        }
    }

    /// A guard for a call with a fault.
    pub(crate) fn fault_guard(&self) -> Arc<()> {
        Arc::clone(&self.fault_guard)
    }

    /// Whether a fault is in progress: a call hangs, or will take effect later.
    pub(crate) fn under_way(&self) -> bool {
        Arc::strong_count(&self.fault_guard) > 1
    }

    /// The time since the beginning of the history.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Like `elapsed`, for a time that the runtime recorded.
    pub(crate) fn since_the_beginning(&self, at: Timestamp) -> Duration {
        Duration::try_from(at.duration_since(self.epoch)).unwrap_or(Duration::ZERO)
    }

    /// The longest time since then by the node's clock.
    pub(crate) fn longest_age(&self, since: Duration) -> SignedDuration {
        let since = SignedDuration::try_from(since).unwrap_or(SignedDuration::MAX);
        self.clock.longest_age(self.epoch.saturating_add(since).unwrap_or(Timestamp::MAX))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line to the trace.
    pub(crate) fn say(&self, text: impl Into<String>) {
        let at = self.elapsed();
        self.state().trace.add(at, text.into());
    }

    /// Adds to the hash of the trace only.
    pub(crate) fn note(&self, text: &str) {
        let at = self.elapsed();
        self.state().trace.note(at, text);
    }

    /// Records an event.
    pub(crate) fn record(&self, event: Event) {
        let at = self.elapsed();
        let mut state = self.state();
        state.news.push(Record { at, event });
        if state.news.len() == EVENT_LIMIT {
            self.limit_reached.notify_one();
        }
    }

    /// Waits until the limit of events since the last check is exceeded.
    pub(crate) async fn event_limit_exceeded(&self) {
        self.limit_reached.notified().await;
    }

    /// The records since the last call.
    pub(crate) fn take_records(&self) -> Vec<Record> {
        std::mem::take(&mut self.state().news)
    }

    /// The images of calls in progress.
    pub(crate) fn wanted_images<T>(&self, read: impl FnOnce(&mut WantedImages) -> T) -> T {
        read(&mut self.state().wanted_images)
    }

    /// Gives an object a short name.
    pub(crate) fn name(&self, id: &str, short: impl Into<String>) {
        self.state().trace.name(id, short);
    }

    /// The short name of an object.
    pub(crate) fn short(&self, id: &str) -> String {
        self.state().trace.short(id).to_owned()
    }

    pub(crate) fn trace(&self) -> String {
        self.state().trace.to_string()
    }

    pub(crate) fn hash(&self) -> u64 {
        self.state().trace.hash()
    }

    /// Records the changes of containers and sandboxes since the last call.
    pub(crate) fn observe(&self) {
        let containers = self.runtime.containers();
        let sandboxes = self.runtime.sandboxes();
        let mut news = Vec::new();
        {
            let mut state = self.state();
            let gone = state.there.gone(&containers, &sandboxes);
            for sandbox in sandboxes {
                let old = state.sandboxes.insert(sandbox.id.clone(), sandbox.state);
                if old != Some(sandbox.state) {
                    let number = state.sandboxes.len();
                    let pod = state.trace.short(sandbox.pod_uid.as_str()).to_owned();
                    let short = format!("s{number}({pod}#{})", sandbox.attempt);
                    state.trace.name(sandbox.id.as_str(), short);
                    if old.is_none() {
                        news.push(Event::Numbered(sandbox.id.clone(), sandbox.attempt));
                    }
                    news.push(Event::Sandbox(sandbox.id, sandbox.pod_uid, sandbox.state));
                }
            }
            for (new, old) in self.changed(&state.containers, containers) {
                state.containers.insert(new.id.clone(), Arc::clone(&new));
                let number = state.containers.len();
                let pod = state.trace.short(new.uid.as_str()).to_owned();
                let short = format!("c{number}({pod}/{}#{})", new.name, new.attempt);
                state.trace.name(new.id.as_str(), short);
                news.push(Event::Container(new, old));
            }
            news.extend(gone);
        }
        for event in news {
            if let Event::Container(one, None) = &event {
                self.open_log(&one.id);
            }
            self.say_event(&event);
            self.record(event);
        }
    }

    /// The calls that the runtime handles first for a container.
    fn open_log(&self, id: &ContainerId) {
        let status = self.runtime.container_status(id).now_or_never();
        if let Some(Ok(status)) = status
            && !status.log_path.is_empty()
        {
            self.files.write(&*status.log_path, "");
        }
    }

    /// The highest log number in a directory.
    pub(crate) fn highest_log(&self, directory: &Path) -> Option<u32> {
        let names = self.files.list(directory).now_or_never()?.ok()?;
        let number = |name: &String| name.strip_suffix(".log")?.parse().ok();
        names.iter().filter_map(number).max()
    }

    /// Changed containers. Ended ones come first, in the order of their ends: containers that started since
    /// started after them.
    fn changed(
        &self,
        before: &BTreeMap<ContainerId, Arc<Instance>>,
        now: Vec<Container>,
    ) -> Vec<(Arc<Instance>, Option<ContainerState>)> {
        let here: BTreeSet<ContainerId> = now.iter().map(|one| one.id.clone()).collect();
        let gone = before.values().filter(|one| one.state.is_some() && !here.contains(&one.id));
        let mut changed: Vec<_> = gone
            .map(|old| (Arc::new(Instance { state: None, ..(**old).clone() }), old.state))
            .collect();
        for container in now {
            let old = before.get(&container.id).and_then(|old| old.state);
            if old != Some(container.state) {
                changed.push((Arc::new(self.instance(&container)), old));
            }
        }
        changed.sort_by_key(|(one, _)| {
            (one.state.is_some(), one.finished.is_none(), one.finished, one.id.clone())
        });
        changed
    }

    /// The status of a container.
    pub(crate) fn instance(&self, container: &Container) -> Instance {
        let status = self.runtime.container_status(&container.id).now_or_never();
        let status = status.expect("calls without the interceptor return at once");
        let status = status.expect("a listed container exists");
        let since = |at: Option<Timestamp>| at.map(|at| self.since_the_beginning(at));
        Instance {
            id: container.id.clone(),
            sandbox: container.sandbox_id.clone(),
            uid: container.pod_uid.clone(),
            name: Arc::clone(&container.name),
            attempt: container.attempt,
            definition: status.annotations.get(labels::CONTAINER_HASH).cloned().unwrap_or_default(),
            state: Some(status.state),
            exit_code: status.exit_code,
            created: self.since_the_beginning(container.created_at),
            started: since(status.started_at),
            finished: since(status.finished_at),
        }
    }

    fn say_event(&self, event: &Event) {
        let text = match event {
            Event::Container(one, _) => {
                let name = self.short(one.id.as_str());
                match one.state {
                    None => format!("         {name} is gone"),
                    Some(ContainerState::Exited) => {
                        format!("         {name} has ended with code {}", one.exit_code)
                    }
                    Some(state) => format!("         {name} is {state:?}"),
                }
            }
            Event::Sandbox(id, _, state) => {
                format!("         {} is {state:?}", self.short(id.as_str()))
            }
            _ => return,
        };
        self.say(text);
    }
}
