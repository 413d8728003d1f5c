use model::ids::PodName;
use testkit::clock::VirtualClock;
use testkit::events::{KeptEvents, KeptNodeEvents};
use testkit::incidents::KeptIncidents;
use testkit::kernel_log::MemoryKernelLog;

use super::*;
use crate::decide::VictimContainer;

/// A pod with the container `c1`. The status of the pod `slow` takes 10 s.
#[derive(Debug)]
struct OnePod;

#[async_trait]
impl Victims for OnePod {
    async fn find(&self, uid: &PodUid, id: Option<&ContainerId>) -> Option<VictimPod> {
        if uid.as_str() == "slow" {
            sleep(Duration::from_secs(10)).await;
            return Some(VictimPod { pod: PodName::new("shop", "slow"), container: None });
        }
        let container = VictimContainer { list: "containers", name: "main".into() };
        let container = id.filter(|id| id.as_str() == "c1").map(|_| container);
        (uid.as_str() == "u1").then(|| VictimPod { pod: PodName::new("shop", "web"), container })
    }
}

#[derive(Debug, Default)]
struct Harness {
    log: Arc<MemoryKernelLog>,
    events: Arc<KeptEvents>,
    node_events: Arc<KeptNodeEvents>,
    incidents: Arc<KeptIncidents>,
    kills: OomKills,
}

impl Harness {
    /// Runs a watcher while the log is written.
    async fn watch(&self, write: impl Fn(&MemoryKernelLog)) {
        self.watch_during(async |log| write(log)).await;
    }

    /// Runs a watcher until one second after this.
    async fn watch_during(&self, write: impl AsyncFn(&MemoryKernelLog)) {
        let watcher = OomWatcher::new(OomParts {
            log: Arc::clone(&self.log) as _,
            victims: Arc::new(OnePod),
            events: Arc::clone(&self.events) as _,
            node_events: Arc::clone(&self.node_events) as _,
            incidents: Arc::clone(&self.incidents) as _,
            clock: Arc::new(VirtualClock::new()),
            kills: self.kills.clone(),
        });
        let stop = CancellationToken::new();
        let writes = async {
            sleep(Duration::from_secs(1)).await;
            write(&self.log).await;
            sleep(Duration::from_secs(1)).await;
            stop.cancel();
        };
        tokio::join!(watcher.run(stop.clone()), writes);
    }

    /// All events: of the node, then of pods by name.
    fn messages(&self) -> Vec<String> {
        let of_node = self.node_events.all().into_iter().map(|event| event.message);
        let of_pods = self.events.all().into_iter();
        of_node.chain(of_pods.map(|event| format!("{} {}", event.pod, event.message))).collect()
    }
}

fn by_cgroup(pid: u32, limited: &str, cgroup: &str) -> String {
    format!(
        "hog invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n\
         memory: usage 1024kB, limit 2048kB, failcnt 72\n\
         oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,\
         oom_memcg={limited},task_memcg={cgroup},task=hog,pid={pid},uid=0\n\
         Memory cgroup out of memory: Killed process {pid} (hog) total-vm:77996kB\n"
    )
}

fn of_machine(cgroup: &str) -> String {
    format!(
        "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,\
         task_memcg={cgroup},task=db,pid=9,uid=0\n\
         Out of memory: Killed process 9 (db) total-vm:77996kB\n"
    )
}

// behaviour: OOM-2, WHY-18
#[tokio::test(start_paused = true)]
async fn kill_in_a_container_is_an_event_and_an_incident_and_kept() {
    let (harness, cgroup) = (Harness::default(), "/kubepods/podu1/c1");
    harness
        .watch(|log| {
            log.write(&by_cgroup(7, cgroup, cgroup));
            log.write(&format!(
                "Tasks in {cgroup} are going to be killed due to memory.oom.group set"
            ));
            log.write("Memory cgroup out of memory: Killed process 8 (child) total-vm:1kB");
        })
        .await;
    let message = "shop/web Kernel killed process hog (pid 7) of container main: \
                   memory usage 1Mi reached the limit 2Mi of the container";
    assert_eq!(harness.messages(), [message]);
    let numbers = "process hog, pid 7, memoryLimit 2097152, memoryUsage 1048576";
    assert_eq!(harness.incidents.lines(), [format!("oom main out-of-memory: {numbers}")]);
    assert_eq!(harness.kills.last(&"c1".into()).unwrap().pid, 7, "the group is one kill");
}

