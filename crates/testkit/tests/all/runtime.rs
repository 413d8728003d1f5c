//! The runtime in memory passes the contract of the port.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use model::ids::{ObjectId, PodName, PodUid};
use model::ports::runtime::{Code, Runtime};
use testkit::contract::{self, Outcome, assert_kept};
use testkit::runtime::{Fault, MemoryRuntime, Method, RemoteImage, Rule};

use crate::setup;

#[derive(Debug)]
struct Memory {
    runtime: Arc<MemoryRuntime>,
    pods: AtomicU32,
}

#[async_trait]
impl contract::runtime::Harness for Memory {
    fn runtime(&self) -> Runtime {
        Runtime::new(Arc::clone(&self.runtime))
    }

    fn image(&self) -> String {
        setup::IMAGE.into()
    }

    fn absent_image(&self) -> String {
        "ferrolet.test/absent:1".into()
    }

    fn unused_pod(&self) -> (PodName, PodUid) {
        let number = self.pods.fetch_add(1, Ordering::Relaxed);
        let name = PodName::new("contract", format!("pod-{number}"));
        (name, format!("uid-{number}").into())
    }

    async fn kill(&self, id: &ObjectId) -> bool {
        match id {
            ObjectId::Container(id) => self.runtime.kill_container(id, 137),
            ObjectId::Sandbox(id) => self.runtime.kill_sandbox(id),
        }
    }

    fn pullable_image(&self) -> Option<String> {
        Some("ferrolet.test/remote:1".into())
    }

    async fn disposable_image(&self) -> Option<String> {
        let name = "ferrolet.test/disposable:1";
        self.runtime.add_image(&RemoteImage::new(name));
        Some(name.into())
    }
}

fn memory() -> Memory {
    let runtime = setup::runtime();
    runtime.publish(RemoteImage::new("ferrolet.test/remote:1"));
    Memory { runtime: Arc::new(runtime), pods: AtomicU32::new(0) }
}

#[tokio::test(start_paused = true)]
async fn memory_runtime_passes_the_contract() {
    let memory = memory();
    let reports = contract::runtime::run(&memory).await;
    assert_eq!(assert_kept(&reports), []);
    assert_eq!(memory.runtime.sandboxes(), [], "the cases clean up");
    assert_eq!(memory.runtime.containers(), [], "the cases clean up");
}

#[tokio::test(start_paused = true)]
async fn broken_runtime_fails_the_contract() {
    let memory = memory();
    memory.runtime.inject(Rule::on(Method::StopPodSandbox, Fault::error(Code::Internal)));
    let reports = contract::runtime::run(&memory).await;
    let broken: Vec<_> = reports
        .iter()
        .filter(|report| matches!(report.outcome, Outcome::Broken(_)))
        .map(|report| report.case)
        .collect();
    assert!(broken.contains(&"stopped_sandbox_is_not_ready"), "{broken:?}");
    assert!(!broken.contains(&"sandbox_is_ready_once_it_runs"), "{broken:?}");
}
