//! Which credentials are tried for an image, and in which order.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::docker_config::DockerConfig;
use super::registry_pattern::RegistryPattern;
use model::image_access::{CredentialSource, PullCredential, RegistryAuth};

/// The key of the default registry for image names without a registry.
const DEFAULT_REGISTRY: &str = "index.docker.io";

/// Credentials by the registries and images for which they are. As upstream's `BasicDockerKeyring`.
#[derive(Debug, Clone, Default)]
pub struct Keyring {
    /// The last key comes first: of keys with equal hosts the longer path.
    keys: BTreeMap<Reverse<String>, Vec<PullCredential>>,
}

impl Keyring {
    /// Adds the credentials of a configuration. Entries that name no registry are left out.
    pub fn add(&mut self, config: DockerConfig, source: &CredentialSource) {
        for (registry, login) in config {
            let Some(key) = key(&registry) else { continue };
            let auth = RegistryAuth {
                username: login.username,
                password: login.password,
                email: login.email,
                ..RegistryAuth::default()
            };
            let credential = PullCredential { auth, source: source.clone() };
            self.keys.entry(Reverse(key)).or_default().push(credential);
        }
    }

    /// The credentials for an image, all that match. The image is its full name without a tag.
    pub fn lookup(&self, image: &str) -> Vec<PullCredential> {
        let parsed = RegistryPattern::parse(image);
        let matches = |key: &str| {
            let pattern = RegistryPattern::parse(key);
            pattern.zip(parsed.as_ref()).is_some_and(|(pattern, image)| pattern.matches(image))
        };
        let found = self.keys.iter().filter(|(key, _)| matches(&key.0));
        let found: Vec<_> = found.flat_map(|(_, credentials)| credentials.clone()).collect();
        if found.is_empty() && is_in_default_registry(image) {
            let key = Reverse(DEFAULT_REGISTRY.to_owned());
            return self.keys.get(&key).cloned().unwrap_or_default();
        }
        found
    }
}

/// The key of an entry of a configuration: host and path, without scheme and API version; `None` if the entry is for no
/// registry.
fn key(registry: &str) -> Option<String> {
    let plain = ["https://", "http://"].iter().find_map(|scheme| registry.strip_prefix(scheme));
    let plain = plain.unwrap_or(registry);
    RegistryPattern::parse(plain)?;
    let plain = &plain[..plain.find(['?', '#']).unwrap_or(plain.len())];
    let (authority, path) = plain.split_at(plain.find('/').unwrap_or(plain.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let is_api = path.starts_with("/v1/") || path.starts_with("/v2/");
    let path = if is_api { &path[3..] } else { path };
    Some(if path == "/" { host.to_owned() } else { format!("{host}{path}") })
}

fn is_in_default_registry(image: &str) -> bool {
    match image.split_once('/') {
        None => !image.is_empty(),
        Some(("", _)) => false,
        Some((first, _)) => {
            first == "docker.io" || first == DEFAULT_REGISTRY || !first.contains(['.', ':'])
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decide::docker_config::Login;

    fn keyring(registries: &[&str]) -> Keyring {
        let mut keyring = Keyring::default();
        for registry in registries {
            let login = Login { username: (*registry).to_owned(), ..Login::default() };
            keyring.add(vec![((*registry).to_owned(), login)], &CredentialSource::Node);
        }
        keyring
    }

    /// The entries that match, in the order in which they are tried.
    fn matching(registries: &[&str], image: &str) -> Vec<String> {
        let found = keyring(registries).lookup(image);
        found.into_iter().map(|credential| credential.auth.username).collect()
    }

    // behaviour: PULL-21
    #[test]
    fn single_entry_matches_any_scheme_and_api_version() {
        let rows = [
            ("r.io", "r.io/a", true),
            ("https://r.io", "r.io/a", true),
            ("http://r.io", "r.io/a", true),
            ("https://r.io/", "r.io/a", true),
            ("https://r.io/v1/", "r.io/a", true),
            ("https://r.io/v2/", "r.io/a", true),
            ("https://r.io/v2/a", "r.io/a/b", true),
            ("https://r.io/v2/b", "r.io/a/b", false),
            ("https://r.io/v1", "r.io/a", false),
            ("https://user@r.io/a?x=y#z", "r.io/a", true),
            ("https://r.io:5000", "r.io:5000/a", true),
            ("https://r.io:x", "r.io/a", false),
            ("r.io/a", "r.io/ab", true),
            ("other.io", "r.io/a", false),
        ];
        for (registry, image, expected) in rows {
            assert_eq!(!matching(&[registry], image).is_empty(), expected, "{registry} {image}");
        }
    }

    // behaviour: PULL-22
    #[test]
    fn all_matches_are_tried_longer_paths_first_and_equal_keys_in_their_order() {
        let rows: [(&[&str], &str, &[&str]); 5] = [
            (&["r.io", "r.io/a", "r.io/a/b"], "r.io/a/b", &["r.io/a/b", "r.io/a", "r.io"]),
            (&["r.io", "r.io/a", "r.io/a/b"], "r.io/a/c", &["r.io/a", "r.io"]),
            (&["*.r.io", "x.r.io"], "x.r.io/a", &["x.r.io", "*.r.io"]),
            (
                &["https://r.io/v2/", "http://r.io", "r.io"],
                "r.io/a",
                &["https://r.io/v2/", "http://r.io", "r.io"],
            ),
            (&["r.io/b", "r.io/c"], "r.io/a", &[]),
        ];
        for (registries, image, expected) in rows {
            assert_eq!(matching(registries, image), expected, "{image}");
        }
    }

    // behaviour: PULL-23
    #[test]
    fn default_registry_is_the_fallback_for_its_own_images() {
        let hub = "https://index.docker.io/v1/";
        let rows: [(&[&str], &str, &[&str]); 8] = [
            (&[hub], "docker.io/library/busybox", &[hub]),
            (&[hub], "index.docker.io/library/busybox", &[hub]),
            (&[hub], "busybox", &[hub]),
            (&[hub], "team/busybox", &[hub]),
            (&[hub], "r.io/busybox", &[]),
            (&[hub], "localhost:5000/busybox", &[]),
            (&[hub, "docker.io"], "docker.io/library/busybox", &["docker.io"]),
            (&["r.io"], "docker.io/library/busybox", &[]),
        ];
        for (registries, image, expected) in rows {
            assert_eq!(matching(registries, image), expected, "{registries:?} {image}");
        }
    }

    proptest! {
        // behaviour: PULL-22
        #[test]
        fn order_of_different_keys_does_not_depend_on_insertion_order(
            keys in proptest::collection::btree_set("r\\.io(/[ab]{1,2}){0,2}", 0..6),
        ) {
            let forward: Vec<&str> = keys.iter().map(String::as_str).collect();
            let backward: Vec<&str> = forward.iter().rev().copied().collect();
            let image = "r.io/ab/ab";
            let found = matching(&forward, image);
            prop_assert_eq!(&found, &matching(&backward, image));
            prop_assert!(found.windows(2).all(|pair| pair[0].len() > pair[1].len()));
        }
    }
}
