//! Authentication and authorisation of callers by the API server (delegated, as upstream's).

use std::sync::Arc;
use std::time::Duration;

use model::chain::Chain;
use model::cluster::{AccessRequest, User};
use model::ports::cluster::Reviews;
use tracing::warn;

use crate::reviews::{CachedReviews, ReviewSettings, Tries};

/// The group that may do everything.
const MASTERS: &str = "system:masters";
/// The user and the group of a caller without credentials.
const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// Which paths are open, and how long answers of the API server are cached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessSettings {
    /// Paths that need no authorisation; a `*` at the end matches any end.
    pub open_paths: Vec<String>,
    /// How long the owner of a token is cached.
    pub token_ttl: Duration,
    /// How long a permission is cached.
    pub allowed_ttl: Duration,
    /// How long a refusal is cached.
    pub denied_ttl: Duration,
}

/// Authenticates and authorises callers with token reviews and access reviews of the API server.
#[derive(Debug)]
pub struct Access {
    reviews: CachedReviews,
    open_paths: Vec<String>,
}

/// The credentials of a connection and its request.
#[derive(Debug, Default)]
pub(crate) struct Credentials {
    /// The owner of a client certificate that was verified.
    pub(crate) certificate: Option<User>,
    /// A bearer token.
    pub(crate) token: Option<String>,
}

/// The caller of a request.
#[derive(Debug)]
pub(crate) struct Caller {
    user: User,
    /// Whether the caller was authenticated: not anonymous.
    pub(crate) is_known: bool,
}

/// Whether a caller may get a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allowed,
    /// The credentials are not valid.
    Unauthenticated,
    /// The caller has no permission.
    Forbidden,
    /// The API server did not answer.
    Unknown,
    /// Too many other callers are being reviewed.
    Busy,
}

impl Access {
    /// Access by these reviews.
    pub fn new(reviews: Arc<dyn Reviews>, settings: AccessSettings) -> Self {
        let AccessSettings { open_paths, token_ttl, allowed_ttl, denied_ttl } = settings;
        let settings = ReviewSettings { token_ttl, allowed_ttl, denied_ttl, tries: Tries::Once };
        Self { reviews: CachedReviews::new(reviews, settings), open_paths }
    }

    /// Whether a path needs no authorisation.
    pub(crate) fn is_open(&self, path: &str) -> bool {
        self.open_paths.iter().any(|open| match open.strip_suffix('*') {
            Some(beginning) => path.starts_with(beginning),
            None => path == open,
        })
    }

    /// Authenticates a caller: by certificate, else by token, else as anonymous.
    pub(crate) async fn authenticate(&self, credentials: Credentials) -> Result<Caller, Verdict> {
        match (credentials.certificate, credentials.token) {
            (Some(user), _) => Ok(Caller { user, is_known: true }),
            (None, None) => Ok(Caller { user: anonymous(), is_known: false }),
            (None, Some(token)) => match self.reviews.owner(&token).await {
                Ok(Some(user)) => Ok(Caller { user, is_known: true }),
                Ok(None) => Err(Verdict::Unauthenticated),
                Err(error) => {
                    warn!(error = %Chain(&*error), "Token review failed");
                    Err(Verdict::Unknown)
                }
            },
        }
    }

    /// Authorises a caller to get a path.
    pub(crate) async fn authorize(&self, path: &str, caller: Caller) -> Verdict {
        let user = caller.user;
        if user.groups.iter().any(|group| group == MASTERS) {
            return Verdict::Allowed;
        }
        match self.reviews.is_allowed(&user, &AccessRequest::Path(path.to_owned())).await {
            Ok(true) => Verdict::Allowed,
            Ok(false) => Verdict::Forbidden,
            Err(error) => {
                let error = Chain(&*error);
                warn!(user = user.name, %error, "Access review failed");
                Verdict::Unknown
            }
        }
    }
}

