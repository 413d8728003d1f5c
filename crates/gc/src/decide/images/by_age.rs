//! Images that are unused for too long.

use jiff::Timestamp;
use model::verdict::{Detail, Input};

use crate::decide::images::candidates::since;
use crate::decide::images::{Candidate, ImageFacts, Policy};
use crate::plan::{Fate, Item};

/// The result of the decision by age.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ages {
    /// Images to remove, with the reason.
    pub old: Vec<(Candidate, Item)>,
    /// The rest, in the same order.
    pub rest: Vec<Candidate>,
}

/// Splits images unused for longer than the maximum age from the rest. Uses before the first observation are
/// unknown, so no image is too old until uses were observed for the maximum age.
pub fn by_age(facts: &ImageFacts<'_>, candidates: Vec<Candidate>) -> Ages {
    let ImageFacts { policy, now, .. } = *facts;
    let observed = facts.detected.records.since.unwrap_or(now);
    if policy.maximum_age.is_zero() || since(observed, now) <= policy.maximum_age {
        return Ages { old: Vec::new(), rest: candidates };
    }
    let mut ages = Ages::default();
    for candidate in candidates {
        let is_old = candidate.unused_for(now) > policy.maximum_age;
        if is_old && candidate.known_for >= policy.minimum_age {
            let item = old_item(&candidate, policy, now);
            ages.old.push((candidate, item));
        } else {
            ages.rest.push(candidate);
        }
    }
    ages
}

fn old_item(candidate: &Candidate, policy: &Policy, now: Timestamp) -> Item {
    let detail = Detail::default()
        .with("unusedFor", Input::Span(candidate.unused_for(now)))
        .with("maximumAge", Input::Span(policy.maximum_age));
    candidate.item(Fate::Remove, "unused-longer-than-maximum-age", detail)
}
