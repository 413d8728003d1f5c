//! The addresses of pods, as the configuration has them.

use model::ports::runtime::RuntimeInfo;
use tracing::{info, warn};

/// Tells the runtime which addresses the pods of this node have, if the configuration says; where there is a
/// cluster, the node's object counts afterwards. A runtime that does not take it keeps nobody from starting, as
/// upstream.
pub(crate) async fn tell_pod_cidr(runtime: &dyn RuntimeInfo, cidr: &str) {
    if cidr.is_empty() {
        return;
    }
    match runtime.update_runtime_config(cidr).await {
        Ok(()) => info!(cidr, "the runtime knows the addresses of pods"),
        Err(error) => warn!(cidr, %error, "failed to update pod CIDR"),
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
    async fn the_runtime_is_told_once_if_there_is_anything_to_tell() {
        let runtime = MemoryRuntime::new(Arc::new(VirtualClock::default()));
        let told = || {
            let calls = runtime.calls().into_iter();
            let told = calls.filter(|call| call.method == Method::UpdateRuntimeConfig);
            told.map(|call| call.object).collect::<Vec<_>>()
        };
        let logged = Logged::new();
        tell_pod_cidr(&runtime, "").await;
        assert_eq!(told(), [""; 0]);
        tell_pod_cidr(&runtime, "10.1.0.0/24").await;
        assert_eq!((told(), logged.warnings().len()), (vec!["10.1.0.0/24".to_owned()], 0));
        let fault = Fault::error(model::ports::runtime::Code::Unimplemented);
        runtime.inject(Rule::on(Method::UpdateRuntimeConfig, fault));
        tell_pod_cidr(&runtime, "10.2.0.0/24").await;
        assert_eq!((told().len(), logged.warnings_of("failed to update pod CIDR")), (2, 1));
    }
}
