//! Builds a plan from a seed.

use std::time::Duration;

use model::ports::runtime::Code;
use testkit::random::Random;
use testkit::runtime::Method;

use super::{
    Action, ActionKind, Collecting, ContainerPlan, Extras, Fault, Hook, Plan, PlannedDeath,
    PodPlan, Policy, ProcessFault, Program, RestartRule, Rule, Step, Target,
};

/// How long a container lives that must be observed running.
const SEEN: Duration = Duration::from_millis(50);

/// The minimum grace period of stop requests in seconds.
const LEAST_GRACE: u64 = 2;

/// Whether pods get init containers and sidecars.
pub const INIT_CONTAINERS: bool = true;

/// Images of the runtime, and one that it must pull.
pub(crate) const HAD: [&str; 2] = ["ferrolet.test/workload:1", "ferrolet.test/workload:2"];
pub(crate) const FETCHED: &str = "ferrolet.test/far:1";

/// Unused images: the runtime pins one, and the agent's settings pin the other.
pub(crate) const PINNED: &str = "ferrolet.test/pinned:1";
pub(crate) const KEPT: &str = "ferrolet.test/kept:1";

const NAMES: [&str; 3] = ["a", "b", "c"];
const INIT_NAMES: [&str; 3] = ["i", "j", "k"];

impl Plan {
    /// The plan of a seed.
    pub fn new(seed: u64) -> Self {
        Self::made(seed, false)
    }

    /// The plan of a seed without the actions that were added later: a stored seed keeps its meaning.
    pub fn plain(seed: u64) -> Self {
        Self::made(seed, true)
    }

    fn made(seed: u64, plain: bool) -> Self {
        let mut random = Random::new(seed);
        let length = random.seconds(240, 600);
        let jumps = random.chance(40);
        let hints = random.chance(85);
        let mut web = Random::new(seed ^ 0x7765_6221);
        let url = web.chance(50);
        let around = Random::new(seed ^ 0x6172_6f75);
        let mut later = Random::new(seed ^ 0x6c61_7465);
        let collecting = if !plain && later.chance(33) {
            Collecting::drawn(&mut later)
        } else {
            Collecting::default()
        };
        let later = (!plain && later.chance(50)).then_some(later);
        let (pods, steps) = (Vec::new(), Vec::new());
        let mut builder =
            PlanBuilder { random, web, around, later, url, jumps, length, pods, steps };
        builder.first_pods();
        builder.faults();
        builder.url_faults();
        builder.environment_faults();
        builder.later_faults();
        builder.final_manifests();
        let PlanBuilder { mut steps, .. } = builder;
        steps.sort_by_key(|step| step.at);
        Self { seed, hints, url, plain, collecting, steps, length }
    }
}

pub(super) struct PlanBuilder {
    random: Random,
    /// Separate random numbers for everything about the URL, so that histories without a URL stay
    /// unchanged.
    web: Random,
    /// Like `web`, for the environment of containers (cgroups, disks, logs, servers in pods), and for their
    /// optional features.
    around: Random,
    /// Like `around`, for actions that were added later, in histories that have them.
    pub(super) later: Option<Random>,
    /// Whether a URL serves manifests in this history.
    url: bool,
    /// Whether the clock is set in this history.
    jumps: bool,
    pub(super) length: Duration,
    /// The last version of each pod.
    pub(super) pods: Vec<PodPlan>,
    steps: Vec<Step>,
}

impl PlanBuilder {
    pub(super) fn push(&mut self, at: Duration, what: ActionKind) {
        self.steps.push(Step { at, what });
    }

