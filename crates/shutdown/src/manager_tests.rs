use std::collections::BTreeSet;
use std::sync::Mutex;

use prometheus::Registry;
use testkit::clock::VirtualClock;
use testkit::events::KeptNodeEvents;
use testkit::files::MemoryFiles;
use testkit::login::MemoryLogin;
use testkit::pods;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::*;

/// Pods that take all of their grace period, and one more second for their volumes.
#[derive(Debug)]
struct Pods {
    all: Vec<Arc<Pod>>,
    began: Instant,
    ended: Mutex<BTreeSet<String>>,
    /// What happened, with the second.
    log: Mutex<Vec<String>>,
    /// A pod that does not end.
    stuck: Option<&'static str>,
}

fn name(pod: &Pod) -> String {
    pod.metadata.name.clone().unwrap_or_default()
}

impl Pods {
    fn note(&self, what: &str) {
        let line = format!("{} {what}", self.began.elapsed().as_secs());
        self.log.lock().unwrap().push(line);
    }
}

#[async_trait]
impl ShutdownPods for Pods {
    async fn set_shutting_down(&self, shuts_down: bool) {
        self.note(if shuts_down { "shuts down" } else { "stays up" });
    }

    async fn active(&self) -> Vec<Arc<Pod>> {
        let ended = self.ended.lock().unwrap();
        self.all.iter().filter(|pod| !ended.contains(&name(pod))).cloned().collect()
    }

    async fn terminate(&self, pod: &PlannedPod) {
        let name = name(&pod.pod);
        self.note(&format!("kill {name} {:?}", pod.grace));
        if self.stuck == Some(&*name) {
            std::future::pending::<()>().await;
        }
        sleep(pod.grace).await;
        self.note(&format!("{name} ended"));
        self.ended.lock().unwrap().insert(name);
    }

    async fn settled(&self, pods: &[Arc<Pod>]) {
        let ended = self.ended.lock().unwrap().len();
        if pods.len() > ended {
            std::future::pending::<()>().await;
        }
    }
}

struct Harness {
    login: MemoryLogin,
    files: Arc<MemoryFiles>,
    pods: Arc<Pods>,
    events: Arc<KeptNodeEvents>,
    registry: Registry,
    metrics: ShutdownMetrics,
    clock: Arc<VirtualClock>,
}

impl Harness {
    fn new(stuck: Option<&'static str>) -> Self {
        let pod = |name: &str, priority: i32, grace: i64| {
            let mut pod = pods::pod(name).build();
            let spec = pod.spec.as_mut().unwrap();
            spec.priority = Some(priority);
            spec.termination_grace_period_seconds = Some(grace);
            Arc::new(pod)
        };
        let all = vec![pod("web", 0, 5), pod("db", 1, 60), pod("dns", 2_000_000_000, 3)];
        let pods = Pods {
            all,
            began: Instant::now(),
            ended: Mutex::default(),
            log: Mutex::default(),
            stuck,
        };
        let (registry, files) = (Registry::new(), MemoryFiles::new());
        files.write("/var/lib/kubelet/pods/.keep", "");
        Self {
            login: MemoryLogin::default(),
            files: Arc::new(files),
            pods: Arc::new(pods),
            events: Arc::default(),
            metrics: ShutdownMetrics::new(&registry).unwrap(),
            registry,
            clock: Arc::new(VirtualClock::new()),
        }
    }

    /// An agent with 20 s for regular pods and 10 s for critical ones.
    fn start(&self) -> Agent {
        let parts = ShutdownParts {
            login: Arc::new(self.login.clone()),
            files: Arc::clone(&self.files) as _,
            root_dir: "/var/lib/kubelet".into(),
            pods: Arc::clone(&self.pods) as _,
            node_events: Arc::clone(&self.events) as _,
            clock: Arc::clone(&self.clock) as _,
            metrics: self.metrics.clone(),
        };
        let phases = Phases::of_two(Duration::from_secs(30), Duration::from_secs(10));
        let mut tasks = JoinSet::new();
        tasks.spawn(ShutdownManager::new(parts, phases).run(CancellationToken::new()));
        Agent { _tasks: tasks }
    }

    fn log(&self) -> Vec<String> {
        self.pods.log.lock().unwrap().clone()
    }

    fn events(&self) -> Vec<String> {
        self.events.all().into_iter().map(|event| event.message).collect()
    }

    fn metric(&self, name: &str) -> f64 {
        let families = self.registry.gather();
        let family = families.iter().find(|family| family.name() == name).unwrap();
        family.get_metric()[0].get_gauge().get_value()
    }

    fn state(&self) -> SavedState {
        let content = self.files.content("/var/lib/kubelet/graceful_node_shutdown_state").unwrap();
        SavedState::parse(&content).unwrap()
    }
}

/// Killed when it is dropped.
struct Agent {
    _tasks: JoinSet<()>,
}

