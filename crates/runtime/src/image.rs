//! The image of a container or volume: present, pulled, or why not.

mod early_lookup;
mod puller;
mod slots;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, maybe_done};
use k8s_openapi::api::core::v1::{Container, Pod};
use model::ids::PodUid;
use model::image_access::{CredentialSource, PullCredential, PullCredentials};
use model::image_claims::{ImageClaim, ImageClaims};
use model::ports::clock::WallClock;
use model::ports::events::EventType::{Normal, Warning};
use model::ports::events::STILL_PULLING;
use model::ports::image_access::{CredentialsError, ImageAccess, PresentImage};
use model::ports::incidents::{Incident, IncidentKind, IncidentRecord};
use model::ports::runtime::{Image, ImageService};
use model::verdict::{Detail, Input};
use model::wanted::SandboxConfig;
use podspec::image_name::ImageName;
use podspec::view;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use self::early_lookup::EarlyLookup;
use self::early_lookup::Lookup;
use self::puller::{JoinedPull, PullJob, PullOutcome, Pulled, Puller};
use crate::decide::pull_messages::{self, pull_failure};
use crate::decide::{
    ImageDecision, Presence, PullBackoff, PullCause, PullError, PullSettings, PullWait,
    image_decision, is_looked_for, next_reminder, with_default_tag,
};
use crate::error::StartError;
use crate::metrics::Metrics;
use crate::report::Reporter;

/// The ports and settings of an [`ImageProvider`].
#[derive(Debug)]
pub(crate) struct ImageParts {
    pub(crate) images: Arc<dyn ImageService>,
    /// Which pods may use which images, and credentials.
    pub(crate) access: Arc<dyn ImageAccess>,
    /// Claims on images from which containers are about to be created.
    pub(crate) claims: ImageClaims,
    pub(crate) incidents: Arc<dyn IncidentRecord>,
    pub(crate) clock: Arc<dyn WallClock>,
    pub(crate) settings: PullSettings,
    pub(crate) metrics: Metrics,
}

/// Provides the images of containers: pulls them, and delays pulls that failed.
#[derive(Debug)]
pub(crate) struct ImageProvider {
    parts: ImageParts,
    puller: Puller,
    /// Never locked across an await.
    backoff: Mutex<PullBackoff<Key>>,
}

/// Back-off is per pod and image: a new pod tries at once.
type Key = (PodUid, String);

/// An image that the runtime has.
#[derive(Debug)]
pub(crate) struct Ensured {
    /// The runtime's reference.
    pub(crate) image_ref: String,
    /// The image; `None` if it was just pulled and the runtime did not return it.
    pub(crate) seen: Option<Image>,
    /// The claim is on its ID, because image garbage collection may not have seen this name of the
    /// image.
    pub(crate) resolved: Vec<ImageClaim>,
}

/// The image that a container or a volume needs.
pub(crate) struct ImageRequest<'a> {
    pub(crate) pod: &'a Pod,
    /// The sandbox of its pod.
    pub(crate) sandbox: &'a SandboxConfig,
    /// The name of the container that needs it.
    pub(crate) container: &'a str,
    /// Its name, as the pod writes it.
    pub(crate) image: &'a str,
    /// When it is pulled.
    pub(crate) policy: Option<&'a str>,
    /// A lookup of the image that was begun already.
    pub(crate) early: Option<EarlyLookup>,
    /// Cancelled when the pod terminates.
    pub(crate) cancel: &'a CancellationToken,
}

/// An image that must be pulled for a pod.
struct PullNeed<'a> {
    pod: &'a Pod,
    sandbox: &'a SandboxConfig,
    container: &'a str,
    /// Its name, as the pod writes it.
    image: &'a str,
    /// Like `image`, with a tag or digest.
    tagged: String,
    cause: PullCause,
    credentials: PullCredentials,
    cancel: &'a CancellationToken,
}

enum Need<'a> {
    Present(Ensured),
    Pull(PullNeed<'a>),
}

