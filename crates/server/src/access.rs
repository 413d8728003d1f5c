//! Who may see the metrics: whoever the API server lets.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use config::pod_gc::Access as Settings;
use model::chain::Chain;
use model::cluster::User;
use model::ports::cluster::{ApiError, Reviews};
use tokio::time::Instant;
use tracing::warn;

use crate::recent::Recent;

/// The group that may do everything.
const MASTERS: &str = "system:masters";
/// Who comes without any credentials.
const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// Decides who may see what, with the API server's help. What that said is believed for a while. The
/// locks are held for a look or a change.
#[derive(Debug)]
pub struct Access {
    reviews: Arc<dyn Reviews>,
    settings: Settings,
    /// For knowing a token again without keeping it.
    seeds: [RandomState; 2],
    owners: Mutex<Recent<[u64; 2], Option<User>>>,
    rights: Mutex<Recent<(User, String), bool>>,
}

/// Who asks, as far as the connection and the request tell.
#[derive(Debug, Default)]
pub struct Credentials {
    /// By a certificate that somebody trusted vouches for.
    pub certificate: Option<User>,
    /// By a token.
    pub token: Option<String>,
}

/// Who calls.
#[derive(Debug)]
pub struct Caller {
    user: User,
    /// Whether they were authenticated: not anonymous.
    pub is_known: bool,
}

/// What is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    /// Nobody knows who they are.
    Unauthenticated,
    /// They may not.
    Forbidden,
    /// It could not be found out.
    Unknown,
    /// Too many others are being found out about.
    Busy,
}

impl Access {
    /// Access by these reviews.
    pub fn new(reviews: Arc<dyn Reviews>, settings: Settings) -> Self {
        let seeds = [RandomState::new(), RandomState::new()];
        Self { reviews, settings, seeds, owners: Mutex::default(), rights: Mutex::default() }
    }

    /// Whether a path is open to everybody.
    pub fn is_open(&self, path: &str) -> bool {
        self.settings.open_paths.iter().any(|open| match open.strip_suffix('*') {
            Some(beginning) => path.starts_with(beginning),
            None => path == open,
        })
    }

    /// Finds out who calls.
    pub async fn authenticate(&self, who: Credentials) -> Result<Caller, Verdict> {
        match (who.certificate, who.token) {
            (Some(user), _) => Ok(Caller { user, is_known: true }),
            (None, None) => Ok(Caller { user: anonymous(), is_known: false }),
            (None, Some(token)) => match self.owner(&token).await {
                Ok(Some(user)) => Ok(Caller { user, is_known: true }),
                Ok(None) => Err(Verdict::Unauthenticated),
                Err(error) => {
                    warn!(error = %Chain(&error), "cannot ask the API server whose token it is");
                    Err(Verdict::Unknown)
                }
            },
        }
    }

    /// Finds out whether they may get a path.
    pub async fn authorize(&self, path: &str, caller: Caller) -> Verdict {
        let user = caller.user;
        if user.groups.iter().any(|group| group == MASTERS) {
            return Verdict::Allowed;
        }
        let name = user.name.clone();
        match self.may_get(user, path).await {
            Ok(true) => Verdict::Allowed,
            Ok(false) => Verdict::Forbidden,
            Err(error) => {
                let error = Chain(&error);
                warn!(user = name, %error, "cannot ask the API server who may see metrics");
                Verdict::Unknown
            }
        }
    }

    async fn owner(&self, token: &str) -> Result<Option<User>, ApiError> {
        let key = self.seeds.each_ref().map(|seed| seed.hash_one(token));
        let recent = || self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let known = recent().get(&key, Instant::now());
        if let Some(owner) = known {
            return Ok(owner);
        }
        let owner = self.reviews.token_owner(token).await?;
        let now = Instant::now();
        recent().keep(key, owner.clone(), now + self.settings.token_ttl, now);
        Ok(owner)
    }

