//! Decides responses: values in, values out.

mod authority;
mod changes;
mod checkpoint;
mod log_instance;
mod log_query;
mod node_paths;
mod node_routes;
mod stream_query;
mod stream_target;

pub(crate) use authority::Anonymous;
pub use changes::{Change, changes};
pub use checkpoint::{checkpoint_name, checkpoint_timeout};
pub use log_instance::{Instance, NoInstance, has_container, is_running, log_instance};
pub use log_query::{
    JOURNAL_UNITS, LogOptions, LogSource, NodeLogQuery, QueryErrors, log_files, node_log_query,
};
pub use node_paths::encoded;
pub use node_routes::{
    ContainerTarget, Endpoint, PodEndpoint, PodTarget, RequestLabels, Route, RouteSettings, Rule,
    labels, route,
};
pub use stream_query::{BadStreamQuery, exec_command, ports, run_command, std_streams};
pub use stream_target::{container_tty, is_requested_pod, ready_sandbox, running_container};
