//! Objects that pods refer to.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use model::cluster::Version;
use model::objects::{
    DataObject, ObjectKey, RuntimeClassRecord, ServiceAccountRecord, ServiceAccountToken,
    ServiceName, ServiceRecord, TokenRequest, TrustBundleRecord,
};
use model::pod_certificates::{
    CertificateAnswer, CertificateRequestRecord, CertificateSource, RequestedCertificate,
};
use model::ports::clock::WallClock as _;
use model::ports::cluster::{ApiError, Change, Sink};
use model::ports::objects::{
    CertificateRequests, Freshness, ObjectReads, RuntimeClassFeed, ServiceAccountReads,
    ServiceFeed, TokenRequests, TrustBundleFeed,
};

use super::feed::follow;
use super::{ApiCall, History, MemoryCluster, State};

/// The stored objects, and their watchers.
#[derive(Debug, Default)]
pub(super) struct Objects {
    stored: BTreeMap<ObjectKey, DataObject>,
    histories: BTreeMap<ObjectKey, History<Change<DataObject, ()>>>,
    /// Whether the watches send nothing.
    are_frozen: bool,
    followed: BTreeMap<ObjectKey, u32>,
    tokens: u32,
    accounts: BTreeMap<(String, String), ServiceAccountRecord>,
    services: History<Change<ServiceRecord, ServiceName>>,
    classes: History<Change<RuntimeClassRecord, String>>,
    trust_bundles: History<Change<TrustBundleRecord, String>>,
    certificates: History<Change<CertificateRequestRecord, String>>,
    certificate_requests: Vec<CertificateRequestRecord>,
}

impl Objects {
    fn history(&mut self, key: &ObjectKey) -> &mut History<Change<DataObject, ()>> {
        let history = self.histories.entry(key.clone()).or_default();
        history.is_frozen = self.are_frozen;
        history
    }
}

/// A secret or config map.
pub fn object<const N: usize>(data: [(&str, &str); N]) -> DataObject {
    let pair = |(key, value): (&str, &str)| (key.into(), value.as_bytes().into());
    DataObject { data: data.into_iter().map(pair).collect(), ..DataObject::default() }
}

/// Counts the watchers of an object while it exists.
struct Following<'a> {
    cluster: &'a MemoryCluster,
    key: &'a ObjectKey,
}

impl Drop for Following<'_> {
    fn drop(&mut self) {
        self.cluster.shared.change(|state| {
            let followed = &mut state.objects.followed;
            if let Some(count) = followed.get_mut(self.key) {
                *count -= 1;
            }
            followed.retain(|_, count| *count > 0);
        });
    }
}

impl MemoryCluster {
    /// Creates or replaces an object, with a new version.
    pub fn put_object(&self, key: &ObjectKey, object: DataObject) {
        self.shared.change(|state| {
            state.version += 1;
            let object = DataObject { version: Version::from(state.version), ..object };
            let history = state.objects.histories.entry(key.clone()).or_default();
            history.changes.push(Change::Applied(object.clone()));
            state.objects.stored.insert(key.clone(), object);
        });
    }

    /// Removes an object.
    pub fn drop_object(&self, key: &ObjectKey) {
        self.shared.change(|state| {
            if state.objects.stored.remove(key).is_some() {
                let history = state.objects.histories.entry(key.clone()).or_default();
                history.changes.push(Change::Gone(()));
            }
        });
    }

    /// Adds a service account.
    pub fn put_service_account(&self, namespace: &str, name: &str, account: ServiceAccountRecord) {
        let key = (namespace.to_owned(), name.to_owned());
        self.shared.change(|state| {
            state.objects.accounts.insert(key, account);
        });
    }

    /// Freezes or unfreezes the watches of objects: frozen ones send nothing.
    pub fn freeze_objects(&self, are_frozen: bool) {
        self.shared.change(|state| state.objects.are_frozen = are_frozen);
    }

    /// The objects that are watched now.
    pub fn followed(&self) -> Vec<ObjectKey> {
        self.shared.state().objects.followed.keys().cloned().collect()
    }

    /// Waits up to a minute until a condition holds.
    pub async fn wait_followed(&self, expected: &[&ObjectKey]) {
        let mut changed = self.shared.subscribe();
        let wait = async {
            while !self.followed().iter().eq(expected.iter().copied()) {
                changed.changed().await.expect("the cluster itself holds the sender");
            }
        };
        let waited = tokio::time::timeout(Duration::from_mins(1), wait).await;
        assert!(waited.is_ok(), "followed: {:?}, expected: {expected:?}", self.followed());
    }

    /// Creates or replaces a service.
    pub fn put_service(&self, service: ServiceRecord) {
        self.shared.change(|state| state.objects.services.changes.push(Change::Applied(service)));
    }

    /// Removes a service.
    pub fn drop_service(&self, name: ServiceName) {
        self.shared.change(|state| state.objects.services.changes.push(Change::Gone(name)));
    }

    /// The certificate requests so far.
    pub fn certificate_requests(&self) -> Vec<CertificateRequestRecord> {
        let mut requests = Vec::new();
        self.shared.change(|state| requests.clone_from(&state.objects.certificate_requests));
        requests
    }

