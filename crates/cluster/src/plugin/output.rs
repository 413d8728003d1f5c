//! The output of a credential plugin: an `ExecCredential`.

use std::time::Duration;

use http::HeaderValue;
use jiff::Timestamp;
use serde::Deserialize;

/// The credential.
#[derive(Debug)]
pub(super) struct Credential {
    pub(super) header: Option<HeaderValue>,
    pub(super) identity: Option<Identity>,
    /// Its remaining lifetime, if the plugin reports an expiry.
    pub(super) lifetime: Option<Duration>,
}

/// A client certificate and its key, as PEM.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identity")
    }
}

#[derive(Deserialize)]
struct ExecCredential {
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    expiration_timestamp: Option<String>,
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

/// Parses the output of a plugin: JSON, or YAML as client-go accepts. Errors never quote it.
pub(super) fn credential(output: &[u8], now: Timestamp) -> Result<Credential, &'static str> {
    let read: ExecCredential =
        serde_saphyr::from_slice(output).map_err(|_| "not an ExecCredential")?;
    let status = read.status.ok_or("it has no status")?;
    let identity = match (status.client_certificate_data, status.client_key_data) {
        (Some(certificate), Some(key)) => Some(Identity { certificate, key }),
        (None, None) => None,
        _ => return Err("clientCertificateData and clientKeyData must be there together"),
    };
    let header = status.token.filter(|token| !token.is_empty()).map(|token| {
        let mut header = HeaderValue::try_from(format!("Bearer {token}"))
            .map_err(|_| "the token has characters that no header can have")?;
        header.set_sensitive(true);
        Ok::<_, &'static str>(header)
    });
    let header = header.transpose()?;
    if header.is_none() && identity.is_none() {
        return Err("it has neither a token nor a client certificate");
    }
    let end = status.expiration_timestamp.map(|end| end.parse::<Timestamp>());
    let end = end.transpose().map_err(|_| "expirationTimestamp is not a time")?;
    let lifetime = end.map(|end| Duration::try_from(end.duration_since(now)).unwrap_or_default());
    Ok(Credential { header, identity, lifetime })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(status: &str) -> Result<Credential, &'static str> {
        let text = format!(r#"{{"kind": "ExecCredential", "status": {status}}}"#);
        credential(text.as_bytes(), "2026-01-01T00:00:00Z".parse().unwrap())
    }

    #[test]
    fn token_and_lifetime_are_read_from_json_and_yaml() {
        let status = r#"{"token": "t1", "expirationTimestamp": "2026-01-01T00:10:00Z"}"#;
        let found = read(status).unwrap();
        assert_eq!(found.header.unwrap(), "Bearer t1");
        assert_eq!(found.lifetime, Some(Duration::from_mins(10)));
        let past = r#"{"token": "t1", "expirationTimestamp": "2025-01-01T00:00:00Z"}"#;
        assert_eq!(read(past).unwrap().lifetime, Some(Duration::ZERO));
        let yaml = b"kind: ExecCredential\nstatus:\n  token: t2\n";
        let found = credential(yaml, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!((found.header.unwrap().to_str().unwrap(), found.lifetime), ("Bearer t2", None));
    }

    #[test]
    fn client_certificate_is_read() {
        let found = read(r#"{"clientCertificateData": "c", "clientKeyData": "k"}"#).unwrap();
        let identity = found.identity.unwrap();
        assert_eq!((&*identity.certificate, &*identity.key), ("c", "k"));
        assert!(found.header.is_none());
    }

    #[test]
    fn unusable_output_is_an_error_that_does_not_quote_it() {
        let rows = [
            ("null", "it has no status"),
            ("{}", "it has neither a token nor a client certificate"),
            (r#"{"token": ""}"#, "it has neither a token nor a client certificate"),
            (r#"{"token": "sec\nret"}"#, "the token has characters that no header can have"),
            (
                r#"{"token": "t", "expirationTimestamp": "soon"}"#,
                "expirationTimestamp is not a time",
            ),
            (r#"{"token": ["secret"]}"#, "not an ExecCredential"),
            (
                r#"{"clientKeyData": "k"}"#,
                "clientCertificateData and clientKeyData must be there together",
            ),
        ];
        for (status, expected) in rows {
            assert_eq!(read(status).unwrap_err(), expected, "{status}");
        }
    }
}
