//! A node in memory, with credentials and pull records.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use config::ImagePullCredentialsVerificationPolicy as Policy;
use images::decide::verification::VerificationPolicy;
use images::{
    AccessMetrics, AccessParts, NodeConfigDirectories, NodeImageAccess, ProviderParts,
    ProviderSettings, PullRecords, RecordParts, ServiceAccounts, pull_records,
};
use k8s_openapi::api::core::v1::{LocalObjectReference, Pod};
use model::image_access::{CredentialSource, PullCredentials};
use model::objects::{
    DataObject, ObjectKey, ServiceAccountRecord, ServiceAccountToken, TokenRequest,
};
use model::ports::clock::WallClock as _;
use model::ports::image_access::{ImageAccess as _, PresentImage};
use model::ports::objects::PodObjects as _;
use podspec::view;
use prometheus::Registry;
use testkit::clock::VirtualClock;
use testkit::events::KeptEvents;
use testkit::files::MemoryFiles;
use testkit::objects::MemoryObjects;
use testkit::pods;
use testkit::programs::MemoryPrograms;
use testkit::runtime::MemoryRuntime;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub(crate) const IMAGE: &str = "r.io/team/web:1";
pub(crate) const REPOSITORY: &str = "r.io/team/web";
pub(crate) const REF: &str = "sha256:web";
pub(crate) const ROOT: &str = "/var/lib/kubelet";

/// The outside of agents.
pub(crate) struct Harness {
    pub(crate) files: Arc<MemoryFiles>,
    pub(crate) runtime: Arc<MemoryRuntime>,
    pub(crate) objects: MemoryObjects,
    pub(crate) events: Arc<KeptEvents>,
    pub(crate) programs: Arc<MemoryPrograms>,
    pub(crate) accounts: Arc<MemoryAccounts>,
    pub(crate) clock: Arc<VirtualClock>,
    pub(crate) policy: Option<VerificationPolicy>,
    pub(crate) providers: Option<ProviderSettings>,
    /// How many records agents keep in memory.
    pub(crate) most_records: usize,
}

/// An agent. Dropping it is a kill.
pub(crate) struct Agent {
    pub(crate) access: NodeImageAccess,
    pub(crate) records: PullRecords,
    registry: Registry,
    _task: JoinSet<()>,
}

impl Harness {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(VirtualClock::new());
        Self {
            files: Arc::new(MemoryFiles::new()),
            runtime: Arc::new(MemoryRuntime::new(Arc::clone(&clock) as _)),
            objects: MemoryObjects::default(),
            events: Arc::default(),
            programs: Arc::default(),
            accounts: Arc::default(),
            clock,
            policy: Some(VerificationPolicy::NeverPreloaded),
            providers: None,
            most_records: 10,
        }
    }

    pub(crate) fn with_policy(policy: Policy, allowlist: &[&str]) -> Self {
        let allowlist: Vec<String> = allowlist.iter().map(|&entry| entry.to_owned()).collect();
        Self { policy: Some(VerificationPolicy::new(policy, &allowlist)), ..Self::new() }
    }

    pub(crate) fn start(&self) -> Agent {
        let registry = Registry::new();
        let metrics = AccessMetrics::new(&registry).unwrap();
        let parts = RecordParts {
            files: Arc::clone(&self.files) as _,
            images: Arc::clone(&self.runtime) as _,
            clock: Arc::clone(&self.clock) as _,
            metrics: metrics.clone(),
            most_intents: 10,
            most_records: self.most_records,
        };
        let (records, task) = pull_records(parts, Path::new(ROOT));
        let mut tasks = JoinSet::new();
        tasks.spawn(task.run(CancellationToken::new()));
        let access = NodeImageAccess::new(AccessParts {
            objects: Some(Arc::new(self.objects.clone())),
            events: Arc::clone(&self.events) as _,
            files: Arc::clone(&self.files) as _,
            directories: NodeConfigDirectories {
                root: ROOT.into(),
                working: "/work".into(),
                home: "/root".into(),
            },
            providers: ProviderParts {
                settings: self.providers.clone(),
                programs: Arc::clone(&self.programs) as _,
                accounts: Some(Arc::clone(&self.accounts) as _),
                clock: Arc::clone(&self.clock) as _,
                metrics: metrics.clone(),
            },
            metrics,
            verification: self.policy.clone().map(|policy| (records.clone(), policy)),
        });
        Agent { access, records, registry, _task: tasks }
    }

    /// Creates a pull secret in the namespace `shop`.
    pub(crate) fn put_secret(&self, name: &str, password: &str) {
        let config =
            format!(r#"{{"auths":{{"r.io":{{"username":"u","password":"{password}"}}}}}}"#);
        self.put_object(name, ["kubernetes.io/dockerconfigjson", ".dockerconfigjson"], &config);
    }

    pub(crate) fn put_object(&self, name: &str, [kind, key]: [&str; 2], content: &str) {
        let object = DataObject {
            uid: format!("uid-{name}").as_str().into(),
            secret_type: kind.into(),
            data: BTreeMap::from([(key.into(), content.as_bytes().into())]),
            ..DataObject::default()
        };
        self.objects.put(ObjectKey::secret("shop", name), object);
    }

    /// A pod of the namespace `shop` with these pull secrets.
    pub(crate) fn pod(&self, name: &str, secrets: &[&str]) -> Pod {
        let reference = |name: &&str| LocalObjectReference { name: (*name).to_owned() };
        let pod = pods::pod(name).namespace("shop").container("main", IMAGE, []).spec(|spec| {
            spec.image_pull_secrets = Some(secrets.iter().map(reference).collect());
            spec.service_account_name = Some("robot".to_owned());
        });
        let pod = pod.build();
        let keys: BTreeSet<_> =
            secrets.iter().map(|name| ObjectKey::secret("shop", name)).collect();
        self.objects.register(&view::uid(&pod), keys);
        pod
    }

    /// The files of the records, by directory and content.
    pub(crate) fn record(&self, directory: &str, of: &str) -> Option<String> {
        let name = images::decide::record::file_name(of);
        let content = self.files.content(format!("{ROOT}/image_manager/{directory}/{name}"))?;
        Some(String::from_utf8(content).unwrap())
    }

    pub(crate) fn has_intent(&self) -> bool {
        self.record("pulling", IMAGE).is_some()
    }

    pub(crate) fn put_record(&self, directory: &str, of: &str, content: &str) {
        let name = images::decide::record::file_name(of);
        self.files.write(format!("{ROOT}/image_manager/{directory}/{name}"), content);
    }
}