/// The user of a request without credentials.
pub(crate) fn anonymous() -> User {
    let groups = vec![UNAUTHENTICATED.to_owned()];
    User { name: ANONYMOUS.to_owned(), groups, ..User::default() }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use async_trait::async_trait;
    use model::ports::cluster::ApiError;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Accepts some tokens, allows the owner of one to get metrics, and records requests.
    #[derive(Debug, Default)]
    struct Server(Mutex<Vec<String>>);

    impl Server {
        fn requested(&self) -> Vec<String> {
            std::mem::take(&mut *self.0.lock().unwrap())
        }
    }

    #[async_trait]
    impl Reviews for Server {
        async fn token_owner(&self, token: &str) -> Result<Option<User>, ApiError> {
            self.0.lock().unwrap().push(format!("token {token}"));
            match token {
                "broken" => Err(ApiError::NotFound),
                "good" | "poor" => Ok(Some(User { name: token.to_owned(), ..User::default() })),
                _ => Ok(None),
            }
        }

        async fn is_allowed(&self, user: &User, request: &AccessRequest) -> Result<bool, ApiError> {
            let AccessRequest::Path(path) = request else { return Ok(false) };
            self.0.lock().unwrap().push(format!("{} {path}", user.name));
            Ok(user.name == "good" && path == "/metrics")
        }
    }

    fn access(open_paths: &[&str]) -> (Arc<Server>, Access) {
        let server = Arc::new(Server::default());
        let settings = AccessSettings {
            open_paths: open_paths.iter().map(ToString::to_string).collect(),
            token_ttl: SECOND * 10,
            allowed_ttl: SECOND * 20,
            denied_ttl: SECOND * 5,
        };
        (Arc::clone(&server), Access::new(server, settings))
    }

    impl Access {
        async fn to(&self, path: &str, credentials: Credentials) -> Verdict {
            match self.authenticate(credentials).await {
                Ok(caller) => self.authorize(path, caller).await,
                Err(verdict) => verdict,
            }
        }
    }

    fn token(token: &str) -> Credentials {
        Credentials { certificate: None, token: Some(token.to_owned()) }
    }

    // behaviour: PGC-102
    #[tokio::test]
    async fn access_follows_the_reviews_of_the_api_server() {
        let (_, access) = access(&[]);
        let user = |name: &str, group: &str| User {
            name: name.to_owned(),
            groups: vec![group.to_owned()],
            ..User::default()
        };
        let rows = [
            (None, None, Verdict::Forbidden),
            (None, Some("bad"), Verdict::Unauthenticated),
            (None, Some("poor"), Verdict::Forbidden),
            (None, Some("good"), Verdict::Allowed),
            (None, Some("broken"), Verdict::Unknown),
            (Some(user("poor", "x")), None, Verdict::Forbidden),
            (Some(user("good", "x")), Some("bad"), Verdict::Allowed),
            (Some(user("admin", MASTERS)), None, Verdict::Allowed),
        ];
        for (certificate, token, expected) in rows {
            let shown = format!("{certificate:?} {token:?}");
            let credentials = Credentials { certificate, token: token.map(str::to_owned) };
            assert_eq!(access.to("/metrics", credentials).await, expected, "{shown}");
        }
    }

    // behaviour: PGC-105
    #[tokio::test(start_paused = true)]
    async fn reviews_are_cached_for_their_ttl() {
        let (server, access) = access(&[]);
        for _ in 0..3 {
            assert_eq!(access.to("/metrics", token("good")).await, Verdict::Allowed);
            assert_eq!(access.to("/metrics", token("bad")).await, Verdict::Unauthenticated);
            assert_eq!(access.to("/metrics", Credentials::default()).await, Verdict::Forbidden);
        }
        let first = ["token good", "good /metrics", "token bad", "system:anonymous /metrics"];
        assert_eq!(server.requested(), first);
        for _ in 0..2 {
            assert_eq!(access.to("/metrics", token("broken")).await, Verdict::Unknown);
        }
        assert_eq!(server.requested(), ["token broken"; 2], "an error is not cached");
        tokio::time::sleep(SECOND * 6).await;
        assert_eq!(access.to("/metrics", Credentials::default()).await, Verdict::Forbidden);
        assert_eq!(access.to("/metrics", token("good")).await, Verdict::Allowed);
        assert_eq!(server.requested(), ["system:anonymous /metrics"]);
        tokio::time::sleep(SECOND * 6).await;
        assert_eq!(access.to("/metrics", token("good")).await, Verdict::Allowed);
        assert_eq!(access.to("/configz", token("good")).await, Verdict::Forbidden);
        assert_eq!(server.requested(), ["token good", "good /configz"]);
    }

    // behaviour: PGC-105
    #[test]
    fn open_paths_match_whole_or_by_prefix() {
        let (_, access) = access(&["/healthz", "/livez*"]);
        let open = ["/healthz", "/livez", "/livez/ping"].map(|path| access.is_open(path));
        assert_eq!(open, [true; 3]);
        let closed = ["/healthz/ping", "/metrics", "/", ""].map(|path| access.is_open(path));
        assert_eq!(closed, [false; 4]);
    }
}
