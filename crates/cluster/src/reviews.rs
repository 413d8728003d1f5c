//! Who somebody is and what they may do, as the API server knows it.

use async_trait::async_trait;
use http::Method;
use model::cluster::User;
use model::ports::cluster::{ApiError, Reviews};
use serde::Deserialize;
use serde_json::json;

use crate::Cluster;
use crate::call::{Call, Lane};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Review<S: Default> {
    status: S,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TokenStatus {
    authenticated: bool,
    user: UserInfo,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct UserInfo {
    username: String,
    uid: String,
    groups: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AccessStatus {
    allowed: bool,
    denied: bool,
}

#[async_trait]
impl Reviews for Cluster {
    async fn token_owner(&self, token: &str) -> Result<Option<User>, ApiError> {
        let path = "/apis/authentication.k8s.io/v1/tokenreviews".to_owned();
        let body = json!({
            "kind": "TokenReview",
            "apiVersion": "authentication.k8s.io/v1",
            "spec": { "token": token },
        });
        let call = Call::json(Method::POST, path, &body).in_lane(Lane::Reviews);
        let Review { status } = self.caller.ask::<Review<TokenStatus>>(call).await?;
        let TokenStatus { authenticated, user } = status;
        let user = User { name: user.username, uid: user.uid, groups: user.groups };
        Ok(authenticated.then_some(user))
    }

    async fn may_get(&self, user: &User, path: &str) -> Result<bool, ApiError> {
        let to = "/apis/authorization.k8s.io/v1/subjectaccessreviews".to_owned();
        let body = json!({
            "kind": "SubjectAccessReview",
            "apiVersion": "authorization.k8s.io/v1",
            "spec": {
                "user": user.name,
                "uid": user.uid,
                "groups": user.groups,
                "nonResourceAttributes": { "path": path, "verb": "get" },
            },
        });
        let call = Call::json(Method::POST, to, &body).in_lane(Lane::Reviews);
        let Review { status } = self.caller.ask::<Review<AccessStatus>>(call).await?;
        Ok(status.allowed && !status.denied)
    }
}
