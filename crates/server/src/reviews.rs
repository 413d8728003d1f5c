//! Reviews by the API server: cached, shared and retried.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::cluster::{AccessRequest, User};
use model::ports::cluster::{ApiError, Reviews};
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep};

use crate::review_cache::ReviewCache;

/// Attributes of this size, and larger ones, are not cached: the client chooses them.
const LARGEST_CACHED: usize = 10_000;

/// How long results are cached, and how often a review is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReviewSettings {
    /// How long the user of a token is cached, or that the token is not valid.
    pub token_ttl: Duration,
    /// How long a permission is cached.
    pub allowed_ttl: Duration,
    /// How long a refusal is cached.
    pub denied_ttl: Duration,
    /// How often a review is tried when the API server fails.
    pub tries: Tries,
}

/// How often a review is tried when the API server fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tries {
    /// Once.
    Once,
    /// Five times, with upstream's delays: 500 ms, half as much again each time, and up to a fifth more at random.
    Five,
}

/// The delays of [`Tries::Five`], without their jitter.
const DELAYS: [Duration; 4] = [
    Duration::from_millis(500),
    Duration::from_millis(750),
    Duration::from_millis(1125),
    Duration::from_micros(1_687_500),
];

/// Why there is no result. Requests that wait for the same review share it.
pub(crate) type ReviewError = Arc<ApiError>;

type TokenKey = [u64; 2];
type TokenResult = Result<Option<User>, ReviewError>;

/// Reviews with their caches. The locks are held for a lookup or a change, never across an await.
#[derive(Debug)]
pub(crate) struct CachedReviews {
    reviews: Arc<dyn Reviews>,
    settings: ReviewSettings,
    /// Hash tokens, so that the cache stores none.
    seeds: [RandomState; 2],
    owners: Mutex<ReviewCache<TokenKey, Option<User>>>,
    /// Token reviews that have not ended.
    pending: Mutex<HashMap<TokenKey, Arc<OnceCell<TokenResult>>>>,
    rights: Mutex<ReviewCache<(User, AccessRequest), bool>>,
}

impl CachedReviews {
    pub(crate) fn new(reviews: Arc<dyn Reviews>, settings: ReviewSettings) -> Self {
        let seeds = [RandomState::new(), RandomState::new()];
        let (owners, rights) = (Mutex::default(), Mutex::default());
        Self { reviews, settings, seeds, owners, pending: Mutex::default(), rights }
    }

    fn key(&self, token: &str) -> TokenKey {
        self.seeds.each_ref().map(|seed| seed.hash_one(token))
    }

    /// Whether the review of a token is cached.
    pub(crate) fn is_cached(&self, token: &str) -> bool {
        lock(&self.owners).get(&self.key(token), Instant::now()).is_some()
    }

    /// The user of a token, `None` if the token is not valid. Concurrent requests with one token cause one review.
    pub(crate) async fn owner(&self, token: &str) -> TokenResult {
        let key = self.key(token);
        if let Some(owner) = lock(&self.owners).get(&key, Instant::now()) {
            return Ok(owner);
        }
        let review = Arc::clone(lock(&self.pending).entry(key).or_default());
        // If the request that makes the review is dropped, another waiting one makes it.
        let result = review.get_or_init(|| self.review_token(key, token)).await.clone();
        let mut pending = lock(&self.pending);
        if pending.get(&key).is_some_and(|other| Arc::ptr_eq(other, &review)) {
            pending.remove(&key);
        }
        result
    }

    async fn review_token(&self, key: TokenKey, token: &str) -> TokenResult {
        let owner = self.tried(|| self.reviews.token_owner(token)).await?;
        let now = Instant::now();
        lock(&self.owners).insert(key, owner.clone(), now + self.settings.token_ttl, now);
        Ok(owner)
    }

    /// The cached decision on a request.
    pub(crate) fn cached_right(&self, user: &User, request: &AccessRequest) -> Option<bool> {
        lock(&self.rights).get(&(user.clone(), request.clone()), Instant::now())
    }

    /// Whether a user is allowed to make a request.
    pub(crate) async fn is_allowed(
        &self,
        user: &User,
        request: &AccessRequest,
    ) -> Result<bool, ReviewError> {
        if let Some(allowed) = self.cached_right(user, request) {
            return Ok(allowed);
        }
        let allowed = self.tried(|| self.reviews.is_allowed(user, request)).await?;
        if size(request) < LARGEST_CACHED {
            let ReviewSettings { allowed_ttl, denied_ttl, .. } = self.settings;
            let now = Instant::now();
            let until = now + if allowed { allowed_ttl } else { denied_ttl };
            lock(&self.rights).insert((user.clone(), request.clone()), allowed, until, now);
        }
        Ok(allowed)
    }

    /// Makes a review, with retries while the API server fails.
    async fn tried<T, F>(&self, review: impl Fn() -> F) -> Result<T, ReviewError>
    where
        F: Future<Output = Result<T, ApiError>>,
    {
        let delays = match self.settings.tries {
            Tries::Once => &[],
            Tries::Five => &DELAYS[..],
        };
        for delay in delays {
            match review().await {
                Err(error) if error.is_transient() => sleep(delay.mul_f64(jitter())).await,
                result => return result.map_err(Arc::new),
            }
        }
        review().await.map_err(Arc::new)
    }
}

/// The part of a request that the client chooses.
fn size(request: &AccessRequest) -> usize {
    match request {
        AccessRequest::Path(path) => path.len(),
        AccessRequest::Node { node, verb, subresource } => {
            node.len() + verb.len() + subresource.len()
        }
    }
}

/// From 1 to 1.2, at random.
fn jitter() -> f64 {
    let random = RandomState::new().hash_one(0);
    let thousandths = u32::try_from(random % 1000).unwrap_or_default();
    1.0 + f64::from(thousandths) / 5000.0
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "reviews_tests.rs"]
mod tests;
