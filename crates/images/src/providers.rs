//! Credential provider plugins: programs of the node that return credentials for images.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared, WeakShared, join_all};
use k8s_openapi::api::core::v1::Pod;
use model::chain::Chain;
use model::image_access::{AccessObject, CredentialSource};
use model::objects::{ServiceAccountRecord, ServiceAccountToken, TokenRequest};
use model::ports::clock::WallClock;
use model::ports::programs::{ProgramError, ProgramRun, Programs};
use podspec::view;
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::decide::docker_config::DockerConfig;
use crate::decide::provider_cache::{AccountKey, Audience, ProviderCache, Put};
use crate::decide::provider_config::{Provider, TokenAttributes};
use crate::decide::provider_exchange::{
    ProviderRequest, ProviderResponse, ResponseError, decode_response,
};
use crate::decide::registry_pattern::matches_image;
use crate::metrics::AccessMetrics;
use crate::read_providers::ProviderSettings;

/// How long a plugin may run, like upstream.
const LIMIT: Duration = Duration::from_mins(1);
/// No response is longer.
const LONGEST: usize = 1 << 20;
/// The requested validity of tokens.
const TOKEN_SECONDS: i64 = 3600;

/// Service accounts of the node's pods, and their tokens.
#[async_trait]
pub trait ServiceAccounts: Debug + Send + Sync {
    /// A service account, or the text of the error.
    async fn account(&self, namespace: &str, name: &str) -> Result<ServiceAccountRecord, String>;

    /// A token that is valid, or the text of the error.
    async fn token(&self, request: &TokenRequest) -> Result<Arc<ServiceAccountToken>, String>;
}

/// The ports and settings of plugins.
#[derive(Debug)]
pub struct ProviderParts {
    /// None without plugins.
    pub settings: Option<ProviderSettings>,
    /// Runs them.
    pub programs: Arc<dyn Programs>,
    /// None without an API server.
    pub accounts: Option<Arc<dyn ServiceAccounts>>,
    /// The time of the cache.
    pub clock: Arc<dyn WallClock>,
    /// Counts runs.
    pub metrics: AccessMetrics,
}

/// The plugins of the node.
#[derive(Debug)]
pub(crate) struct Providers {
    plugins: Vec<Arc<Plugin>>,
    accounts: Option<Arc<dyn ServiceAccounts>>,
}

/// The credentials that a plugin returned, and their source.
#[derive(Debug)]
pub(crate) struct Provided {
    pub(crate) logins: DockerConfig,
    pub(crate) source: CredentialSource,
}

/// One plugin. Clones of the `Arc` share cache and runs.
#[derive(Debug)]
struct Plugin {
    provider: Provider,
    path: PathBuf,
    programs: Arc<dyn Programs>,
    clock: Arc<dyn WallClock>,
    metrics: AccessMetrics,
    /// Never locked across an await, as the runs below.
    cache: Mutex<ProviderCache>,
    runs: Mutex<Runs>,
}

/// Runs in progress, by image and audience. A run is dropped with its last waiter.
#[derive(Default)]
struct Runs(BTreeMap<(String, Audience), WeakShared<RunFuture>>);

impl Debug for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runs").field("count", &self.0.len()).finish_non_exhaustive()
    }
}

/// The credentials of a run; `None` if it failed.
type RunFuture = BoxFuture<'static, Option<DockerConfig>>;

/// The data of a service account that a plugin receives.
#[derive(Clone, Default)]
struct AccountInput {
    token: String,
    annotations: BTreeMap<String, String>,
}

/// The pods that a plugin is run for, and what it receives.
struct Identity {
    source: CredentialSource,
    audience: Audience,
    input: AccountInput,
}

impl Identity {
    fn node() -> Self {
        let (source, audience) = (CredentialSource::Node, Audience::node());
        Self { source, audience, input: AccountInput::default() }
    }
}

/// Why a run returned no credentials. Never with its output.
#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error(transparent)]
    Program(ProgramError),
    #[error("response of the plugin")]
    Response(#[source] ResponseError),
    #[error(
        "the plugin returned the service account token itself, which cacheType ServiceAccount forbids"
    )]
    TokenReturned,
}

impl Providers {
    pub(crate) fn new(parts: ProviderParts) -> Self {
        let ProviderParts { settings, programs, accounts, clock, metrics } = parts;
        let Some(ProviderSettings { providers, bin_dir, hash }) = settings else {
            return Self { plugins: Vec::new(), accounts };
        };
        metrics.set_provider_config(&hash);
        let plugin = |provider: Provider| {
            Arc::new(Plugin {
                path: bin_dir.join(&provider.name),
                provider,
                programs: Arc::clone(&programs),
                clock: Arc::clone(&clock),
                metrics: metrics.clone(),
                cache: Mutex::default(),
                runs: Mutex::default(),
            })
        };
        Self { plugins: providers.into_iter().map(plugin).collect(), accounts }
    }

    /// The credentials for an image, in the order of the plugins, which run side by side. A plugin that fails has none.
    pub(crate) async fn credentials(&self, pod: &Pod, image: &str) -> Vec<Provided> {
        let matching = self.plugins.iter().filter(|plugin| plugin.matches(image));
        let runs = matching.map(|plugin| async move {
            let identity = self.identity(plugin, pod).await?;
            let source = identity.source.clone();
            let logins = plugin.logins(image, identity).await?;
            Some(Provided { logins, source })
        });
        join_all(runs).await.into_iter().flatten().collect()
    }

