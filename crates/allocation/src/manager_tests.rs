//! Allocations and their checkpoint, on files in memory.

use std::io::ErrorKind;
use std::time::Duration;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use model::pressure::Pressure;
use podspec::Allocation;
use prometheus::Registry;
use testkit::clock::VirtualClock;
use testkit::events::KeptEvents;
use testkit::files::MemoryFiles;
use testkit::pods::pod;
use tokio::time::timeout;

use super::*;
use crate::decide::AllowedSysctls;
use crate::decide::admission::Node;
use crate::decide::pod_allocation::{ResizeRequest, ResizeStage};
use crate::resize_metrics::ResizeMetrics;

const PATH: &str = "/state/allocated-resources.json";

fn manager(files: &Arc<MemoryFiles>) -> AllocationManager {
    let registry = Registry::new();
    let chain = AdmissionChain {
        pressure: Pressure::default(),
        sysctls: AllowedSysctls::new((6, 1), &[]),
        apparmor: false,
        invalid_restart_rules_have_upstream_errors: true,
        node: Node::default(),
    };
    let parts = AllocationParts {
        chain,
        resizes: Arc::new(Resizes::new(ResizeMetrics::new(&registry).unwrap())),
        metrics: AdmissionMetrics::new(&registry).unwrap(),
        events: Arc::new(KeptEvents::default()),
        clock: Arc::new(VirtualClock::new()),
        files: Arc::clone(files) as _,
    };
    AllocationManager::new(parts, Path::new("/state"))
}

fn requesting(name: &str, cpu: &str) -> Arc<Pod> {
    let requests = Some([("cpu".to_owned(), Quantity(cpu.to_owned()))].into());
    let resources = ResourceRequirements { requests, ..ResourceRequirements::default() };
    let pod = pod(name).container("main", "image", ["sleep", "forever"]);
    Arc::new(pod.spec(|spec| spec.containers[0].resources = Some(resources)).build())
}

impl AllocationManager {
    fn admit_allocated(&mut self, desired: &Arc<Pod>, allocated: &Arc<Pod>) {
        self.admit(desired, allocated, None, &Sizes::new());
    }

    fn grant(&mut self, uid: &PodUid, pod: &Arc<Pod>) {
        let stage = ResizeStage::Granted(Arc::clone(pod));
        let request = ResizeRequest { stage, refusal: None };
        self.resizes.change(uid, |entry| entry.request = Some(Box::new(request)));
    }

    fn is_granted(&self, uid: &PodUid) -> bool {
        self.resizes.entry(uid, PodAllocation::is_granted).unwrap_or(false)
    }

    fn saved(&self) -> Vec<String> {
        self.resizes.read(|table| {
            let saved = table.pods.iter().filter(|(_, entry)| entry.saved.is_some());
            saved.map(|(uid, _)| uid.to_string()).collect()
        })
    }
}

async fn on_disk(files: &Arc<MemoryFiles>) -> Vec<String> {
    let mut next = manager(files);
    next.load().await.unwrap();
    next.saved()
}

async fn finished(manager: &mut AllocationManager) -> Vec<String> {
    let written = manager.file.written().await;
    let grants = manager.finish(written);
    grants.into_iter().map(|grant| grant.uid.to_string()).collect()
}

// behaviour: RSZ-1
#[tokio::test(start_paused = true)]
async fn granted_resizes_are_actuated_once_saved_and_share_one_write() {
    let files = Arc::new(MemoryFiles::new());
    let mut allocations = manager(&files);
    let uid = |name: &str| view::uid(&requesting(name, "1"));
    for name in ["a", "b", "c", "d"] {
        allocations.admit_allocated(&requesting(name, "1"), &requesting(name, "1"));
    }
    files.hold_writes();
    let wanted = requesting("a", "2");
    allocations.grant(&uid("a"), &wanted);
    allocations.save();
    for name in ["b", "c", "d"] {
        allocations.grant(&uid(name), &requesting(name, "2"));
        allocations.save();
    }
    let waits = timeout(Duration::from_mins(1), allocations.file.written()).await;
    assert!(waits.is_err() && allocations.is_granted(&uid("a")));
    let given = Allocation::of(&allocations.allocated(&wanted));
    assert_eq!(given, Allocation::of(&requesting("a", "1")), "not before it is saved");
    allocations.forget(&uid("d"));
    files.release_writes();
    assert_eq!(finished(&mut allocations).await, [uid("a").as_str()]);
    assert!(Arc::ptr_eq(&allocations.allocated(&wanted), &wanted));
    let mut next = manager(&files);
    next.load().await.unwrap();
    let before = next.resizes.entry(&uid("a"), |entry| entry.before().cloned()).flatten();
    assert_eq!(before, Some(Allocation::of(&requesting("a", "1"))), "the pod may still have it");
    allocations.resizes.change(&uid("a"), PodAllocation::settle);
    assert_eq!(finished(&mut allocations).await, [uid("b").as_str(), uid("c").as_str()]);
    assert_eq!(on_disk(&files).await, ["a", "b", "c"].map(|name| uid(name).to_string()));
    // A pod that is removed during the write is not actuated, and not in the final checkpoint.
    allocations.grant(&uid("a"), &requesting("a", "3"));
    allocations.save();
    allocations.forget(&uid("a"));
    assert_eq!(finished(&mut allocations).await, [""; 0]);
    allocations.flush().await;
    assert_eq!(on_disk(&files).await, ["b", "c"].map(|name| uid(name).to_string()));
}

