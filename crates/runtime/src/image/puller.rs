//! Pulls of images, each shared by all pods that wait for the same.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use model::image_access::PullCredentials;
use model::image_claims::{ImageClaim, ImageClaims};
use model::ports::runtime::{Image, ImageService};
use model::wanted::SandboxConfig;
use tokio::time::Instant;

use super::slots::{PullSlot, SlotQueue};
use crate::decide::{
    AttemptError, PullError, PullKey, PullOf, PullSettings, PullSlots, PullTicket, TokenBucket,
};

/// The result of a pull, for each pod that waited for it.
pub(super) type PullOutcome = Result<Arc<Pulled>, PullError>;

/// An image that was pulled.
#[derive(Debug)]
pub(super) struct Pulled {
    /// The runtime's reference.
    pub(super) image_ref: String,
    /// The image; `None` if the runtime did not return it.
    pub(super) image: Option<Image>,
    /// How long the pull took, without the wait for its slot.
    pub(super) took: Duration,
    /// The position of the credential that it succeeded with; `None` for an anonymous pull.
    pub(super) used: Option<usize>,
    /// Whether the pull is in the journal.
    is_recorded: AtomicBool,
    /// Until the pods that waited have their own.
    _claims: Vec<ImageClaim>,
}

impl Pulled {
    /// Whether the caller is the first: a pull is recorded once.
    pub(super) fn is_first_record(&self) -> bool {
        !self.is_recorded.swap(true, Ordering::Relaxed)
    }
}

/// A pull to be made for a pod.
pub(super) struct PullJob<'a> {
    /// The image with its tag or digest.
    pub(super) image: &'a str,
    pub(super) sandbox: &'a SandboxConfig,
    pub(super) credentials: PullCredentials,
    /// Whether the image is present, if it was looked up.
    pub(super) is_present: Option<bool>,
    /// Whether a critical or static pod waits for it.
    pub(super) is_critical: bool,
}

/// Pulls images. Equal pulls run once, for all pods that wait for them. When the last pod cancels its wait, the call to
/// the runtime is cancelled: containerd then stops the transfer, and a later pull resumes it.
#[derive(Debug)]
pub(super) struct Puller(Arc<PullerState>);

#[derive(Debug)]
struct PullerState {
    images: Arc<dyn ImageService>,
    claims: ImageClaims,
    slots: PullSlots,
    queue: SlotQueue,
    /// Never locked across an await, as the pulls below.
    rate: Mutex<TokenBucket>,
    /// The moment from which the time of the rate counts.
    start: Instant,
    /// The pulls that wait or run.
    pulls: Mutex<HashMap<PullKey, SharedPull>>,
}

type PullFuture = BoxFuture<'static, PullOutcome>;

/// A pull in the map. It is dropped with its last waiter.
struct SharedPull {
    ticket: PullTicket,
    pull: WeakShared<PullFuture>,
    begun: Arc<AtomicBool>,
}

impl fmt::Debug for SharedPull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedPull").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}

/// A pull that a pod waits for. Dropping it cancels the wait.
pub(super) struct JoinedPull {
    pull: Shared<PullFuture>,
    begun: Arc<AtomicBool>,
}

impl JoinedPull {
    /// Whether the pull has its slot.
    pub(super) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }

    /// Waits for the end of the pull. May be cancelled and called again.
    pub(super) async fn outcome(&mut self) -> PullOutcome {
        (&mut self.pull).await
    }
}

/// The state of the pull itself.
struct Job {
    image: String,
    sandbox: SandboxConfig,
    credentials: PullCredentials,
    is_present: Option<bool>,
    begun: Arc<AtomicBool>,
}

/// Removes a pull from the map when it ends or is cancelled.
struct MapEntry {
    state: Arc<PullerState>,
    key: PullKey,
    ticket: PullTicket,
}

impl Drop for MapEntry {
    fn drop(&mut self) {
        let mut pulls = self.state.pulls();
        // A cancelled pull may have a successor.
        if pulls.get(&self.key).is_some_and(|pull| pull.ticket == self.ticket) {
            pulls.remove(&self.key);
        }
    }
}

impl Puller {
    pub(super) fn new(
        images: Arc<dyn ImageService>,
        claims: ImageClaims,
        settings: PullSettings,
    ) -> Self {
        let PullSettings { slots, rate } = settings;
        Self(Arc::new(PullerState {
            images,
            claims,
            slots,
            queue: SlotQueue::new(slots),
            rate: Mutex::new(TokenBucket::new(rate)),
            start: Instant::now(),
            pulls: Mutex::default(),
        }))
    }