async fn wait(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

const START: &str = "kubelet_graceful_shutdown_start_time_seconds";
const END: &str = "kubelet_graceful_shutdown_end_time_seconds";

// behaviour: SHD-1, SHD-2, SHD-6, SHD-8, SHD-9
#[tokio::test(start_paused = true)]
async fn phases_follow_each_other_and_the_delay_is_released_at_the_end() {
    let harness = Harness::new(None);
    harness.login.configure(Duration::from_secs(30));
    let _agent = harness.start();
    wait(2).await;
    let drop_in = harness.files.content("/etc/systemd/logind.conf.d/99-kubelet.conf").unwrap();
    assert!(String::from_utf8(drop_in).unwrap().ends_with("[Login]\nInhibitDelayMaxSec=30\n"));
    assert_eq!(harness.login.locks(), (1, 1));
    assert_eq!(harness.log(), [""; 0]);

    harness.login.prepare(true);
    harness.login.unlocked().await;
    let expected = [
        "2 shuts down",
        "2 kill web 5s",
        "2 kill db 20s",
        "7 web ended",
        "22 db ended",
        "22 kill dns 3s",
        "25 dns ended",
    ];
    assert_eq!(harness.log(), expected);
    assert_eq!(harness.events(), ["Shutdown manager detected shutdown event"]);
    let state = harness.state();
    let took = state.end.unwrap().duration_since(state.start.unwrap());
    assert_eq!(took.as_secs(), 23);
    let seconds = |time: Option<jiff::Timestamp>| {
        time.unwrap().duration_since(jiff::Timestamp::UNIX_EPOCH).as_secs_f64()
    };
    assert!((harness.metric(START) - seconds(state.start)).abs() < 1.5);
    assert!((harness.metric(END) - seconds(state.end)).abs() < 1.5);
}

// behaviour: SHD-7
#[tokio::test(start_paused = true)]
async fn pod_that_does_not_end_takes_no_longer_than_its_phase() {
    let harness = Harness::new(Some("web"));
    harness.login.configure(Duration::from_mins(1));
    let _agent = harness.start();
    wait(1).await;
    harness.login.prepare(true);
    wait(19).await;
    assert!(harness.login.locks().0 == 1 && harness.log().len() == 3, "{:?}", harness.log());
    assert!((harness.metric(END)).abs() < 0.5, "it lasts");
    harness.login.unlocked().await;
    assert!(harness.log().ends_with(&["21 kill dns 3s", "24 dns ended"].map(str::to_owned)));
    let took = harness.pods.began.elapsed();
    assert!(took >= Duration::from_secs(26) && took <= Duration::from_secs(27), "{took:?}");
}

// behaviour: SHD-11
#[tokio::test(start_paused = true)]
async fn cancelled_shutdown_is_delayed_again_the_next_time() {
    let harness = Harness::new(None);
    harness.login.configure(Duration::from_secs(30));
    let _agent = harness.start();
    wait(1).await;
    harness.login.prepare(true);
    harness.login.unlocked().await;
    harness.login.prepare(false);
    wait(1).await;
    assert_eq!(harness.login.locks(), (1, 2));
    assert_eq!(harness.log().last().unwrap(), "24 stays up");
    assert_eq!(harness.events().last().unwrap(), "Shutdown manager detected shutdown cancellation");
    harness.login.prepare(true);
    harness.login.unlocked().await;
    assert_eq!(harness.log().last().unwrap(), "25 shuts down", "no pod is left");
}

// behaviour: SHD-10
#[tokio::test(start_paused = true)]
async fn agent_that_starts_during_a_shutdown_continues_it() {
    let harness = Harness::new(None);
    harness.login.configure(Duration::from_secs(30));
    let agent = harness.start();
    wait(1).await;
    harness.login.prepare(true);
    wait(10).await;
    drop(agent);
    assert_eq!(harness.login.locks(), (1, 1), "the service manager keeps the lock");
    wait(4).await;
    let _next = harness.start();
    harness.login.unlocked().await;
    // Its regular pods have what is left of 20 s.
    let expected =
        ["15 shuts down", "15 kill db 6s", "21 db ended", "21 kill dns 3s", "24 dns ended"];
    assert_eq!(harness.log()[4..], expected);
    assert_eq!(harness.login.locks(), (0, 1));
}

// behaviour: SHD-3, SHD-4
#[tokio::test(start_paused = true)]
async fn watch_begins_again_after_errors() {
    let harness = Harness::new(None);
    harness.login.set_fault(Some("no bus"));
    let _agent = harness.start();
    wait(30).await;
    assert_eq!(harness.login.locks(), (0, 0));
    // Its configuration has no effect at first.
    harness.login.set_fault(None);
    wait(120).await;
    assert_eq!(harness.login.locks(), (0, 0), "a delay of 5 s is too short");
    harness.login.configure(Duration::from_secs(30));
    wait(70).await;
    assert_eq!(harness.login.locks(), (1, 1));
    harness.login.lose_watches();
    wait(2).await;
    assert_eq!(harness.login.locks(), (1, 1), "the lock is kept");
    harness.login.prepare(true);
    harness.login.unlocked().await;
    assert_eq!(harness.log().len(), 7);
    // A watch that is lost afterwards does not begin the shutdown again.
    harness.login.lose_watches();
    wait(5).await;
    assert_eq!(harness.log().len(), 7);
}
