//! Which pulls are the same.

use std::collections::BTreeMap;

use model::image_access::{PullCredential, RegistryAuth};

/// The annotation of a pod that selects a runtime handler for its images in containerd.
const HANDLER: &str = "io.containerd.cri.runtime-handler";

/// Pulls with equal keys have one result, so that one pull serves all pods that wait for it. Where credentials come from
/// makes no difference to the registry.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PullKey {
    image: String,
    auths: Vec<RegistryAuth>,
    runtime_handler: String,
    annotated_handler: Option<String>,
}

/// The pull of an image for a pod.
#[derive(Debug, Clone, Copy)]
pub struct PullOf<'a> {
    /// The image with its tag or digest.
    pub image: &'a str,
    /// The runtime handler of the pod's sandbox; empty for the default one.
    pub runtime_handler: &'a str,
    /// The annotations that are sent to the runtime.
    pub annotations: &'a BTreeMap<String, String>,
    /// The credentials, in the order in which they are tried.
    pub credentials: &'a [PullCredential],
}

impl PullKey {
    /// The key of a pull.
    pub fn new(pull: PullOf<'_>) -> Self {
        Self {
            image: pull.image.to_owned(),
            auths: pull.credentials.iter().map(|credential| credential.auth.clone()).collect(),
            runtime_handler: pull.runtime_handler.to_owned(),
            annotated_handler: pull.annotations.get(HANDLER).cloned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use model::image_access::{AccessObject, CredentialSource};

    use super::*;

    fn credential(password: &str, secret: &str) -> PullCredential {
        let source = AccessObject {
            namespace: "shop".to_owned(),
            name: secret.to_owned(),
            uid: secret.to_owned(),
        };
        PullCredential {
            auth: RegistryAuth { password: password.to_owned(), ..RegistryAuth::default() },
            source: CredentialSource::Secret(source),
        }
    }

    // behaviour: PULL-10
    #[test]
    fn pulls_are_the_same_if_image_credentials_and_handler_are_equal() {
        let none = BTreeMap::new();
        let handled = BTreeMap::from([(HANDLER.to_owned(), "kata".to_owned())]);
        let other = BTreeMap::from([("note".to_owned(), "kata".to_owned())]);
        let (a, a_of_other_secret) = ([credential("a", "one")], [credential("a", "two")]);
        let (b, ab) = ([credential("b", "one")], [credential("a", "one"), credential("b", "one")]);
        let ba = [credential("b", "one"), credential("a", "one")];
        let pull =
            PullOf { image: "far:1", runtime_handler: "", annotations: &none, credentials: &a };
        let rows = [
            ("the same", pull, true),
            ("another image", PullOf { image: "far:2", ..pull }, false),
            ("another handler", PullOf { runtime_handler: "kata", ..pull }, false),
            ("an annotated handler", PullOf { annotations: &handled, ..pull }, false),
            ("another annotation", PullOf { annotations: &other, ..pull }, true),
            ("no credentials", PullOf { credentials: &[], ..pull }, false),
            (
                "another secret, same content",
                PullOf { credentials: &a_of_other_secret, ..pull },
                true,
            ),
            ("another password", PullOf { credentials: &b, ..pull }, false),
            ("one more credential", PullOf { credentials: &ab, ..pull }, false),
        ];
        for (difference, other, expected) in rows {
            let same = PullKey::new(pull) == PullKey::new(other);
            assert_eq!(same, expected, "{difference}");
        }
        let [ab, ba] = [&ab, &ba].map(|credentials| PullKey::new(PullOf { credentials, ..pull }));
        assert_ne!(ab, ba, "another order");
        let shown = format!("{:?}", PullKey::new(pull));
        assert!(!shown.contains("password"), "{shown}");
    }
}
