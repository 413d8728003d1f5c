//! Event messages about failed kills: upstream's texts.

use model::ids::PodUid;
use model::ports::runtime::RuntimeError;

use super::go_text::quoted;

/// A container was not stopped.
pub(crate) fn container(name: &str, error: &RuntimeError) -> String {
    failed("KillContainer", name, error)
}

/// A sandbox of a pod was not stopped. Upstream names the pod.
pub(crate) fn sandbox(uid: &PodUid, error: &RuntimeError) -> String {
    failed("KillPodSandbox", uid.as_str(), error)
}

fn failed(action: &str, target: &str, error: &RuntimeError) -> String {
    let (target, error) = (quoted(target), quoted(&error.rpc_text()));
    format!("failed to \"{action}\" for {target} with {action}Error: {error}")
}
