//! Statuses through restarts of the agent, on files in memory.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use model::observed::{ContainerState, RuntimePodStatus as Observed, SandboxState};
use podspec::{annotations, view};
use prometheus::Registry;
use testkit::clock::VirtualClock;
use testkit::files::MemoryFiles;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::decide::test_pods::{instance, pod, sandbox};
use crate::decide::{NodeFacts, SavedPods, StatusOverrides};
use crate::manager::{PodStatusManager, StatusParts};
use crate::{PodMetrics, StatusCheckpoint};

const STATE: &str = "/state";
/// The file of the pod `uid`.
const FILE: &str = "/state/pod-statuses/0.json";
/// The only file of earlier agents.
const EARLIER_FILE: &str = "/state/pod-statuses.json";

#[derive(Debug)]
struct Agent {
    manager: Arc<PodStatusManager>,
    stop: CancellationToken,
    saving: JoinHandle<()>,
}

impl Agent {
    #[expect(clippy::disallowed_methods, reason = "a test, which waits for the task")]
    async fn start(files: &Arc<MemoryFiles>, pods: SavedPods) -> Self {
        let manager = PodStatusManager::new(StatusParts {
            node: NodeFacts::default(),
            host_ips: Arc::<Vec<IpAddr>>::default(),
            clock: Arc::new(VirtualClock::new()),
            metrics: PodMetrics::new(&Registry::new()).unwrap(),
            changes: watch::Sender::new(0),
        });
        let checkpoint = StatusCheckpoint::new(Arc::clone(files) as _, Path::new(STATE), pods);
        let manager = Arc::new(manager.with_checkpoint(checkpoint));
        manager.load().await.unwrap();
        let (stop, saving) = (CancellationToken::new(), Arc::clone(&manager));
        let stopped = stop.clone();
        let saving = tokio::spawn(async move { saving.save(stopped).await });
        Self { manager, stop, saving }
    }

    fn observe(&self, pod: &Arc<Pod>, observed: &Observed) -> Arc<PodStatus> {
        self.manager.observed(pod, observed, &StatusOverrides::default()).status
    }

    async fn stop(self) {
        self.stop.cancel();
        self.saving.await.unwrap();
    }
}

fn static_pod(uid: &str) -> Arc<Pod> {
    let mut pod = pod("Always", &["main"]);
    pod.metadata.uid = Some(uid.to_owned());
    let source = (annotations::CONFIG_SOURCE.to_owned(), "file".to_owned());
    pod.metadata.annotations = Some([source].into());
    Arc::new(pod)
}

fn api_pod(uid: &str) -> Arc<Pod> {
    let mut pod = pod("Always", &["main"]);
    pod.metadata.uid = Some(uid.to_owned());
    Arc::new(pod)
}

/// A pod with these instances of its container, the newest first.
fn observed(pod: &Pod, instances: &[(&str, ContainerState)]) -> Observed {
    let mut observed = Observed::empty(view::uid(pod));
    observed.sandboxes.push(sandbox(SandboxState::Ready));
    for (id, state) in instances {
        observed.containers.push(instance(id, *state, 1));
    }
    observed
}

fn main(status: &PodStatus) -> &ContainerStatus {
    &status.container_statuses.as_ref().unwrap()[0]
}

/// The content of all files; `None` if there are none.
fn content(files: &MemoryFiles) -> Option<String> {
    let paths = (0..16).map(|at| format!("/state/pod-statuses/{at}.json"));
    let all: Vec<Vec<u8>> = paths.filter_map(|path| files.content(&path)).collect();
    (!all.is_empty()).then(|| String::from_utf8(all.concat()).unwrap())
}

fn remove_all(files: &MemoryFiles) {
    for at in 0..16 {
        files.remove(&format!("/state/pod-statuses/{at}.json"));
    }
}

// behaviour: STW-50
#[tokio::test(start_paused = true)]
async fn status_survives_a_restart_of_the_agent() {
    let files = Arc::new(MemoryFiles::new());
    let web = static_pod("uid");
    let agent = Agent::start(&files, SavedPods::All).await;
    agent.manager.desired(&web);
    let both = [("main-1", ContainerState::Running), ("main-0", ContainerState::Exited)];
    let before = agent.observe(&web, &observed(&web, &both));
    assert!(main(&before).last_state.is_some());
    agent.stop().await;
    sleep(Duration::from_hours(1)).await;
    let agent = Agent::start(&files, SavedPods::All).await;
    agent.manager.desired(&web);
    // The dead instance was removed meanwhile.
    let after = agent.observe(&web, &observed(&web, &both[..1]));
    assert_eq!(after, before);
    agent.stop().await;
}

