//! The `PodResources` API: reports the resources of pods to metrics exporters, network plugins and others.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use config::KubeletConfiguration;
use hostfs::Socket;
use model::chain::Chain;
use model::pod_resources::{PodContainers, PodResources};
use podspec::view;
use server::pod_resources::{Listed, Lister, Metrics};
use server::{Slot, serve_connections};
use status::store::{StatusEntry, StatusReader};
use tokio::net::UnixListener;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::decide::pod_resources::{containers, is_active};
use crate::pod_index::PodIndex;
use crate::wiring::Ports;

/// The socket's path below the root directory.
const SOCKET: &str = "pod-resources/kubelet.sock";

/// The mode of the socket, like upstream: only its owner can connect.
const MODE: u32 = 0o755;

/// How long to wait when the socket cannot be opened.
const RETRY: Duration = Duration::from_secs(5);

/// The socket of the API.
#[derive(Debug)]
pub struct PodResourcesSocket {
    path: PathBuf,
    listed: Listed,
}

impl PodResourcesSocket {
    /// The socket of an agent with this root directory.
    pub fn of(root_dir: &Path, config: &KubeletConfiguration) -> Self {
        let only_active = config.features().enabled("KubeletPodResourcesListUseActivePods");
        let listed = if only_active { Listed::Active } else { Listed::All };
        Self { path: root_dir.join(SOCKET), listed }
    }

    /// The service behind the socket.
    pub(crate) fn lister(&self, pods: PodResourceView, ports: &Ports) -> Lister {
        let metrics = Metrics::new(&ports.metrics).expect("no other part counts these requests");
        Lister::new(Arc::new(pods), self.listed, Arc::clone(&ports.clock), metrics)
    }

    /// Serves until the stop. Pods do not depend on it, so an error does not end the agent; it is
    /// retried.
    pub(crate) async fn serve(self, lister: Lister, stop: CancellationToken) {
        let opened = stop.run_until_cancelled(self.opened()).await;
        let Some((socket, listener)) = opened else { return };
        info!(path = %self.path.display(), "Serving the PodResources API");
        let lister = Arc::new(lister);
        let answered = |stream, slot: Slot| {
            // The idle limit closes a connection without calls.
            slot.keep();
            let lister = Arc::clone(&lister);
            // The connection holds its slot until it ends.
            async move {
                lister.answer(stream).await;
                drop(slot);
            }
        };
        serve_connections(&listener, answered, stop).await;
        // Dropping it removes the socket file.
        drop(socket);
    }

    /// Waits until the socket can be opened. The same error is logged once.
    async fn opened(&self) -> (Socket, UnixListener) {
        let mut reported = String::new();
        loop {
            match open(self.path.clone()).await {
                Ok(opened) => return opened,
                Err(why) => {
                    if why != reported {
                        error!(
                            path = %self.path.display(), error = %why,
                            "Cannot serve the PodResources API, retrying"
                        );
                    }
                    reported = why;
                }
            }
            sleep(RETRY).await;
        }
    }
}

/// Another process that holds the socket may be slow to answer.
async fn open(path: PathBuf) -> Result<(Socket, UnixListener), String> {
    let opened = tokio::task::spawn_blocking(move || hostfs::listen_with_mode(&path, MODE)).await;
    let opened = opened.map_err(|error| error.to_string())?;
    let socket = opened.map_err(|error| Chain(&error).to_string())?;
    let listener = socket.listener().and_then(UnixListener::from_std);
    let listener = listener.map_err(|error| error.to_string())?;
    Ok((socket, listener))
}

/// The pods that the API returns.
#[derive(Debug)]
pub(crate) struct PodResourceView {
    statuses: StatusReader,
    index: Arc<PodIndex>,
}

impl PodResourceView {
    pub(crate) fn new(statuses: StatusReader, index: Arc<PodIndex>) -> Self {
        Self { statuses, index }
    }

    /// The pods that sources list. A pod that no source lists any more is omitted, though it may still be terminating.
    fn given(
        &self,
        is_meant: impl Fn(&StatusEntry) -> bool,
        only_active: bool,
    ) -> Vec<PodContainers> {
        let pods = self.statuses.entries().into_values().filter(is_meant);
        let reported = pods.filter(|shown| {
            let state = self.index.listed_state(&view::uid(&shown.pod));
            let is_listed =
                |state| !only_active || is_active(state, &shown.pod, shown.status.as_deref());
            state.is_some_and(is_listed)
        });
        reported.map(|shown| containers(&shown.pod)).collect()
    }
}

impl PodResources for PodResourceView {
    fn active(&self) -> Vec<PodContainers> {
        self.given(|_| true, true)
    }

    fn all(&self) -> Vec<PodContainers> {
        self.given(|_| true, false)
    }

    fn named(&self, namespace: &str, name: &str) -> Option<PodContainers> {
        let is_meant = |shown: &StatusEntry| {
            let metadata = &shown.pod.metadata;
            metadata.name.as_deref() == Some(name)
                && metadata.namespace.as_deref() == Some(namespace)
        };
        self.given(is_meant, true).pop()
    }
}

#[cfg(test)]
#[path = "pod_resources_tests.rs"]
mod tests;
