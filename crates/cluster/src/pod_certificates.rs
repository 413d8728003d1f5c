//! Pod certificate requests.

use std::borrow::Cow;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use jiff::Timestamp;
use model::pod_certificates::{
    CertificateAnswer, CertificateRequestRecord, CertificateSource, RequestedCertificate,
};
use model::ports::cluster::{ApiError, Sink};
use model::ports::objects::CertificateRequests;
use rcgen::{
    CertificateParams, DistinguishedName, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384,
    PKCS_ED25519, SignatureAlgorithm,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::call::Call;
use crate::decode::{Identity, Metadata};
use crate::follow::{Follower, Kind, has_slim_metadata};
use crate::{Cluster, urls};

const GROUP: &str = "/apis/certificates.k8s.io/v1beta1";

/// Why no key was generated.
#[derive(Debug, thiserror::Error)]
enum KeyError {
    #[error("keys of type {0:?} are not supported")]
    Kind(Box<str>),
    #[error("cannot generate a key")]
    Failed(#[from] rcgen::Error),
}

impl From<KeyError> for ApiError {
    fn from(error: KeyError) -> Self {
        Self::Unreadable(Box::new(error))
    }
}

/// An object reduced to its uid.
#[derive(Debug, Deserialize)]
struct Named {
    metadata: Uid,
}

#[derive(Debug, Deserialize)]
struct Uid {
    uid: String,
    #[serde(default)]
    name: String,
}

/// A key, and the proof of its possession: an otherwise empty signing request. RSA and P-521 keys cannot be
/// generated here.
fn key_and_proof(kind: &str) -> Result<(KeyPair, Vec<u8>), KeyError> {
    let algorithm: &SignatureAlgorithm = match kind {
        "ECDSAP256" => &PKCS_ECDSA_P256_SHA256,
        "ECDSAP384" => &PKCS_ECDSA_P384_SHA384,
        "ED25519" => &PKCS_ED25519,
        other => return Err(KeyError::Kind(other.into())),
    };
    let key = KeyPair::generate_for(algorithm)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let proof = params.serialize_request(&key)?.der().to_vec();
    Ok((key, proof))
}

fn request(source: &CertificateSource, proof: &[u8], uids: &Uids<'_>) -> Value {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "name": &*source.pod.name, "uid": source.pod_uid.as_str(),
    });
    let mut request = json!({
        "apiVersion": "certificates.k8s.io/v1beta1",
        "kind": "PodCertificateRequest",
        "metadata": { "generateName": "req-", "ownerReferences": [pod] },
        "spec": {
            "signerName": source.signer,
            "podName": &*source.pod.name,
            "podUID": source.pod_uid.as_str(),
            "serviceAccountName": source.service_account,
            "serviceAccountUID": uids.account,
            "nodeName": uids.node_name,
            "nodeUID": uids.node,
            "stubPKCS10Request": STANDARD.encode(proof),
        },
    });
    if let Some(seconds) = source.max_expiration_seconds {
        request["spec"]["maxExpirationSeconds"] = seconds.into();
    }
    if !source.annotations.is_empty() {
        request["spec"]["unverifiedUserAnnotations"] = json!(source.annotations);
    }
    request
}

struct Uids<'a> {
    account: &'a str,
    node: &'a str,
    node_name: &'a str,
}

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
#[serde(default)]
struct Spec<'a> {
    #[serde(borrow, rename = "podUID")]
    pod_uid: Cow<'a, str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    conditions: Vec<Condition>,
    certificate_chain: String,
    begin_refresh_at: Option<Timestamp>,
    not_after: Option<Timestamp>,
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

fn answer(status: Status) -> CertificateAnswer {
    for Condition { kind, reason, message } in status.conditions {
        match &*kind {
            "Denied" | "Failed" => {
                let has_failed = kind == "Failed";
                return CertificateAnswer::Refused { has_failed, reason, message };
            }
            "Issued" => {
                let (Some(refresh_at), Some(expires)) = (status.begin_refresh_at, status.not_after)
                else {
                    continue;
                };
                let chain = status.certificate_chain.into();
                return CertificateAnswer::Issued { chain, refresh_at, expires };
            }
            _ => {}
        }
    }
    CertificateAnswer::Pending
}

