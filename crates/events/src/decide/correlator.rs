//! Combines, counts and filters events, as upstream's correlator does.
//!
//! ```text
//!  event ──> similar? (same but for the message, ten in ten minutes) ──> combined into one
//!        ──> seen before? ──> counted, else new
//!        ──> too many about this object? ──> not sent, but counted
//! ```

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::time::Duration;

use jiff::Timestamp;
use model::cluster::ClusterEvent;
use model::tokens::Tokens;

use super::Latest;

/// How many entries of each kind are kept.
const MOST_KEPT: usize = 4096;
/// From this number on, events that differ only in their message are combined.
const MOST_SIMILAR: usize = 10;
/// After this time without a similar event, the count starts again.
const SIMILAR_FOR: Duration = Duration::from_mins(10);
/// The token bucket of each object: its size, and the time after which it regains one token.
const BURST: u32 = 25;
const ONE_IN: Duration = Duration::from_mins(5);

/// State of a group of similar events.
#[derive(Debug, Clone)]
struct SimilarEvents {
    messages: BTreeSet<u64>,
    last: Timestamp,
}

/// State of a written event.
#[derive(Debug, Clone, Copy)]
struct WrittenEvent {
    first: Timestamp,
    count: u32,
}

/// Stores the sent event.
#[derive(Debug)]
pub struct Correlator {
    similar: Latest<SimilarEvents>,
    written: Latest<Option<WrittenEvent>>,
    allowed: Latest<Tokens>,
}

impl Default for Correlator {
    fn default() -> Self {
        Self {
            similar: Latest::new(MOST_KEPT),
            written: Latest::new(MOST_KEPT),
            allowed: Latest::new(MOST_KEPT),
        }
    }
}

impl Correlator {
    /// Returns the event to send at its time, `at`; `None` if its object exceeds its rate limit. An event with a
    /// count of one is new, any other was written before.
    pub fn correlate(&mut self, event: ClusterEvent) -> Option<ClusterEvent> {
        let now = event.at;
        let (key, mut event) = self.combined(event);
        let written = self.written.get_or(key, || None);
        let count = written.map_or(1, |before| before.count.saturating_add(1));
        if let Some(before) = written {
            event.first = before.first;
        }
        event.count = count;
        *written = Some(WrittenEvent { first: event.first, count });
        let of_object = hash(&object(&event));
        let allowed = self.allowed.get_or(of_object, || Tokens::new(BURST, ONE_IN, now));
        allowed.take(now).then_some(event)
    }

    /// The key to count the event by, and the event; if there were many similar events, the combined one.
    fn combined(&mut self, event: ClusterEvent) -> (u64, ClusterEvent) {
        let now = event.at;
        let group = hash(&(object(&event), &event.reason));
        let fresh = || SimilarEvents { messages: BTreeSet::new(), last: now };
        let similar = self.similar.get_or(group, fresh);
        if now.duration_since(similar.last).unsigned_abs() > SIMILAR_FOR {
            *similar = fresh();
        }
        similar.last = now;
        let message = hash(&event.message);
        similar.messages.insert(message);
        if similar.messages.len() < MOST_SIMILAR {
            let (part, reason, message) = (&event.about.field_path, &event.reason, &event.message);
            let whole = hash(&(object(&event), part, reason, message));
            return (whole, event);
        }
        // Upstream drops an arbitrary one. Dropping this one makes every further new message combined.
        similar.messages.remove(&message);
        let message = format!("(combined from similar events): {}", event.message);
        (group, ClusterEvent { message, ..event })
    }
}

/// The object and type of an event, which rate limiting is based on.
fn object(event: &ClusterEvent) -> impl Hash {
    let about = &event.about;
    (about.kind, &about.namespace, &about.name, &about.uid, about.api_version, event.is_warning)
}

/// A hash that identifies a value. Collisions are improbable enough to ignore.
fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
