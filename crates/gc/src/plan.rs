//! What a pass of garbage collection decided, item by item.

use std::sync::Arc;

use jiff::Timestamp;
use model::verdict::{Detail, Owner, Subject, Verdict};

/// What is to become of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// It goes.
    Remove,
    /// It stays.
    Keep,
}

/// Something that a pass looked at, with what becomes of it and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// What it is.
    pub subject: Subject,
    /// What people call it: the container's name in its pod, a name of the image; empty when it has
    /// none beside its id or path.
    pub name: Arc<str>,
    /// Whose it is, if it belongs to a pod.
    pub owner: Option<Owner>,
    /// What becomes of it.
    pub fate: Fate,
    /// The rule that says so, in kebab case.
    pub rule: &'static str,
    /// The numbers and names that the rule was applied to.
    pub detail: Detail,
}

impl Item {
    /// The verdict to carry out; none for what stays.
    pub fn verdict(&self, at: Timestamp) -> Option<Verdict> {
        (self.fate == Fate::Remove).then(|| Verdict {
            subject: self.subject.clone(),
            name: self.name.clone(),
            owner: self.owner.clone(),
            rule: self.rule,
            detail: self.detail.clone(),
            at,
        })
    }
}

/// What a pass decided, in the order in which it is carried out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// All that it looked at.
    pub items: Vec<Item>,
}

impl Plan {
    /// What goes.
    pub fn removals(&self) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(|item| item.fate == Fate::Remove)
    }
}
