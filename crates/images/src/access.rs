//! The port `ImageAccess`, with credentials and records.

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use model::image_access::{CredentialSource, PullCredential, PullCredentials};
use model::ports::events::Events;
use model::ports::files::{FileError, HostFiles};
use model::ports::image_access::{CredentialsError, ImageAccess, PresentImage};
use model::ports::objects::PodObjects;

use crate::decide::keyring::Keyring;
use crate::decide::must_pull::{Access, Comparison, PresentFacts, access, compare};
use crate::decide::record::RecordedAccess;
use crate::decide::verification::{VerificationPolicy, repository};
use crate::metrics::{AccessMetrics, CheckResult};
use crate::node_config::{NodeConfig, NodeConfigDirectories};
use crate::providers::{ProviderParts, Providers};
use crate::pull_secrets::{SecretRequest, add_pull_secrets};
use crate::records::{AddedAccess, PullRecords};

/// The ports and settings of a [`NodeImageAccess`].
#[derive(Debug)]
pub struct AccessParts {
    /// Secrets; `None` without an API server.
    pub objects: Option<Arc<dyn PodObjects>>,
    /// Events about pull secrets that are missing.
    pub events: Arc<dyn Events>,
    /// The host's files.
    pub files: Arc<dyn HostFiles>,
    /// Where the docker configuration of the node may be.
    pub directories: NodeConfigDirectories,
    /// The plugins.
    pub providers: ProviderParts,
    /// Counts checks.
    pub metrics: AccessMetrics,
    /// Records, and for which images pods must prove their access; `None` if that is not verified at all:
    /// `KubeletEnsureSecretPulledImages` is off.
    pub verification: Option<(PullRecords, VerificationPolicy)>,
}

/// Which pods of this node may use which images, and with which credentials images are pulled.
#[derive(Debug)]
pub struct NodeImageAccess {
    objects: Option<Arc<dyn PodObjects>>,
    events: Arc<dyn Events>,
    node_config: NodeConfig,
    providers: Providers,
    metrics: AccessMetrics,
    verification: Option<(PullRecords, VerificationPolicy)>,
}

impl NodeImageAccess {
    /// With these ports and settings.
    pub fn new(parts: AccessParts) -> Self {
        let AccessParts { objects, events, files, directories, providers, metrics, verification } =
            parts;
        let node_config = NodeConfig::new(files, directories);
        let providers = Providers::new(providers);
        Self { objects, events, node_config, providers, metrics, verification }
    }

    /// The credentials for an image: from pull secrets, then from the node, then from plugins.
    async fn look_up(
        &self,
        pod: &Pod,
        image: &str,
    ) -> Result<Vec<PullCredential>, CredentialsError> {
        let Some(image) = repository(image) else { return Ok(Vec::new()) };
        let mut of_secrets = Keyring::default();
        if let Some(objects) = &self.objects {
            let request = SecretRequest { pod, objects: &**objects, events: &*self.events };
            add_pull_secrets(&mut of_secrets, request).await?;
        }
        let (mut of_node, mut of_plugins) = (Keyring::default(), Keyring::default());
        of_node.add(self.node_config.get().await, &CredentialSource::Node);
        for provided in self.providers.credentials(pod, &image).await {
            of_plugins.add(provided.logins, &provided.source);
        }
        let keyrings = [of_secrets, of_node, of_plugins];
        Ok(keyrings.iter().flat_map(|keyring| keyring.lookup(&image)).collect())
    }

    async fn check(
        &self,
        pod: &Pod,
        image: &str,
        image_ref: &str,
    ) -> Result<(CheckResult, PresentImage), CredentialsError> {
        let must_pull =
            |credentials| (CheckResult::MustPull, PresentImage::MustPull { credentials });
        let Some((records, policy)) = &self.verification else {
            return Ok((CheckResult::ByPolicy, PresentImage::Allowed));
        };
        let Some(repository) = repository(image) else { return Ok(must_pull(None)) };
        let Some(facts) = records.look(image, image_ref).await else {
            return Ok((CheckResult::Error, PresentImage::MustPull { credentials: None }));
        };
        let present = PresentFacts {
            repository: &repository,
            record: facts.record.as_deref(),
            has_intent: facts.has_intent,
        };
        let recorded = match access(policy, present) {
            Access::ByPolicy => return Ok((CheckResult::ByPolicy, PresentImage::Allowed)),
            Access::ByRecord => return Ok((CheckResult::ByRecord, PresentImage::Allowed)),
            Access::MustPull => return Ok(must_pull(None)),
            Access::Compare(recorded) => recorded,
        };
        let credentials = self.look_up(pod, image).await?;
        match compare(recorded, &credentials) {
            Comparison::MustPull => Ok(must_pull(Some(credentials.into()))),
            Comparison::Matches { add } => {
                if let Some(access) = add {
                    let image_ref = image_ref.to_owned();
                    records
                        .add(AddedAccess { repository: Some(repository), image_ref, access })
                        .await;
                }
                Ok((CheckResult::ByRecord, PresentImage::Allowed))
            }
        }
    }
}

#[async_trait]
impl ImageAccess for NodeImageAccess {
    fn is_verifying(&self) -> bool {
        self.verification.is_some()
    }

    async fn check_present(
        &self,
        pod: &Pod,
        image: &str,
        image_ref: &str,
    ) -> Result<PresentImage, CredentialsError> {
        let checked = self.check(pod, image, image_ref).await;
        if self.verification.is_some() {
            let result = checked.as_ref().map_or(CheckResult::Error, |(result, _)| *result);
            self.metrics.checked(result);
        }
        checked.map(|(_, answer)| answer)
    }

    async fn credentials(
        &self,
        pod: &Pod,
        image: &str,
    ) -> Result<PullCredentials, CredentialsError> {
        Ok(self.look_up(pod, image).await?.into())
    }

    async fn pull_begins(&self, image: &str) -> Result<(), FileError> {
        match &self.verification {
            Some((records, _)) => records.begin(image).await,
            None => Ok(()),
        }
    }

    async fn pull_succeeded(&self, image: &str, image_ref: &str, with: Option<&PullCredential>) {
        let Some((records, _)) = &self.verification else { return };
        let (repository, image_ref) = (repository(image), image_ref.to_owned());
        let access = RecordedAccess::of_pull(with);
        records.succeed(image, AddedAccess { repository, image_ref, access }).await;
    }

    async fn pull_failed(&self, image: &str) {
        if let Some((records, _)) = &self.verification {
            records.fail(image).await;
        }
    }
}
