//! Token reviews and access reviews.

use std::collections::BTreeMap;

use async_trait::async_trait;
use http::Method;
use model::cluster::{AccessRequest, User};
use model::ports::cluster::{ApiError, Reviews};
use serde::Deserialize;
use serde_json::{Value, json};

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
    extra: Option<BTreeMap<String, Vec<String>>>,
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
        let Review { status } = self.caller.send_decoded::<Review<TokenStatus>>(call).await?;
        let TokenStatus { authenticated, user } = status;
        let user = User {
            name: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra.unwrap_or_default(),
        };
        Ok(authenticated.then_some(user))
    }

    async fn is_allowed(&self, user: &User, request: &AccessRequest) -> Result<bool, ApiError> {
        let to = "/apis/authorization.k8s.io/v1/subjectaccessreviews".to_owned();
        let body = json!({
            "kind": "SubjectAccessReview",
            "apiVersion": "authorization.k8s.io/v1",
            "spec": access_spec(user, request),
        });
        let call = Call::json(Method::POST, to, &body).in_lane(Lane::Reviews);
        let Review { status } = self.caller.send_decoded::<Review<AccessStatus>>(call).await?;
        Ok(status.allowed && !status.denied)
    }
}

/// The specification of an access review.
fn access_spec(user: &User, request: &AccessRequest) -> Value {
    let mut spec = json!({ "user": user.name, "uid": user.uid, "groups": user.groups });
    if !user.extra.is_empty() {
        spec["extra"] = json!(user.extra);
    }
    match request {
        AccessRequest::Path(path) => {
            spec["nonResourceAttributes"] = json!({ "path": path, "verb": "get" });
        }
        AccessRequest::Node { node, verb, subresource } => {
            spec["resourceAttributes"] = json!({
                "verb": verb,
                "version": "v1",
                "resource": "nodes",
                "subresource": subresource,
                "name": node,
            });
        }
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_review_contains_node_subresource_and_user() {
        let extra = BTreeMap::from([("scopes".to_owned(), vec!["a".to_owned()])]);
        let groups = vec!["g".to_owned()];
        let user = User { name: "u".to_owned(), uid: "1".to_owned(), groups, extra };
        let request =
            AccessRequest::Node { node: "n".to_owned(), verb: "get", subresource: "proxy" };
        let expected = json!({
            "user": "u", "uid": "1", "groups": ["g"], "extra": { "scopes": ["a"] },
            "resourceAttributes": {
                "verb": "get", "version": "v1", "resource": "nodes", "subresource": "proxy", "name": "n",
            },
        });
        assert_eq!(access_spec(&user, &request), expected);
        let path = access_spec(&User::default(), &AccessRequest::Path("/metrics".to_owned()));
        assert_eq!(path["nonResourceAttributes"], json!({ "path": "/metrics", "verb": "get" }));
        assert!(path["extra"].is_null());
    }
}
