//! A container's image: there, fetched, or why not.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, Either, MaybeDone, maybe_done, select};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container;
use model::ids::PodUid;
use model::image_claims::{ImageClaim, ImageClaims};
use model::ports::clock::WallClock;
use model::ports::events::EventType::{Normal, Warning};
use model::ports::runtime::{Image, ImageService, RuntimeError};
use model::wanted::SandboxConfig;
use podspec::image_name::ImageName;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::decide::pull_words::{self, PullFailure, pull_failure};
use crate::decide::{Backoff, BackoffLimits, Fetch, Turn, fetch, is_looked_for, with_default_tag};
use crate::error::StartError;
use crate::metrics::Metrics;
use crate::report::Reporter;

/// Failed pulls wait 10 s, doubling to this.
const LONGEST_WAIT: Duration = Duration::from_mins(5);

/// The ports and settings of an [`ImageProvider`].
#[derive(Debug)]
pub(crate) struct ImageParts {
    pub(crate) images: Arc<dyn ImageService>,
    /// Claims on images from which containers are about to be created.
    pub(crate) claims: ImageClaims,
    pub(crate) clock: Arc<dyn WallClock>,
    pub(crate) metrics: Metrics,
}

/// Provides the images of containers: pulls them, one at a time, and delays pulls that failed.
#[derive(Debug)]
pub(crate) struct ImageProvider {
    parts: ImageParts,
    failures: Mutex<Failures>,
    /// One pull at a time: a node's network and disk are slower with several, and images share
    /// layers.
    one_at_a_time: Semaphore,
}

/// A pull is a pod's and an image's: a new pod tries at once.
type Key = (PodUid, String);

#[derive(Debug)]
struct Failures {
    backoff: Backoff<Key>,
    /// When the last pull failed, and why.
    failed: BTreeMap<Key, (Timestamp, PullFailure)>,
}

impl Failures {
    /// When a pull may be tried, and why the last one failed if it must wait.
    fn wait(&mut self, key: &Key, now: Timestamp) -> Option<(Timestamp, PullFailure)> {
        let (failed, why) = self.failed.get(key)?;
        match self.backoff.turn(key, *failed, now) {
            Turn::NotBefore { at, .. } => Some((at, why.clone())),
            Turn::Now => None,
        }
    }

    fn failed(&mut self, key: Key, now: Timestamp, why: PullFailure) {
        if !self.failed.contains_key(&key) {
            // The first failure lays the first delay; later ones were laid when they were let try.
            self.backoff.turn(&key, now, now);
        }
        self.failed.insert(key, (now, why));
        self.backoff.expire(now);
        let backoff = &self.backoff;
        self.failed.retain(|key, _| backoff.contains(key));
    }

    fn worked(&mut self, key: &Key) {
        self.failed.remove(key);
        self.backoff.forget(key);
    }
}

/// An image that the runtime has.
#[derive(Debug)]
pub(crate) struct Ensured {
    /// How to refer to it.
    pub(crate) image_ref: String,
    /// What the runtime says of it; nothing if it was just fetched and the runtime did not say.
    pub(crate) seen: Option<Image>,
    /// On its id: its name may be one that image garbage collection did not see on it.
    pub(crate) resolved: Vec<ImageClaim>,
}

/// What the runtime answers when it is asked for an image.
type Answer = Result<Option<Image>, RuntimeError>;

/// A look at the image of a container whose turn has not come. Whatever it shows is told when it has; given up
/// before, it never was.
pub(crate) struct EarlyLook {
    answer: MaybeDone<BoxFuture<'static, Answer>>,
    /// From before it is looked for: nobody may take the image meanwhile.
    _claim: ImageClaim,
}

impl fmt::Debug for EarlyLook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EarlyLook").finish_non_exhaustive()
    }
}

impl EarlyLook {
    /// Waits for something else, and for that alone; the look goes on meanwhile.
    pub(crate) async fn beside<T>(&mut self, other: impl Future<Output = T> + Unpin) -> T {
        match select(other, &mut self.answer).await {
            Either::Left((done, _)) => done,
            Either::Right(((), other)) => other.await,
        }
    }

    async fn answer(mut self) -> Answer {
        (&mut self.answer).await;
        Pin::new(&mut self.answer).take_output().expect("it is done and taken once")
    }
}

/// The image that a container or a volume needs.
pub(crate) struct ImageRequest<'a> {
    /// The sandbox of its pod.
    pub(crate) sandbox: &'a SandboxConfig,
    /// Its name, as the pod writes it.
    pub(crate) image: &'a str,
    /// When it is pulled.
    pub(crate) policy: Option<&'a str>,
    /// A look at the image that was begun already.
    pub(crate) early: Option<EarlyLook>,
}

impl ImageProvider {
    pub(crate) fn new(parts: ImageParts) -> Self {
        let backoff = Backoff::new(BackoffLimits::up_to(LONGEST_WAIT));
        let failures = Mutex::new(Failures { backoff, failed: BTreeMap::new() });
        Self { parts, failures, one_at_a_time: Semaphore::new(1) }
    }