/// The result of a lookup, and of the check whether the pod may use the image.
struct ImageLookup {
    presence: Presence,
    image: Option<Image>,
    /// The pod's credentials, if the check looked them up.
    credentials: Option<PullCredentials>,
}

impl ImageProvider {
    pub(crate) fn new(parts: ImageParts) -> Self {
        let (images, claims) = (Arc::clone(&parts.images), parts.claims.clone());
        let puller = Puller::new(images, claims, parts.settings);
        Self { parts, puller, backoff: Mutex::default() }
    }

    fn backoff(&self) -> std::sync::MutexGuard<'_, PullBackoff<Key>> {
        self.backoff.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims an image, so that image garbage collection keeps it.
    pub(crate) fn claim(&self, image: &str) -> ImageClaim {
        self.parts.claims.claim(&with_default_tag(image))
    }

    /// Begins a lookup of the image of a container, if [`ImageProvider::ensure`] will need it.
    pub(crate) fn early_lookup(&self, container: &Container) -> Option<EarlyLookup> {
        let image = container.image.as_deref().unwrap_or_default();
        if !is_looked_for(container.image_pull_policy.as_deref()) || ImageName::read(image).is_err()
        {
            return None;
        }
        let (tagged, images) = (with_default_tag(image), Arc::clone(&self.parts.images));
        let claim = self.parts.claims.claim(&tagged);
        let lookup: BoxFuture<'static, Lookup> =
            Box::pin(async move { images.image_status(&tagged).await });
        Some(EarlyLookup { lookup: maybe_done(lookup), _claim: claim })
    }