    /// A time of the history, more likely an early one: most happens while pods start.
    fn moment(&mut self) -> Duration {
        let part = self.random.between(0, 1000);
        let early = if self.random.chance(50) { part * part / 1000 } else { part };
        let millis = u64::try_from(self.length.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(millis / 1000 * early)
    }

    fn first_pods(&mut self) {
        let count = self.random.between(5, 8);
        for number in 0..count {
            let pod = self.pod(format!("p{number}"));
            self.pods.push(pod.clone());
            let at = if self.random.chance(70) { Duration::ZERO } else { self.moment() / 4 };
            self.push(at, ActionKind::Write(pod));
        }
    }

    fn pod(&mut self, name: String) -> PodPlan {
        let policy = self.random.weighted(&[
            (50, Policy::Always),
            (25, Policy::OnFailure),
            (25, Policy::Never),
        ]);
        let keeps_uid = self.random.chance(25);
        let count = self.random.weighted(&[(60, 1), (30, 2), (10, 3)]);
        let containers = NAMES[..count].iter().map(|name| self.container(name, false)).collect();
        let mut init = Vec::new();
        if INIT_CONTAINERS && self.random.chance(40) {
            let count = self.random.weighted(&[(50, 1), (35, 2), (15, 3)]);
            for name in &INIT_NAMES[..count] {
                let sidecar = self.random.chance(40);
                let mut container = self.container(name, sidecar);
                if !sidecar {
                    // A container that always fails would block its pod; one that runs for ever, too.
                    let code = u8::from(self.random.chance(15));
                    container.program = Program::Ends(self.random.millis(0, 8000), code);
                }
                init.push(container);
            }
        }
        let deadline = !keeps_uid && (self.jumps || self.random.chance(10));
        // If the clock is set, there are fewer deadlines, by other random numbers.
        let deadline = deadline && (!self.jumps || self.web.chance(10));
        let mut pod = PodPlan {
            name,
            revision: 0,
            keeps_uid,
            policy,
            grace: self.random.pick(&[0, 1, 3, 5, 10, 30, 60]),
            deadline: deadline.then(|| self.random.between(30, 200)),
            on_page: self.url && self.web.chance(35),
            host_network: self.random.chance(10),
            restarts_for_memory: self.around.chance(50),
            init,
            containers,
        };
        if self.around.chance(35) {
            self.add_extras(&mut pod);
        }
        self.more_rules(&mut pod);
        pod
    }

    /// Adds hooks, restart rules, stop signals and termination messages. Init containers that end have no
    /// hooks.
    fn add_extras(&mut self, pod: &mut PodPlan) {
        for sidecar in pod.init.iter_mut().filter(|init| init.sidecar) {
            sidecar.extras = self.extras(pod.grace);
            sidecar.extras.rule = None;
            // A sidecar that never starts would block its pod.
            if sidecar.may_not_come_up() {
                sidecar.extras.post_start = None;
            }
        }
        for container in &mut pod.containers {
            container.extras = self.extras(pod.grace);
            // A container that is killed right after its start, with a code that restarts the whole pod, would
            // do so for ever.
            let outlives_its_grace = match container.program {
                Program::Ignores => true,
                Program::Traps(time, _) => time > Duration::from_secs(pod.grace.max(LEAST_GRACE)),
                Program::Forever | Program::Ends(..) => false,
            };
            let is_killed =
                outlives_its_grace && container.extras.post_start.is_some_and(Hook::fails);
            if is_killed && container.extras.restarts_all() {
                container.extras.post_start = None;
            }
        }
    }

    fn extras(&mut self, grace: u64) -> Extras {
        let random = &mut self.around;
        let mut hook = |likely, fails| {
            let hook = match random.between(0, 99) {
                0..60 => {
                    let code = u8::from(random.chance(fails));
                    Hook::Exec(random.millis(0, 4000), code)
                }
                60..80 => Hook::Http,
                _ => Hook::Sleep(random.between(1, 5)),
            };
            random.chance(likely).then_some(hook.within(grace))
        };
        let (post_start, pre_stop) = (hook(20, 10), hook(40, 20));
        let policy = random.pick(&[Policy::Always, Policy::OnFailure, Policy::Never]);
        let action = random.weighted(&[
            (30, Action::Restart(1)),
            (20, Action::Restart(3)),
            (15, Action::Restart(137)),
            (35, Action::RestartAll),
        ]);
        let rule = RestartRule { policy, action };
        let signal = random.pick(&["SIGINT", "SIGTERM", "SIGUSR1"]);
        Extras {
            post_start,
            pre_stop,
            rule: random.chance(35).then_some(rule),
            signal: random.chance(15).then_some(signal),
            message_from_log: random.chance(50),
        }
    }

    fn container(&mut self, name: &'static str, sidecar: bool) -> ContainerPlan {
        let (image, mut program) = (self.image(), self.program());
        // The next containers wait until it was observed running.
        if let Program::Ends(time, _) = &mut program
            && sidecar
        {
            *time = (*time).max(SEEN);
        }
        ContainerPlan { name, image, program, sidecar, extras: Extras::default() }
    }

    fn image(&mut self) -> &'static str {
        self.random.weighted(&[(45, HAD[0]), (35, HAD[1]), (20, FETCHED)])
    }

