//! Authentication and authorisation of clients.

use std::sync::Arc;

use async_trait::async_trait;
use model::chain::Chain;
use model::cluster::{AccessRequest, User};
use model::ports::cluster::{ApiError, Reviews};
use tokio::sync::{Semaphore, SemaphorePermit};
use tracing::{debug, warn};

use super::credentials::Credentials;
use crate::access::anonymous;
use crate::decide::Rule;
use crate::reviews::{CachedReviews, ReviewSettings};
use crate::slots::MOST_CONNECTIONS;

/// The group of all authenticated users.
const AUTHENTICATED: &str = "system:authenticated";

/// How many reviews for unauthenticated clients may be in progress. Clients with cached reviews or a
/// certificate use the other slots.
const MOST_REVIEWED: usize = MOST_CONNECTIONS - 16;

/// The authentication and authorisation settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeAccessSettings {
    /// The name of the node.
    pub node: String,
    /// Whether the API server authenticates tokens (`authentication.webhook.enabled`).
    pub tokens: bool,
    /// Whether clients without credentials are `system:anonymous` (`authentication.anonymous.enabled`).
    pub anonymous: bool,
    /// Whether the API server authorises requests (`authorization.mode: Webhook`), or all are allowed.
    pub webhook: bool,
}

/// Authenticates and authorises clients.
#[derive(Debug)]
pub struct NodeAccess {
    settings: NodeAccessSettings,
    reviews: CachedReviews,
    /// A permit for each review for an unauthenticated client.
    reviewed: Semaphore,
}

/// Replaces the API server if there is none.
#[derive(Debug)]
struct NoReviews;

#[async_trait]
impl Reviews for NoReviews {
    async fn token_owner(&self, _: &str) -> Result<Option<User>, ApiError> {
        Ok(None)
    }

    async fn is_allowed(&self, _: &User, _: &AccessRequest) -> Result<bool, ApiError> {
        Ok(false)
    }
}

/// The client of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Caller {
    pub(super) user: User,
    /// Whether the client was authenticated: not anonymous.
    pub(super) is_known: bool,
}

/// Why a request is refused, with the text of the response.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// 401
    Unauthorized,
    /// 403
    Forbidden(String),
    /// 500: the API server could not decide.
    Failed(String),
    /// 429: too many reviews are in progress.
    Busy,
}

impl NodeAccess {
    /// Access by these reviews. Without them, nothing that needs a review is allowed.
    pub fn new(
        settings: NodeAccessSettings,
        reviews: Option<Arc<dyn Reviews>>,
        cached: ReviewSettings,
    ) -> Self {
        let reviews = reviews.unwrap_or_else(|| Arc::new(NoReviews));
        let reviews = CachedReviews::new(reviews, cached);
        Self { settings, reviews, reviewed: Semaphore::new(MOST_REVIEWED) }
    }

    /// Authenticates a client: by certificate, else by token, else as anonymous. A client with invalid
    /// credentials is never anonymous.
    pub(super) async fn authenticate(&self, credentials: Credentials) -> Result<Caller, Refusal> {
        let mut is_rejected = false;
        match credentials.certificate {
            Some(Ok(user)) => return Ok(Caller { user, is_known: true }),
            Some(Err(why)) => {
                debug!(why, "Client certificate is not valid");
                is_rejected = true;
            }
            None => {}
        }
        let tokens = if self.settings.tokens { &credentials.tokens[..] } else { &[] };
        for token in tokens {
            is_rejected = true;
            let Some(token) = token else { continue };
            if let Some(user) = self.token_owner(token).await? {
                return Ok(Caller { user, is_known: true });
            }
        }
        if is_rejected || !self.settings.anonymous {
            return Err(Refusal::Unauthorized);
        }
        Ok(Caller { user: anonymous(), is_known: false })
    }

    async fn token_owner(&self, token: &str) -> Result<Option<User>, Refusal> {
        let is_cached = self.reviews.is_cached(token);
        let _permit = self.permit(is_cached)?;
        match self.reviews.owner(token).await {
            Ok(Some(mut user)) => {
                if !user.groups.iter().any(|group| group == AUTHENTICATED) {
                    user.groups.push(AUTHENTICATED.to_owned());
                }
                Ok(Some(user))
            }
            Ok(None) => Ok(None),
            Err(error) => {
                let error = Chain(&*error);
                warn!(%error, "Unable to authenticate the request due to an error");
                Ok(None)
            }
        }
    }

    /// A permit for a review, unless it is cached.
    fn permit(&self, is_cached: bool) -> Result<Option<SemaphorePermit<'_>>, Refusal> {
        if is_cached {
            return Ok(None);
        }
        self.reviewed.try_acquire().map(Some).map_err(|_| Refusal::Busy)
    }

    /// Authorises a request: permission for any of the subresources is enough.
    pub(super) async fn authorize(&self, rule: Rule, caller: &Caller) -> Result<(), Refusal> {
        if !self.settings.webhook {
            return Ok(());
        }
        let (user, verb) = (&caller.user, rule.verb);
        for subresource in rule.subresources {
            let request =
                AccessRequest::Node { node: self.settings.node.clone(), verb, subresource };
            let is_free = caller.is_known || self.reviews.cached_right(user, &request).is_some();
            let _permit = self.permit(is_free)?;
            match self.reviews.is_allowed(user, &request).await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => {
                    let (name, error) = (&user.name, Chain(&*error));
                    warn!(user = name, verb, subresource, %error, "Authorization error");
                    return Err(Refusal::Failed(format!(
                        "Authorization error (user={name}, verb={verb}, resource=nodes, \
                         subresource={subresource})"
                    )));
                }
            }
        }
        let (name, tried) = (&user.name, rule.subresources.join(" "));
        Err(Refusal::Forbidden(format!(
            "Forbidden (user={name}, verb={verb}, resource=nodes, subresource(s)=[{tried}])\n"
        )))
    }
}
