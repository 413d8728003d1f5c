//! The certificates of the node's pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use model::chain::Chain;
use model::ids::PodUid;
use model::jitter::fraction;
use model::pod_certificates::{CertificateRequestRecord, CertificateSource, Credentials};
use model::ports::clock::WallClock;
use model::ports::cluster::{Change, Sink};
use model::ports::objects::CertificateRequests;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::decide::{CERTIFICATE_JITTER, CertificateState, Listed, PendingRequest};

/// The certificates of the node's pods. Clones share the store. Nothing survives a restart, like
/// upstream.
#[derive(Debug, Clone)]
pub struct CertificateStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server: Arc<dyn CertificateRequests>,
    clock: Arc<dyn WallClock>,
    node: String,
    state: Mutex<State>,
    /// Wakes the task that watches requests: there is one.
    needed: Notify,
    /// Wakes the reader of [`CertificateStore::changed_pods`].
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    certificates: BTreeMap<CertificateSource, CertificateState>,
    /// Written by the feed.
    requests: Listed<String, CertificateRequestRecord>,
    /// Pods whose requests changed.
    changed: BTreeSet<PodUid>,
}

impl CertificateStore {
    /// A store without certificates, for the pods of a node.
    pub fn new(
        server: Arc<dyn CertificateRequests>,
        clock: Arc<dyn WallClock>,
        node: String,
    ) -> Self {
        let (state, needed, changed) = (Mutex::default(), Notify::new(), Notify::new());
        Self { shared: Arc::new(Shared { server, clock, node, state, needed, changed }) }
    }

    /// Watches the requests of the node once there is one, until it is stopped.
    pub async fn run(self, stop: CancellationToken) {
        let follow = async {
            self.shared.needed.notified().await;
            let Shared { server, node, .. } = &*self.shared;
            server.follow_certificate_requests(node, &self).await;
        };
        stop.run_until_cancelled(follow).await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The certificate of a source, or the text of the error. Requests one if it is due.
    pub async fn get(&self, source: &CertificateSource) -> Result<Credentials, String> {
        let Shared { server, clock, node, needed, .. } = &*self.shared;
        needed.notify_one();
        let needs_request = {
            let mut state = self.state();
            let State { certificates, requests, .. } = &mut *state;
            let certificate = certificates.entry(source.clone()).or_default();
            let listed = requests.all();
            if let (Some(listed), Some(pending)) = (listed, &certificate.pending) {
                let answer = listed.get(&pending.name).map(|request| request.answer.clone());
                let jitter = CERTIFICATE_JITTER.mul_f64(fraction());
                certificate.take(answer.as_ref(), clock.now(), jitter);
            }
            certificate.needs_request(clock.now())
        };
        let failure = if needs_request {
            let requested = server.request_certificate(source, node).await;
            let made = clock.now();
            let mut state = self.state();
            match requested {
                Ok(requested) => {
                    // The pod may have been removed meanwhile.
                    if let Some(certificate) = state.certificates.get_mut(source) {
                        let (name, key) = (requested.name, requested.key);
                        certificate.pending = Some(PendingRequest { name, key, made });
                    }
                    None
                }
                Err(error) => Some(Chain(&error).to_string()),
            }
        } else {
            None
        };
        let state = self.state();
        let certificate = state.certificates.get(source).ok_or("the pod has ended")?;
        match (certificate.credentials(), failure) {
            (Ok(credentials), None) => Ok(credentials.clone()),
            (Ok(credentials), Some(error)) => {
                let (pod, volume) = (&source.pod, &source.volume);
                warn!(%pod, volume, error, "Cannot renew the certificate of a pod, using the old one");
                Ok(credentials.clone())
            }
            (Err(_), Some(error)) => {
                Err(format!("while creating initial PodCertificateRequest: {error}"))
            }
            (Err(text), None) => Err(text.to_owned()),
        }
    }

    /// When a certificate is due for renewal.
    pub fn refresh_at(&self, source: &CertificateSource) -> Option<Timestamp> {
        Some(self.state().certificates.get(source)?.issued.as_ref()?.refresh_at)
    }

    /// Drops the certificates of a pod.
    pub fn forget(&self, pod: &PodUid) {
        self.state().certificates.retain(|source, _| source.pod_uid != *pod);
    }

    /// Waits until requests of pods change, and returns these pods.
    pub async fn changed_pods(&self) -> BTreeSet<PodUid> {
        loop {
            let changed = std::mem::take(&mut self.state().changed);
            if !changed.is_empty() {
                return changed;
            }
            self.shared.changed.notified().await;
        }
    }
}

impl Sink<CertificateRequestRecord, String> for CertificateStore {
    fn receive(&self, change: Change<CertificateRequestRecord, String>) {
        let mut state = self.state();
        let State { certificates, requests, changed } = &mut *state;
        match &change {
            Change::Applied(request) => _ = changed.insert(request.pod_uid.clone()),
            // The list may contain issued certificates.
            Change::Complete => changed.extend(certificates.keys().map(|one| one.pod_uid.clone())),
            Change::Restarted | Change::Gone(_) | Change::Unread(_) => {}
        }
        requests.receive(change, |request| request.name.clone());
        drop(state);
        self.shared.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::ids::PodName;
    use model::pod_certificates::CertificateAnswer;
    use testkit::cluster::MemoryCluster;
    use tokio::task::JoinSet;

    use super::*;

    fn source() -> CertificateSource {
        CertificateSource {
            pod_uid: "u1".into(),
            pod: PodName::new("shop", "web"),
            volume: "tls".into(),
            index: 0,
            service_account: "default".into(),
            signer: "example.com/web".into(),
            key_type: "ED25519".into(),
            max_expiration_seconds: None,
            annotations: BTreeMap::new(),
        }
    }

    // behaviour: VOL-62
    #[tokio::test(start_paused = true)]
    async fn certificate_is_requested_once_and_used_when_it_is_issued() {
        let cluster = MemoryCluster::default();
        let (server, clock) = (Arc::new(cluster.clone()), Arc::new(cluster.clock()));
        let store = CertificateStore::new(server, clock.clone(), "n".to_owned());
        let mut tasks = JoinSet::new();
        tasks.spawn(store.clone().run(CancellationToken::new()));
        for _ in 0..3 {
            let error = store.get(&source()).await.unwrap_err();
            assert_eq!(error, "credential bundle is not issued yet");
        }
        let [request] = &cluster.certificate_requests()[..] else { panic!("one request") };
        let expires = clock.now() + Duration::from_hours(2);
        let refresh_at = clock.now() + Duration::from_hours(1);
        let chain: Box<str> = "chain".into();
        let answer = CertificateAnswer::Issued { chain: chain.clone(), refresh_at, expires };
        // The request itself was a change, too.
        store.changed_pods().await;
        cluster.answer_certificate(&request.name, &answer);
        assert_eq!(store.changed_pods().await, ["u1".into()].into());
        assert_eq!(store.get(&source()).await.unwrap().chain, chain);
        let jitter = store.refresh_at(&source()).unwrap().duration_since(refresh_at).as_secs();
        assert!((0..=300).contains(&jitter), "{jitter}");
        tokio::time::sleep(Duration::from_mins(66)).await;
        assert_eq!(store.get(&source()).await.unwrap().chain, chain);
        assert_eq!(cluster.certificate_requests().len(), 2, "it is renewed");
        store.forget(&"u1".into());
        assert_eq!(store.refresh_at(&source()), None);
    }
}