    fn program(&mut self) -> Program {
        let random = &mut self.random;
        match random.between(0, 99) {
            0..40 => Program::Forever,
            40..55 => Program::Ends(random.millis(0, 3000), 0),
            55..65 => Program::Ends(random.seconds(5, 120), 0),
            65..75 => Program::Ends(random.millis(0, 3000), 1),
            75..85 => Program::Ends(random.seconds(5, 120), 3),
            85..93 => {
                let code = random.pick(&[0, 0, 5]);
                Program::Traps(random.seconds(0, 20), code)
            }
            _ => Program::Ignores,
        }
    }

    fn faults(&mut self) {
        // At least one agent dies while pods start, and every history has enough faults.
        let early = self.random.millis(0, 5000);
        let planned_death = ActionKind::KillAgent(self.planned_death());
        self.push(early, planned_death);
        for _ in 0..self.random.between(35, 60) {
            let at = self.moment();
            match self.random.between(0, 99) {
                0..40 => {
                    let rule = self.call_rule();
                    self.push(at, ActionKind::Arm(rule));
                }
                40..50 => {
                    let rule = self.hint_rule();
                    self.push(at, ActionKind::Arm(rule));
                }
                50..57 => {
                    let rule = self.file_rule();
                    self.push(at, ActionKind::Arm(rule));
                }
                57..75 => self.manifest_action(at),
                75..87 => {
                    let process_fault = self.process_fault();
                    let which = self.random.between(0, 1000);
                    self.push(at, ActionKind::ProcessFault(process_fault, which));
                }
                87..92 => {
                    let planned_death = self.planned_death();
                    self.push(at, ActionKind::KillAgent(planned_death));
                }
                92..95 => {
                    let away = self.random.millis(200, 40_000);
                    self.push(at, ActionKind::RestartRuntime(away));
                }
                95..97 => self.push(at, ActionKind::RestartAgent),
                _ if self.jumps => {
                    let jumps = [-86_400, -3600, -120, -5, 5, 120, 3600, 86_400];
                    let by = self.random.pick(&jumps);
                    self.push(at, ActionKind::JumpClock(by));
                }
                _ => {
                    let rule = self.call_rule();
                    self.push(at, ActionKind::Arm(rule));
                }
            }
        }
    }

    fn planned_death(&mut self) -> PlannedDeath {
        let away = if self.random.chance(70) {
            self.random.millis(0, 2000)
        } else {
            self.random.seconds(2, 60)
        };
        PlannedDeath { before: self.random.chance(50), nth: self.random.between(1, 40), away }
    }

    fn process_fault(&mut self) -> ProcessFault {
        let killed = ProcessFault::Container(self.random.pick(&[0, 1, 137]));
        self.random.weighted(&[
            (50, killed),
            (10, ProcessFault::OutOfMemory),
            (25, ProcessFault::Sandbox),
            (15, ProcessFault::Lost),
        ])
    }

    fn call_rule(&mut self) -> Rule {
        let on = self.random.weighted(&[
            (15, Target::AnyCall),
            (25, Target::Effect),
            (15, Target::Look),
            (6, Target::Method(Method::RunPodSandbox)),
            (6, Target::Method(Method::CreateContainer)),
            (6, Target::Method(Method::StartContainer)),
            (6, Target::Method(Method::StopContainer)),
            (4, Target::Method(Method::StopPodSandbox)),
            (4, Target::Method(Method::RemoveContainer)),
            (4, Target::Method(Method::ContainerStatus)),
            (6, Target::Method(Method::ListContainers)),
            (2, Target::Method(Method::PullImage)),
            (1, Target::Method(Method::GetContainerEvents)),
        ]);
        let skip = self.random.between(0, 5);
        Rule { on, skip, fault: self.call_fault() }
    }

    fn call_fault(&mut self) -> Fault {
        let random = &mut self.random;
        match random.between(0, 99) {
            0..25 => {
                let codes = [Code::Unknown, Code::Internal, Code::Unavailable, Code::Aborted];
                Fault::Error(random.pick(&codes))
            }
            25..40 => Fault::Slow(random.millis(5, 20_000)),
            40..60 => Fault::LateAnswer(random.millis(5, 20_000)),
            60..66 => Fault::Hang,
            66..80 => Fault::LateSuccess,
            80..94 => Fault::LateEffect(random.millis(5, 40_000)),
            _ => Fault::LostAnswer,
        }
    }

    fn hint_rule(&mut self) -> Rule {
        let late = Fault::Overtaken(self.random.millis(5, 30_000));
        let fault = self.random.weighted(&[(40, Fault::Lost), (25, Fault::Doubled), (35, late)]);
        Rule { on: Target::Hint, skip: self.random.between(0, 4), fault }
    }

