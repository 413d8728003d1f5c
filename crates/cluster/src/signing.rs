//! Requests for the node's own certificates.

use std::borrow::Cow;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use model::ports::cluster::{ApiError, Sink};
use model::ports::signing::{ReloadIdentity, SigningRequests};
use model::signing::{SigningRequest, SigningRequestId, SigningRequestRecord, SigningState};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::call::{Call, decoded, found};
use crate::decode::{Identity, Metadata};
use crate::follow::{Follower, Kind, has_slim_metadata};
use crate::{Cluster, urls};

const PATH: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const RESOURCE: &str = "certificatesigningrequests";

/// A request in the API format.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ApiRequest<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow)]
    spec: Spec<'a>,
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec<'a> {
    #[serde(borrow)]
    signer_name: Cow<'a, str>,
    #[serde(deserialize_with = "text_of_bytes")]
    request: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
    #[serde(deserialize_with = "text_of_bytes")]
    certificate: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    reason: String,
    message: String,
}

has_slim_metadata!(ApiRequest);

/// Decodes PEM in base64; empty if it is neither.
fn text_of_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
    let bytes = STANDARD.decode(text).unwrap_or_default();
    Ok(String::from_utf8(bytes).unwrap_or_default())
}

/// A refusal is final. A certificate counts only if the request is approved, like upstream.
fn state(status: Status) -> SigningState {
    let mut is_approved = false;
    for Condition { kind, reason, message } in status.conditions {
        match &*kind {
            "Denied" | "Failed" => {
                let has_failed = kind == "Failed";
                return SigningState::Refused { has_failed, reason, message };
            }
            "Approved" => is_approved = true,
            _ => {}
        }
    }
    match (is_approved, status.certificate.is_empty()) {
        (true, false) => SigningState::Issued(status.certificate.into()),
        (true, true) => SigningState::Approved,
        (false, _) => SigningState::Pending,
    }
}

fn record(request: ApiRequest<'_>) -> SigningRequestRecord {
    let uid = request.metadata.identity().uid.into_owned();
    SigningRequestRecord {
        id: SigningRequestId { name: request.metadata.name.into_owned(), uid },
        signer: request.spec.signer_name.into_owned(),
        request: request.spec.request,
        state: state(request.status),
    }
}

fn object(request: &SigningRequest) -> Value {
    let metadata = match &request.name {
        Some(name) => json!({ "name": name }),
        None => json!({ "generateName": "csr-" }),
    };
    json!({
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": metadata,
        "spec": {
            "request": STANDARD.encode(&request.request),
            "signerName": request.signer,
            "usages": request.usages,
        },
    })
}

/// The request of a name.
struct Named<'a>(&'a str);

impl Kind for Named<'_> {
    type Object<'a> = ApiRequest<'a>;
    type Record = SigningRequestRecord;
    type Key = String;
    const NAME: &'static str = "certificate signing requests";

    fn path(&self) -> Cow<'_, str> {
        format!("{PATH}?fieldSelector=metadata.name%3D{}", urls::part(self.0)).into()
    }

    fn key(request: &Identity<'_>) -> String {
        request.name.clone().into_owned()
    }

    fn record(&self, request: ApiRequest<'_>) -> SigningRequestRecord {
        record(request)
    }
}

#[async_trait]
impl SigningRequests for Cluster {
    async fn create_signing_request(
        &self,
        request: &SigningRequest,
    ) -> Result<SigningRequestId, ApiError> {
        let call = Call::json(Method::POST, PATH.to_owned(), &object(request));
        let answer = self.caller.read(call).await?;
        Ok(record(decoded(&answer)?).id)
    }

    async fn signing_request(&self, name: &str) -> Result<Option<SigningRequestRecord>, ApiError> {
        let call = Call::get(format!("{PATH}/{}", urls::part(name))).about(RESOURCE, name);
        let Some(answer) = found(self.caller.read(call).await)? else { return Ok(None) };
        Ok(Some(record(decoded(&answer)?)))
    }

    async fn follow_signing_request(
        &self,
        name: &str,
        sink: &dyn Sink<SigningRequestRecord, String>,
    ) {
        Follower::new(&self.caller, Named(name), sink).run().await;
    }
}

impl ReloadIdentity for Cluster {
    fn reload_identity(&self) {
        self.caller.connection.reload_identity();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: CERT-8
    #[test]
    fn certificate_counts_once_its_request_is_approved_and_refusals_are_final() {
        let state = |text: &str| state(serde_json::from_str(text).unwrap());
        assert_eq!(state("{}"), SigningState::Pending);
        let approved = r#"{"conditions":[{"type":"Approved"}]}"#;
        assert_eq!(state(approved), SigningState::Approved);
        let issued = r#"{"conditions":[{"type":"Approved"}],"certificate":"Q0VSVA=="}"#;
        assert_eq!(state(issued), SigningState::Issued("CERT".into()));
        let early = r#"{"certificate":"Q0VSVA=="}"#;
        assert_eq!(state(early), SigningState::Pending);
        let refused = |kind: &str| {
            state(&format!(
                r#"{{"conditions":[{{"type":"Approved"}},{{"type":"{kind}","reason":"No","message":"never"}}],"certificate":"Q0VSVA=="}}"#
            ))
        };
        let (reason, message) = ("No".to_owned(), "never".to_owned());
        for (kind, has_failed) in [("Denied", false), ("Failed", true)] {
            let (reason, message) = (reason.clone(), message.clone());
            assert_eq!(refused(kind), SigningState::Refused { has_failed, reason, message });
        }
    }

    #[test]
    fn request_without_a_name_gets_a_generated_one() {
        let mut request = SigningRequest {
            name: None,
            signer: model::signing::CLIENT_SIGNER,
            request: "CSR".to_owned(),
            usages: vec!["digital signature", "client auth"],
        };
        let made = object(&request);
        assert_eq!(made["metadata"], json!({ "generateName": "csr-" }));
        assert_eq!(made["spec"]["request"], "Q1NS");
        request.name = Some("node-csr-x".to_owned());
        assert_eq!(object(&request)["metadata"], json!({ "name": "node-csr-x" }));
    }
}
