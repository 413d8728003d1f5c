//! Which certificate a pod uses, and when another one is requested.

use std::time::Duration;

use jiff::Timestamp;
use model::pod_certificates::{CertificateAnswer, Credentials};

/// A request that is not listed after this time counts as deleted.
const DELETED_AFTER: Duration = Duration::from_mins(10);
/// The maximum jitter of a renewal, and of the wait for an unlisted request: it spreads the requests of many
/// pods.
pub const CERTIFICATE_JITTER: Duration = Duration::from_mins(5);

/// The certificate state of a source.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CertificateState {
    /// The certificate in use.
    pub issued: Option<IssuedCertificate>,
    /// The pending request.
    pub pending: Option<PendingRequest>,
    /// Why no further certificate is requested. The text is upstream's.
    pub refused: Option<String>,
}

/// A certificate in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedCertificate {
    /// Key and certificates.
    pub credentials: Credentials,
    /// When the next one is requested.
    pub refresh_at: Timestamp,
}

/// A pending request.
#[derive(Clone, PartialEq, Eq)]
pub struct PendingRequest {
    /// Namespace and name.
    pub name: String,
    /// The private key. Never printed.
    pub key: Box<str>,
    /// When it was created.
    pub made: Timestamp,
}

impl std::fmt::Debug for PendingRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PendingRequest").field("name", &self.name).finish_non_exhaustive()
    }
}

impl CertificateState {
    /// Takes the state of the pending request; `None` if the request is not listed. A deleted request is created
    /// again.
    pub fn take(&mut self, answer: Option<&CertificateAnswer>, now: Timestamp, jitter: Duration) {
        let Some(pending) = self.pending.take() else { return };
        let jitter = jitter.min(CERTIFICATE_JITTER);
        match answer {
            Some(CertificateAnswer::Issued { chain, refresh_at, .. }) => {
                let credentials = Credentials { key: pending.key, chain: chain.clone() };
                let refresh_at = *refresh_at + jitter;
                self.issued = Some(IssuedCertificate { credentials, refresh_at });
            }
            Some(CertificateAnswer::Refused { has_failed, reason, message }) => {
                let ended = if *has_failed { "failed" } else { "denied" };
                self.issued = None;
                self.refused = Some(format!(
                    "PodCertificateRequest was permanently {ended}: reason={reason:?} message={message:?}"
                ));
            }
            None if now > pending.made + DELETED_AFTER + jitter => {}
            Some(CertificateAnswer::Pending) | None => self.pending = Some(pending),
        }
    }

    /// Whether to request a certificate.
    pub fn needs_request(&self, now: Timestamp) -> bool {
        let is_due = self.issued.as_ref().is_none_or(|issued| now >= issued.refresh_at);
        is_due && self.pending.is_none() && self.refused.is_none()
    }

    /// The credentials for the pod. The error texts are upstream's.
    pub fn credentials(&self) -> Result<&Credentials, &str> {
        match (&self.refused, &self.issued) {
            (Some(refused), _) => Err(refused),
            (None, Some(issued)) => Ok(&issued.credentials),
            (None, None) => Err("credential bundle is not issued yet"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(minutes * 60).unwrap()
    }

    fn requested(mut state: CertificateState, name: &str, minute: i64) -> CertificateState {
        assert!(state.needs_request(at(minute)), "{state:?}");
        let key = format!("key of {name}").into();
        state.pending = Some(PendingRequest { name: name.to_owned(), key, made: at(minute) });
        state
    }

    fn issued(chain: &str, minute: i64) -> CertificateAnswer {
        let (refresh_at, expires) = (at(minute), at(minute * 2));
        CertificateAnswer::Issued { chain: chain.into(), refresh_at, expires }
    }

    // behaviour: VOL-62
    #[test]
    fn certificate_is_used_until_its_successor_is_issued() {
        let jitter = Duration::from_mins(1);
        let mut state = requested(CertificateState::default(), "a", 0);
        state.take(Some(&CertificateAnswer::Pending), at(1), jitter);
        assert_eq!(state.credentials(), Err("credential bundle is not issued yet"));
        assert!(!state.needs_request(at(1)));
        state.take(Some(&issued("A", 60)), at(2), jitter);
        assert_eq!(&*state.credentials().unwrap().chain, "A");
        assert!(!state.needs_request(at(60)), "up to a minute of jitter");
        let mut state = requested(state, "b", 61);
        state.take(None, at(62), jitter);
        assert_eq!(&*state.credentials().unwrap().chain, "A");
        state.take(Some(&issued("B", 120)), at(63), jitter);
        let now = state.credentials().unwrap();
        assert_eq!((&*now.key, &*now.chain), ("key of b", "B"));
    }

    // behaviour: VOL-63
    #[test]
    fn refused_request_is_final_and_deleted_request_is_repeated() {
        let state = requested(CertificateState::default(), "a", 0);
        for (has_failed, word) in [(false, "denied"), (true, "failed")] {
            let mut state = state.clone();
            let (reason, message) = ("Policy".to_owned(), "no \"pods\"".to_owned());
            let refused = CertificateAnswer::Refused { has_failed, reason, message };
            state.take(Some(&refused), at(1), Duration::ZERO);
            let expected = format!(
                r#"PodCertificateRequest was permanently {word}: reason="Policy" message="no \"pods\"""#
            );
            assert_eq!(state.credentials(), Err(&*expected));
            assert!(!state.needs_request(at(1000)));
        }
        let mut state = state;
        state.take(None, at(10), Duration::ZERO);
        assert!(!state.needs_request(at(10)));
        state.take(None, at(11), Duration::ZERO);
        assert!(state.needs_request(at(11)));
    }
}
