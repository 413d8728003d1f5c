//! A runtime in memory with a proxy in front of it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use proto::runtime_v1 as cri;
use proto::runtime_v1::runtime_service_client::RuntimeServiceClient;
use tempfile::TempDir;
use testkit::hollow::{self, Hollow, Settings};
use testkit::proxy::{self, Fault, Proxy};
use testkit::socket::bind;
use tokio::net::UnixStream;
use tokio::task::JoinSet;
use tonic::transport::{Channel, Uri};
use tower::service_fn;

/// The longest wait on a busy machine.
pub(crate) const LONG: Duration = Duration::from_mins(1);

/// Both, until they are dropped.
pub(crate) struct Pair {
    pub(crate) hollow: Hollow,
    pub(crate) proxy: Proxy,
    directory: TempDir,
    /// The runtime.
    _serving: JoinSet<anyhow::Result<()>>,
    /// The proxy.
    relaying: JoinSet<anyhow::Result<()>>,
}

impl Pair {
    pub(crate) fn start(faults: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let settings = Settings {
            images: None,
            image_directory: directory.path().to_owned(),
            write_logs: false,
            users: std::collections::BTreeMap::new(),
            requests: None,
            send_limit: None,
        };
        let hollow = Hollow::new(settings);
        let proxy = Proxy::new(directory.path().join("runtime.sock"));
        let mut relaying = JoinSet::new();
        let listener = bind(&directory.path().join("proxy.sock")).unwrap();
        relaying.spawn(proxy::serve(proxy.clone(), listener));
        let listener = bind(&directory.path().join("runtime.sock")).unwrap();
        let mut serving = JoinSet::new();
        serving.spawn(hollow::serve(hollow.clone(), listener));
        let pair = Self { hollow, proxy, directory, _serving: serving, relaying };
        for fault in faults {
            pair.add_fault(fault);
        }
        pair
    }

    /// Drops the proxy with all its connections.
    pub(crate) async fn stop_proxy(&mut self) {
        self.relaying.shutdown().await;
    }

    pub(crate) fn add_fault(&self, fault: &str) {
        self.proxy.script().add(Fault::parse(fault).unwrap());
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("proxy.sock")
    }

    pub(crate) fn client(&self) -> RuntimeServiceClient<Channel> {
        client(&self.socket())
    }

    /// The number of calls that reached the runtime.
    pub(crate) fn runtime_calls(&self, method: &str) -> u64 {
        self.hollow.gate().counts().get(method).map_or(0, |count| count.calls)
    }

    /// Waits until a condition holds.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let end = tokio::time::Instant::now() + LONG;
        while !holds(self) {
            assert!(tokio::time::Instant::now() < end, "{what}: not within {LONG:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

pub(crate) fn client(socket: &Path) -> RuntimeServiceClient<Channel> {
    let path = socket.to_owned();
    let address = Uri::from_static("http://localhost");
    let channel =
        Channel::builder(address).connect_with_connector_lazy(service_fn(move |_: Uri| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        }));
    RuntimeServiceClient::new(channel)
}

pub(crate) fn version() -> cri::VersionRequest {
    cri::VersionRequest { version: "v1".into() }
}

pub(crate) fn sandbox(name: &str) -> cri::RunPodSandboxRequest {
    let metadata = cri::PodSandboxMetadata {
        name: name.into(),
        uid: format!("uid-of-{name}"),
        namespace: "default".into(),
        attempt: 0,
    };
    let config = cri::PodSandboxConfig { metadata: Some(metadata), ..Default::default() };
    cri::RunPodSandboxRequest { config: Some(config), runtime_handler: String::new() }
}
