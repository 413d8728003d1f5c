//! Claims on images that are about to be used: being pulled, or present and about to be in a container.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

/// The maximum number of names whose uses are remembered between two passes of image GC.
const MOST_USES: usize = 4096;

/// Is notified when images are pulled or removed. Does not wait.
pub trait ImageListener: Debug + Send + Sync {
    /// An image was pulled or removed.
    fn images_changed(&self);
}

/// The claims on images, by the name in the pod spec. Clones share them. The container start
/// writes, garbage collection reads.
#[derive(Debug, Clone, Default)]
pub struct ImageClaims {
    /// Never held across an await.
    shared: Arc<Mutex<Shared>>,
    listener: Option<Arc<dyn ImageListener>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// The number of claims of each name.
    claims: BTreeMap<String, usize>,
    /// The number of watchers.
    watches: usize,
    /// Every name that was claimed while there were watchers.
    seen: BTreeSet<String>,
    /// When a container was last created from an image of that name, until image GC has recorded it.
    used: BTreeMap<String, Timestamp>,
}

impl ImageClaims {
    /// Sets a listener, which is notified when images are pulled or removed.
    #[must_use]
    pub fn with_listener(self, listener: Arc<dyn ImageListener>) -> Self {
        Self { listener: Some(listener), ..self }
    }

    /// An image was pulled or removed.
    pub fn changed(&self) {
        if let Some(listener) = &self.listener {
            listener.images_changed();
        }
    }

    /// Claims an image until the result is dropped.
    pub fn claim(&self, name: &str) -> ImageClaim {
        let mut shared = self.lock();
        *shared.claims.entry(name.to_owned()).or_default() += 1;
        if shared.watches > 0 {
            shared.seen.insert(name.to_owned());
        }
        ImageClaim { claims: self.clone(), name: name.to_owned() }
    }

    /// Remembers claims until the result is dropped, also those that are released meanwhile: a caller that
    /// listed containers before one was created must still not remove its image.
    pub fn watch(&self) -> ClaimWatch {
        let mut shared = self.lock();
        shared.watches += 1;
        let held: Vec<String> = shared.claims.keys().cloned().collect();
        shared.seen.extend(held);
        ClaimWatch { claims: self.clone() }
    }

    /// The names that are claimed now, or were since the watch began.
    pub fn names(&self) -> BTreeSet<String> {
        let shared = self.lock();
        shared.claims.keys().chain(&shared.seen).cloned().collect()
    }

    /// When containers were last created, by the name of their image, unless image GC has recorded it: they
    /// may be removed before its next pass.
    pub fn uses(&self) -> BTreeMap<String, Timestamp> {
        self.lock().used.clone()
    }

    /// Forgets uses that were recorded. Names that were used again since are kept.
    pub fn forget_uses(&self, noted: &BTreeMap<String, Timestamp>) {
        self.lock().used.retain(|name, at| noted.get(name) != Some(at));
    }

    /// Consistent even if a holder panicked: nothing here calls anything that could.
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A claim on an image; dropping it releases it.
#[derive(Debug)]
pub struct ImageClaim {
    claims: ImageClaims,
    name: String,
}

impl ImageClaim {
    /// Releases it: a container was created from the image, at that time.
    pub fn used(self, at: Timestamp) {
        let mut shared = self.claims.lock();
        if shared.used.len() < MOST_USES || shared.used.contains_key(&self.name) {
            shared.used.insert(self.name.clone(), at);
        }
    }
}

impl Drop for ImageClaim {
    fn drop(&mut self) {
        let mut shared = self.claims.lock();
        if let Some(count) = shared.claims.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                shared.claims.remove(&self.name);
            }
        }
    }
}

/// A watch; dropping it ends it.
#[derive(Debug)]
pub struct ClaimWatch {
    claims: ImageClaims,
}

impl Drop for ClaimWatch {
    fn drop(&mut self) {
        let mut shared = self.claims.lock();
        shared.watches -= 1;
        if shared.watches == 0 {
            shared.seen.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_lasts_until_its_last_holder_releases_it() {
        let claims = ImageClaims::default();
        let (one, two) = (claims.claim("a"), claims.claim("a"));
        drop(one);
        assert_eq!(claims.names(), BTreeSet::from(["a".to_owned()]));
        drop(two);
        assert_eq!(claims.names(), BTreeSet::new());
    }

    #[test]
    fn use_is_kept_until_recorded_and_newer_uses_stay() {
        let claims = ImageClaims::default();
        let at = |second| Timestamp::from_second(second).unwrap();
        claims.claim("a").used(at(1));
        claims.claim("b").used(at(1));
        drop(claims.claim("only-claimed"));
        let noted = claims.uses();
        assert_eq!(noted, BTreeMap::from([("a".to_owned(), at(1)), ("b".to_owned(), at(1))]));
        assert_eq!(claims.names(), BTreeSet::new(), "a use ends the claim");
        claims.claim("b").used(at(2));
        claims.forget_uses(&noted);
        assert_eq!(claims.uses(), BTreeMap::from([("b".to_owned(), at(2))]));
    }

    #[test]
    fn unrecorded_uses_take_bounded_memory() {
        let claims = ImageClaims::default();
        let at = |second| Timestamp::from_second(second).unwrap();
        for number in 0..MOST_USES + 10 {
            claims.claim(&number.to_string()).used(at(1));
        }
        claims.claim("0").used(at(2));
        let uses = claims.uses();
        assert_eq!((uses.len(), uses["0"]), (MOST_USES, at(2)));
    }

    #[test]
    fn watch_includes_claims_that_were_released_meanwhile() {
        let claims = ImageClaims::default();
        let held = claims.claim("held");
        let watch = claims.watch();
        drop(held);
        drop(claims.claim("short"));
        let second = claims.watch();
        drop(watch);
        let both = BTreeSet::from(["held".to_owned(), "short".to_owned()]);
        assert_eq!(claims.names(), both);
        drop(second);
        assert_eq!(claims.names(), BTreeSet::new());
    }
}