fn full_name(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

struct OfNode<'a>(&'a str);

impl Kind for OfNode<'_> {
    type Object<'a> = ApiRequest<'a>;
    type Record = CertificateRequestRecord;
    type Key = String;
    const NAME: &'static str = "pod certificate requests";

    fn path(&self) -> Cow<'_, str> {
        let node = urls::part(self.0);
        format!("{GROUP}/podcertificaterequests?fieldSelector=spec.nodeName%3D{node}").into()
    }

    fn key(request: &Identity<'_>) -> String {
        full_name(&request.namespace, &request.name)
    }

    fn record(&self, request: ApiRequest<'_>) -> CertificateRequestRecord {
        CertificateRequestRecord {
            name: full_name(&request.metadata.namespace, &request.metadata.name),
            pod_uid: (&*request.spec.pod_uid).into(),
            answer: answer(request.status),
        }
    }
}

#[async_trait]
impl CertificateRequests for Cluster {
    async fn request_certificate(
        &self,
        source: &CertificateSource,
        node: &str,
    ) -> Result<RequestedCertificate, ApiError> {
        let (key, proof) = key_and_proof(&source.key_type)?;
        let namespace = urls::part(&source.pod.namespace);
        let account = urls::part(&source.service_account);
        let account = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}");
        let account: Named = self.caller.send_decoded(Call::get(account)).await?;
        let path = format!("/api/v1/nodes/{}", urls::part(node));
        let own: Named = self.caller.send_decoded(Call::get(path)).await?;
        let (account, own) = (account.metadata.uid, own.metadata.uid);
        let uids = Uids { account: &account, node: &own, node_name: node };
        let path = format!("{GROUP}/namespaces/{namespace}/podcertificaterequests");
        let call = Call::json(Method::POST, path, &request(source, &proof, &uids));
        let made: Named = self.caller.send_decoded(call).await?;
        let name = full_name(&source.pod.namespace, &made.metadata.name);
        Ok(RequestedCertificate { name, key: key.serialize_pem().into() })
    }

    async fn follow_certificate_requests(
        &self,
        node: &str,
        sink: &dyn Sink<CertificateRequestRecord, String>,
    ) {
        Follower::new(&self.caller, OfNode(node), sink).run().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: VOL-62
    #[test]
    fn proofs_are_signed_with_keys_of_the_type() {
        for kind in ["ECDSAP256", "ECDSAP384", "ED25519"] {
            let (key, proof) = key_and_proof(kind).unwrap();
            assert!(key.serialize_pem().starts_with("-----BEGIN PRIVATE KEY-----\n"), "{kind}");
            assert!(!proof.is_empty());
        }
        let error = key_and_proof("RSA3072").err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some("keys of type \"RSA3072\" are not supported"));
    }

    // behaviour: VOL-62
    #[test]
    fn certificate_requests_are_decided_by_their_conditions() {
        let status = |text: &str| answer(serde_json::from_str(text).unwrap());
        assert_eq!(status("{}"), CertificateAnswer::Pending);
        let denied = r#"{"conditions":[{"type":"Denied","reason":"No","message":"never"}]}"#;
        let (reason, message) = ("No".to_owned(), "never".to_owned());
        let expected = CertificateAnswer::Refused { has_failed: false, reason, message };
        assert_eq!(status(denied), expected);
        let issued = r#"{"conditions":[{"type":"Issued"}],"certificateChain":"C","notAfter":"2030-01-03T00:00:00Z","beginRefreshAt":"2030-01-02T00:00:00Z"}"#;
        let at = |text: &str| text.parse().unwrap();
        let (refresh_at, expires) = (at("2030-01-02T00:00:00Z"), at("2030-01-03T00:00:00Z"));
        let expected = CertificateAnswer::Issued { chain: "C".into(), refresh_at, expires };
        assert_eq!(status(issued), expected);
    }
}