    fn file_rule(&mut self) -> Rule {
        let on = self.random.pick(&[Target::FileRead, Target::FileWrite, Target::FileHint]);
        let slow = Fault::Slow(self.random.millis(5, 3000));
        let fault = match on {
            Target::FileHint => Fault::Lost,
            Target::FileWrite => {
                self.random.pick(&[Fault::Error(Code::Internal), Fault::LateSuccess, slow])
            }
            _ => self.random.pick(&[Fault::Error(Code::Internal), slow]),
        };
        Rule { on, skip: self.random.between(0, 4), fault }
    }

    fn url_faults(&mut self) {
        if !self.url {
            return;
        }
        for _ in 0..self.web.between(2, 6) {
            let slow = Fault::Slow(self.web.millis(5, 15_000));
            let refused = Fault::Refused(self.web.pick(&[404, 500, 503]));
            let error = Fault::Error(Code::Unavailable);
            let fault = self.web.pick(&[slow, refused, error, Fault::Hang]);
            let rule = Rule { on: Target::Web, skip: self.web.between(0, 4), fault };
            let at = self.web.seconds(0, self.length.as_secs());
            self.push(at, ActionKind::Arm(rule));
        }
    }

    /// Faults in the environment of containers.
    fn environment_faults(&mut self) {
        let random = &mut self.around;
        let mut steps = Vec::new();
        for _ in 0..random.between(2, 8) {
            let on = random.weighted(&[
                (60, Target::Cgroup),
                (15, Target::Disk),
                (10, Target::Log),
                (15, Target::PodWeb),
            ]);
            let slow = Fault::Slow(random.millis(5, 5000));
            let error = Fault::Error(Code::Internal);
            let fault = match on {
                Target::Cgroup => random.pick(&[error, error, Fault::LateSuccess, slow]),
                Target::PodWeb => random.pick(&[error, slow, Fault::Refused(500), Fault::Hang]),
                _ => random.pick(&[error, slow]),
            };
            let rule = Rule { on, skip: random.between(0, 6), fault };
            steps.push((random.seconds(0, self.length.as_secs()), ActionKind::Arm(rule)));
        }
        for (at, what) in steps {
            self.push(at, what);
        }
    }

    /// An action on a manifest. Steps are not built in chronological order, so the effect of an action
    /// is determined when it is executed.
    fn manifest_action(&mut self, at: Duration) {
        let count = u64::try_from(self.pods.len()).unwrap_or(1);
        if count < 10 && self.random.chance(15) {
            let pod = self.pod(format!("p{count}"));
            self.pods.push(pod.clone());
            self.push(at, ActionKind::Write(pod));
            return;
        }
        let index = usize::try_from(self.random.between(0, count - 1)).unwrap_or(0);
        let name = self.pods[index].name.clone();
        match self.random.between(0, 99) {
            0..45 => {
                let pod = self.edited(index);
                self.push(at, ActionKind::Write(pod));
            }
            45..60 => {
                // Unchanged: its UID comes back.
                let again = at + self.random.millis(50, 60_000);
                let pod = self.pods[index].clone();
                self.push(at, ActionKind::Remove(name));
                self.push(again, ActionKind::Write(pod));
            }
            60..75 => self.push(at, ActionKind::Invalidate(name)),
            _ => self.push(at, ActionKind::Remove(name)),
        }
    }

    /// Another version of a pod. A version with the same UID is the same pod, so only its mutable fields
    /// change.
    fn edited(&mut self, index: usize) -> PodPlan {
        let old = self.pods[index].clone();
        let mut pod = if old.keeps_uid { old.clone() } else { self.pod(old.name.clone()) };
        pod.revision = old.revision + 1;
        if old.keeps_uid {
            pod.containers[0].image = self.image();
            pod.containers[0].program = self.program();
        } else {
            pod.keeps_uid = false;
            pod.on_page = old.on_page;
        }
        self.pods[index] = pod.clone();
        pod
    }