// behaviour: RSZ-1
#[tokio::test(start_paused = true)]
async fn resize_that_cannot_be_saved_is_not_actuated() {
    let files = Arc::new(MemoryFiles::new());
    let mut allocations = manager(&files);
    let (has, wanted) = (requesting("a", "1"), requesting("a", "2"));
    let uid = view::uid(&has);
    allocations.admit_allocated(&has, &has);
    files.fail(PATH, ErrorKind::StorageFull);
    allocations.grant(&uid, &wanted);
    allocations.save();
    assert_eq!(finished(&mut allocations).await, [""; 0]);
    assert!(!allocations.is_granted(&uid), "the request can be decided again");
    files.repair(PATH);
    allocations.grant(&uid, &wanted);
    allocations.save();
    assert_eq!(finished(&mut allocations).await, [uid.as_str()]);
}

#[test]
fn allocated_pod_is_copied_once() {
    let files = Arc::new(MemoryFiles::new());
    let mut allocations = manager(&files);
    let (has, wanted) = (requesting("a", "1"), requesting("a", "2"));
    allocations.admit_allocated(&has, &has);
    assert!(Arc::ptr_eq(&allocations.allocated(&has), &has));
    let given = allocations.update(&wanted);
    assert!(Arc::ptr_eq(&allocations.allocated(&wanted), &given));
    assert_eq!(Allocation::of(&given), Allocation::of(&has));
}

// behaviour: RSZ-28
#[tokio::test(start_paused = true)]
async fn admitted_pods_are_saved_and_share_one_write() {
    let files = Arc::new(MemoryFiles::new());
    let mut allocations = manager(&files);
    let names: Vec<String> = (0..100).map(|number| format!("pod-{number:02}")).collect();
    files.hold_writes();
    for name in &names {
        let pod = requesting(name, "1");
        allocations.admit_allocated(&pod, &pod);
        allocations.save();
        assert!(Arc::ptr_eq(&allocations.allocated(&pod), &pod), "it has these resources already");
    }
    // More pods during the write, one of which is urgent.
    let due = allocations.file.written().await;
    assert!(matches!(due, CheckpointWrite(None)), "{due:?}");
    allocations.finish(due);
    for name in ["late", "later"] {
        allocations.admit_allocated(&requesting(name, "1"), &requesting(name, "1"));
        allocations.file.hurry();
        allocations.save();
    }
    files.release_writes();
    let mut writes = 0;
    while let Ok(written) = timeout(Duration::from_mins(1), allocations.file.written()).await {
        writes += usize::from(matches!(written, CheckpointWrite(Some(_))));
        allocations.finish(written);
    }
    assert_eq!(writes, 2, "one for the pods of a moment, and one for those that arrived during it");
    let names = names.iter().map(String::as_str).chain(["late", "later"]);
    let mut expected: Vec<String> =
        names.map(|name| view::uid(&requesting(name, "1")).to_string()).collect();
    expected.sort();
    assert_eq!(on_disk(&files).await, expected);
    // The next agent restores each allocation, regardless of current requests, without a write.
    let mut next = manager(&files);
    next.load().await.unwrap();
    let (more, none) = (requesting("pod-07", "100"), Sizes::new());
    let given = next.restored(&more, None, &none);
    assert_eq!(Allocation::of(&given), Allocation::of(&requesting("pod-07", "1")));
    next.admit_allocated(&more, &given);
    next.save();
    assert!(timeout(Duration::from_mins(1), next.file.written()).await.is_err());
    // A removal alone is not written.
    next.forget(&view::uid(&requesting("pod-07", "1")));
    next.save();
    assert!(timeout(Duration::from_mins(1), next.file.written()).await.is_err());
    next.tidy();
    finished(&mut next).await;
    assert_eq!(on_disk(&files).await.len(), 101);
}

// behaviour: RSZ-29
#[tokio::test(start_paused = true)]
async fn unreadable_checkpoint_is_kept_and_corrupt_one_is_moved_aside() {
    let files = Arc::new(MemoryFiles::new());
    let pod = requesting("a", "1");
    let mut allocations = manager(&files);
    allocations.admit_allocated(&pod, &pod);
    allocations.flush().await;
    let good = files.content(PATH).unwrap();
    files.fail(PATH, ErrorKind::Other);
    let mut next = manager(&files);
    let error = next.load().await.unwrap_err();
    assert_eq!(error.path, Path::new(PATH));
    files.repair(PATH);
    assert_eq!(files.content(PATH).unwrap(), good);
    files.write(PATH, "{}");
    let mut next = manager(&files);
    next.load().await.unwrap();
    assert_eq!(next.saved(), [""; 0]);
    assert_eq!(files.content(format!("{PATH}.damaged")).unwrap(), b"{}");
}
