use config::ImagePullCredentialsVerificationPolicy as Policy;
use jiff::Timestamp;
use model::image_access::{AccessObject, RegistryAuth};
use proptest::prelude::*;

use super::*;

const IMAGE: &str = "r.io/web";

fn object(name: &str) -> AccessObject {
    let (namespace, name, uid) = ("shop".to_owned(), name.to_owned(), format!("uid-{name}"));
    AccessObject { namespace, name, uid }
}

fn credential(password: &str, source: CredentialSource) -> PullCredential {
    let auth = RegistryAuth { password: password.to_owned(), ..RegistryAuth::default() };
    PullCredential { auth, source }
}

fn secret(name: &str, password: &str) -> PullCredential {
    credential(password, CredentialSource::Secret(object(name)))
}

fn account(name: &str) -> PullCredential {
    credential("token", CredentialSource::ServiceAccount(object(name)))
}

/// The record after pulls of the image with these credentials.
fn record(pulls: &[Option<PullCredential>]) -> PulledRecord {
    let mut record = PulledRecord::new("sha256:1", Timestamp::UNIX_EPOCH);
    for pull in pulls {
        let access = RecordedAccess::of_pull(pull.as_ref());
        record.merge(IMAGE, &access, Timestamp::UNIX_EPOCH);
    }
    record
}

fn recorded(pulls: &[PullCredential]) -> RecordedAccess {
    let pulls: Vec<_> = pulls.iter().cloned().map(Some).collect();
    record(&pulls).credential_mapping.remove(IMAGE).unwrap_or_default()
}

// behaviour: PULL-31, PULL-32
#[test]
fn records_and_intents_decide_before_credentials() {
    let (bare, open) = (record(&[]), record(&[None]));
    let private = record(&[Some(secret("a", "p"))]);
    let compare = Access::Compare(&private.credential_mapping[IMAGE]);
    let rows = [
        ("preloaded", Policy::NeverVerifyPreloadedImages, None, false, Access::ByPolicy),
        ("pull in progress", Policy::NeverVerifyPreloadedImages, None, true, Access::MustPull),
        (
            "crash in a pull",
            Policy::NeverVerifyPreloadedImages,
            Some(&bare),
            false,
            Access::MustPull,
        ),
        ("anonymous", Policy::NeverVerifyPreloadedImages, Some(&open), false, Access::ByRecord),
        ("private", Policy::NeverVerifyPreloadedImages, Some(&private), false, compare.clone()),
        ("never verified", Policy::NeverVerify, Some(&private), true, Access::ByPolicy),
        ("always, preloaded", Policy::AlwaysVerify, None, false, Access::MustPull),
        ("always, private", Policy::AlwaysVerify, Some(&private), false, compare),
        ("not on the list", Policy::NeverVerifyAllowlistedImages, None, false, Access::MustPull),
    ];
    for (name, policy, record, has_intent, expected) in rows {
        let policy = VerificationPolicy::new(policy, &[]);
        let facts = PresentFacts { repository: IMAGE, record, has_intent };
        assert_eq!(access(&policy, facts), expected, "{name}");
    }
    let facts = PresentFacts { repository: "r.io/alias", record: Some(&open), has_intent: false };
    let other_name = access(&VerificationPolicy::NeverPreloaded, facts);
    assert_eq!(other_name, Access::MustPull, "another name needs its own proof");
}

// behaviour: PULL-33
#[test]
fn credentials_match_by_hash_by_secret_and_by_service_account() {
    let known = recorded(&[secret("a", "p"), account("robot")]);
    let none = Comparison::Matches { add: None };
    let add = |pull: &PullCredential| Comparison::Matches {
        add: Some(RecordedAccess::of_pull(Some(pull))),
    };
    let mut recreated = secret("a", "other");
    if let CredentialSource::Secret(object) = &mut recreated.source {
        "uid-2".clone_into(&mut object.uid);
    }
    let changed = secret("a", "new");
    let copied = secret("b", "p");
    let rows = [
        ("same", vec![secret("a", "p")], none.clone()),
        ("changed", vec![changed.clone()], add(&changed)),
        ("copied", vec![copied.clone()], add(&copied)),
        ("other", vec![secret("b", "other")], Comparison::MustPull),
        ("created anew", vec![recreated], Comparison::MustPull),
        ("second", vec![secret("b", "other"), secret("a", "p")], none.clone()),
        ("node", vec![credential("p", CredentialSource::Node)], Comparison::MustPull),
        ("account", vec![account("robot")], none),
        ("other account", vec![account("else")], Comparison::MustPull),
        ("none", vec![], Comparison::MustPull),
    ];
    for (name, credentials, expected) in rows {
        assert_eq!(compare(&known, &credentials), expected, "{name}");
    }
}

// behaviour: PULL-33
#[test]
fn full_record_accepts_known_credentials_and_no_changed_secret() {
    let pulls: Vec<_> = (0..100).map(|n| secret(&format!("s{n}"), &format!("p{n}"))).collect();
    let full = recorded(&pulls);
    let rows = [
        (secret("s7", "p7"), Comparison::Matches { add: None }),
        (secret("copy", "p7"), Comparison::Matches { add: None }),
        (secret("s7", "changed"), Comparison::MustPull),
    ];
    for (credential, expected) in rows {
        assert_eq!(compare(&full, &[credential]), expected);
    }
}

proptest! {
    // behaviour: PULL-33
    #[test]
    fn credentials_that_pulled_an_image_are_not_verified_again(
        pulls in proptest::collection::vec(("[a-c]", "[p-r]"), 1..8),
    ) {
        let pulls: Vec<_> = pulls.iter().map(|(name, password)| secret(name, password)).collect();
        let last = pulls.last().cloned().into_iter().collect::<Vec<_>>();
        let matches = Comparison::Matches { add: None };
        prop_assert_eq!(compare(&recorded(&pulls), &last), matches);
    }
}