impl Agent {
    /// Whether a pod may use the present image; otherwise it must pull.
    pub(crate) async fn may_use(&self, pod: &Pod) -> bool {
        self.may_use_as(pod, IMAGE).await
    }

    pub(crate) async fn may_use_as(&self, pod: &Pod, image: &str) -> bool {
        let checked = self.access.check_present(pod, image, REF).await.unwrap();
        matches!(checked, PresentImage::Allowed)
    }

    /// Pulls the image with the first credential of a pod.
    pub(crate) async fn pull(&self, pod: &Pod) {
        let credentials = self.access.credentials(pod, IMAGE).await.unwrap();
        self.access.pull_begins(IMAGE).await.unwrap();
        self.access.pull_succeeded(IMAGE, REF, credentials.first()).await;
    }

    /// User names, passwords and sources of the credentials of a pod.
    pub(crate) async fn credentials(&self, pod: &Pod) -> Vec<String> {
        self.credentials_for(pod, IMAGE).await
    }

    pub(crate) async fn credentials_for(&self, pod: &Pod, image: &str) -> Vec<String> {
        texts(&self.access.credentials(pod, image).await.unwrap())
    }

    /// The value of a metric with these labels.
    pub(crate) fn metric(&self, line: &str) -> String {
        let text =
            prometheus::TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap();
        let found = text.lines().find_map(|one| one.strip_prefix(&format!("{line} ")));
        found.unwrap_or("none").to_owned()
    }
}

pub(crate) fn texts(credentials: &PullCredentials) -> Vec<String> {
    let text = |credential: &model::image_access::PullCredential| {
        let source = match &credential.source {
            CredentialSource::Node => "node".to_owned(),
            CredentialSource::Secret(secret) => format!("{}/{}", secret.namespace, secret.name),
            CredentialSource::ServiceAccount(account) => format!("account {}", account.name),
        };
        format!("{}:{} of {source}", credential.auth.username, credential.auth.password)
    };
    credentials.iter().map(text).collect()
}

/// Service accounts in memory.
#[derive(Debug, Default)]
pub(crate) struct MemoryAccounts {
    pub(crate) accounts: Mutex<BTreeMap<String, ServiceAccountRecord>>,
    pub(crate) requests: Mutex<Vec<TokenRequest>>,
}

impl MemoryAccounts {
    pub(crate) fn put(&self, name: &str, annotations: &[(&str, &str)]) {
        let annotations = annotations.iter().map(|(key, value)| ((*key).into(), (*value).into()));
        let record = ServiceAccountRecord {
            uid: format!("uid-{name}").into(),
            annotations: annotations.collect(),
        };
        self.accounts.lock().unwrap().insert(name.to_owned(), record);
    }
}

#[async_trait]
impl ServiceAccounts for MemoryAccounts {
    async fn account(&self, _: &str, name: &str) -> Result<ServiceAccountRecord, String> {
        self.accounts.lock().unwrap().get(name).cloned().ok_or_else(|| "not found".to_owned())
    }

    async fn token(&self, request: &TokenRequest) -> Result<Arc<ServiceAccountToken>, String> {
        self.requests.lock().unwrap().push(request.clone());
        Ok(Arc::new(ServiceAccountToken {
            token: format!("token-of-{}", request.pod.name),
            expiration_seconds: request.expiration_seconds,
            expires: VirtualClock::new().now(),
        }))
    }
}
