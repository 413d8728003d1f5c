//! Decisions of the PLEG: changes between two observations, and the record afterwards. Pure.

mod diff;
mod event;
mod period;
mod reason;
mod reuse;
mod status;
mod to_inspect;

pub use diff::{ObjectState, PodRecord, diff};
pub use event::{Urgency, event_urgency, reflects};
pub use period::{StreamTrust, relist_period};
pub use reason::corrected_reason;
pub use reuse::{known_container, known_sandbox};
pub use status::pod_status;
pub use to_inspect::to_inspect;
