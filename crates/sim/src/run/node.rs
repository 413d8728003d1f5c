//! The node of a history: what lies around the agents, the agent of the moment, and what people want.

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
use testkit::http::{MemoryWeb, Page};
use testkit::probes::MemoryProbes;
use testkit::programs::MemoryPrograms;
use testkit::volumes::MemoryVolumes;
use tokio::time::{Instant, sleep_until};

use crate::faulty_cgroups::FaultyCgroups;
use crate::faulty_files::FaultyFiles;
use crate::faulty_looks::FaultyLooks;
use crate::faulty_runtime::FaultyRuntime;
use crate::faulty_segments::{FaultySegments, Place};
use crate::faulty_web::FaultyWeb;
use crate::history::{Event, Record};
use crate::invariants::{Broken, Invariants};
use crate::life::{AGENT_KILLED, Life};
use crate::outlived::Outlived;
use crate::outside::{Asked, Outside};
use crate::plan::{Collecting, Harm, Plan, PodPlan, URL, What};
use crate::robbed::{Capped, Robbed};
use crate::run::beginnings::Beginnings;
use crate::run::endings::Endings;
use crate::run::page;
use crate::run::reading::Reading;
use crate::run::waits::Waits;
use crate::settled::Wanted;

/// How often the invariants are asked when nothing else happens.
const TICK: Duration = Duration::from_secs(5);

/// How an agent ends that cannot read what pods were given, and when the next one starts.
const CANNOT_READ: &str = "task sync loop: read ";
const STARTED_AGAIN: Duration = Duration::from_secs(5);
/// Where the agent keeps the last good version of every manifest.
const LAST_GOOD: &str = "/ferrolet/state/manifests";
/// The same for the page of the URL.
const LAST_GOOD_PAGE: &str = "/ferrolet/state/manifest-url";

/// What comes to pass later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chore {
    StartAgent,
    RuntimeIsBack,
}

/// The node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) outside: Arc<Outside>,
    /// The pods that are wanted.
    pub(super) wanted: Wanted,
    /// The names of all pods that ever were.
    pub(super) names: BTreeSet<String>,
    /// How many agents there were.
    pub(super) agents: u32,
    /// Until when containers may live that were asked to end.
    pub(super) endings: Endings,
    /// How long containers may wait that have ended.
    pub(super) waits: Waits,
    agent: Option<(Agent, Arc<Life>)>,
    /// What every agent is told.
    settings: Settings,
    collecting: Collecting,
    /// How often the page of the URL was written.
    pages: u64,
    /// What each manifest says, or said when it last made sense.
    manifests: BTreeMap<String, Arc<PodPlan>>,
    chores: Vec<(Instant, Chore)>,
    invariants: Invariants,
    robbed: Robbed,
    capped: Capped,
    outlived: Outlived,
    beginnings: Beginnings,
    reading: Reading,
    kept: Option<Vec<Record>>,
}