// behaviour: STW-50
#[tokio::test(start_paused = true)]
async fn changes_of_a_second_are_written_together_and_equal_statuses_not_at_all() {
    let files = Arc::new(MemoryFiles::new());
    let agent = Agent::start(&files, SavedPods::All).await;
    sleep(Duration::from_secs(10)).await;
    assert_eq!(content(&files), None, "without pods there is no file");
    let pods = ["a", "b"].map(static_pod);
    for pod in &pods {
        agent.observe(pod, &observed(pod, &[]));
        sleep(Duration::from_millis(300)).await;
    }
    assert_eq!(content(&files), None);
    sleep(Duration::from_secs(1)).await;
    let written = content(&files).unwrap();
    for pod in &pods {
        assert!(written.contains(view::uid(pod).as_str()));
    }
    remove_all(&files);
    for _ in 0..5 {
        agent.observe(&pods[0], &observed(&pods[0], &[]));
        sleep(Duration::from_secs(2)).await;
    }
    assert_eq!(content(&files), None);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn with_an_api_server_only_static_pods_are_saved() {
    let files = Arc::new(MemoryFiles::new());
    let agent = Agent::start(&files, SavedPods::Static).await;
    for pod in [static_pod("uid-static"), api_pod("uid-api")] {
        agent.observe(&pod, &observed(&pod, &[]));
    }
    agent.stop().await;
    let written = content(&files).unwrap();
    assert!(written.contains("uid-static") && !written.contains("uid-api"), "{written}");
}

#[tokio::test(start_paused = true)]
async fn saved_status_stays_until_no_source_lists_its_pod() {
    let files = Arc::new(MemoryFiles::new());
    let agent = Agent::start(&files, SavedPods::All).await;
    let pods = ["kept", "gone"].map(static_pod);
    for pod in &pods {
        agent.observe(pod, &observed(pod, &[]));
    }
    agent.stop().await;
    let has = |name: &str| content(&files).unwrap().contains(&format!("\"{name}\""));
    // Stopped before any source has listed its pods.
    Agent::start(&files, SavedPods::All).await.stop().await;
    assert!(has("kept") && has("gone"));
    let agent = Agent::start(&files, SavedPods::All).await;
    agent.manager.desired(&pods[0]);
    agent.manager.sources_complete();
    agent.stop().await;
    assert!(has("kept") && !has("gone"));
    // A pod that was removed has no status when it comes back.
    let agent = Agent::start(&files, SavedPods::All).await;
    agent.manager.forgotten(&view::uid(&pods[0]));
    agent.stop().await;
    assert!(!has("kept"));
}

#[tokio::test(start_paused = true)]
async fn corrupt_file_is_moved_aside_and_a_failed_write_is_retried() {
    let files = Arc::new(MemoryFiles::new());
    files.write(FILE, "nonsense");
    let agent = Agent::start(&files, SavedPods::All).await;
    assert_eq!(files.content("/state/pod-statuses/0.json.damaged"), Some(b"nonsense".to_vec()));
    files.fail(FILE, ErrorKind::StorageFull);
    let web = static_pod("uid");
    let status = agent.observe(&web, &observed(&web, &[]));
    sleep(Duration::from_secs(5)).await;
    files.repair(FILE);
    sleep(Duration::from_secs(20)).await;
    assert!(content(&files).unwrap().contains("uid"));
    agent.stop().await;
    let agent = Agent::start(&files, SavedPods::All).await;
    assert_eq!(agent.observe(&web, &observed(&web, &[])), status);
    let start = status.start_time.as_ref().map(|time| time.0);
    assert!(start.is_some_and(|start| start > Timestamp::UNIX_EPOCH));
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn change_of_a_pod_writes_no_file_of_other_pods() {
    let files = Arc::new(MemoryFiles::new());
    let agent = Agent::start(&files, SavedPods::All).await;
    let pods = ["uid", "second"].map(static_pod);
    for pod in &pods {
        agent.observe(pod, &observed(pod, &[]));
    }
    sleep(Duration::from_secs(5)).await;
    assert!(content(&files).unwrap().contains("second"));
    remove_all(&files);
    agent.observe(&pods[0], &observed(&pods[0], &[("main-0", ContainerState::Running)]));
    sleep(Duration::from_secs(5)).await;
    let written = content(&files).unwrap();
    assert!(written.contains("\"uid\"") && !written.contains("\"second\""), "{written}");
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn file_of_an_earlier_agent_is_taken_over_and_removed() {
    let files = Arc::new(MemoryFiles::new());
    let agent = Agent::start(&files, SavedPods::All).await;
    let web = static_pod("uid");
    let status = agent.observe(&web, &observed(&web, &[]));
    agent.stop().await;
    files.write(EARLIER_FILE, content(&files).unwrap().as_str());
    remove_all(&files);
    let agent = Agent::start(&files, SavedPods::All).await;
    assert_eq!(agent.observe(&web, &observed(&web, &[])), status);
    agent.stop().await;
    assert_eq!(files.content(EARLIER_FILE), None);
    assert!(content(&files).unwrap().contains("\"uid\""));
}
