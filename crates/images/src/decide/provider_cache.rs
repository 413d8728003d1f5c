//! The cache of responses of credential provider plugins.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::docker_config::DockerConfig;
use super::hex::sha256_hex;
use super::provider_exchange::{CacheKeyType, ProviderResponse};

/// How often expired entries are removed.
const PURGE_PERIOD: Duration = Duration::from_mins(15);

/// The pods that a plugin was run for: the pods of a service account, or all pods of the node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Audience(String);

impl Audience {
    /// All pods of the node.
    pub fn node() -> Self {
        Self::default()
    }

    /// The pods of a service account. With a token they are those of this token.
    pub fn account(account: &AccountKey<'_>) -> Self {
        let token = account.token.map(|token| sha256_hex(token.as_bytes()));
        let [namespace, name, uid] = account.object;
        let parts = serde_json::json!([namespace, name, uid, account.annotations, token]);
        Self(sha256_hex(parts.to_string().as_bytes()))
    }
}

/// The parts of the key of a service account.
#[derive(Debug, Clone, Copy)]
pub struct AccountKey<'a> {
    /// Its namespace, name and UID.
    pub object: [&'a str; 3],
    /// The annotations that the plugin receives.
    pub annotations: &'a BTreeMap<String, String>,
    /// The token, if credentials are cached by token.
    pub token: Option<&'a str>,
}

/// The image and the pods that credentials are cached for.
type Key = (CacheKeyType, String, Audience);

/// What a plugin returned, until it is over.
#[derive(Debug, Clone, Default)]
pub struct ProviderCache {
    entries: BTreeMap<Key, Entry>,
    purged: Option<Timestamp>,
}

#[derive(Debug, Clone)]
struct Entry {
    expires: Timestamp,
    logins: DockerConfig,
}

impl ProviderCache {
    /// The credentials that are cached for an image: first for the image, then for its registry, then for all images.
    pub fn get(
        &mut self,
        image: &str,
        audience: &Audience,
        now: Timestamp,
    ) -> Option<DockerConfig> {
        self.purge(now);
        let kinds = [CacheKeyType::Image, CacheKeyType::Registry, CacheKeyType::Global];
        kinds.into_iter().find_map(|kind| {
            let entry = self.entries.get(&key(kind, image, audience))?;
            (now < entry.expires).then(|| entry.logins.clone())
        })
    }

    /// Keeps a response, for the default time if it has none of its own.
    pub fn put(&mut self, put: Put<'_>, now: Timestamp) {
        let Put { image, audience, response, default } = put;
        let duration = response.cache_duration.unwrap_or(default);
        let key = key(response.cache_key_type, image, audience);
        match now.checked_add(duration) {
            Ok(expires) if !duration.is_zero() => {
                self.entries.insert(key, Entry { expires, logins: response.logins.clone() });
            }
            _ => {
                self.entries.remove(&key);
            }
        }
    }

    fn purge(&mut self, now: Timestamp) {
        let is_due = self.purged.is_none_or(|purged| {
            // A clock that went back purges at once.
            Duration::try_from(now.duration_since(purged)).map_or(true, |age| age >= PURGE_PERIOD)
        });
        if is_due {
            self.entries.retain(|_, entry| now < entry.expires);
            self.purged = Some(now);
        }
    }
}

/// A response to be kept.
#[derive(Debug, Clone, Copy)]
pub struct Put<'a> {
    /// The image for which the plugin was run.
    pub image: &'a str,
    /// The pods that it was run for.
    pub audience: &'a Audience,
    /// Its response.
    pub response: &'a ProviderResponse,
    /// The duration of the entry if the response has none.
    pub default: Duration,
}

fn key(kind: CacheKeyType, image: &str, audience: &Audience) -> Key {
    let name = match kind {
        CacheKeyType::Image => image,
        CacheKeyType::Registry => image.split('/').next().unwrap_or(image),
        CacheKeyType::Global => "",
    };
    (kind, name.to_owned(), audience.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::docker_config::Login;

    fn response(kind: CacheKeyType, user: &str, duration: Option<u64>) -> ProviderResponse {
        let login = Login { username: user.to_owned(), ..Login::default() };
        ProviderResponse {
            cache_key_type: kind,
            cache_duration: duration.map(Duration::from_secs),
            logins: vec![("r.io".to_owned(), login)],
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn user(cache: &mut ProviderCache, image: &str, second: i64) -> Option<String> {
        let logins = cache.get(image, &Audience::node(), at(second))?;
        Some(logins[0].1.username.clone())
    }

    fn cache(responses: &[ProviderResponse]) -> ProviderCache {
        let (mut cache, audience) = (ProviderCache::default(), Audience::node());
        for response in responses {
            let default = Duration::from_secs(100);
            let put = Put { image: "r.io/a", audience: &audience, response, default };
            cache.put(put, at(0));
        }
        cache
    }

    // behaviour: PULL-43
    #[test]
    fn credentials_of_image_precede_registry_and_registry_precedes_all() {
        let all = [
            response(CacheKeyType::Global, "global", None),
            response(CacheKeyType::Registry, "registry", None),
            response(CacheKeyType::Image, "image", None),
        ];
        let mut cache = cache(&all);
        let rows = [("r.io/a", "image"), ("r.io/b", "registry"), ("other.io/a", "global")];
        for (image, expected) in rows {
            assert_eq!(user(&mut cache, image, 0).as_deref(), Some(expected), "{image}");
        }
    }

    // behaviour: PULL-43
    #[test]
    fn entry_is_used_until_its_own_or_the_default_duration_is_over() {
        let rows = [
            (None, 99, true),
            (None, 100, false),
            (Some(10), 9, true),
            (Some(10), 10, false),
            (Some(0), 0, false),
        ];
        for (duration, second, expected) in rows {
            let mut cache = cache(&[response(CacheKeyType::Image, "u", duration)]);
            let found = user(&mut cache, "r.io/a", second).is_some();
            assert_eq!(found, expected, "{duration:?} {second}");
        }
    }

    // behaviour: PULL-43
    #[test]
    fn service_accounts_do_not_share_entries() {
        let (none, some) = (BTreeMap::new(), BTreeMap::from([("a".to_owned(), "b".to_owned())]));
        let account = |object, annotations, token| {
            Audience::account(&AccountKey { object, annotations, token })
        };
        let robot = ["shop", "robot", "1"];
        let all = [
            Audience::node(),
            account(robot, &none, None),
            account(["shop", "robot", "2"], &none, None),
            account(["shop", "other", "1"], &none, None),
            account(["bank", "robot", "1"], &none, None),
            account(robot, &some, None),
            account(robot, &none, Some("t")),
            account(robot, &none, Some("u")),
        ];
        for (index, one) in all.iter().enumerate() {
            assert!(all[index + 1..].iter().all(|other| other != one), "{index}");
        }
        assert_eq!(all[1], account(robot, &none, None));
        let printed = format!("{:?}", account(robot, &none, Some("hidden")));
        assert!(!printed.contains("hidden"));
    }

    // behaviour: PULL-43
    #[test]
    fn expired_entries_are_purged() {
        let mut cache = cache(&[response(CacheKeyType::Image, "u", None)]);
        user(&mut cache, "r.io/a", 50);
        assert_eq!(cache.entries.len(), 1);
        user(&mut cache, "r.io/b", 50 + 15 * 60);
        assert_eq!(cache.entries.len(), 0);
    }
}
