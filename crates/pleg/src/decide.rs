//! What changed between two observations, and what is known afterwards. Pure.

mod close;
mod diff;
mod period;
mod reuse;
mod status;

pub use close::close;
pub use diff::{ObjectState, PodRecord, diff};
pub use period::{Since, relist_period};
pub use reuse::{known_container, known_sandbox};
pub use status::pod_status;
