//! `node clean` in memory.

use std::sync::Mutex;
use std::time::Duration;

use model::ids::ContainerId;
use model::labels;
use model::ports::runtime::{Code, ContainerService, Runtime, SandboxService};
use model::ports::volumes::{FileSystem, Subpath};
use model::volume::{Plugin, VolumeId};
use testkit::cgroups::MemoryCgroups;
use testkit::clock::VirtualClock;
use testkit::files::MemoryFiles;
use testkit::runtime::{Fault, MemoryRuntime, Method, RemoteImage, Rule};
use testkit::volumes::MemoryVolumes;
use testkit::wanted;

use super::*;

const IMAGE: &str = "ferrolet.test/workload:1";

struct Node {
    runtime: Arc<MemoryRuntime>,
    files: Arc<MemoryFiles>,
    cgroups: Arc<MemoryCgroups>,
    cleaner: Cleaner,
    reported: Mutex<Vec<String>>,
}

impl Node {
    fn new() -> Self {
        let clock = Arc::new(VirtualClock::new());
        let runtime = Arc::new(MemoryRuntime::new(Arc::clone(&clock) as _));
        runtime.add_image(&RemoteImage::new(IMAGE).entrypoint(["/workload"]));
        let files = Arc::new(MemoryFiles::new());
        let logs = LogLayout { pod_logs: "/logs".into(), container_links: "/links".into() };
        let cgroups = Arc::new(MemoryCgroups::default());
        let cleaner = Cleaner {
            runtime: Runtime::new(Arc::clone(&runtime)),
            files: Arc::clone(&files) as _,
            volumes: Arc::new(MemoryVolumes::new(Arc::clone(&files))),
            clock,
            logs,
            pods: "/pods".into(),
            cgroups: Some((Arc::clone(&cgroups) as _, CgroupName::parse("/kubepods").unwrap())),
        };
        Self { runtime, files, cgroups, cleaner, reported: Mutex::default() }
    }

    /// Adds a pod with a container that runs these arguments.
    async fn add(&self, name: &str, args: &[&str], grace: u32) -> ContainerId {
        let (pod, uid) = (PodName::new("default", name), PodUid::from(format!("uid-of-{name}")));
        let sandbox = wanted::sandbox(&pod, &uid);
        let id = self.runtime.run_pod_sandbox(&sandbox).await.unwrap();
        let mut config = wanted::container(&sandbox, "main", IMAGE, args);
        config.annotations.insert(labels::POD_TERMINATION_GRACE.to_owned(), grace.to_string());
        let container = self.runtime.create_container(&id, &config, &sandbox).await.unwrap();
        self.runtime.start_container(&container).await.unwrap();
        let log = self.cleaner.logs.pod_directory(&pod, &uid).join("main/0.log");
        self.files.write(&log, "text");
        self.files.write(self.cleaner.pods.join(uid.as_str()).join("etc-hosts"), "text");
        self.files.put_link(self.cleaner.logs.container_link(&pod, "main", &container), log);
        container
    }

    async fn clean(&self) -> (usize, Vec<String>) {
        let report = |line: &str| self.reported.lock().unwrap().push(line.to_owned());
        let cleaned = self.cleaner.clean(&report).await.unwrap();
        (cleaned.removed, cleaned.failed.iter().map(ToString::to_string).collect())
    }

