//! What to answer: values in, values out.

mod changes;
mod checkpoint;
mod log_instance;
mod stream_query;
mod stream_target;

pub use changes::{Change, changes};
pub use checkpoint::{checkpoint_name, checkpoint_timeout};
pub use log_instance::{Instance, NoInstance, has_container, is_running, log_instance};
pub use stream_query::{BadStreamQuery, exec_command, ports, run_command, std_streams};
pub use stream_target::{container_tty, is_requested_pod, ready_sandbox, running_container};
