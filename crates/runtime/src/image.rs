//! A container's image: there, fetched, or why not.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container;
use model::ids::PodUid;
use model::ports::events::EventType::{Normal, Warning};
use model::ports::runtime::Image;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::act::RuntimeParts;
use crate::decide::{Backoff, BackoffLimits, Fetch, Turn, fetch, with_default_tag};
use crate::error::StartError;
use crate::report::Reporter;

/// Failed pulls wait 10 s, doubling to this.
const LONGEST_WAIT: Duration = Duration::from_mins(5);

/// Pulls, one at a time, and the waits of those that failed.
#[derive(Debug)]
pub(crate) struct Images {
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
    /// When the last pull failed.
    failed: BTreeMap<Key, Timestamp>,
}

impl Failures {
    fn turn(&mut self, key: &Key, now: Timestamp) -> Turn {
        match self.failed.get(key).copied() {
            Some(failed) => self.backoff.turn(key, failed, now),
            None => Turn::Now,
        }
    }

    fn failed(&mut self, key: Key, now: Timestamp) {
        if !self.failed.contains_key(&key) {
            // The first failure lays the first delay; later ones were laid when they were let try.
            self.backoff.turn(&key, now, now);
        }
        self.failed.insert(key, now);
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
    /// What the runtime says of it; nothing if it was just fetched.
    pub(crate) seen: Option<Image>,
}

impl Images {
    pub(crate) fn new() -> Self {
        let backoff = Backoff::new(BackoffLimits::up_to(LONGEST_WAIT));
        let failures = Mutex::new(Failures { backoff, failed: BTreeMap::new() });
        Self { failures, one_at_a_time: Semaphore::new(1) }
    }

    fn failures(&self) -> std::sync::MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sees to it that the runtime has the container's image.
    pub(crate) async fn ensure(
        &self,
        parts: &RuntimeParts,
        uid: &PodUid,
        container: &Container,
        report: &Reporter<'_>,
    ) -> Result<Ensured, StartError> {
        let image = container.image.clone().unwrap_or_default();
        let tagged = with_default_tag(&image);
        let policy = container.image_pull_policy.as_deref();
        let present = if policy == Some("Always") {
            None
        } else {
            match parts.runtime.image_status(&tagged).await {
                Ok(present) => present,
                Err(source) => {
                    let message = format!("Failed to inspect image {image:?}: {source}");
                    report.event(Warning, "InspectFailed", message);
                    return Err(StartError::ImageInspect { image, source });
                }
            }
        };
        match fetch(policy, present.as_ref().map(|present| present.id.as_str())) {
            Fetch::Present(image_ref) => {
                let message = format!("Container image {image:?} already present on machine");
                report.event(Normal, "Pulled", message);
                Ok(Ensured { image_ref, seen: present })
            }
            Fetch::Forbidden => {
                let error = StartError::ImageNeverPull { image };
                let message = "Container image is not present with pull policy of Never";
                report.event(Warning, "ErrImageNeverPull", message.to_owned());
                Err(error)
            }
            Fetch::Pull => {
                let image_ref = self.pull(parts, (uid.clone(), tagged), image, report).await?;
                Ok(Ensured { image_ref, seen: None })
            }
        }
    }

    async fn pull(
        &self,
        parts: &RuntimeParts,
        key: Key,
        image: String,
        report: &Reporter<'_>,
    ) -> Result<String, StartError> {
        let turn = self.failures().turn(&key, parts.clock.now());
        if let Turn::NotBefore { at, .. } = turn {
            report.event(Normal, "BackOff", format!("Back-off pulling image {image:?}"));
            return Err(StartError::ImagePullBackOff { image, until: at });
        }
        report.event(Normal, "Pulling", format!("Pulling image {image:?}"));
        let asked = Instant::now();
        let permit = self.one_at_a_time.acquire().await.expect("the semaphore is never closed");
        let began = Instant::now();
        let pulled = parts.runtime.pull_image(&key.1).await;
        drop(permit);
        match pulled {
            Ok(image_ref) => {
                parts.claims.changed();
                self.failures().worked(&key);
                let (pulling, waiting) = (began.elapsed(), asked.elapsed());
                let message = format!(
                    "Successfully pulled image {image:?} in {pulling:.0?} ({waiting:.0?} including waiting)"
                );
                report.event(Normal, "Pulled", message);
                Ok(image_ref)
            }
            Err(source) => {
                self.failures().failed(key, parts.clock.now());
                let message = format!("Failed to pull image {image:?}: {}", source.message);
                report.event(Warning, "Failed", message);
                Err(StartError::ImagePull { image, source })
            }
        }
    }
}
