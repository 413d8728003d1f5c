//! Individual secrets and config maps, and service account tokens.

use std::borrow::Cow;
use std::time::Duration;

use async_trait::async_trait;
use http::Method;
use k8s_openapi::api::authentication::v1::TokenRequest as ApiTokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use model::objects::{
    DataObject, ObjectKey, ObjectKind, ServiceAccountRecord, ServiceAccountToken, TokenRequest,
};
use model::ports::cluster::{ApiError, Sink};
use model::ports::objects::{Freshness, ObjectReads, ServiceAccountReads, TokenRequests};
use serde_json::{Value, json};

use crate::call::{Call, decoded, found};
use crate::decode::Identity;
use crate::decode::object::Object;
use crate::follow::{Follower, Kind, has_slim_metadata};
use crate::{Cluster, urls};

/// One secret or config map.
struct One {
    kind: ObjectKind,
    path: String,
}

has_slim_metadata!(Object);

impl Kind for One {
    type Object<'a> = Object<'a>;
    type Record = DataObject;
    type Key = ();
    const NAME: &'static str = "an object of a pod";
    // Long watches: a node may watch hundreds of objects, and each new watch costs a call.
    const LASTS: Duration = Duration::from_mins(30);
    const IS_SECRET: bool = true;
    // A container waits for the object. The authorizer grants access shortly after the pod is bound to the
    // node.
    const FIRST_WAIT: Duration = Duration::from_millis(100);

    fn path(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.path)
    }

    fn key(_: &Identity<'_>) {}

    fn record(&self, object: Object<'_>) -> DataObject {
        object.record(self.kind)
    }
}

#[async_trait]
impl ObjectReads for Cluster {
    async fn follow_object(&self, key: &ObjectKey, sink: &dyn Sink<DataObject, ()>) {
        // A node may list and watch these objects only by name.
        let selector = urls::part(&format!("metadata.name={}", key.name));
        let path = format!("{}?fieldSelector={selector}", objects(key));
        Follower::new(&self.caller, One { kind: key.kind, path }, sink).run().await;
    }

    async fn object(
        &self,
        key: &ObjectKey,
        freshness: Freshness,
    ) -> Result<Option<DataObject>, ApiError> {
        let query = match freshness {
            Freshness::Newest => "",
            Freshness::Any => "?resourceVersion=0",
        };
        let path = format!("{}/{}{query}", objects(key), urls::part(&key.name));
        let answer = found(self.caller.read(Call::get(path)).await)?;
        let read = answer.map(|answer| Ok(decoded::<Object<'_>>(&answer)?.record(key.kind)));
        read.transpose()
    }
}

/// The path of the objects of this kind and namespace.
fn objects(key: &ObjectKey) -> String {
    format!("/api/v1/namespaces/{}/{}", urls::part(&key.namespace), key.kind.resource())
}

#[async_trait]
impl ServiceAccountReads for Cluster {
    async fn service_account(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<ServiceAccountRecord>, ApiError> {
        let (namespace, name) = (urls::part(namespace), urls::part(name));
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}");
        let answer = found(self.caller.read(Call::get(path)).await)?;
        let read = answer.map(|answer| {
            let metadata = decoded::<ServiceAccount>(&answer)?.metadata;
            Ok(ServiceAccountRecord {
                uid: metadata.uid.unwrap_or_default().into(),
                annotations: metadata.annotations.unwrap_or_default(),
            })
        });
        read.transpose()
    }
}

#[async_trait]
impl TokenRequests for Cluster {
    async fn request_token(&self, request: &TokenRequest) -> Result<ServiceAccountToken, ApiError> {
        let path = format!(
            "/api/v1/namespaces/{}/serviceaccounts/{}/token",
            urls::part(&request.pod.namespace),
            urls::part(&request.service_account)
        );
        let call = Call::json(Method::POST, path, &requested(request));
        let answer: ApiTokenRequest = self.caller.send_decoded(call).await?;
        let status = answer.status.unwrap_or_default();
        let given = answer.spec.and_then(|spec| spec.expiration_seconds);
        let (Some(token), Some(expires)) = (status.token, status.expiration_timestamp) else {
            return Err(ApiError::Unreadable("there is no token in it".into()));
        };
        Ok(ServiceAccountToken {
            token,
            expiration_seconds: given.unwrap_or(request.expiration_seconds),
            expires: expires.0,
        })
    }
}

fn requested(request: &TokenRequest) -> Value {
    json!({
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "spec": {
            "audiences": request.audiences,
            "expirationSeconds": request.expiration_seconds,
            "boundObjectRef": {
                "kind": "Pod",
                "apiVersion": "v1",
                "name": &*request.pod.name,
                "uid": request.pod_uid.as_str(),
            },
        },
    })
}
