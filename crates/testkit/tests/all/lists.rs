//! Lists of a runtime with more objects than fit into one response.

use std::sync::Arc;

use model::fingerprint::Fingerprint;
use model::lists;
use model::ports::runtime::{
    Code, ContainerFilter, ContainerService, ImageService, Runtime, SandboxFilter, SandboxService,
};
use testkit::runtime::{MemoryRuntime, Method};
use testkit::wanted;

use crate::setup::{IMAGE, pod, runtime};

/// An ended sandbox with this number of containers, which have ended or never started.
async fn dead(runtime: &MemoryRuntime, name: &str, containers: u32, begin: bool) {
    let config = pod(name);
    let sandbox = runtime.run_pod_sandbox(&config).await.unwrap();
    for attempt in 0..containers {
        let mut container = wanted::container(&config, "main", IMAGE, &["exit", "0"]);
        container.attempt = attempt;
        let id = runtime.create_container(&sandbox, &container, &config).await.unwrap();
        if begin {
            runtime.start_container(&id).await.unwrap();
        }
    }
    assert!(runtime.kill_sandbox(&sandbox));
}

#[tokio::test(start_paused = true)]
async fn oversized_container_list_is_split_by_state_and_then_by_sandbox() {
    let runtime = Arc::new(runtime());
    let port = Runtime::new(Arc::clone(&runtime));
    for name in ["a", "b", "c"] {
        dead(&runtime, name, 4, true).await;
    }
    let uses = runtime.list_image_uses(&ContainerFilter::default()).await.unwrap();
    let all = (runtime.sandboxes(), runtime.containers());
    runtime.set_longest_list(4);
    let error = runtime.list_containers(&ContainerFilter::default()).await.unwrap_err();
    assert_eq!(error.code, Code::ResourceExhausted);
    runtime.forget_calls();
    assert_eq!(lists::everything(&port).await.unwrap(), all);
    // A full list, one per state, and of the exited ones one per sandbox.
    assert_eq!(runtime.count(Method::ListContainers), 1 + 4 + 3, "{:?}", runtime.calls());
    let known = Fingerprint::of(&all.0, &all.1);
    assert_eq!(lists::everything_unless_known(&port, &known).await.unwrap(), None);
    let listed = lists::image_uses(&port, &ContainerFilter::default()).await.unwrap();
    assert_eq!(listed, uses);
    // The containers of one sandbox do not fit either.
    runtime.set_longest_list(3);
    let error = lists::everything(&port).await.unwrap_err();
    assert_eq!((error.method, error.code), ("ListContainers", Code::ResourceExhausted));
}

#[tokio::test(start_paused = true)]
async fn oversized_sandbox_list_is_split_by_ids_from_containers() {
    let runtime = Arc::new(runtime());
    let port = Runtime::new(Arc::clone(&runtime));
    for (name, begin) in [("a", true), ("b", true), ("c", false), ("d", false)] {
        dead(&runtime, name, 1, begin).await;
    }
    let ready = runtime.run_pod_sandbox(&pod("ready")).await.unwrap();
    runtime.set_longest_list(2);
    let (sandboxes, containers) = lists::everything(&port).await.unwrap();
    assert_eq!((&sandboxes, containers), (&runtime.sandboxes(), runtime.containers()));
    assert!(sandboxes.iter().any(|sandbox| sandbox.id == ready), "one without containers");
    // The containers do not fit by any state.
    runtime.set_longest_list(1);
    let error = lists::sandboxes(&port, &SandboxFilter::default()).await.unwrap_err();
    assert_eq!((error.method, error.code), ("ListPodSandbox", Code::ResourceExhausted));
}