    /// The pods that a plugin is run for; `None` if it is not run for the pod.
    async fn identity(&self, plugin: &Plugin, pod: &Pod) -> Option<Identity> {
        let Some(attributes) = &plugin.provider.token_attributes else {
            return Some(Identity::node());
        };
        let account = view::spec(pod).and_then(|spec| spec.service_account_name.as_deref());
        let Some(account) = account.filter(|account| !account.is_empty()) else {
            return (!attributes.requires_account()).then(Identity::node);
        };
        let (name, provider) = (view::pod_name(pod), &plugin.provider.name);
        let accounts = self.accounts.as_ref()?;
        let record = accounts.account(&name.namespace, account).await;
        let record = record.inspect_err(|error| {
            warn!(plugin = provider, account, error, "Cannot read the service account of a pod");
        });
        let record = record.ok()?;
        let annotations = wanted_annotations(attributes, &record)?;
        let request = TokenRequest {
            service_account: account.into(),
            audiences: vec![attributes.service_account_token_audience.clone()],
            expiration_seconds: TOKEN_SECONDS,
            pod: name.clone(),
            pod_uid: view::uid(pod),
        };
        let token = accounts.token(&request).await.inspect_err(|error| {
            warn!(plugin = provider, account, error, "Cannot request a token for a plugin");
        });
        let token = token.ok()?.token.clone();
        let audience = Audience::account(&AccountKey {
            object: [&name.namespace, account, &record.uid],
            annotations: &annotations,
            token: attributes.is_cached_by_token().then_some(token.as_str()),
        });
        let source = CredentialSource::ServiceAccount(AccessObject {
            namespace: name.namespace.to_string(),
            name: account.to_owned(),
            uid: record.uid.to_string(),
        });
        Some(Identity { source, audience, input: AccountInput { token, annotations } })
    }
}

/// The annotations that a plugin receives; `None` if a required one is missing.
fn wanted_annotations(
    attributes: &TokenAttributes,
    account: &ServiceAccountRecord,
) -> Option<BTreeMap<String, String>> {
    let required = &attributes.required_service_account_annotation_keys;
    let optional = &attributes.optional_service_account_annotation_keys;
    let mut wanted = BTreeMap::new();
    for key in required {
        wanted.insert(key.clone(), account.annotations.get(key)?.clone());
    }
    let found = optional
        .iter()
        .filter_map(|key| Some((key.clone(), account.annotations.get(key)?.clone())));
    wanted.extend(found);
    Some(wanted)
}

impl Plugin {
    fn matches(&self, image: &str) -> bool {
        self.provider.match_images.iter().any(|pattern| matches_image(pattern, image))
    }

    fn cache(&self) -> MutexGuard<'_, ProviderCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn runs(&self) -> MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn logins(self: &Arc<Self>, image: &str, identity: Identity) -> Option<DockerConfig> {
        let Identity { audience, input, .. } = identity;
        if let Some(logins) = self.cache().get(image, &audience, self.clock.now()) {
            return Some(logins);
        }
        self.join(image, audience, input).await
    }

    /// Joins an equal run in progress, or begins one.
    fn join(
        self: &Arc<Self>,
        image: &str,
        audience: Audience,
        input: AccountInput,
    ) -> Shared<RunFuture> {
        let key = (image.to_owned(), audience);
        let mut runs = self.runs();
        if let Some(run) = runs.0.get(&key).and_then(WeakShared::upgrade) {
            return run;
        }
        let (plugin, (image, audience)) = (Arc::clone(self), key.clone());
        let run: RunFuture =
            async move { plugin.run_and_cache(&image, &audience, &input).await }.boxed();
        let run = run.shared();
        // Runs that ended, or were cancelled by all their waiters, are dropped.
        runs.0.retain(|_, run| run.upgrade().is_some());
        runs.0.extend(run.downgrade().map(|run| (key, run)));
        run
    }

    async fn run_and_cache(
        &self,
        image: &str,
        audience: &Audience,
        input: &AccountInput,
    ) -> Option<DockerConfig> {
        let (name, begun) = (&self.provider.name, Instant::now());
        let ended = self.run(image, input).await;
        self.metrics.plugin_ran(name, begun.elapsed(), ended.is_ok());
        match ended {
            Ok(response) => {
                let default = self.provider.default_cache_duration();
                let put = Put { image, audience, response: &response, default };
                self.cache().put(put, self.clock.now());
                debug!(plugin = name, image, "Credential provider plugin succeeded");
                Some(response.logins)
            }
            Err(error) => {
                let error = Chain(&error);
                warn!(plugin = name, image, %error, "Credential provider plugin failed");
                None
            }
        }
    }

    async fn run(&self, image: &str, input: &AccountInput) -> Result<ProviderResponse, RunError> {
        let Provider { args, env, api_version, .. } = &self.provider;
        let request = ProviderRequest {
            api_version,
            kind: "CredentialProviderRequest",
            image,
            service_account_token: &input.token,
            service_account_annotations: &input.annotations,
        };
        let run = ProgramRun {
            path: self.path.clone(),
            args: args.clone(),
            env: env.iter().map(|one| (one.name.clone(), one.value.clone())).collect(),
            input: request.encode(),
            limit: LIMIT,
            longest_output: LONGEST,
        };
        let output = self.programs.run(run).await.map_err(RunError::Program)?;
        let response = decode_response(&output, api_version).map_err(RunError::Response)?;
        let attributes = self.provider.token_attributes.as_ref();
        let is_for_account = attributes.is_some_and(|attributes| !attributes.is_cached_by_token());
        let mut logins = response.logins.iter();
        if is_for_account
            && !input.token.is_empty()
            && logins.any(|(_, login)| login.password == input.token)
        {
            return Err(RunError::TokenReturned);
        }
        Ok(response)
    }
}
