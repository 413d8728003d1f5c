//! An authority that signs requests, for tests.

use std::time::Duration;

use jiff::Timestamp;
use model::signing::{SigningRequestRecord, SigningState};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType, IsCa, Issuer,
    KeyPair,
};

use crate::decide::{CertificatePair, Role, Template};
use crate::keys::RequestKey;
use crate::pair::join;

/// An authority.
pub(crate) struct Authority(Issuer<'static, KeyPair>);

/// Sets the validity. It begins after 2025-12-31, before the virtual clock starts.
fn set_validity(params: &mut CertificateParams, from: Timestamp, life: Duration) {
    let day: Timestamp = "2025-12-31T00:00:00Z".parse().unwrap();
    let begin = Duration::try_from(from.duration_since(day)).unwrap();
    params.not_before = rcgen::date_time_ymd(2025, 12, 31) + begin;
    params.not_after = params.not_before + life;
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Self(Issuer::new(params, KeyPair::generate().unwrap()))
    }

    /// Signs a request.
    pub(crate) fn sign(&self, request: &str, from: Timestamp, life: Duration) -> SigningState {
        let mut request = CertificateSigningRequestParams::from_pem(request).unwrap();
        set_validity(&mut request.params, from, life);
        SigningState::Issued(request.signed_by(&self.0).unwrap().pem().into())
    }

    /// Signs a stored request.
    pub(crate) fn answer(
        &self,
        request: &SigningRequestRecord,
        from: Timestamp,
        life: Duration,
    ) -> SigningState {
        self.sign(&request.request, from, life)
    }
}

/// A key with its certificate.
pub(crate) fn pair(template: &Template, from: Timestamp, life: Duration) -> CertificatePair {
    let key = RequestKey::generate().unwrap();
    let request = key.request(Role::Client, template, false).unwrap();
    let SigningState::Issued(chain) = Authority::new("ca").sign(&request.request, from, life)
    else {
        unreachable!("it signs every request")
    };
    join(&chain, &key.pem()).unwrap()
}
