//! The node of a history: the environment of the agents, the current agent, and the wanted pods.

mod settings;
mod snapshot;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use ferrolet::wiring::{Agent, Ports, Registry, Settings};
use futures_util::FutureExt as _;
use model::observed::{ContainerState, SandboxState};
use model::ports::files::HostFiles as _;
use model::ports::runtime::Code;
use testkit::events::{KeptEvents, KeptNodeEvents};
use testkit::http::{MemoryHttp, Page};
use testkit::probes::MemoryProbes;
use testkit::programs::MemoryPrograms;
use testkit::volumes::MemoryVolumes;
use tokio::time::{Instant, sleep_until};

use crate::faulty_cgroups::FaultyCgroups;
use crate::faulty_files::FaultyFiles;
use crate::faulty_http::FaultyHttp;
use crate::faulty_reads::FaultyReads;
use crate::faulty_runtime::FaultyRuntime;
use crate::faulty_segments::{FaultySegments, Place};
use crate::history::{Event, Record};
use crate::invariants::{Broken, Invariants};
use crate::late_removals::{Capped, LateRemovalExemption};
use crate::life::{AGENT_KILLED, Life};
use crate::outside::{FaultPoint, Outside};
use crate::plan::{ActionKind, Collecting, Plan, PodPlan, ProcessFault, URL};
use crate::restart_survivors::RestartSurvivors;
use crate::run::journal_check::JournalCheck;
use crate::run::page;
use crate::run::pod_starts::PodStarts;
use crate::run::restart_deadlines::RestartDeadlines;
use crate::run::stop_deadlines::StopDeadlines;
use crate::settled::Wanted;

/// How often the invariants are checked when nothing else happens.
const TICK: Duration = Duration::from_secs(5);

/// The error of an agent that cannot read the allocation checkpoint, and when the next one starts.
const CANNOT_READ: &str = "task sync loop: read ";
const STARTED_AGAIN: Duration = Duration::from_secs(5);
/// The directory of the last valid version of every manifest.
const LAST_GOOD: &str = "/ferrolet/state/manifests";
/// Like `LAST_GOOD`, for the page of the URL.
const LAST_GOOD_PAGE: &str = "/ferrolet/state/manifest-url";

/// A later action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LaterAction {
    StartAgent,
    RuntimeIsBack,
}

/// The node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) outside: Arc<Outside>,
    /// The pods that are wanted.
    pub(super) wanted: Wanted,
    /// The names of all pods so far.
    pub(super) names: BTreeSet<String>,
    /// The number of agents.
    pub(super) agents: u32,
    /// The deadlines of containers that were requested to stop.
    pub(super) stop_deadlines: StopDeadlines,
    /// The deadlines of ended containers to restart.
    pub(super) restart_deadlines: RestartDeadlines,
    agent: Option<(Agent, Arc<Life>)>,
    /// The settings of every agent.
    settings: Settings,
    collecting: Collecting,
    /// How often the page of the URL was written.
    pages: u64,
    /// The last valid version of each manifest.
    manifests: BTreeMap<String, Arc<PodPlan>>,
    later_actions: Vec<(Instant, LaterAction)>,
    invariants: Invariants,
    late_removals: LateRemovalExemption,
    capped: Capped,
    outlived: RestartSurvivors,
    pod_starts: PodStarts,
    reading: JournalCheck,
    kept: Option<Vec<Record>>,
}

thread_local! {
    /// The panics in the history of this thread.
    static PANICS: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Records panics inside a history; elsewhere nothing changes.
pub(super) fn record_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let taken = PANICS.with_borrow_mut(|panics| {
            panics.as_mut().map(|panics| panics.push(info.to_string())).is_some()
        });
        if !taken {
            before(info);
        }
    }));
}

impl Node {
    pub(super) fn new(plan: &Plan) -> Self {
        PANICS.set(Some(Vec::new()));
        let outside = Arc::new(Outside::new());
        outside.web.put(URL, Page::ok(page::page(0, std::iter::empty())));
        if plan.collecting != Collecting::default() {
            outside.say(format!("PLAN     {}", plan.collecting));
        }
        Self {
            outside,
            wanted: Wanted::new(),
            names: BTreeSet::new(),
            agents: 0,
            stop_deadlines: StopDeadlines::default(),
            restart_deadlines: RestartDeadlines::default(),
            agent: None,
            settings: settings::of(plan),
            collecting: plan.collecting.clone(),
            pages: 0,
            manifests: BTreeMap::new(),
            later_actions: Vec::new(),
            invariants: Invariants::new(&plan.collecting),
            late_removals: LateRemovalExemption::default(),
            capped: Capped::default(),
            outlived: RestartSurvivors::default(),
            pod_starts: PodStarts::default(),
            reading: JournalCheck::default(),
            kept: None,
        }
    }

