//! What to answer: values in, values out.

mod authority;
mod changes;
mod log_instance;

pub(crate) use authority::Anonymous;
pub use changes::{Change, changes};
pub use log_instance::{Instance, NoInstance, has_container, is_running, log_instance};
