//! Caches the tokens of the node's pods.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use model::chain::Chain;
use model::ids::PodUid;
use model::jitter::fraction;
use model::objects::{ServiceAccountToken, TokenRequest};
use model::ports::clock::WallClock;
use model::ports::cluster::ApiError;
use model::ports::objects::TokenRequests;
use tracing::warn;

use crate::decide::{MOST_JITTER, is_expired, refresh_at};

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The request failed.
    #[error("failed to fetch token")]
    Fetch(#[source] ApiError),
    /// The cached token has expired, and the refresh failed.
    #[error("token of {account:?} for pod {pod} expired and refresh failed")]
    Expired {
        /// The service account.
        account: Box<str>,
        /// The pod.
        pod: String,
        /// Why the refresh failed.
        #[source]
        source: ApiError,
    },
}

#[derive(Debug)]
struct CachedToken {
    token: Arc<ServiceAccountToken>,
    refresh_at: Timestamp,
}

/// The tokens of the node's pods.
#[derive(Debug)]
pub struct TokenStore {
    server: Arc<dyn TokenRequests>,
    clock: Arc<dyn WallClock>,
    /// Written by lookups.
    kept: Mutex<BTreeMap<TokenRequest, CachedToken>>,
}

impl TokenStore {
    /// A store without tokens.
    pub fn new(server: Arc<dyn TokenRequests>, clock: Arc<dyn WallClock>) -> Self {
        Self { server, clock, kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<TokenRequest, CachedToken>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A valid token: the cached one or, when it is due, a new one. If the refresh fails, the
    /// cached one is used until it expires.
    pub async fn get(
        &self,
        request: &TokenRequest,
    ) -> Result<Arc<ServiceAccountToken>, TokenError> {
        let before = match self.kept().get(request) {
            Some(kept) if self.clock.now() <= kept.refresh_at => {
                return Ok(Arc::clone(&kept.token));
            }
            before => before.map(|kept| Arc::clone(&kept.token)),
        };
        let error = match self.server.request_token(request).await {
            Ok(token) => return Ok(self.keep(request, token)),
            Err(error) => error,
        };
        match before {
            None => Err(TokenError::Fetch(error)),
            Some(token) if is_expired(&token, self.clock.now()) => Err(TokenError::Expired {
                account: request.service_account.clone(),
                pod: request.pod.to_string(),
                source: error,
            }),
            Some(token) => {
                let (account, pod) = (&request.service_account, &request.pod);
                warn!(account, %pod, error = %Chain(&error), "Cannot refresh the token of a pod, using the old one");
                Ok(token)
            }
        }
    }

    fn keep(&self, request: &TokenRequest, token: ServiceAccountToken) -> Arc<ServiceAccountToken> {
        let now = self.clock.now();
        let token = Arc::new(token);
        let refresh_at = refresh_at(&token, MOST_JITTER.mul_f64(fraction()));
        let mut kept = self.kept();
        // Drops tokens of pods that ended during a request.
        kept.retain(|_, kept| !is_expired(&kept.token, now));
        kept.insert(request.clone(), CachedToken { token: Arc::clone(&token), refresh_at });
        token
    }

    /// When a cached token is due for a refresh.
    pub fn refresh_at(&self, request: &TokenRequest) -> Option<Timestamp> {
        self.kept().get(request).map(|kept| kept.refresh_at)
    }

    /// Drops the tokens of a pod.
    pub fn forget(&self, pod: &PodUid) {
        self.kept().retain(|request, _| request.pod_uid != *pod);
    }
}
