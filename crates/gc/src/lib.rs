//! Garbage collection: what of the dead containers, sandboxes, logs and images goes, and why.
//!
//! In: what the runtime lists, what the pod workers know, the policy, and the time. Out: a [`plan`]
//! of items, each with the rule that removes or keeps it, and the removals that follow from it.
//!
//! Never removed: what runs, an image in use, pinned or being pulled, and anything of a pod of which
//! nobody knows because a source has not reported.

pub mod decide;
pub mod images;
pub mod plan;
