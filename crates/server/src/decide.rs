//! What to answer: values in, values out.

mod authority;
mod changes;
mod checkpoint;
mod log_instance;
mod node_paths;
mod node_routes;
mod stream_query;
mod stream_target;

pub(crate) use authority::Anonymous;
pub use changes::{Change, changes};
pub use checkpoint::{checkpoint_name, checkpoint_timeout};
pub use log_instance::{Instance, NoInstance, has_container, is_running, log_instance};
pub use node_paths::encoded;
pub use node_routes::{
    ContainerTarget, Endpoint, PodEndpoint, PodTarget, RequestLabels, Route, RouteSettings, Rule,
    labels, route,
};
pub use stream_query::{BadStreamQuery, exec_command, ports, run_command, std_streams};
pub use stream_target::{container_tty, is_requested_pod, ready_sandbox, running_container};
