//! The decisions of a garbage collection pass.

use std::sync::Arc;

use jiff::Timestamp;
use model::verdict::{Detail, Owner, Subject, Verdict};

/// The fate of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// It is removed.
    Remove,
    /// It stays.
    Keep,
}

/// An object of a pass, with its fate and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The object.
    pub subject: Subject,
    /// The name to display: the container name in its pod, or a name of the image; empty if the item has only
    /// an id or path.
    pub name: Arc<str>,
    /// Its pod, if it belongs to one.
    pub owner: Option<Owner>,
    /// Its fate.
    pub fate: Fate,
    /// The rule that decided, in kebab case.
    pub rule: &'static str,
    /// The inputs of the rule.
    pub detail: Detail,
}

impl Item {
    /// The verdict to carry out; `None` for a kept item.
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

/// The decisions of a pass, in order of their execution.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// All items.
    pub items: Vec<Item>,
}

impl Plan {
    /// The items to remove.
    pub fn removals(&self) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(|item| item.fate == Fate::Remove)
    }
}
