//! Who may see the metrics: whoever the API server lets.

use std::sync::Arc;

use model::chain::Chain;
use model::cluster::User;
use model::ports::cluster::Reviews;
use tracing::warn;

/// The group that may do everything.
const MASTERS: &str = "system:masters";

/// Decides who may see what, with the API server's help.
#[derive(Debug, Clone)]
pub(super) struct Access {
    pub(super) reviews: Arc<dyn Reviews>,
}

/// Who asks, as far as the connection and the request tell.
#[derive(Debug, Default)]
pub(super) struct Credentials {
    /// By a certificate that somebody trusted vouches for.
    pub(super) certificate: Option<User>,
    /// By a token.
    pub(super) token: Option<String>,
}

/// What is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Allowed,
    /// Nobody knows who they are.
    Unauthenticated,
    /// They may not.
    Forbidden,
    /// It could not be found out.
    Unknown,
}

impl Access {
    pub(super) async fn to(&self, path: &str, who: Credentials) -> Verdict {
        let user = match (who.certificate, who.token) {
            (Some(user), _) => user,
            (None, None) => return Verdict::Unauthenticated,
            (None, Some(token)) => match self.reviews.token_owner(&token).await {
                Ok(Some(user)) => user,
                Ok(None) => return Verdict::Unauthenticated,
                Err(error) => {
                    warn!(error = %Chain(&error), "cannot ask the API server whose token it is");
                    return Verdict::Unknown;
                }
            },
        };
        if user.groups.iter().any(|group| group == MASTERS) {
            return Verdict::Allowed;
        }
        match self.reviews.may_get(&user, path).await {
            Ok(true) => Verdict::Allowed,
            Ok(false) => Verdict::Forbidden,
            Err(error) => {
                let error = Chain(&error);
                warn!(user = user.name, %error, "cannot ask the API server who may see metrics");
                Verdict::Unknown
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use model::ports::cluster::ApiError;

    use super::*;

    /// Knows one token, and lets its owner see metrics.
    #[derive(Debug)]
    struct Server;

    #[async_trait]
    impl Reviews for Server {
        async fn token_owner(&self, token: &str) -> Result<Option<User>, ApiError> {
            match token {
                "broken" => Err(ApiError::NotFound),
                "good" | "poor" => Ok(Some(User { name: token.to_owned(), ..User::default() })),
                _ => Ok(None),
            }
        }

        async fn may_get(&self, user: &User, path: &str) -> Result<bool, ApiError> {
            Ok(user.name == "good" && path == "/metrics")
        }
    }

    // behaviour: PGC-102
    #[tokio::test]
    async fn only_those_see_metrics_whom_the_api_server_lets() {
        let access = Access { reviews: Arc::new(Server) };
        let user = |name: &str, group: &str| User {
            name: name.to_owned(),
            groups: vec![group.to_owned()],
            ..User::default()
        };
        let rows = [
            (None, None, Verdict::Unauthenticated),
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
}
