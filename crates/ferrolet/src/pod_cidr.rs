//! The pod CIDR of the configuration.

use model::ports::runtime::RuntimeInfo;
use tracing::{info, warn};

/// Sets the pod CIDR of the configuration, if it has one, in the runtime; in a cluster the Node object sets it
/// later. As upstream, an error does not abort the start.
pub(crate) async fn set_pod_cidr(runtime: &dyn RuntimeInfo, cidr: &str) {
    if cidr.is_empty() {
        return;
    }
    match runtime.update_runtime_config(cidr).await {
        Ok(()) => info!(cidr, "Pod CIDR sent to the runtime"),
        Err(error) => warn!(cidr, %error, "Failed to update pod CIDR"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use testkit::clock::VirtualClock;
    use testkit::logged::Logged;
    use testkit::runtime::{Fault, MemoryRuntime, Method, Rule};

    use super::*;

    // behaviour: CFG-14
    #[tokio::test(start_paused = true)]
    async fn pod_cidr_is_sent_to_the_runtime_once() {
        let runtime = MemoryRuntime::new(Arc::new(VirtualClock::default()));
        let reported = || {
            let calls = runtime.calls().into_iter();
            let reported = calls.filter(|call| call.method == Method::UpdateRuntimeConfig);
            reported.map(|call| call.object).collect::<Vec<_>>()
        };
        let logged = Logged::new();
        set_pod_cidr(&runtime, "").await;
        assert_eq!(reported(), [""; 0]);
        set_pod_cidr(&runtime, "10.1.0.0/24").await;
        assert_eq!((reported(), logged.warnings().len()), (vec!["10.1.0.0/24".to_owned()], 0));
        let fault = Fault::error(model::ports::runtime::Code::Unimplemented);
        runtime.inject(Rule::on(Method::UpdateRuntimeConfig, fault));
        set_pod_cidr(&runtime, "10.2.0.0/24").await;
        assert_eq!((reported().len(), logged.warnings_of("Failed to update pod CIDR")), (2, 1));
    }
}