    /// Pulls an image, if its policy or the access of the pod requires that. As upstream's `EnsureImageExists`.
    pub(crate) async fn ensure(
        &self,
        request: ImageRequest<'_>,
        report: &Reporter<'_>,
    ) -> Result<Ensured, StartError> {
        let cancel = request.cancel;
        let need = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(StartError::PodEnds),
            need = self.need(request, report) => need?,
        };
        match need {
            Need::Present(ensured) => Ok(ensured),
            Need::Pull(need) => self.pull(&need, report).await,
        }
    }

    fn count(&self, policy: Option<&str>, present: Option<bool>, pull: Option<bool>) {
        self.parts.metrics.attempts.image_requested(policy.unwrap_or_default(), present, pull);
    }

    async fn need<'a>(
        &self,
        request: ImageRequest<'a>,
        report: &Reporter<'_>,
    ) -> Result<Need<'a>, StartError> {
        let ImageRequest { pod, sandbox, container, image, policy, cancel, .. } = request;
        if let Some(source) = ImageName::read(image).err() {
            self.count(policy, None, None);
            let error = StartError::InvalidImageName { image: image.to_owned(), source };
            report.event(Warning, "InspectFailed", error.message());
            return Err(error);
        }
        let tagged = with_default_tag(image);
        let ImageLookup { presence, image: seen, credentials } =
            self.find(request, &tagged, report).await?;
        let is_present = match presence {
            Presence::NotLookedUp => None,
            Presence::Absent => Some(false),
            Presence::Usable | Presence::Unproven => Some(true),
        };
        let cause = match (image_decision(policy, presence), seen) {
            (ImageDecision::UsePresent, Some(seen)) => {
                self.count(policy, is_present, Some(false));
                let is_verified = self.parts.access.is_verifying();
                report.event(Normal, "Pulled", pull_messages::present(image, is_verified));
                let resolved = vec![self.parts.claims.claim(&seen.id)];
                let image_ref = seen.id.clone();
                return Ok(Need::Present(Ensured { image_ref, seen: Some(seen), resolved }));
            }
            (ImageDecision::Forbidden, _) => {
                self.count(policy, is_present, (presence == Presence::Unproven).then_some(true));
                report.event(Warning, "ErrImageNeverPull", pull_messages::never(image));
                return Err(StartError::ImageNeverPull { image: image.to_owned() });
            }
            (ImageDecision::UsePresent, None) => PullCause::Absent,
            (ImageDecision::Pull(cause), _) => cause,
        };
        self.count(policy, is_present, Some(true));
        let credentials = if let Some(credentials) = credentials {
            credentials
        } else {
            let looked_up = self.parts.access.credentials(pod, &tagged).await;
            looked_up.map_err(|source| no_access(image, source, report))?
        };
        let need = PullNeed { pod, sandbox, container, image, tagged, cause, credentials, cancel };
        Ok(Need::Pull(need))
    }

    /// Looks the image up, unless the policy pulls in any case, and checks whether the pod may use it.
    async fn find(
        &self,
        request: ImageRequest<'_>,
        tagged: &str,
        report: &Reporter<'_>,
    ) -> Result<ImageLookup, StartError> {
        let ImageRequest { pod, image, policy, early, .. } = request;
        let found = |presence, image, credentials| Ok(ImageLookup { presence, image, credentials });
        if !is_looked_for(policy) {
            return found(Presence::NotLookedUp, None, None);
        }
        let looked_up = match early {
            Some(early) => early.result().await,
            None => self.parts.images.image_status(tagged).await,
        };
        let seen = looked_up.map_err(|source| {
            self.count(policy, None, None);
            report.event(Warning, "InspectFailed", pull_messages::uninspected(&source));
            StartError::ImageInspect { image: image.to_owned(), source }
        })?;
        let Some(seen) = seen else { return found(Presence::Absent, None, None) };
        match self.parts.access.check_present(pod, tagged, &seen.id).await {
            Ok(PresentImage::Allowed) => found(Presence::Usable, Some(seen), None),
            Ok(PresentImage::MustPull { credentials }) => {
                found(Presence::Unproven, Some(seen), credentials)
            }
            Err(source) => {
                self.count(policy, Some(true), None);
                Err(no_access(image, source, report))
            }
        }
    }

    /// Pulls the image between the records of its beginning and its end.
    async fn pull(
        &self,
        need: &PullNeed<'_>,
        report: &Reporter<'_>,
    ) -> Result<Ensured, StartError> {
        let access = &self.parts.access;
        if let Err(source) = access.pull_begins(&need.tagged).await {
            let image = need.image.to_owned();
            report.event(Warning, "Failed", pull_messages::not_recorded(&image, &source));
            return Err(StartError::PullIntent { image, source });
        }
        let pulled = match self.pull_unless_delayed(need, report).await {
            Ok(pulled) => pulled,
            Err(error) => {
                access.pull_failed(&need.tagged).await;
                return Err(error);
            }
        };
        let used = pulled.used.and_then(|position| need.credentials.get(position));
        access.pull_succeeded(&need.tagged, &pulled.image_ref, used).await;
        let resolved = std::iter::once(&pulled.image_ref)
            .chain(pulled.image.as_ref().map(|image| &image.id))
            .map(|name| self.parts.claims.claim(name));
        Ok(Ensured {
            image_ref: pulled.image_ref.clone(),
            resolved: resolved.collect(),
            seen: pulled.image.clone(),
        })
    }

    async fn pull_unless_delayed(
        &self,
        need: &PullNeed<'_>,
        report: &Reporter<'_>,
    ) -> Result<Arc<Pulled>, StartError> {
        let PullNeed { image, .. } = *need;
        let key = (need.sandbox.pod_uid.clone(), need.tagged.clone());
        let delayed = self.backoff().wait(&key, self.parts.clock.now());
        if let Some(PullWait { until, last }) = delayed {
            report.event(Normal, "BackOff", pull_messages::back_off(image));
            return Err(StartError::ImagePullBackOff { image: image.to_owned(), until, last });
        }
        report.event(Normal, "Pulling", pull_messages::pulling(image));
        let requested = Instant::now();
        let outcome = self.outcome(need, report).await?;
        match outcome {
            Ok(pulled) => {
                self.backoff().collect(self.parts.clock.now());
                self.report_pulled(need, &pulled, requested.elapsed(), report);
                Ok(pulled)
            }
            Err(source) => {
                self.note_failure(key, image, &source);
                report.event(Warning, "Failed", pull_messages::not_pulled(image, &source));
                Err(StartError::ImagePull { image: image.to_owned(), source })
            }
        }
    }

    fn note_failure(&self, key: Key, image: &str, error: &PullError) {
        let (now, mut backoff) = (self.parts.clock.now(), self.backoff());
        backoff.failed(key, pull_failure(image, error), now);
        backoff.collect(now);
    }

    /// Waits for the end of the pull, or of the pod. Events remind of a pull that takes long.
    async fn outcome(
        &self,
        need: &PullNeed<'_>,
        report: &Reporter<'_>,
    ) -> Result<PullOutcome, StartError> {
        let mut pull: JoinedPull = self.puller.join(PullJob {
            image: &need.tagged,
            sandbox: need.sandbox,
            credentials: Arc::clone(&need.credentials),
            is_present: match need.cause {
                PullCause::Always => None,
                PullCause::Absent => Some(false),
                PullCause::Unproven => Some(true),
            },
            is_critical: view::is_critical(need.pod),
        });
        let requested = Instant::now();
        loop {
            let reminder = tokio::time::sleep_until(requested + next_reminder(requested.elapsed()));
            tokio::select! {
                biased;
                () = need.cancel.cancelled() => return Err(StartError::PodEnds),
                outcome = pull.outcome() => return Ok(outcome),
                () = reminder => {
                    let waited = Duration::from_secs(requested.elapsed().as_secs());
                    let text = pull_messages::still_pulling(need.image, waited, pull.has_begun());
                    report.event(Normal, STILL_PULLING, text);
                }
            }
        }
    }

    fn report_pulled(
        &self,
        need: &PullNeed<'_>,
        pulled: &Pulled,
        waited: Duration,
        report: &Reporter<'_>,
    ) {
        let size = pulled.image.as_ref().map_or(0, |image| image.size);
        // A pod that joined a running pull waited only for the rest of it.
        let took = pulled.took.min(waited);
        self.parts.metrics.pulled(waited, size);
        report.event(Normal, "Pulled", pull_messages::pulled(need.image, took, waited, size));
        if pulled.is_first_record() {
            self.parts.incidents.record_incident(incident(need, pulled));
        }
    }
}