    /// Ends the history.
    pub(super) fn end(&mut self) {
        self.agent = None;
        self.outside.late.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
        PANICS.set(None);
    }

    pub(super) fn start_agent(&mut self) {
        if self.agent.is_some() {
            return;
        }
        self.agents += 1;
        self.outside.say(format!("         agent {} starts", self.agents));
        self.outside.record(Event::AgentStarted(self.agents));
        let life = Arc::new(Life::new(self.agents, Arc::clone(&self.outside)));
        let agent = Agent::start(&self.settings, self.ports(&life), None);
        self.agent = Some((agent, life));
    }

    /// The ports of the agent, each of which may fail or kill it.
    fn ports(&self, life: &Arc<Life>) -> Ports {
        let both = || (Arc::clone(&self.outside), Arc::clone(life));
        let web = |web: &Arc<MemoryHttp>, point| {
            let (outside, life) = both();
            Arc::new(FaultyHttp { outside, life, web: Arc::clone(web), point })
        };
        let looks = || {
            let (outside, life) = both();
            Arc::new(FaultyReads { outside, life })
        };
        let journal = {
            let ((outside, life), torn, place) = (both(), Arc::default(), Place::Journal);
            Arc::new(FaultySegments { outside, life, torn, place })
        };
        Ports {
            runtime: FaultyRuntime::runtime(&self.outside, life),
            files: FaultyFiles::files(&self.outside, life),
            volumes: Arc::new(MemoryVolumes::new(Arc::clone(&self.outside.files))),
            http: web(&self.outside.web, FaultPoint::Web),
            pod_http: web(&self.outside.pod_web, FaultPoint::PodWeb),
            probes: Arc::<MemoryProbes>::default(),
            logs: looks(),
            log_files: None,
            programs: Arc::<MemoryPrograms>::default(),
            clock: Arc::clone(&self.outside.clock) as _,
            events: Arc::<KeptEvents>::default(),
            journal,
            node_events: Arc::<KeptNodeEvents>::default(),
            disks: looks(),
            cgroups: Some(FaultyCgroups::cgroups(&self.outside, life)),
            usage: None,
            packet_filter: None,
            cluster: None,
            pools: Vec::new(),
            metrics: Registry::new(),
            probe_metrics: Registry::new(),
        }
    }

    /// As `kill -9`: its tasks end without any cleanup.
    pub(super) fn kill_agent(&mut self) {
        if let Some((agent, life)) = self.agent.take() {
            self.outside.say(format!("FAULT    agent {} is killed", self.agents));
            self.outside.happened(AGENT_KILLED);
            self.outside.record(Event::AgentDied);
            life.over.cancel();
            drop(agent);
        }
    }

    /// Advances the time, and checks the invariants at every quiet moment.
    pub(super) async fn advance_to(&mut self, at: Duration) -> Result<(), Broken> {
        loop {
            self.quiet()?;
            let now = self.outside.elapsed();
            if now >= at {
                return Ok(());
            }
            let then = Instant::now() + at.saturating_sub(now).min(TICK);
            let chore = self.later_actions.iter().map(|(at, _)| *at).min();
            self.wait_until(chore.map_or(then, |chore| chore.min(then))).await?;
            self.run_later_actions();
        }
    }

    async fn wait_until(&mut self, then: Instant) -> Result<(), Broken> {
        let Some((agent, life)) = &mut self.agent else {
            sleep_until(then).await;
            return Ok(());
        };
        tokio::select! {
            biased;
            () = life.over.cancelled() => {
                let away = life.death().map_or(Duration::ZERO, |death| death.away);
                self.agent = None;
                self.later_actions.push((Instant::now() + away, LaterAction::StartAgent));
                Ok(())
            }
            broken = agent.task_ended() => {
                let how = broken.to_string();
                if !how.starts_with(CANNOT_READ) {
                    return Err(Broken { invariant: "no task of the agent ends by itself", how });
                }
                self.give_up(&how);
                Ok(())
            }
            () = self.outside.event_limit_exceeded() => {
                let how = "it keeps running without time passing".to_owned();
                Err(Broken { invariant: "the agent comes to rest", how })
            }
            () = sleep_until(then) => Ok(()),
        }
    }

