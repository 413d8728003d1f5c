//! What credential provider plugins read and print.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr as _;
use std::time::Duration;

use config::GoDuration;
use serde::{Deserialize, Serialize};

use super::docker_config::{DockerConfig, Login};

/// The request to a plugin. Never printed: it may have a token.
#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProviderRequest<'a> {
    /// The version that the plugin is configured with.
    pub api_version: &'a str,
    /// Constant.
    pub kind: &'static str,
    /// The full name of the image without a tag.
    pub image: &'a str,
    /// A token of the pod's service account.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub service_account_token: &'a str,
    /// Annotations of the service account.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub service_account_annotations: &'a BTreeMap<String, String>,
}

impl fmt::Debug for ProviderRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderRequest").field("image", &self.image).finish_non_exhaustive()
    }
}

impl ProviderRequest<'_> {
    /// The text that the plugin reads.
    pub fn encode(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec(self).expect("requests have string keys");
        text.push(b'\n');
        text
    }
}

/// For which images the credentials of a response are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum CacheKeyType {
    /// For this image.
    Image,
    /// For all images of this registry.
    Registry,
    /// For all images for which the plugin is run.
    Global,
}

/// The response of a plugin. Its credentials are not printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderResponse {
    /// For which images it is used.
    pub cache_key_type: CacheKeyType,
    /// How long the response is used; `None` for the configured time.
    pub cache_duration: Option<Duration>,
    /// Credentials by the images that they are for.
    pub logins: DockerConfig,
}

/// Why the output of a plugin is not a response. It does not contain the output.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResponseError {
    /// It is not JSON, or a field is missing or has another type.
    #[error("it is not a CredentialProviderResponse in JSON")]
    Malformed,
    /// It has another version than the one configured.
    #[error("its apiVersion is not the configured {expected}")]
    Version {
        /// The configured version.
        expected: String,
    },
    /// A field has a value that it cannot have.
    #[error("{0} is invalid")]
    Field(&'static str),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    api_version: String,
    kind: String,
    cache_key_type: String,
    cache_duration: Option<String>,
    auth: Option<BTreeMap<String, Auth>>,
}

#[derive(Deserialize)]
struct Auth {
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
}

/// Reads the output of a plugin that is configured with this version.
pub fn decode_response(output: &[u8], expected: &str) -> Result<ProviderResponse, ResponseError> {
    let document: Document =
        serde_json::from_slice(output).map_err(|_| ResponseError::Malformed)?;
    if document.api_version != expected {
        return Err(ResponseError::Version { expected: expected.to_owned() });
    }
    if document.kind != "CredentialProviderResponse" {
        return Err(ResponseError::Field("kind"));
    }
    let cache_key_type = match document.cache_key_type.as_str() {
        "Image" => CacheKeyType::Image,
        "Registry" => CacheKeyType::Registry,
        "Global" => CacheKeyType::Global,
        _ => return Err(ResponseError::Field("cacheKeyType")),
    };
    let duration = document.cache_duration.map(|text| GoDuration::from_str(&text)).transpose();
    let duration = duration.map_err(|_| ResponseError::Field("cacheDuration"))?;
    let login = |(image, auth): (String, Auth)| {
        let Auth { username, password } = auth;
        (image, Login { username, password, email: String::new() })
    };
    Ok(ProviderResponse {
        cache_key_type,
        cache_duration: duration.map(GoDuration::to_std),
        logins: document.auth.unwrap_or_default().into_iter().map(login).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: &str = "credentialprovider.kubelet.k8s.io/v1";

    // behaviour: PULL-42
    #[test]
    fn request_names_the_image_and_has_a_token_only_if_there_is_one() {
        let annotations = BTreeMap::from([("a.io/b".to_owned(), "c".to_owned())]);
        let (kind, none) = ("CredentialProviderRequest", BTreeMap::new());
        let request = ProviderRequest {
            api_version: VERSION,
            kind,
            image: "r.io/a",
            service_account_token: "",
            service_account_annotations: &none,
        };
        let text = |request: &ProviderRequest<'_>| String::from_utf8(request.encode()).unwrap();
        let head = r#"{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","kind":"CredentialProviderRequest","image":"r.io/a""#;
        assert_eq!(text(&request), format!("{head}}}\n"));
        let request = ProviderRequest {
            service_account_token: "hidden",
            service_account_annotations: &annotations,
            ..request
        };
        let rest = r#""serviceAccountToken":"hidden","serviceAccountAnnotations":{"a.io/b":"c"}"#;
        assert_eq!(text(&request), format!("{head},{rest}}}\n"));
        assert!(!format!("{request:?}").contains("hidden"));
    }

    // behaviour: PULL-42
    #[test]
    fn response_is_read_and_errors_do_not_show_its_content() {
        let response = |rest: &str| {
            format!(r#"{{"apiVersion":"{VERSION}","kind":"CredentialProviderResponse"{rest}}}"#)
        };
        let good = response(
            r#","cacheKeyType":"Registry","cacheDuration":"10m","auth":{"r.io":{"username":"u","password":"hidden"}}"#,
        );
        let read = decode_response(good.as_bytes(), VERSION).unwrap();
        assert_eq!(read.cache_key_type, CacheKeyType::Registry);
        assert_eq!(read.cache_duration, Some(Duration::from_mins(10)));
        assert_eq!(read.logins[0].1.password, "hidden");
        assert!(!format!("{read:?}").contains("hidden"));
        let bare = decode_response(response(r#","cacheKeyType":"Image""#).as_bytes(), VERSION);
        let bare = bare.unwrap();
        assert_eq!((bare.cache_duration, bare.logins.len()), (None, 0));
        let malformed = "it is not a CredentialProviderResponse in JSON";
        let rows = [
            ("hidden".to_owned(), malformed),
            (String::new(), malformed),
            (response(""), malformed),
            (response(r#","cacheKeyType":"hidden""#), "cacheKeyType is invalid"),
            (
                response(r#","cacheKeyType":"Image","cacheDuration":"hidden""#),
                "cacheDuration is invalid",
            ),
            (good.replace("ProviderResponse", "ProviderRequest"), "kind is invalid"),
            (
                good.replace("k8s.io/v1", "k8s.io/hidden"),
                "its apiVersion is not the configured credentialprovider.kubelet.k8s.io/v1",
            ),
        ];
        for (output, expected) in rows {
            let error = decode_response(output.as_bytes(), VERSION).unwrap_err();
            assert_eq!(error.to_string(), expected, "{output}");
            assert!(!format!("{error:?}").contains("hidden"));
        }
    }
}