thread_local! {
    /// What panicked in the history of this thread.
    static PANICS: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Takes down what panics inside a history; elsewhere nothing changes.
pub(super) fn listen_to_panics() {
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
            endings: Endings::default(),
            waits: Waits::default(),
            agent: None,
            settings: settings::of(plan),
            collecting: plan.collecting.clone(),
            pages: 0,
            manifests: BTreeMap::new(),
            chores: Vec::new(),
            invariants: Invariants::new(&plan.collecting),
            robbed: Robbed::default(),
            capped: Capped::default(),
            outlived: Outlived::default(),
            beginnings: Beginnings::default(),
            reading: Reading::default(),
            kept: None,
        }
    }

    /// Nothing more happens.
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

    /// All that an agent reaches, each of which may fail it and be the last thing that it does.
    fn ports(&self, life: &Arc<Life>) -> Ports {
        let both = || (Arc::clone(&self.outside), Arc::clone(life));
        let web = |web: &Arc<MemoryWeb>, asked| {
            let (outside, life) = both();
            Arc::new(FaultyWeb { outside, life, web: Arc::clone(web), asked })
        };
        let looks = || {
            let (outside, life) = both();
            Arc::new(FaultyLooks { outside, life })
        };
        let journal = {
            let ((outside, life), torn, place) = (both(), Arc::default(), Place::Journal);
            Arc::new(FaultySegments { outside, life, torn, place })
        };
        Ports {
            runtime: FaultyRuntime::runtime(&self.outside, life),
            files: FaultyFiles::files(&self.outside, life),
            volumes: Arc::new(MemoryVolumes::new(Arc::clone(&self.outside.files))),
            http: web(&self.outside.web, Asked::Web),
            pod_http: web(&self.outside.pod_web, Asked::PodWeb),
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
            packet_filter: None,
            cluster: None,
            pools: Vec::new(),
            metrics: Registry::new(),
            probe_metrics: Registry::new(),
        }
    }

    /// As `kill -9`: nothing of it goes on, nothing is tidied up.
    pub(super) fn kill_agent(&mut self) {
        if let Some((agent, life)) = self.agent.take() {
            self.outside.say(format!("FAULT    agent {} is killed", self.agents));
            self.outside.happened(AGENT_KILLED);
            self.outside.record(Event::AgentDied);
            life.over.cancel();
            drop(agent);
        }
    }

    /// Lets time pass, and asks the invariants at every quiet moment on the way.
    pub(super) async fn advance_to(&mut self, at: Duration) -> Result<(), Broken> {
        loop {
            self.quiet()?;
            let now = self.outside.elapsed();
            if now >= at {
                return Ok(());
            }
            let then = Instant::now() + at.saturating_sub(now).min(TICK);
            let chore = self.chores.iter().map(|(at, _)| *at).min();
            self.wait_until(chore.map_or(then, |chore| chore.min(then))).await?;
            self.do_chores();
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
                let away = life.fate().map_or(Duration::ZERO, |doom| doom.away);
                self.agent = None;
                self.chores.push((Instant::now() + away, Chore::StartAgent));
                Ok(())
            }
            broken = agent.broken() => {
                let how = broken.to_string();
                if !how.starts_with(CANNOT_READ) {
                    return Err(Broken { invariant: "no part of the agent ends by itself", how });
                }
                self.give_up(&how);
                Ok(())
            }
            () = self.outside.is_restless() => {
                let how = "it goes on and on, and no time passes".to_owned();
                Err(Broken { invariant: "the agent comes to rest", how })
            }
            () = sleep_until(then) => Ok(()),
        }
    }

    /// An agent that cannot read what pods were given ends, and somebody starts another.
    fn give_up(&mut self, why: &str) {
        self.outside.say(format!("         agent {} gives up: {why}", self.agents));
        self.outside.record(Event::AgentDied);
        if let Some((agent, life)) = self.agent.take() {
            life.over.cancel();
            drop(agent);
        }
        self.chores.push((Instant::now() + STARTED_AGAIN, Chore::StartAgent));
    }

    fn do_chores(&mut self) {
        let now = Instant::now();
        let (due, later) = self.chores.iter().partition(|(at, _)| *at <= now);
        self.chores = later;
        let due: Vec<(Instant, Chore)> = due;
        for (_, chore) in due {
            match chore {
                Chore::StartAgent => self.start_agent(),
                Chore::RuntimeIsBack => {
                    self.outside.say("         the runtime is back");
                    // A new process of it knows nothing of what the old one had to tell.
                    self.outside.runtime.forget_events();
                    self.outside.away.set(false);
                }
            }
        }
    }

    /// A moment at which nobody has anything to do.
    pub(super) fn quiet(&mut self) -> Result<(), Broken> {
        self.outside.observe();
        self.outside.look_around();
        let news = self.outside.take_news();
        self.robbed.read(&news);
        self.capped.read(&news);
        self.outlived.read(&news);
        self.beginnings.read(&news);
        self.endings.read(&news);
        self.waits.read(&news);
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

    /// From now on what happens is kept.
    pub(super) fn keep_news(&mut self) {
        self.kept = Some(Vec::new());
    }

    pub(super) fn kept_news(&mut self) -> Vec<Record> {
        self.kept.take().unwrap_or_default()
    }

    /// Does what the plan says.
    pub(super) async fn step(&mut self, what: &What) {
        self.outside.say(format!("PLAN     {what}"));
        match what {
            What::Write(pod) => self.write(pod),
            What::Spoil(name) => self.spoil(name),
            What::Remove(name) => self.remove(name),
            What::Arm(rule) => self.outside.arm(*rule),
            What::RestartRuntime(away) => {
                self.outside.happened("runtime restart");
                self.outside.away.set(true);
                self.outside.runtime.end_event_streams(Some(Code::Unavailable));
                self.chores.retain(|(_, chore)| *chore != Chore::RuntimeIsBack);
                self.chores.push((Instant::now() + *away, Chore::RuntimeIsBack));
            }
            What::KillAgent(doom) => {
                if let Some((_, life)) = &self.agent {
                    life.doom(*doom);
                }
            }
            What::RestartAgent => {
                if let Some((agent, life)) = self.agent.take() {
                    agent.stop().await;
                    drop(life);
                    self.start_agent();
                }
            }
            What::JumpClock(seconds) => {
                self.outside.happened("clock jump");
                self.outside.clock.jump(*seconds);
                self.outside.record(Event::ClockJumped);
            }
            What::Harm(harm, which) => self.harm(*harm, *which),
        }
    }

    /// The end of all faults: what was in store is dropped, and what is away comes back.
    pub(super) async fn calm(&mut self) -> Result<(), Broken> {
        self.outside.disarm();
        let doomed = self.agent.as_ref().is_some_and(|(_, life)| life.fate().is_some());
        let killed = self.outside.all_that_happened().contains_key(AGENT_KILLED);
        if doomed || !killed {
            self.kill_agent();
            self.chores.push((Instant::now(), Chore::StartAgent));
        }
        while !self.chores.is_empty() {
            let then = self.outside.elapsed() + TICK;
            self.advance_to(then).await?;
        }
        self.outside.say("CALM     nothing more goes wrong");
        Ok(())
    }

    fn write(&mut self, pod: &PodPlan) {
        let uid = pod.uid();
        let pod = Arc::new(pod.clone());
        self.outside.name(uid.as_str(), format!("{}v{}", pod.name, pod.revision));
        self.names.insert(pod.name.clone());
        let before = self.manifests.insert(pod.name.clone(), Arc::clone(&pod));
        if let Some(before) = before.map(|before| before.uid()).filter(|before| *before != uid) {
            self.unwant(&before);
        }
        self.wanted.insert(uid.clone(), Arc::clone(&pod));
        self.outside.record(Event::Wanted(uid, Arc::clone(&pod)));
        if pod.on_page {
            self.write_page();
        } else {
            self.outside.files.write(PodPlan::path_of(&pod.name), pod.manifest());
        }
    }

    fn unwant(&mut self, uid: &model::ids::PodUid) {
        self.wanted.remove(uid);
        self.outside.record(Event::Unwanted(uid.clone()));
    }

    fn remove(&mut self, name: &str) {
        if let Some(pod) = self.manifests.remove(name) {
            self.unwant(&pod.uid());
            if pod.on_page {
                self.write_page();
            } else {
                self.outside.files.remove(PodPlan::path_of(name));
            }
        }
    }

    /// A manifest that makes no sense leaves its pod as it was, if there is something that it was: an
    /// agent that never read a good version cannot know it.
    fn spoil(&mut self, name: &str) {
        let Some(pod) = self.manifests.get(name) else { return };
        let (directory, mark) = if pod.on_page {
            (LAST_GOOD_PAGE, page::mark(self.pages))
        } else {
            (LAST_GOOD, pod.mark())
        };
        if !self.last_good(directory).iter().any(|text| text.contains(&mark)) {
            self.outside.say("         but nobody has read it yet; left alone");
        } else if pod.on_page {
            self.outside.web.put(URL, Page::ok("spoiled: ["));
        } else {
            self.outside.files.write(PodPlan::path_of(name), "spoiled: [");
        }
    }

    /// Puts all pods that are on it on the page of the URL.
    fn write_page(&mut self) {
        self.pages += 1;
        let pods = self.manifests.values().filter(|pod| pod.on_page);
        self.outside.web.put(URL, Page::ok(page::page(self.pages, pods)));
    }

    fn last_good(&self, directory: &str) -> Vec<String> {
        let directory = std::path::Path::new(directory);
        let names = self.outside.files.list(directory).now_or_never();
        let names = names.expect("nothing delays files in memory").unwrap_or_default();
        let contents =
            names.iter().filter_map(|name| self.outside.files.content(directory.join(name)));
        contents.map(|content| String::from_utf8_lossy(&content).into_owned()).collect()
    }

    fn harm(&mut self, harm: Harm, which: u64) {
        let runtime = &self.outside.runtime;
        let one = |count: usize| {
            let count = u64::try_from(count).unwrap_or(0);
            which.checked_rem(count).and_then(|index| usize::try_from(index).ok())
        };
        if harm == Harm::Sandbox {
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
                match harm {
                    Harm::Container(code) => runtime.kill_container(id, code),
                    Harm::OutOfMemory => runtime.oom_kill(id),
                    Harm::Lost | Harm::Sandbox => runtime.lose_container(id),
                };
            }
        }
        self.outside.observe();
    }

    /// A text with short names instead of ids.
    pub(super) fn with_short_names(&self, text: &str) -> String {
        let ids = self.outside.runtime.containers().into_iter().map(|one| one.id.to_string());
        let sandboxes = self.outside.runtime.sandboxes().into_iter();
        let ids =
            ids.chain(sandboxes.flat_map(|one| [one.id.to_string(), one.pod_uid.to_string()]));
        ids.fold(text.to_owned(), |text, id| text.replace(&id, &self.outside.short(&id)))
    }
}