    /// An agent that cannot read the allocation checkpoint exits, and another one is started.
    fn give_up(&mut self, why: &str) {
        self.outside.say(format!("         agent {} gives up: {why}", self.agents));
        self.outside.record(Event::AgentDied);
        if let Some((agent, life)) = self.agent.take() {
            life.over.cancel();
            drop(agent);
        }
        self.later_actions.push((Instant::now() + STARTED_AGAIN, LaterAction::StartAgent));
    }

    fn run_later_actions(&mut self) {
        let now = Instant::now();
        let (due, later) = self.later_actions.iter().partition(|(at, _)| *at <= now);
        self.later_actions = later;
        let due: Vec<(Instant, LaterAction)> = due;
        for (_, chore) in due {
            match chore {
                LaterAction::StartAgent => self.start_agent(),
                LaterAction::RuntimeIsBack => {
                    self.outside.say("         the runtime is back");
                    // A new process of the runtime does not have the unread events of the old one.
                    self.outside.runtime.forget_events();
                    self.outside.away.set(false);
                }
            }
        }
    }

    /// A moment without pending work.
    pub(super) fn quiet(&mut self) -> Result<(), Broken> {
        self.outside.observe();
        self.outside.record_removed();
        let news = self.outside.take_records();
        self.late_removals.read(&news);
        self.capped.read(&news);
        self.outlived.read(&news);
        self.pod_starts.read(&news);
        self.stop_deadlines.read(&news);
        self.restart_deadlines.read(&news);
        self.reading.read(&news);
        self.invariants.read(&news)?;
        if let Some(kept) = &mut self.kept {
            kept.extend(news);
        }
        let panic = PANICS.with_borrow_mut(|panics| panics.as_mut().and_then(Vec::pop));
        match panic {
            Some(how) => Err(Broken { invariant: "nothing panics", how }),
            None => Ok(()),
        }
    }

    pub(super) fn journal_can_be_read(&self) -> Result<(), Broken> {
        self.reading.check(&self.outside.journal)
    }

    /// Keeps records from now on.
    pub(super) fn keep_records(&mut self) {
        self.kept = Some(Vec::new());
    }

    pub(super) fn kept_records(&mut self) -> Vec<Record> {
        self.kept.take().unwrap_or_default()
    }

    /// Executes a step of the plan.
    pub(super) async fn step(&mut self, what: &ActionKind) {
        self.outside.say(format!("PLAN     {what}"));
        match what {
            ActionKind::Write(pod) => self.write(pod),
            ActionKind::Invalidate(name) => self.invalidate(name),
            ActionKind::Remove(name) => self.remove(name),
            ActionKind::Arm(rule) => self.outside.arm(*rule),
            ActionKind::RestartRuntime(away) => {
                self.outside.happened("runtime restart");
                self.outside.away.set(true);
                self.outside.runtime.end_event_streams(Some(Code::Unavailable));
                self.later_actions.retain(|(_, chore)| *chore != LaterAction::RuntimeIsBack);
                self.later_actions.push((Instant::now() + *away, LaterAction::RuntimeIsBack));
            }
            ActionKind::KillAgent(death) => {
                if let Some((_, life)) = &self.agent {
                    life.plan_death(*death);
                }
            }
            ActionKind::RestartAgent => {
                if let Some((agent, life)) = self.agent.take() {
                    agent.stop().await;
                    drop(life);
                    self.start_agent();
                }
            }
            ActionKind::JumpClock(seconds) => {
                self.outside.happened("clock jump");
                self.outside.clock.jump(*seconds);
                self.outside.record(Event::ClockJumped);
            }
            ActionKind::ProcessFault(fault, which) => self.process_fault(*fault, *which),
        }
    }

    /// Ends all faults: planned faults are dropped, and the runtime runs again.
    pub(super) async fn calm(&mut self) -> Result<(), Broken> {
        self.outside.disarm();
        let is_planned = self.agent.as_ref().is_some_and(|(_, life)| life.death().is_some());
        let killed = self.outside.all_that_happened().contains_key(AGENT_KILLED);
        if is_planned || !killed {
            self.kill_agent();
            self.later_actions.push((Instant::now(), LaterAction::StartAgent));
        }
        while !self.later_actions.is_empty() {
            let then = self.outside.elapsed() + TICK;
            self.advance_to(then).await?;
        }
        self.outside.say("CALM     faults are over");
        Ok(())
    }

