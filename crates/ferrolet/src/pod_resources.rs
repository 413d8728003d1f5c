//! Tells whoever asks on this machine which resources pods have: exporters of metrics, network plugins.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use config::KubeletConfiguration;
use hostfs::Socket;
use model::chain::Chain;
use model::pod_resources::{PodContainers, PodResources};
use podspec::view;
use server::pod_resources::{Listed, Lister, Metrics};
use server::{Slot, take_turns};
use status::store::{StatusEntry, StatusReader};
use tokio::net::UnixListener;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::decide::pod_resources::{containers, is_active};
use crate::pod_index::PodIndex;
use crate::wiring::Ports;

/// Where it is, below the root directory.
const SOCKET: &str = "pod-resources/kubelet.sock";

/// Its mode, as upstream's: who may write to it may ask, which is its owner.
const MODE: u32 = 0o755;

/// How long to wait when the socket cannot be opened.
const RETRY: Duration = Duration::from_secs(5);

/// The socket, and what is told there.
#[derive(Debug)]
pub struct PodResourcesSocket {
    path: PathBuf,
    listed: Listed,
}

impl PodResourcesSocket {
    /// That of an agent with this root directory.
    pub fn of(root_dir: &Path, config: &KubeletConfiguration) -> Self {
        let only_active = config.features().enabled("KubeletPodResourcesListUseActivePods");
        let listed = if only_active { Listed::Active } else { Listed::All };
        Self { path: root_dir.join(SOCKET), listed }
    }

    /// Who answers there.
    pub(crate) fn lister(&self, pods: PodResourceView, ports: &Ports) -> Lister {
        let metrics = Metrics::new(&ports.metrics).expect("nobody else counts such questions");
        Lister::new(Arc::new(pods), self.listed, Arc::clone(&ports.clock), metrics)
    }

    /// Answers until told to stop. Pods do not depend on it, so whatever is in the way does not end the agent; it is
    /// tried again.
    pub(crate) async fn serve(self, lister: Lister, stop: CancellationToken) {
        let opened = stop.run_until_cancelled(self.opened()).await;
        let Some((socket, listener)) = opened else { return };
        info!(path = %self.path.display(), "telling which resources pods have");
        let lister = Arc::new(lister);
        let answered = |stream, slot: Slot| {
            // One without calls is closed by its idle limit.
            slot.keep();
            let lister = Arc::clone(&lister);
            // The slot is the connection's until that ends.
            async move {
                lister.answer(stream).await;
                drop(slot);
            }
        };
        take_turns(&listener, answered, stop).await;
        // With it goes its file.
        drop(socket);
    }

    /// Waits until it can be listened. The same trouble is told once.
    async fn opened(&self) -> (Socket, UnixListener) {
        let mut reported = String::new();
        loop {
            match open(self.path.clone()).await {
                Ok(opened) => return opened,
                Err(why) => {
                    if why != reported {
                        error!(
                            path = %self.path.display(), error = %why,
                            "nobody can ask which resources pods have; trying again"
                        );
                    }
                    reported = why;
                }
            }
            sleep(RETRY).await;
        }
    }
}

/// Whoever holds a socket of that name may be slow to say so.
async fn open(path: PathBuf) -> Result<(Socket, UnixListener), String> {
    let opened = tokio::task::spawn_blocking(move || hostfs::listen_with_mode(&path, MODE)).await;
    let opened = opened.map_err(|error| error.to_string())?;
    let socket = opened.map_err(|error| Chain(&error).to_string())?;
    let listener = socket.listener().and_then(UnixListener::from_std);
    let listener = listener.map_err(|error| error.to_string())?;
    Ok((socket, listener))
}

/// The pods of the node, as far as they are told of here.
#[derive(Debug)]
pub(crate) struct PodResourceView {
    statuses: StatusReader,
    index: Arc<PodIndex>,
}

impl PodResourceView {
    pub(crate) fn new(statuses: StatusReader, index: Arc<PodIndex>) -> Self {
        Self { statuses, index }
    }

    /// Those that sources give. One that no source gives any more is not told of, though it may still be ending.
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