    async fn may_get(&self, user: User, path: &str) -> Result<bool, ApiError> {
        let question = (user, path.to_owned());
        let recent = || self.rights.lock().unwrap_or_else(PoisonError::into_inner);
        let known = recent().get(&question, Instant::now());
        if let Some(allowed) = known {
            return Ok(allowed);
        }
        let allowed = self.reviews.may_get(&question.0, path).await?;
        let Settings { allowed_ttl, denied_ttl, .. } = self.settings;
        let now = Instant::now();
        let until = now + if allowed { allowed_ttl } else { denied_ttl };
        recent().keep(question, allowed, until, now);
        Ok(allowed)
    }
}

fn anonymous() -> User {
    let groups = vec![UNAUTHENTICATED.to_owned()];
    User { name: ANONYMOUS.to_owned(), uid: String::new(), groups }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use async_trait::async_trait;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Knows some tokens, lets the owner of one see metrics, and notes what it was asked.
    #[derive(Debug, Default)]
    struct Server(Mutex<Vec<String>>);

    impl Server {
        fn asked(&self) -> Vec<String> {
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

        async fn may_get(&self, user: &User, path: &str) -> Result<bool, ApiError> {
            self.0.lock().unwrap().push(format!("{} {path}", user.name));
            Ok(user.name == "good" && path == "/metrics")
        }
    }

    fn access(open_paths: &[&str]) -> (Arc<Server>, Access) {
        let server = Arc::new(Server::default());
        let settings = Settings {
            open_paths: open_paths.iter().map(ToString::to_string).collect(),
            token_ttl: SECOND * 10,
            allowed_ttl: SECOND * 20,
            denied_ttl: SECOND * 5,
        };
        (Arc::clone(&server), Access::new(server, settings))
    }

    impl Access {
        async fn to(&self, path: &str, who: Credentials) -> Verdict {
            match self.authenticate(who).await {
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
    async fn only_those_see_metrics_whom_the_api_server_lets() {
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
            let told = format!("{certificate:?} {token:?}");
            let who = Credentials { certificate, token: token.map(str::to_owned) };
            assert_eq!(access.to("/metrics", who).await, expected, "{told}");
        }
    }

    // behaviour: PGC-105
    #[tokio::test(start_paused = true)]
    async fn what_the_api_server_said_is_believed_for_a_while() {
        let (server, access) = access(&[]);
        for _ in 0..3 {
            assert_eq!(access.to("/metrics", token("good")).await, Verdict::Allowed);
            assert_eq!(access.to("/metrics", token("bad")).await, Verdict::Unauthenticated);
            assert_eq!(access.to("/metrics", Credentials::default()).await, Verdict::Forbidden);
        }
        let first = ["token good", "good /metrics", "token bad", "system:anonymous /metrics"];
        assert_eq!(server.asked(), first);
        for _ in 0..2 {
            assert_eq!(access.to("/metrics", token("broken")).await, Verdict::Unknown);
        }
        assert_eq!(server.asked(), ["token broken"; 2], "no answer is none to keep");
        tokio::time::sleep(SECOND * 6).await;
        assert_eq!(access.to("/metrics", Credentials::default()).await, Verdict::Forbidden);
        assert_eq!(access.to("/metrics", token("good")).await, Verdict::Allowed);
        assert_eq!(server.asked(), ["system:anonymous /metrics"]);
        tokio::time::sleep(SECOND * 6).await;
        assert_eq!(access.to("/metrics", token("good")).await, Verdict::Allowed);
        assert_eq!(access.to("/configz", token("good")).await, Verdict::Forbidden);
        assert_eq!(server.asked(), ["token good", "good /configz"]);
    }

    // behaviour: PGC-105
    #[test]
    fn paths_are_open_as_they_stand_or_from_a_beginning_on() {
        let (_, access) = access(&["/healthz", "/livez*"]);
        let open = ["/healthz", "/livez", "/livez/ping"].map(|path| access.is_open(path));
        assert_eq!(open, [true; 3]);
        let closed = ["/healthz/ping", "/metrics", "/", ""].map(|path| access.is_open(path));
        assert_eq!(closed, [false; 4]);
    }
}
