//! What to answer: values in, values out.

mod changes;
mod log_instance;

pub use changes::{Change, changes};
pub use log_instance::{Instance, NoInstance, has_container, is_running, log_instance};