    async fn list(&self, directory: &str) -> Vec<String> {
        self.files.list(directory.as_ref()).await.unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn clean_removes_all_pods_and_a_second_run_does_nothing() {
    let node = Node::new();
    node.add("web", &["sleep", "forever"], 30).await;
    node.add("job", &["exit", "0"], 30).await;
    node.files.write("/logs/foreign/file", "text");
    assert_eq!(node.clean().await, (2, vec![]));
    assert!(node.runtime.containers().is_empty() && node.runtime.sandboxes().is_empty());
    let reported = node.reported.lock().unwrap().clone();
    let about = |pod: &str| reported.iter().filter(|line| line.starts_with(pod)).count();
    assert_eq!(about("default/web: "), 2, "it ran, so it is stopped first: {reported:?}");
    assert_eq!(about("default/job: "), 1, "it had ended: {reported:?}");
    assert_eq!(node.list("/logs").await, ["foreign"]);
    assert_eq!(node.list("/links").await, [""; 0]);
    assert_eq!(node.list("/pods").await, [""; 0]);
    assert_eq!(node.clean().await, (0, vec![]));
}

#[tokio::test(start_paused = true)]
async fn volumes_are_unmounted_and_host_data_stays() {
    let node = Node::new();
    node.add("web", &["sleep", "forever"], 30).await;
    let uid = PodUid::from("uid-of-web");
    let (layout, volumes) = (VolumeLayout { pods: "/pods".into() }, &node.cleaner.volumes);
    let place = |plugin, name| layout.volume(&uid, &VolumeId::new(plugin, name));
    let (disk, memory) = (place(Plugin::EmptyDir, "disk"), place(Plugin::Secret, "token"));
    for place in [&disk, &memory] {
        volumes.make_directory(place, 0o777).await.unwrap();
    }
    node.files.write(disk.path().join("file"), "text");
    let tmpfs = FileSystem::Tmpfs { size: None, no_swap: true };
    volumes.mount(&memory, &tmpfs).await.unwrap();
    node.files.write("/disks/one/file", "kept");
    let local = place(Plugin::Local, "pv");
    volumes.bind("/disks/one".as_ref(), &local, false).await.unwrap();
    let part = Subpath {
        volume: local.path(),
        path: "part".into(),
        target: layout.subpath(&uid, "data", "main", 0),
    };
    volumes.bind_subpath(&part).await.unwrap();
    assert_eq!(node.clean().await, (1, vec![]));
    assert_eq!(node.list("/pods").await, [""; 0]);
    assert_eq!(node.list("/disks/one").await, ["file", "part"]);
}

#[tokio::test(start_paused = true)]
async fn pod_with_a_foreign_volume_is_reported_and_stays() {
    let node = Node::new();
    node.add("web", &["sleep", "forever"], 30).await;
    let foreign = "/pods/uid-of-web/volumes/kubernetes.io~csi/pv/vol_data.json";
    node.files.write(foreign, "{}");
    assert_eq!(node.clean().await, (0, vec!["default/web".to_owned()]));
    let reported = node.reported.lock().unwrap().clone();
    assert!(reported.iter().any(|line| line.contains("kubernetes.io~csi/pv")), "{reported:?}");
    assert_eq!(node.files.content(foreign).as_deref(), Some(&b"{}"[..]));
}

#[tokio::test(start_paused = true)]
async fn pod_cgroups_are_removed_and_parents_once_empty() {
    let node = Node::new();
    let name = |path: &str| CgroupName::parse(path).unwrap();
    node.add("web", &["sleep", "forever"], 30).await;
    let others = [name("/kubepods/burstable/podother"), name("/system")];
    for cgroup in &others {
        node.cgroups.enter(cgroup);
    }
    node.cgroups.enter(&name("/kubepods/besteffort/poduid-of-web/container"));
    assert_eq!(node.clean().await, (1, vec![]));
    let left = |node: &Node| -> Vec<String> {
        node.cgroups.all().keys().map(ToString::to_string).collect()
    };
    let above = ["/kubepods", "/kubepods/burstable", "/kubepods/burstable/podother", "/system"];
    assert_eq!(left(&node), above);
    node.cgroups.vanish(&others[0]);
    assert_eq!(node.clean().await, (0, vec![]));
    assert_eq!(left(&node), ["/system"]);
}

#[tokio::test(start_paused = true)]
async fn items_without_a_pod_stay() {
    let node = Node::new();
    node.add("web", &["sleep", "forever"], 30).await;
    let sandbox = wanted::sandbox(&PodName::new("foreign", "pod"), &"".into());
    let id = node.runtime.run_pod_sandbox(&sandbox).await.unwrap();
    let mut config = wanted::container(&sandbox, "bare", IMAGE, &["sleep", "forever"]);
    config.labels.clear();
    let bare = node.runtime.create_container(&id, &config, &sandbox).await.unwrap();
    assert_eq!(node.clean().await, (1, vec![]));
    let left: Vec<ContainerId> = node.runtime.containers().into_iter().map(|one| one.id).collect();
    assert_eq!((left, node.runtime.sandboxes().len()), (vec![bare], 1));
}

#[tokio::test(start_paused = true)]
async fn container_is_stopped_with_the_grace_period_of_its_pod() {
    let node = Node::new();
    node.add("polite", &["trap", "TERM", "--exit", "0", "--delay", "5s"], 10).await;
    node.add("deaf", &["ignore", "TERM"], 7).await;
    let begun = tokio::time::Instant::now();
    assert_eq!(node.clean().await, (2, vec![]));
    assert_eq!(
        begun.elapsed(),
        Duration::from_secs(7),
        "in parallel, and no longer than the grace period"
    );
}

#[tokio::test(start_paused = true)]
async fn pod_that_cannot_be_stopped_stays_and_others_are_removed() {
    let node = Node::new();
    let stuck = node.add("stuck", &["sleep", "forever"], 1).await;
    node.add("web", &["sleep", "forever"], 1).await;
    let fault = Fault::error(Code::Internal);
    node.runtime.inject(Rule::on(Method::StopContainer, fault).object(stuck.as_str()));
    assert_eq!(node.clean().await, (1, vec!["default/stuck".to_owned()]));
    assert_eq!(node.list("/logs").await, ["default_stuck_uid-of-stuck"]);
    assert_eq!(node.runtime.count(Method::RemoveContainer), 1);
    let reported = node.reported.lock().unwrap().join("\n");
    assert!(reported.contains("default/stuck: StopContainer"), "{reported}");
    node.runtime.clear_faults();
    assert_eq!(node.clean().await, (1, vec![]));
    assert_eq!(node.list("/links").await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn interrupted_clean_is_finished_by_the_next_run() {
    for method in [
        Method::StopContainer,
        Method::StopPodSandbox,
        Method::RemoveContainer,
        Method::RemovePodSandbox,
    ] {
        for fault in [Fault::error(Code::Unavailable), Fault::late_success()] {
            let node = Node::new();
            node.add("web", &["sleep", "forever"], 1).await;
            node.runtime.inject(Rule::on(method, fault).once());
            assert_eq!(node.clean().await.0, 0, "{method:?}");
            node.clean().await;
            assert!(node.runtime.sandboxes().is_empty(), "{method:?} {fault:?}");
            assert_eq!(node.list("/logs").await, [""; 0], "{method:?} {fault:?}");
            assert_eq!(node.list("/links").await, [""; 0], "{method:?} {fault:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn removed_pod_that_the_runtime_still_lists_is_a_failure() {
    for method in [Method::RemoveContainer, Method::RemovePodSandbox] {
        let node = Node::new();
        node.add("web", &["sleep", "forever"], 1).await;
        node.runtime.inject(Rule::on(method, Fault::error(Code::NotFound)).once());
        let (removed, failed) = node.clean().await;
        // Removing a sandbox removes its containers.
        if method == Method::RemovePodSandbox {
            assert_eq!((removed, failed), (0, vec!["default/web".to_owned()]));
            assert!(node.reported.lock().unwrap().last().unwrap().contains("still lists parts"));
            assert_eq!(node.clean().await, (1, vec![]));
        }
        assert!(node.runtime.containers().is_empty() && node.runtime.sandboxes().is_empty());
    }
}