/// Reports that the access of a pod to an image cannot be decided.
fn no_access(image: &str, source: CredentialsError, report: &Reporter<'_>) -> StartError {
    let error = StartError::ImageAccess { image: image.to_owned(), source };
    report.event(Warning, "Failed", format!("Failed to pull image {image:?}: {}", error.message()));
    error
}

/// The journal's record of a pull. It has the source of the credentials, never their content.
fn incident(need: &PullNeed<'_>, pulled: &Pulled) -> Incident {
    let used = pulled.used.and_then(|position| need.credentials.get(position));
    let mut detail = Detail::default()
        .with("container", Input::Text(need.container.to_owned()))
        .with("credential", Input::Text(source_text(used)))
        .with("took", Input::Span(pulled.took));
    if let Some(image) = &pulled.image {
        detail = detail.with("size", Input::Number(i64::try_from(image.size).unwrap_or(i64::MAX)));
    }
    Incident {
        kind: IncidentKind::Pull,
        pod: view::pod_name(need.pod),
        uid: need.sandbox.pod_uid.clone(),
        container: need.tagged.clone(),
        id: pulled.image.as_ref().map_or(&pulled.image_ref, |image| &image.id).clone(),
        rule: need.cause.rule().into(),
        detail,
        at: None,
    }
}

fn source_text(used: Option<&PullCredential>) -> String {
    match used.map(|credential| &credential.source) {
        None => "none".to_owned(),
        Some(CredentialSource::Node) => "node".to_owned(),
        Some(CredentialSource::Secret(secret)) => {
            format!("secret {}/{}", secret.namespace, secret.name)
        }
        Some(CredentialSource::ServiceAccount(account)) => {
            format!("service account {}/{}", account.namespace, account.name)
        }
    }
}
