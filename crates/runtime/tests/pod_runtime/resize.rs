//! Pods whose resources change while they run.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use model::cgroup::{CgroupDriver, CgroupName};
use model::ports::runtime::Code;
use runtime::decide::NodeSettings;
use runtime::{ResizeError, SyncError};
use testkit::cgroups::MemoryCgroups;
use testkit::runtime::{Fault, Method, Rule};

use crate::world::{IMAGE, World, web};

fn world() -> (World, Arc<MemoryCgroups>) {
    let cgroups = Arc::new(MemoryCgroups::new(CgroupDriver::Cgroupfs));
    for class in ["burstable", "besteffort"] {
        cgroups.make(&name(&format!("/kubepods/{class}")));
    }
    let port = Arc::clone(&cgroups) as _;
    (World::with_cgroups(NodeSettings::default(), Some(port)), cgroups)
}

fn name(path: &str) -> CgroupName {
    CgroupName::parse(path).unwrap()
}

const OWN: &str = "/kubepods/burstable/poduid-of-web";

/// Two containers that may use so many bytes.
fn pod(first: &str, second: &str) -> Pod {
    let pod = web().container("first", IMAGE, ["sleep", "forever"]).container(
        "second",
        IMAGE,
        ["sleep", "forever"],
    );
    pod.spec(|spec| {
        for (container, memory) in spec.containers.iter_mut().zip([first, second]) {
            let list = Some([("memory".to_owned(), Quantity(memory.to_owned()))].into());
            container.resources = Some(ResourceRequirements {
                limits: list.clone(),
                requests: list,
                ..ResourceRequirements::default()
            });
        }
    })
    .build()
}

fn memory(cgroups: &MemoryCgroups) -> Option<u64> {
    cgroups.all()[&name(OWN)].memory_limit
}

// behaviour: RSZ-13
#[tokio::test(start_paused = true)]
async fn the_pod_allows_more_before_and_less_after_its_containers() {
    let (world, cgroups) = world();
    world.synced(&pod("4Ki", "8Ki")).await;
    assert_eq!(memory(&cgroups), Some(12 << 10));
    // The runtime refuses: the pod may use more already, its containers do not.
    let fault = Fault::error(Code::Internal);
    world.runtime.inject(Rule::on(Method::UpdateContainerResources, fault).once());
    let error = world.sync(&pod("8Ki", "8Ki")).await.unwrap_err();
    let SyncError::Resize(ResizeError::Container { name, .. }) = &error else { panic!("{error}") };
    assert_eq!((name.as_str(), memory(&cgroups)), ("first", Some(16 << 10)));
    world.synced(&pod("8Ki", "8Ki")).await;
    assert_eq!(world.calls(), [Method::UpdateContainerResources]);
    assert!(!world.sync(&pod("8Ki", "8Ki")).await.unwrap());
    // One shrinks and the other grows: less comes first, and the pod stays as it is.
    cgroups.effects();
    world.synced(&pod("12Ki", "4Ki")).await;
    let updated: Vec<String> =
        world.runtime.calls().iter().map(|call| call.object.clone()).collect();
    let (first, second) = (
        world.running(&pod("12Ki", "4Ki"), "first").await,
        world.running(&pod("12Ki", "4Ki"), "second").await,
    );
    assert_eq!(updated, [second.to_string(), first.to_string()]);
    assert_eq!(cgroups.effects(), [format!("update {OWN}")]);
    // A smaller pod: its cgroup waits for its containers.
    world.runtime.inject(Rule::on(Method::UpdateContainerResources, fault).once());
    world.sync(&pod("4Ki", "4Ki")).await.unwrap_err();
    assert_eq!(memory(&cgroups), Some(16 << 10));
    world.synced(&pod("4Ki", "4Ki")).await;
    assert_eq!(memory(&cgroups), Some(8 << 10));
}

// behaviour: RSZ-9
#[tokio::test(start_paused = true)]
async fn an_agent_that_died_in_between_is_made_up_for() {
    let (world, cgroups) = world();
    world.synced(&pod("4Ki", "8Ki")).await;
    cgroups.set_broken(&name(OWN), true);
    let error = world.sync(&pod("4Ki", "4Ki")).await.unwrap_err();
    assert!(matches!(error, SyncError::Resize(ResizeError::Cgroup(_))), "{error}");
    cgroups.set_broken(&name(OWN), false);
    // Another agent knows of it by what the container was made with, and the cgroup by looking.
    let next = world.again(NodeSettings::default(), Some(Arc::clone(&cgroups) as _));
    next.synced(&pod("4Ki", "4Ki")).await;
    assert_eq!(memory(&cgroups), Some(8 << 10));
    assert!(!next.sync(&pod("4Ki", "4Ki")).await.unwrap());
}