    /// In the end every manifest is valid or removed.
    fn final_manifests(&mut self) {
        for index in 0..self.pods.len() {
            let pod = self.pods[index].clone();
            let what = match self.random.between(0, 99) {
                0..20 => ActionKind::Remove(pod.name),
                _ => ActionKind::Write(pod),
            };
            let before = self.random.seconds(0, 30);
            let at = self.length.saturating_sub(before);
            self.push(at, what);
        }
        // Later steps would override the final manifests.
        let length = self.length;
        for step in &mut self.steps {
            step.at = step.at.min(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_yields_one_plan() {
        for seed in 0..20 {
            let (one, two) = (Plan::new(seed), Plan::new(seed));
            assert_eq!(format!("{:?}", one.steps), format!("{:?}", two.steps));
        }
    }

    #[test]
    fn plain_plans_are_not_changed_by_later_actions() {
        let steps = |plan: &Plan| format!("{:?}", plan.steps);
        let all: Vec<(Plan, Plan)> =
            (0..200).map(|seed| (Plan::plain(seed), Plan::new(seed))).collect();
        let same = all.iter().filter(|(plain, new)| steps(plain) == steps(new)).count();
        assert!((70..130).contains(&same), "{same}");
        let default = |plan: &Plan| plan.collecting == Collecting::default();
        assert!(all.iter().all(|(plain, _)| default(plain)));
        let changed = all.iter().filter(|(_, new)| !default(new)).count();
        assert!((40..100).contains(&changed), "{changed}");
        let whole = |(plain, new): &&(Plan, Plan)| steps(plain) == steps(new) && default(new);
        assert!(all.iter().filter(whole).count() > 40);
    }

    #[test]
    fn plans_vary_gc_settings() {
        let settings: Vec<Collecting> = (0..300).map(|seed| Plan::new(seed).collecting).collect();
        let has = |what: &dyn Fn(&Collecting) -> bool| settings.iter().any(what);
        assert!(has(&|one| one.containers.per_container == Some(0)));
        assert!(has(&|one| one.containers.per_container.is_none()));
        assert!(has(&|one| one.containers.in_all == Some(0)));
        assert!(has(&|one| !one.containers.min_age.is_zero()));
        assert!(has(&|one| one.containers.age_by == gc::policy::AgeBy::Finished));
        assert!(has(&|one| !one.images_unused.is_zero() && one.keeps_images_of_pods));
        assert!(has(&Collecting::takes_the_last));
    }

    #[test]
    fn plans_cover_all_container_features() {
        let plans = (0..200).map(Plan::new).collect::<Vec<_>>();
        let written =
            plans.iter().flat_map(|plan| &plan.steps).filter_map(|step| match &step.what {
                ActionKind::Write(pod) => Some(pod),
                _ => None,
            });
        let pods: Vec<&PodPlan> = written.collect();
        let all: Vec<&ContainerPlan> = pods.iter().flat_map(|pod| pod.all()).collect();
        let has = |what: &dyn Fn(&Extras) -> bool| all.iter().any(|one| what(&one.extras));
        assert!(has(&|extras| extras.post_start.is_some() && extras.pre_stop.is_some()));
        assert!(has(&|extras| extras.post_start.is_some_and(Hook::fails)));
        assert!(has(&Extras::restarts_all));
        assert!(has(&|extras| extras.signal.is_some() && extras.message_from_log));
        assert!(has(&|extras| extras.rule.is_some_and(|rule| rule.action == Action::Restart(1))));
        let unless = Action::RestartUnless(3);
        assert!(has(&|extras| extras.rule.is_some_and(|rule| rule.action == unless)));
        let mut inits = pods.iter().flat_map(|pod| &pod.init);
        assert!(inits.any(|init| !init.sidecar && init.extras.rule.is_some()));
        assert!(all.iter().any(|one| one.sidecar && one.extras.pre_stop == Some(Hook::Http)));
        let resized = pods.iter().filter(|pod| pod.keeps_uid && pod.policy == Policy::Always);
        let resized: Vec<_> = resized.filter(|pod| pod.revision >= 2).collect();
        assert!(resized.iter().any(|pod| pod.restarts_for_memory));
        assert!(resized.iter().any(|pod| !pod.restarts_for_memory));
    }

    #[test]
    fn plan_has_five_pods_and_a_dying_agent() {
        for seed in 0..200 {
            let plan = Plan::new(seed);
            let pods = plan.steps.iter().filter_map(|step| match &step.what {
                ActionKind::Write(pod) => Some(&pod.name),
                _ => None,
            });
            assert!(pods.collect::<std::collections::BTreeSet<_>>().len() >= 5);
            assert!(plan.steps.iter().any(|step| matches!(step.what, ActionKind::KillAgent(_))));
            assert!(plan.steps.is_sorted_by_key(|step| step.at));
        }
    }
}
