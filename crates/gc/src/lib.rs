//! Garbage collection: decides which dead containers, sandboxes, logs and images are removed, and why.
//!
//! Inputs: runtime lists, pod states, the policy, and the time. Outputs: a [`plan`] of items, each with the
//! rule that removes or keeps it, and the removals of that plan.
//!
//! ```text
//!  every minute ─┐
//!  run now ──────┼──> survey ──> decide ──> plan ──> act: containers, sandboxes, logs, links
//!  pod is gone ──┘    (lists)     (pure)     └──> callers of `plan`
//!  container died ──────────────> decide ──────────> deletor
//! ```
//!
//! Never removed: running containers, images in use, pinned or being pulled, and objects of a pod whose
//! state is unknown because a source has not reported.
//!
//! Invariants:
//! - equal inputs give equal plans, and without changes a pass removes exactly the items of its plan;
//! - a failed removal blocks no other removal, and nothing is removed in its place;
//! - a container is removed after its log, so that a log that cannot be removed is not forgotten;
//! - passes run one after the other.

pub mod containers;
pub mod decide;
pub mod images;
pub mod plan;

pub use decide::policy;