// behaviour: OOM-1, OOM-7
#[tokio::test(start_paused = true)]
async fn system_oom_is_an_event_of_the_node_and_of_the_victims_pod() {
    let harness = Harness::default();
    harness
        .watch(|log| {
            log.write(&of_machine("/system.slice/db.service"));
            log.write(&of_machine("/kubepods/podu1/c1"));
            log.write(&by_cgroup(3, "/system.slice/a.service", "/system.slice/a.service"));
            log.write(&by_cgroup(4, "/kubepods/podgone/c9", "/kubepods/podgone/c9"));
        })
        .await;
    let system = "System OOM encountered, victim process: db, pid: 9";
    let of_pod =
        "shop/web Kernel killed process db (pid 9) of container main: the node is out of memory";
    assert_eq!(harness.messages(), [system, system, of_pod]);
    let kept = ["c1", "c9"].map(|id| harness.kills.last(&id.into()).unwrap().pid);
    assert_eq!(kept, [9, 4], "also of an unknown pod");
}

// behaviour: OOM-5
#[tokio::test(start_paused = true)]
async fn lines_of_programs_and_lines_before_an_overrun_do_not_count() {
    let (harness, cgroup) = (Harness::default(), "/kubepods/podu1/c1");
    harness
        .watch(|log| {
            for line in of_machine(cgroup).lines() {
                log.write_as_program(line);
            }
            let kill = by_cgroup(7, cgroup, cgroup);
            let (head, last) = kill.trim_end().rsplit_once('\n').unwrap();
            log.write(head);
            log.overrun();
            log.write(last);
            log.write(&by_cgroup(8, "/kubepods/podu1", cgroup));
        })
        .await;
    let message = "shop/web Kernel killed process hog (pid 8) of container main: \
                   memory usage 1Mi reached the limit 2Mi of the pod";
    assert_eq!(harness.messages(), [message]);
}

// behaviour: OOM-6
#[tokio::test(start_paused = true)]
async fn log_that_cannot_be_opened_does_not_end_the_watcher() {
    let harness = Harness::default();
    harness.log.deny();
    harness.watch(|log| log.write(&of_machine("/"))).await;
    assert_eq!(harness.messages(), [""; 0]);
}

const IN_POD: &str = "shop/web Kernel killed process hog (pid 7) of container main: \
                      memory usage 1Mi reached the limit 2Mi of the container";

// behaviour: OOM-7
#[tokio::test(start_paused = true)]
async fn log_is_read_while_reports_wait_for_their_pods() {
    let (harness, cgroup, slow) =
        (Harness::default(), "/kubepods/podu1/c1", "/kubepods/podslow/c2");
    harness
        .watch_during(async |log| {
            log.write(&by_cgroup(3, slow, slow));
            log.write(&by_cgroup(7, cgroup, cgroup));
            sleep(Duration::from_secs(1)).await;
            assert_eq!(harness.messages(), [IN_POD]);
            // The report outlives a failed read.
            log.fail();
            sleep(Duration::from_secs(10)).await;
        })
        .await;
    let pods: Vec<_> = harness.events.all().iter().map(|event| event.pod.to_string()).collect();
    assert_eq!(pods, ["shop/web", "shop/slow"]);
}

// behaviour: OOM-7
#[tokio::test(start_paused = true)]
async fn reports_are_dropped_when_too_many_wait_for_their_pods() {
    let (harness, slow) = (Harness::default(), "/kubepods/podslow/c2");
    harness
        .watch_during(async |log| {
            for pid in 0..70 {
                log.write(&by_cgroup(pid, slow, slow));
            }
            sleep(Duration::from_secs(11)).await;
            log.write(&by_cgroup(99, slow, slow));
            sleep(Duration::from_secs(11)).await;
        })
        .await;
    assert_eq!(harness.events.all().len(), MOST_REPORTS + 1);
    assert_eq!(harness.kills.last(&"c2".into()).unwrap().pid, 99);
}

// behaviour: OOM-6
#[tokio::test(start_paused = true)]
async fn log_is_opened_again_after_a_failed_read() {
    let (harness, cgroup) = (Harness::default(), "/kubepods/podu1/c1");
    harness
        .watch_during(async |log| {
            for wait in [1, 2, 4] {
                log.fail();
                sleep(Duration::from_millis(wait * 1000 - 1)).await;
                assert_eq!(log.readers(), 0, "{wait}");
                sleep(Duration::from_millis(2)).await;
                assert_eq!(log.readers(), 1, "{wait}");
            }
            log.write(&by_cgroup(7, cgroup, cgroup));
            sleep(Duration::from_secs(1)).await;
            log.deny();
            log.fail();
            sleep(Duration::from_mins(2)).await;
            assert_eq!(log.readers(), 0);
        })
        .await;
    assert_eq!(harness.messages(), [IN_POD]);
}
