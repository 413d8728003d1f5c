//! Measurements through ports in memory.

use std::sync::Arc;

use model::cgroup::usage::{CpuSample, MemorySample};
use model::observed::RuntimePodStatus;
use model::ports::clock::WallClock as _;
use model::ports::runtime::{Code, Runtime};
use testkit::clock::VirtualClock;
use testkit::disk::MemoryDisk;
use testkit::node_usage::MemoryUsage;
use testkit::runtime::{Fault, MemoryRuntime, Method, Rule};
use tokio::time::Instant;

use super::*;
use crate::decide::summary::{NodeFacts, SystemGroup};
use crate::source::ObservedPods;
use crate::volume_walks::VolumeUsage;

#[derive(Debug)]
struct NoPods;

impl ObservedPods for NoPods {
    fn observed_pods(&self) -> Vec<Arc<RuntimePodStatus>> {
        Vec::new()
    }
}

struct Bench {
    clock: Arc<VirtualClock>,
    usage: Arc<MemoryUsage>,
    runtime: Arc<MemoryRuntime>,
    measurer: Measurer,
}

impl Bench {
    fn new() -> Self {
        let clock = Arc::new(VirtualClock::new());
        let usage = Arc::<MemoryUsage>::default();
        let runtime = Arc::new(MemoryRuntime::new(Arc::clone(&clock) as _));
        let pods = SystemGroup { name: "pods", path: "/kubepods".to_owned(), started: None };
        let facts = NodeFacts {
            name: "n1".to_owned(),
            memory: 1000,
            root_dir: "/agent".into(),
            system: vec![pods],
        };
        let parts = StatisticsParts {
            cgroups: Arc::clone(&usage) as _,
            node: Arc::clone(&usage) as _,
            disks: Arc::new(MemoryDisk::new("/", 100)),
            runtime: Runtime::new(Arc::clone(&runtime)),
            pods: Arc::new(NoPods),
            volumes: VolumeUsage::default(),
            clock: Arc::clone(&clock) as _,
        };
        let settings = StatisticsSettings {
            facts,
            pods_cgroup: "/kubepods".to_owned(),
            ..StatisticsSettings::default()
        };
        let bench = Self { clock, usage, runtime, measurer: Measurer::new(parts, settings) };
        bench.set(0);
        bench
    }

    /// Sets the CPU time of all cgroups.
    fn set(&self, usage: u64) {
        for path in ["/", "/kubepods", "/kubepods/podu1"] {
            self.usage.set_cgroup(CgroupSample {
                path: path.to_owned(),
                time: self.clock.now(),
                cpu: Some(CpuSample { usage, ..CpuSample::default() }),
                memory: Some(MemorySample::default()),
                ..CgroupSample::default()
            });
        }
    }

    fn fail(&self, method: Method, fault: Fault) {
        self.runtime.inject(Rule::on(method, fault));
    }
}

// behaviour: STA-5
#[tokio::test(start_paused = true)]
async fn first_summary_measures_twice_to_have_rates() {
    let bench = Bench::new();
    let (summary, ()) = tokio::join!(bench.measurer.whole(), async {
        sleep(Duration::from_millis(999)).await;
        bench.set(250_000_000);
    });
    let rate = summary.unwrap().node.cpu.unwrap().usage_nano_cores.unwrap();
    assert_eq!(rate / 1_000_000, 250);
    assert_eq!(bench.usage.measurements().len(), 2);
    let started = Instant::now();
    bench.measurer.whole().await.unwrap();
    assert_eq!((bench.usage.measurements().len(), started.elapsed()), (1, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn node_alone_is_measured_without_the_cgroups_of_pods() {
    let bench = Bench::new();
    let node = bench.measurer.node().await.unwrap();
    assert_eq!(node.system_containers[0].name, "pods");
    assert_eq!(node.fs.unwrap().capacity_bytes, Some(100));
    let selection =
        Selection { alone: vec!["/".to_owned(), "/kubepods".to_owned()], ..Selection::default() };
    assert_eq!(bench.usage.measurements(), [(selection, Detail::CpuAndMemory)]);
    assert_eq!(bench.runtime.count(Method::ListContainerStats), 0);
}

// behaviour: STA-11
#[tokio::test(start_paused = true)]
async fn file_systems_are_measured_while_the_runtime_hangs() {
    let bench = Bench::new();
    bench.fail(Method::ImageFsInfo, Fault::error(Code::Unavailable));
    let error = bench.measurer.node().await.unwrap_err();
    assert_eq!(error.step, "find the file systems of the runtime");
    bench.runtime.clear_faults();
    bench.measurer.node().await.unwrap();
    bench.fail(Method::ImageFsInfo, Fault::hang());
    let started = Instant::now();
    let node = bench.measurer.node().await.unwrap();
    assert_eq!(started.elapsed(), RUNTIME);
    assert_eq!(node.runtime.unwrap().image_fs.unwrap().capacity_bytes, Some(100));
}

// behaviour: STA-10
#[tokio::test(start_paused = true)]
async fn cpu_and_memory_need_no_call_to_the_runtime() {
    let bench = Bench::new();
    for method in [Method::ImageFsInfo, Method::ListContainerStats] {
        bench.fail(method, Fault::error(Code::Unavailable));
    }
    let summary = bench.measurer.cpu_and_memory().await.unwrap();
    assert!(summary.node.cpu.is_some() && summary.node.fs.is_none());
    let error = bench.measurer.whole().await.unwrap_err();
    assert!(error.to_string().starts_with("list the statistics of containers: "), "{error}");
    let text = bench.measurer.cadvisor().await.unwrap();
    assert!(text.contains("id=\"/kubepods/podu1\""), "{text}");
}

fn pods_with_sandboxes(count: usize) -> Vec<RunningPod> {
    use model::observed::{ContainerState, SandboxState};
    let status = |number: usize| {
        let sandboxes =
            vec![testkit::observed::sandbox_status(&format!("s{number}"), SandboxState::Ready)];
        let running = ContainerState::Running;
        let containers = vec![testkit::observed::container_status("c", "main", running)];
        let empty = RuntimePodStatus::empty(format!("u{number}").as_str().into());
        Arc::new(RuntimePodStatus { sandboxes, containers, ..empty })
    };
    running_pods(&(0..count).map(status).collect::<Vec<_>>())
}

#[tokio::test(start_paused = true)]
async fn images_of_sandboxes_are_given_up_together_when_the_runtime_hangs() {
    let pods = pods_with_sandboxes(3);
    assert_eq!(pods.len(), 3);
    for (fault, took) in
        [(Fault::hang(), SANDBOXES), (Fault::error(Code::DeadlineExceeded), Duration::ZERO)]
    {
        let bench = Bench::new();
        bench.fail(Method::PodSandboxStatus, fault);
        let started = Instant::now();
        assert_eq!(bench.measurer.sandbox_images(&pods).await, BTreeMap::new());
        assert_eq!((started.elapsed(), bench.runtime.count(Method::PodSandboxStatus)), (took, 1));
    }
    // Other failures concern one sandbox.
    let bench = Bench::new();
    bench.fail(Method::PodSandboxStatus, Fault::error(Code::NotFound));
    bench.measurer.sandbox_images(&pods).await;
    assert_eq!(bench.runtime.count(Method::PodSandboxStatus), 3);
}