    /// Answers a certificate request.
    pub fn answer_certificate(&self, name: &str, answer: &CertificateAnswer) {
        self.shared.change(|state| {
            let objects = &mut state.objects;
            for request in &mut objects.certificate_requests {
                if request.name == name {
                    request.answer = answer.clone();
                    objects.certificates.changes.push(Change::Applied(request.clone()));
                }
            }
        });
    }

    /// Creates or replaces a trust bundle.
    pub fn put_trust_bundle(&self, bundle: TrustBundleRecord) {
        let change = Change::Applied(bundle);
        self.shared.change(|state| state.objects.trust_bundles.changes.push(change));
    }

    /// Creates or replaces a runtime class.
    pub fn put_runtime_class(&self, name: &str, handler: &str) {
        let class = RuntimeClassRecord { name: name.to_owned(), handler: handler.to_owned() };
        self.shared.change(|state| state.objects.classes.changes.push(Change::Applied(class)));
    }

    /// Removes a runtime class.
    pub fn drop_runtime_class(&self, name: &str) {
        let name = name.to_owned();
        self.shared.change(|state| state.objects.classes.changes.push(Change::Gone(name)));
    }
}

#[async_trait]
impl ObjectReads for MemoryCluster {
    async fn follow_object(&self, key: &ObjectKey, sink: &dyn Sink<DataObject, ()>) {
        self.shared.change(|state| {
            state.calls.push((ApiCall::Watch, key.to_string()));
            *state.objects.followed.entry(key.clone()).or_default() += 1;
        });
        let _following = Following { cluster: self, key };
        follow(self, |state| state.objects.history(key), |_| (), sink).await;
    }

    async fn object(&self, key: &ObjectKey, _: Freshness) -> Result<Option<DataObject>, ApiError> {
        let read = |state: &mut State| Ok(state.objects.stored.get(key).cloned());
        self.call(ApiCall::Object, &key.to_string(), read).await
    }
}

#[async_trait]
impl ServiceAccountReads for MemoryCluster {
    async fn service_account(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<ServiceAccountRecord>, ApiError> {
        let key = (namespace.to_owned(), name.to_owned());
        let read = |state: &mut State| Ok(state.objects.accounts.get(&key).cloned());
        self.call(ApiCall::Object, &format!("serviceaccount {namespace}/{name}"), read).await
    }
}

#[async_trait]
impl TokenRequests for MemoryCluster {
    async fn request_token(&self, request: &TokenRequest) -> Result<ServiceAccountToken, ApiError> {
        let now = self.clock.now();
        let seconds = u64::try_from(request.expiration_seconds).unwrap_or(0);
        let give = |state: &mut State| {
            state.objects.tokens += 1;
            Ok(ServiceAccountToken {
                token: format!("{}-{}", request.service_account, state.objects.tokens),
                expiration_seconds: request.expiration_seconds,
                expires: now + Duration::from_secs(seconds),
            })
        };
        self.call(ApiCall::Token, &request.service_account, give).await
    }
}

#[async_trait]
impl ServiceFeed for MemoryCluster {
    async fn follow_services(&self, sink: &dyn Sink<ServiceRecord, ServiceName>) {
        follow(self, |state| &mut state.objects.services, |one| one.name.clone(), sink).await;
    }
}

#[async_trait]
impl RuntimeClassFeed for MemoryCluster {
    async fn follow_runtime_classes(&self, sink: &dyn Sink<RuntimeClassRecord, String>) {
        self.shared.change(|state| state.calls.push((ApiCall::Watch, "runtimeclasses".to_owned())));
        follow(self, |state| &mut state.objects.classes, |one| one.name.clone(), sink).await;
    }
}

#[async_trait]
impl TrustBundleFeed for MemoryCluster {
    async fn follow_trust_bundles(&self, sink: &dyn Sink<TrustBundleRecord, String>) {
        self.shared
            .change(|state| state.calls.push((ApiCall::Watch, "clustertrustbundles".to_owned())));
        follow(self, |state| &mut state.objects.trust_bundles, |one| one.name.clone(), sink).await;
    }
}

#[async_trait]
impl CertificateRequests for MemoryCluster {
    async fn request_certificate(
        &self,
        source: &CertificateSource,
        _: &str,
    ) -> Result<RequestedCertificate, ApiError> {
        let request = |state: &mut State| {
            let objects = &mut state.objects;
            let number = objects.certificate_requests.len();
            let name = format!("{}/req-{number}", source.pod.namespace);
            let (pod_uid, answer) = (source.pod_uid.clone(), CertificateAnswer::Pending);
            let record = CertificateRequestRecord { name: name.clone(), pod_uid, answer };
            objects.certificate_requests.push(record.clone());
            objects.certificates.changes.push(Change::Applied(record));
            Ok(RequestedCertificate { name, key: format!("key {number}").into() })
        };
        self.call(ApiCall::Token, &source.volume, request).await
    }

    async fn follow_certificate_requests(
        &self,
        _: &str,
        sink: &dyn Sink<CertificateRequestRecord, String>,
    ) {
        follow(self, |state| &mut state.objects.certificates, |one| one.name.clone(), sink).await;
    }
}