    /// Joins an equal pull that waits or runs, or begins one.
    pub(super) fn join(&self, job: PullJob<'_>) -> JoinedPull {
        let state = &self.0;
        let PullJob { image, sandbox, credentials, is_present, is_critical } = job;
        let key = PullKey::new(PullOf {
            image,
            runtime_handler: &sandbox.runtime_handler,
            annotations: &sandbox.annotations,
            credentials: &credentials,
        });
        let mut pulls = state.pulls();
        let running = pulls.get(&key).and_then(|running| {
            let pull = running.pull.upgrade()?;
            Some((running.ticket, JoinedPull { pull, begun: Arc::clone(&running.begun) }))
        });
        let (ticket, joined) = running.unwrap_or_else(|| {
            let (slot, begun) = (state.queue.enter(), Arc::<AtomicBool>::default());
            let ticket = slot.ticket();
            let entry = MapEntry { state: Arc::clone(state), key: key.clone(), ticket };
            let job = Job {
                image: image.to_owned(),
                sandbox: sandbox.clone(),
                credentials,
                is_present,
                begun: Arc::clone(&begun),
            };
            let pull = pull(entry, slot, job).boxed().shared();
            let weak = pull.downgrade().expect("it was not polled to its end");
            pulls.insert(key, SharedPull { ticket, pull: weak, begun: Arc::clone(&begun) });
            (ticket, JoinedPull { pull, begun })
        });
        drop(pulls);
        if is_critical {
            state.queue.set_critical(ticket);
        }
        joined
    }
}

/// One pull, from its place in the queue to its end.
async fn pull(entry: MapEntry, mut slot: PullSlot, job: Job) -> PullOutcome {
    let state = &entry.state;
    state.wait_for_slot(&mut slot, &job).await;
    job.begun.store(true, Ordering::Relaxed);
    let began = Instant::now();
    let (image_ref, used) = state.attempt_all(&job).await?;
    let mut claims = vec![state.claims.claim(&image_ref)];
    // Only for its size and ID: its users look it up again.
    let image = state.images.image_status(&job.image).await.ok().flatten();
    // Not every runtime returns the ID from a pull.
    claims.extend(image.as_ref().map(|image| state.claims.claim(&image.id)));
    state.claims.changed();
    Ok(Arc::new(Pulled {
        image_ref,
        image,
        took: began.elapsed(),
        used,
        is_recorded: AtomicBool::new(false),
        _claims: claims,
    }))
}

impl PullerState {
    fn pulls(&self) -> MutexGuard<'_, HashMap<PullKey, SharedPull>> {
        self.pulls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn wait_for_slot(&self, slot: &mut PullSlot, job: &Job) {
        if slot.has_started() {
            return;
        }
        if self.slots == PullSlots::Serial {
            let is_present = async {
                if let Some(is_present) = job.is_present {
                    return is_present;
                }
                let found = self.images.image_status(&job.image).await;
                found.is_ok_and(|found| found.is_some())
            };
            let is_present = tokio::select! {
                biased;
                () = slot.started() => return,
                is_present = is_present => is_present,
            };
            if is_present {
                slot.set_present();
            }
        }
        slot.started().await;
    }

    /// Pulls with each credential in turn, until one succeeds; without any, once and anonymously. Returns the
    /// reference, and the position of the credential.
    async fn attempt_all(&self, job: &Job) -> Result<(String, Option<usize>), PullError> {
        let now = self.start.elapsed();
        if !self.rate.lock().unwrap_or_else(PoisonError::into_inner).take(now) {
            return Err(PullError(vec![AttemptError::RateLimit]));
        }
        let Job { image, sandbox, credentials, .. } = job;
        if credentials.is_empty() {
            let pulled = self.images.pull_image(image, Some(sandbox), None).await;
            let refused = |error| PullError(vec![AttemptError::Runtime(error)]);
            return pulled.map(|image_ref| (image_ref, None)).map_err(refused);
        }
        let mut errors = Vec::new();
        for (position, credential) in credentials.iter().enumerate() {
            match self.images.pull_image(image, Some(sandbox), Some(&credential.auth)).await {
                Ok(image_ref) => return Ok((image_ref, Some(position))),
                Err(error) => errors.push(AttemptError::Runtime(error)),
            }
        }
        Err(PullError(errors))
    }
}