    fn write(&mut self, pod: &PodPlan) {
        let uid = pod.uid();
        let pod = Arc::new(pod.clone());
        self.outside.name(uid.as_str(), format!("{}v{}", pod.name, pod.revision));
        self.names.insert(pod.name.clone());
        let before = self.manifests.insert(pod.name.clone(), Arc::clone(&pod));
        if let Some(before) = before.map(|before| before.uid()).filter(|before| *before != uid) {
            self.remove_wanted(&before);
        }
        self.wanted.insert(uid.clone(), Arc::clone(&pod));
        self.outside.record(Event::Wanted(uid, Arc::clone(&pod)));
        if pod.on_page {
            self.write_page();
        } else {
            self.outside.files.write(PodPlan::path_of(&pod.name), pod.manifest());
        }
    }

    fn remove_wanted(&mut self, uid: &model::ids::PodUid) {
        self.wanted.remove(uid);
        self.outside.record(Event::Unwanted(uid.clone()));
    }

    fn remove(&mut self, name: &str) {
        if let Some(pod) = self.manifests.remove(name) {
            self.remove_wanted(&pod.uid());
            if pod.on_page {
                self.write_page();
            } else {
                self.outside.files.remove(PodPlan::path_of(name));
            }
        }
    }

    /// An invalid manifest leaves its pod unchanged, if there is an earlier version: an agent that never read a
    /// valid version cannot know it.
    fn invalidate(&mut self, name: &str) {
        let Some(pod) = self.manifests.get(name) else { return };
        let (directory, mark) = if pod.on_page {
            (LAST_GOOD_PAGE, page::mark(self.pages))
        } else {
            (LAST_GOOD, pod.mark())
        };
        if !self.last_good(directory).iter().any(|text| text.contains(&mark)) {
            self.outside.say("         no agent has read it yet; left unchanged");
        } else if pod.on_page {
            self.outside.web.put(URL, Page::ok("spoiled: ["));
        } else {
            self.outside.files.write(PodPlan::path_of(name), "spoiled: [");
        }
    }

    /// Writes all pods of the URL to its page.
    fn write_page(&mut self) {
        self.pages += 1;
        let pods = self.manifests.values().filter(|pod| pod.on_page);
        self.outside.web.put(URL, Page::ok(page::page(self.pages, pods)));
    }

    fn last_good(&self, directory: &str) -> Vec<String> {
        let directory = std::path::Path::new(directory);
        let names = self.outside.files.list(directory).now_or_never();
        let names = names.expect("files in memory return at once").unwrap_or_default();
        let contents =
            names.iter().filter_map(|name| self.outside.files.content(directory.join(name)));
        contents.map(|content| String::from_utf8_lossy(&content).into_owned()).collect()
    }

    fn process_fault(&mut self, fault: ProcessFault, which: u64) {
        let runtime = &self.outside.runtime;
        let one = |count: usize| {
            let count = u64::try_from(count).unwrap_or(0);
            which.checked_rem(count).and_then(|index| usize::try_from(index).ok())
        };
        if fault == ProcessFault::Sandbox {
            let mut sandboxes = runtime.sandboxes();
            sandboxes.retain(|sandbox| sandbox.state == SandboxState::Ready);
            if let Some(index) = one(sandboxes.len()) {
                runtime.kill_sandbox(&sandboxes[index].id);
            }
        } else {
            let mut containers = runtime.containers();
            containers.retain(|container| container.state == ContainerState::Running);
            if let Some(index) = one(containers.len()) {
                let id = &containers[index].id;
                match fault {
                    ProcessFault::Container(code) => runtime.kill_container(id, code),
                    ProcessFault::OutOfMemory => runtime.oom_kill(id),
                    ProcessFault::Lost | ProcessFault::Sandbox => runtime.lose_container(id),
                };
            }
        }
        self.outside.observe();
    }

    /// A text with short names in place of ids.
    pub(super) fn with_short_names(&self, text: &str) -> String {
        let ids = self.outside.runtime.containers().into_iter().map(|one| one.id.to_string());
        let sandboxes = self.outside.runtime.sandboxes().into_iter();
        let ids =
            ids.chain(sandboxes.flat_map(|one| [one.id.to_string(), one.pod_uid.to_string()]));
        ids.fold(text.to_owned(), |text, id| text.replace(&id, &self.outside.short(&id)))
    }
}
