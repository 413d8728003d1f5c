//! What changed between two observations, and what is known afterwards. Pure.

mod diff;
mod status;

pub use diff::{ObjectState, PodRecord, diff};
pub use status::pod_status;
