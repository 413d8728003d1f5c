use model::image_access::RegistryAuth;
use proptest::prelude::*;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn object(namespace: &str, name: &str) -> AccessObject {
    let (namespace, name) = (namespace.to_owned(), name.to_owned());
    AccessObject { uid: format!("uid-{name}"), namespace, name }
}

fn pull(source: CredentialSource) -> RecordedAccess {
    RecordedAccess::of_pull(Some(&PullCredential { auth: RegistryAuth::default(), source }))
}

fn secret(namespace: &str, name: &str) -> RecordedAccess {
    pull(CredentialSource::Secret(object(namespace, name)))
}

fn account(namespace: &str, name: &str) -> RecordedAccess {
    pull(CredentialSource::ServiceAccount(object(namespace, name)))
}

fn text(record: &PulledRecord) -> String {
    String::from_utf8(record.encode()).unwrap()
}

// behaviour: PULL-34
#[test]
fn record_has_upstreams_text_and_is_read_again() {
    let mut record = PulledRecord::new("sha256:1", at(1_700_000_000));
    let head = r#"{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1","lastUpdatedTime":"2023-11-14T22:13:20Z","imageRef":"sha256:1""#;
    assert_eq!(text(&record), format!("{head}}}\n"));
    record.merge("r.io/b", &RecordedAccess::of_pull(None), at(1_700_000_000));
    record.merge("r.io/a", &secret("shop", "key"), at(1_700_000_000));
    record.merge("r.io/a", &account("shop", "robot"), at(1_700_000_000));
    let hash = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
    let of_a = format!(
        r#"{{"kubernetesSecrets":[{{"uid":"uid-key","namespace":"shop","name":"key","credentialHash":"{hash}"}}],"kubernetesServiceAccounts":[{{"uid":"uid-robot","namespace":"shop","name":"robot"}}]}}"#
    );
    let mapping = format!(r#""r.io/a":{of_a},"r.io/b":{{"nodePodsAccessible":true}}"#);
    assert_eq!(text(&record), format!("{head},\"credentialMapping\":{{{mapping}}}}}\n"));
    let name = file_name("sha256:1");
    let read = PulledRecord::decode(&name, &record.encode()).unwrap();
    assert_eq!(read, DecodedRecord { record, is_old: false });
}

// behaviour: PULL-34
#[test]
fn older_version_is_read_and_other_content_is_refused() {
    let (name, intent) = (file_name("sha256:1"), file_name("busybox:latest"));
    let record = text(&PulledRecord::new("sha256:1", at(0)));
    let old = record.replace("v1beta1", "v1alpha1");
    let read = PulledRecord::decode(&name, old.as_bytes()).unwrap();
    assert_eq!(read, DecodedRecord { record: PulledRecord::new("sha256:1", at(0)), is_old: true });
    let nulls = record.replace('}', r#","credentialMapping":{"a":{"kubernetesSecrets":null}}}"#);
    assert!(PulledRecord::decode(&name, nulls.as_bytes()).is_ok());
    let rows = [
        (name.as_str(), "{".to_owned(), "invalid JSON"),
        (
            &name,
            record.replace("v1beta1", "v7"),
            "found kubelet.config.k8s.io/v7 ImagePulledRecord",
        ),
        (&name, record.replace("sha256:1", "sha256:2"), r#"it is about "sha256:2""#),
        (&intent, record, r#"it is about "sha256:1""#),
    ];
    for (name, content, expected) in rows {
        let error = PulledRecord::decode(name, content.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    let written = encode_intent("busybox:latest");
    let expected = r#"{"kind":"ImagePullIntent","apiVersion":"kubelet.config.k8s.io/v1beta1","image":"busybox:latest"}"#;
    assert_eq!(String::from_utf8(written.clone()).unwrap(), format!("{expected}\n"));
    assert_eq!(decode_intent(&intent, &written).unwrap(), "busybox:latest");
    let old = expected.replace("v1beta1", "v1alpha1");
    assert_eq!(decode_intent(&intent, old.as_bytes()).unwrap(), "busybox:latest");
    assert!(decode_intent(&name, &written).is_err());
}

// behaviour: PULL-34
#[test]
fn files_are_named_by_the_hash_of_image_or_reference() {
    // printf 'busybox:latest' | sha256sum
    let expected = "sha256-3726e854f7e14d58c1dc2b1156c3759b194984a1e8484ee0f3e637bc0212cad8";
    let name = file_name("busybox:latest");
    assert_eq!(name, expected);
    assert!(is_file_name(&name));
    for other in [".sha256-x.new", "sha256-ab", &format!("{name}.tmp"), &name[7..], ""] {
        assert!(!is_file_name(other), "{other}");
    }
}

// behaviour: PULL-35
#[test]
fn merged_accesses_are_sorted_without_duplicates() {
    let mut record = PulledRecord::new("sha256:1", at(1));
    let rows = [
        (secret("b", "x"), true, "b/x"),
        (secret("a", "y"), true, "a/y b/x"),
        (secret("a", "x"), true, "a/x a/y b/x"),
        (secret("a", "x"), false, "a/x a/y b/x"),
        (account("b", "r"), true, "a/x a/y b/x b/r"),
        (account("a", "r"), true, "a/x a/y b/x a/r b/r"),
        (account("a", "r"), false, "a/x a/y b/x a/r b/r"),
        (RecordedAccess::default(), false, "a/x a/y b/x a/r b/r"),
        (RecordedAccess::of_pull(None), true, ""),
        (secret("b", "x"), false, ""),
        (pull(CredentialSource::Node), false, ""),
    ];
    for (second, (added, is_changed, expected)) in (2..).zip(rows) {
        assert_eq!(record.merge("r.io/a", &added, at(second)), is_changed, "{added:?}");
        assert_eq!(record.last_updated_time == at(second), is_changed, "{added:?}");
        let access = &record.credential_mapping["r.io/a"];
        let secrets = access.kubernetes_secrets.iter().map(|secret| &secret.object);
        let all = secrets.chain(&access.kubernetes_service_accounts);
        let names: Vec<_> = all.map(|one| format!("{}/{}", one.namespace, one.name)).collect();
        assert_eq!(names.join(" "), expected);
    }
}

// behaviour: PULL-35
#[test]
fn changed_secret_replaces_its_former_hash() {
    let mut record = PulledRecord::new("sha256:1", at(1));
    record.merge("r.io/a", &secret("a", "x"), at(1));
    let auth = RegistryAuth { password: "new".to_owned(), ..RegistryAuth::default() };
    let source = CredentialSource::Secret(object("a", "x"));
    let changed = RecordedAccess::of_pull(Some(&PullCredential { auth, source }));
    assert!(record.merge("r.io/a", &changed, at(2)));
    assert_eq!(record.credential_mapping["r.io/a"], changed);
}

// behaviour: PULL-38
#[test]
fn record_of_the_second_in_which_a_collection_began_is_kept() {
    let record = PulledRecord::new("sha256:1", at(10) + jiff::SignedDuration::from_millis(900));
    let began = |millis| at(0) + jiff::SignedDuration::from_millis(millis);
    assert!(!record.is_older_than(began(10_000)) && !record.is_older_than(began(10_999)));
    assert!(record.is_older_than(began(11_000)));
}

proptest! {
    // behaviour: PULL-35
    #[test]
    fn merge_is_idempotent_and_independent_of_order(
        names in proptest::collection::vec(("[ab]", "[xyz]"), 0..6),
    ) {
        let merged = |names: &mut dyn Iterator<Item = &(String, String)>| {
            let mut record = PulledRecord::new("sha256:1", at(1));
            for (namespace, name) in names {
                record.merge("r.io/a", &secret(namespace, name), at(1));
            }
            record
        };
        let once = merged(&mut names.iter());
        prop_assert_eq!(&once, &merged(&mut names.iter().rev()));
        prop_assert_eq!(&once, &merged(&mut names.iter().chain(&names)));
        let name = file_name("sha256:1");
        let decoded = PulledRecord::decode(&name, &once.encode()).unwrap().record;
        prop_assert_eq!(decoded, once);
    }
}
