//! What changed between two observations, and what is known afterwards. Pure.

mod close;
mod diff;
mod period;
mod reuse;
mod status;
mod told;

pub use close::close;
pub use diff::{ObjectState, PodRecord, diff};
pub use period::{StreamTrust, relist_period};
pub use reuse::{known_container, known_sandbox};
pub use status::pod_status;
pub use told::{Look, shows, when_to_look};
