//! Whether a pod may use an image that is present, or must prove its access by a pull.

use model::image_access::{CredentialSource, PullCredential};

use super::record::{PulledRecord, RecordedAccess, RecordedObject};
use super::verification::VerificationPolicy;

/// The facts about a present image.
#[derive(Debug, Clone, Copy)]
pub struct PresentFacts<'a> {
    /// Its full name in the pod without tag and digest.
    pub repository: &'a str,
    /// Its record, if it has one.
    pub record: Option<&'a PulledRecord>,
    /// Whether a pull of its name may still be in progress.
    pub has_intent: bool,
}

/// Whether a pod may use a present image, before its credentials are considered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access<'a> {
    /// It may: the policy does not verify the image.
    ByPolicy,
    /// It may: every pod of the node may.
    ByRecord,
    /// It must pull.
    MustPull,
    /// Its credentials are compared with those of the record.
    Compare(&'a RecordedAccess),
}

/// Decides without the credentials of the pod, if possible.
pub fn access<'a>(policy: &VerificationPolicy, facts: PresentFacts<'a>) -> Access<'a> {
    let PresentFacts { repository, record, has_intent } = facts;
    if !policy.verifies(repository, record.is_some() || has_intent) {
        return Access::ByPolicy;
    }
    match record.and_then(|record| record.credential_mapping.get(repository)) {
        Some(recorded) if recorded.node_pods_accessible => Access::ByRecord,
        Some(recorded) if !recorded.is_empty() => Access::Compare(recorded),
        _ => Access::MustPull,
    }
}

/// The result of the comparison of credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Comparison {
    /// The pod may use the image.
    Matches {
        /// To be added to the record: a secret that has changed, or one with a credential that is known.
        add: Option<RecordedAccess>,
    },
    /// The pod must pull.
    MustPull,
}

/// Compares the credentials of a pod with those that are recorded.
pub fn compare(recorded: &RecordedAccess, credentials: &[PullCredential]) -> Comparison {
    let found = credentials.iter().find_map(|credential| compare_one(recorded, credential));
    found.unwrap_or(Comparison::MustPull)
}

/// The match of one credential, if it has one.
fn compare_one(recorded: &RecordedAccess, credential: &PullCredential) -> Option<Comparison> {
    let matches = |add| Some(Comparison::Matches { add });
    match &credential.source {
        // Every pod has it. Had it pulled the image, every pod could use it.
        CredentialSource::Node => None,
        CredentialSource::ServiceAccount(account) => {
            let account = RecordedObject::from(account);
            let is_known = recorded.kubernetes_service_accounts.contains(&account);
            is_known.then_some(Comparison::Matches { add: None })
        }
        CredentialSource::Secret(_) => {
            let own = RecordedAccess::of_pull(Some(credential));
            let own_secret = own.kubernetes_secrets.first()?;
            let known = &recorded.kubernetes_secrets;
            if known.contains(own_secret) {
                return matches(None);
            }
            let is_hash_known = known.iter().any(|known| {
                !known.credential_hash.is_empty()
                    && known.credential_hash == own_secret.credential_hash
            });
            let is_object_known = known.iter().any(|known| known.object == own_secret.object);
            match (is_hash_known, is_object_known) {
                (true, _) | (_, true) if recorded.has_room() => matches(Some(own)),
                (true, _) => matches(None),
                // A full record cannot take the new content, so the registry decides about it.
                _ => None,
            }
        }
    }
}

#[cfg(test)]
#[path = "must_pull_tests.rs"]
mod tests;