    fn failures(&self) -> std::sync::MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims an image, so that image garbage collection keeps it.
    pub(crate) fn claim(&self, image: &str) -> ImageClaim {
        self.parts.claims.claim(&with_default_tag(image))
    }

    /// Begins a look at the image of a container, if [`ImageProvider::ensure`] will look at it.
    pub(crate) fn early_look(&self, container: &Container) -> Option<EarlyLook> {
        let image = container.image.as_deref().unwrap_or_default();
        if !is_looked_for(container.image_pull_policy.as_deref()) || ImageName::read(image).is_err()
        {
            return None;
        }
        let (tagged, images) = (with_default_tag(image), Arc::clone(&self.parts.images));
        let claim = self.parts.claims.claim(&tagged);
        let answer: BoxFuture<'static, Answer> =
            Box::pin(async move { images.image_status(&tagged).await });
        Some(EarlyLook { answer: maybe_done(answer), _claim: claim })
    }

    /// Pulls an image, if its policy requires that.
    pub(crate) async fn ensure(
        &self,
        request: ImageRequest<'_>,
        report: &Reporter<'_>,
    ) -> Result<Ensured, StartError> {
        let (parts, ImageRequest { sandbox, image, policy, early }) = (&self.parts, request);
        let image = image.to_owned();
        let wanted = |present, pull| {
            parts.metrics.attempts.image_wanted(policy.unwrap_or_default(), present, pull);
        };
        if let Some(source) = ImageName::read(&image).err() {
            wanted(None, None);
            let error = StartError::InvalidImageName { image, source };
            report.event(Warning, "InspectFailed", error.message());
            return Err(error);
        }
        let tagged = with_default_tag(&image);
        let present = if is_looked_for(policy) {
            let answer = match early {
                Some(early) => early.answer().await,
                None => parts.images.image_status(&tagged).await,
            };
            match answer {
                Ok(present) => present,
                Err(source) => {
                    wanted(None, None);
                    let message = pull_words::uninspected(&source);
                    report.event(Warning, "InspectFailed", message);
                    return Err(StartError::ImageInspect { image, source });
                }
            }
        } else {
            None
        };
        match fetch(policy, present.as_ref().map(|present| present.id.as_str())) {
            Fetch::Present(image_ref) => {
                wanted(Some(true), Some(false));
                report.event(Normal, "Pulled", pull_words::present(&image));
                let resolved = vec![parts.claims.claim(&image_ref)];
                Ok(Ensured { image_ref, seen: present, resolved })
            }
            Fetch::Forbidden => {
                wanted(Some(false), None);
                report.event(Warning, "ErrImageNeverPull", pull_words::never(&image));
                Err(StartError::ImageNeverPull { image })
            }
            Fetch::Pull => {
                wanted(is_looked_for(policy).then_some(false), Some(true));
                let key = (sandbox.pod_uid.clone(), tagged);
                self.pull(sandbox, key, image, report).await
            }
        }
    }

    async fn pull(
        &self,
        sandbox: &SandboxConfig,
        key: Key,
        image: String,
        report: &Reporter<'_>,
    ) -> Result<Ensured, StartError> {
        let parts = &self.parts;
        let wait = self.failures().wait(&key, parts.clock.now());
        if let Some((until, last)) = wait {
            report.event(Normal, "BackOff", pull_words::back_off(&image));
            return Err(StartError::ImagePullBackOff { image, until, last });
        }
        report.event(Normal, "Pulling", pull_words::pulling(&image));
        let asked = Instant::now();
        let permit = self.one_at_a_time.acquire().await.expect("the semaphore is never closed");
        let began = Instant::now();
        let pulled = parts.images.pull_image(&key.1, Some(sandbox), None).await;
        let mut resolved = Vec::new();
        let seen = match &pulled {
            Ok(image_ref) => {
                resolved.push(parts.claims.claim(image_ref));
                // Only for its size and id: further readers request it again.
                parts.images.image_status(&key.1).await.ok().flatten()
            }
            Err(_) => None,
        };
        // Not every runtime answers a pull with the id.
        resolved.extend(seen.as_ref().map(|seen| parts.claims.claim(&seen.id)));
        drop(permit);
        match pulled {
            Ok(image_ref) => {
                parts.claims.changed();
                self.failures().worked(&key);
                let size = seen.as_ref().map_or(0, |seen| seen.size);
                let (took, with_wait) = (began.elapsed(), asked.elapsed());
                parts.metrics.pulled(with_wait, size);
                let message = pull_words::pulled(&image, took, with_wait, size);
                report.event(Normal, "Pulled", message);
                Ok(Ensured { image_ref, seen, resolved })
            }
            Err(source) => {
                let why = pull_failure(&image, &source);
                self.failures().failed(key, parts.clock.now(), why);
                let message = pull_words::not_pulled(&image, &source);
                report.event(Warning, "Failed", message);
                Err(StartError::ImagePull { image, source })
            }
        }
    }
}
