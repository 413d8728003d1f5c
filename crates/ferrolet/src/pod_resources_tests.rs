#![expect(clippy::disallowed_methods, reason = "a real socket, and what is in its way")]

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;

use k8s_openapi::api::core::v1::Pod;
use prometheus::Registry;
use status::PodMetrics;
use status::decide::NodeFacts;
use status::manager::{PodStatusManager, StatusParts};
use testkit::clock::VirtualClock;
use testkit::pods::pod;
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::*;

#[derive(Debug)]
struct NoPods;

impl PodResources for NoPods {
    fn active(&self) -> Vec<PodContainers> {
        Vec::new()
    }

    fn all(&self) -> Vec<PodContainers> {
        Vec::new()
    }

    fn named(&self, _: &str, _: &str) -> Option<PodContainers> {
        None
    }
}

/// A root directory, the socket in it, and its server.
struct Place {
    path: PathBuf,
    tasks: JoinSet<()>,
    stop: CancellationToken,
    _root: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(SOCKET);
        fs::create_dir(path.parent().unwrap()).unwrap();
        let (tasks, stop) = (JoinSet::new(), CancellationToken::new());
        Self { path, tasks, stop, _root: root }
    }

    fn serve(&mut self) {
        let metrics = Metrics::new(&Registry::new()).unwrap();
        let clock = Arc::new(VirtualClock::new());
        let lister = Lister::new(Arc::new(NoPods), Listed::Active, clock, metrics);
        let socket = PodResourcesSocket { path: self.path.clone(), listed: Listed::Active };
        self.tasks.spawn(socket.serve(lister, self.stop.clone()));
    }

    /// Long enough for a retry. The clock is paused, and waits while files are worked on.
    async fn wait(&self) {
        sleep(2 * RETRY + RETRY / 2).await;
    }

    async fn stop(mut self) {
        self.stop.cancel();
        self.tasks.join_next().await.unwrap().unwrap();
        assert!(!self.path.exists(), "the socket is removed with its server");
    }
}

// behaviour: PRS-8, PRS-10
#[tokio::test(start_paused = true)]
async fn stale_socket_is_replaced_and_removed_at_the_end() {
    let mut place = Place::new();
    drop(std::os::unix::net::UnixListener::bind(&place.path).unwrap());
    assert!(UnixStream::connect(&place.path).await.is_err(), "no process listens");
    place.serve();
    place.wait().await;
    UnixStream::connect(&place.path).await.unwrap();
    assert_eq!(fs::metadata(&place.path).unwrap().permissions().mode() & 0o777, 0o755);
    place.stop().await;
}

// behaviour: PRS-8
#[tokio::test(start_paused = true)]
async fn file_at_the_socket_path_is_kept_and_listening_is_retried() {
    let mut place = Place::new();
    fs::write(&place.path, "notes").unwrap();
    place.serve();
    place.wait().await;
    assert_eq!(fs::read_to_string(&place.path).unwrap(), "notes");
    fs::remove_file(&place.path).unwrap();
    place.wait().await;
    UnixStream::connect(&place.path).await.unwrap();
    place.stop().await;
}

// behaviour: PRS-8
#[tokio::test(start_paused = true)]
async fn listening_waits_while_another_agent_answers() {
    let mut place = Place::new();
    let other = hostfs::listen(&place.path).unwrap();
    place.serve();
    place.wait().await;
    other.listener().unwrap().accept().unwrap();
    drop(other);
    place.wait().await;
    UnixStream::connect(&place.path).await.unwrap();
    place.stop().await;
}

fn status_manager() -> PodStatusManager {
    PodStatusManager::new(StatusParts {
        node: NodeFacts::default(),
        host_ips: Arc::<Vec<IpAddr>>::default(),
        clock: Arc::new(VirtualClock::new()),
        metrics: PodMetrics::new(&Registry::new()).unwrap(),
        changes: watch::Sender::new(0),
    })
}

// behaviour: PRS-2, PRS-3, PRS-5
#[tokio::test(start_paused = true)]
async fn active_list_omits_rejected_pods_and_unlisted_pods_are_never_listed() {
    let of =
        |name: &str| -> Arc<Pod> { Arc::new(pod(name).container("main", "image", []).build()) };
    let manager = status_manager();
    manager.desired(&of("web"));
    manager.rejected(&of("refused"), "OutOfcpu", "there is no room");
    manager.terminating(&of("parted"));
    let given = PodIndex::listing(&["uid-of-refused", "uid-of-web"]);
    let pods = PodResourceView::new(manager.reader().clone(), Arc::new(given));
    let names = |pods: Vec<PodContainers>| -> Vec<String> {
        pods.into_iter().map(|pod| pod.name).collect()
    };
    assert_eq!(names(pods.active()), ["web"]);
    assert_eq!(names(pods.all()), ["refused", "web"]);
    assert_eq!(pods.named("default", "web"), pods.active().pop());
    for (namespace, name) in [("default", "refused"), ("default", "parted"), ("shop", "web")] {
        assert_eq!(pods.named(namespace, name), None, "{namespace}/{name}");
    }
}

// behaviour: PRS-3
#[test]
fn feature_gate_selects_active_or_all_pods() {
    let mut config = KubeletConfiguration::of_empty_file();
    let root = Path::new("/var/lib/kubelet");
    assert_eq!(PodResourcesSocket::of(root, &config).listed, Listed::Active);
    let gate = "KubeletPodResourcesListUseActivePods".to_owned();
    config.feature_gates.insert(gate, false);
    let socket = PodResourcesSocket::of(root, &config);
    assert_eq!(socket.listed, Listed::All);
    assert_eq!(socket.path, Path::new("/var/lib/kubelet/pod-resources/kubelet.sock"));
}
