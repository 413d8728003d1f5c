//! Garbage collection: what of the dead containers, sandboxes, logs and images goes, and why.
//!
//! In: what the runtime lists, what the pod workers know, the policy, and the time. Out: a [`plan`]
//! of items, each with the rule that removes or keeps it, and the removals that follow from it.
//!
//! ```text
//!  every minute ─┐
//!  run now ──────┼──> survey ──> decide ──> plan ──> act: containers, sandboxes, logs, links
//!  pod is gone ──┘    (lists)     (pure)     └──> callers of `plan`
//!  container died ──────────────> decide ──────────> deletor
//! ```
//!
//! Never removed: what runs, an image in use, pinned or being pulled, and anything of a pod whose
//! state is unknown because a source has not reported.
//!
//! Invariants:
//! - equal inputs give equal plans, and with nothing changed a pass removes just what its plan says;
//! - what cannot be removed keeps nothing else from being removed, and nothing goes in its place;
//! - a container goes after its log, so that a log that cannot be removed is not forgotten;
//! - passes come one after the other.

pub mod containers;
pub mod decide;
pub mod images;
pub mod plan;

pub use decide::policy;
