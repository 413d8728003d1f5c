//! When passes are made, and which events report them.

use std::sync::atomic::Ordering;

use model::observed::RuntimePodStatus;
use model::ports::runtime::{Code, ContainerService};
use testkit::runtime::{Fault, Rule};

use super::*;
use crate::containers::survey::PODS_ALONE;
use crate::decide::deletor::ObservedPod;
use crate::decide::schedule::dead_of;

// behaviour: GC-74, GC-75
#[tokio::test(start_paused = true)]
async fn first_pass_is_immediate_and_the_next_a_minute_after_its_end() {
    let mut bench = Bench::new(Pods::ready(), ContainerPolicy::default());
    bench.dead_pod("web", 1).await;
    let gc = bench.collector();
    let begun = bench.clock.now();
    bench.until("the first pass", |bench| bench.containers().is_empty()).await;
    assert!(bench.clock.now().duration_since(begun).as_secs() < 1);
    bench.dead_pod("late", 1).await;
    let begun = bench.clock.now();
    gc.pod_changed(&"uid-late".into());
    bench.until("the next pass", |bench| bench.containers().is_empty()).await;
    let waited = bench.clock.now().duration_since(begun).as_secs();
    assert!((50..=60).contains(&waited), "{waited} s");
    bench.dead_pod("known", 1).await;
    let begun = bench.clock.now();
    gc.everything_changed();
    bench.until("a pass before its time", |bench| bench.containers().is_empty()).await;
    assert!(bench.clock.now().duration_since(begun).as_secs() < 1);
}

#[tokio::test(start_paused = true)]
async fn next_pass_starts_after_the_configured_period() {
    let policy = ContainerPolicy { period: Duration::from_secs(7), ..ContainerPolicy::default() };
    let mut bench = Bench::new(Pods::ready(), policy);
    let gc = bench.collector();
    tokio::time::sleep(Duration::from_secs(1)).await;
    bench.dead_pod("late", 1).await;
    let begun = bench.clock.now();
    gc.pod_changed(&"uid-late".into());
    bench.until("the next pass", |bench| bench.containers().is_empty()).await;
    let waited = bench.clock.now().duration_since(begun).as_secs();
    assert!((5..=7).contains(&waited), "{waited} s");
}

// behaviour: GC-76
#[tokio::test(start_paused = true)]
async fn pod_is_collected_as_soon_as_it_is_removable() {
    let mut bench = Bench::new(Pods::ready().active(&["uid-other"]), ContainerPolicy::default());
    let gc = bench.collector();
    tokio::time::sleep(Duration::from_secs(5)).await;
    bench.dead_pod("web", 2).await;
    bench.dead_pod("other", 1).await;
    bench.runtime.forget_calls();
    gc.pod_is_removable(&"uid-web".into());
    bench.until("its objects are removed", |bench| bench.containers().len() == 1).await;
    bench.until("its sandbox too", |bench| bench.sandboxes() == 1).await;
    bench
        .until("its logs too", |bench| {
            bench.files.content("/var/log/pods/default_web_uid-web/main/0.log").is_none()
        })
        .await;
    assert_eq!(bench.runtime.count(Method::ListContainers), 1, "only this pod is listed");
}

// behaviour: GC-76
#[tokio::test(start_paused = true)]
async fn collection_of_gone_pods_waits_for_terminating_pods_up_to_a_limit() {
    let pods = Pods::ready();
    let ending = pods.ending();
    let mut bench = Bench::new(pods, ContainerPolicy::default());
    let gc = bench.collector();
    tokio::time::sleep(Duration::from_secs(5)).await;
    ending.store(true, Ordering::Relaxed);
    for (pod, others_end) in [("a", true), ("b", false)] {
        bench.dead_pod(pod, 1).await;
        let begun = bench.clock.now();
        gc.pod_is_removable(&format!("uid-{pod}").as_str().into());
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(bench.containers().len(), 1, "{pod} waits");
        if others_end {
            ending.store(false, Ordering::Relaxed);
            gc.pod_is_removable(&"uid-of-the-last".into());
        }
        bench.until("its objects are removed", |bench| bench.sandboxes() == 0).await;
        let waited = bench.clock.now().duration_since(begun).as_secs();
        assert_eq!(waited, if others_end { 3 } else { 10 }, "{pod}");
        ending.store(true, Ordering::Relaxed);
    }
}

// behaviour: GC-29, GC-82
#[tokio::test(start_paused = true)]
async fn exited_container_without_a_pod_is_removed_by_the_next_pass() {
    let mut bench = Bench::new(Pods::ready().active(&["uid-web"]), ContainerPolicy::default());
    let sandbox = bench.sandbox("web", 0).await;
    let [dead, runs] = [bench.bare(&sandbox, 0).await, bench.bare(&sandbox, 1).await];
    let gc = bench.collector();
    tokio::time::sleep(Duration::from_secs(5)).await;
    bench.runtime.kill_container(&dead, 1);
    gc.pod_changed(&"".into());
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(bench.containers(), [runs]);
}

// behaviour: GC-77
#[tokio::test(start_paused = true)]
async fn every_failed_pass_records_a_node_event() {
    let mut bench = Bench::new(Pods::ready(), ContainerPolicy::default());
    bench.runtime.inject(Rule::on(Method::ListContainers, Fault::error(Code::Unavailable)));
    let _gc = bench.collector();
    tokio::time::sleep(Duration::from_secs(130)).await;
    let events = bench.events.all();
    assert_eq!(events.len(), 3, "{events:?}");
    assert!(events.iter().all(|event| event.reason == "ContainerGCFailed"));
    let message = "rpc error: code = Unavailable desc = injected by a test";
    assert_eq!(events[0].message, message);
    bench.runtime.clear_faults();
    tokio::time::sleep(Duration::from_secs(130)).await;
    assert_eq!(bench.events.all().len(), 3);
}

// behaviour: GC-82
#[tokio::test(start_paused = true)]
async fn idle_passes_list_the_runtime_every_tenth_time() {
    let mut bench = Bench::new(Pods::ready(), ContainerPolicy::default());
    let gc = bench.collector();
    tokio::time::sleep(Duration::from_secs(90)).await;
    bench.runtime.forget_calls();
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(bench.runtime.count(Method::ListContainers), 3);
    bench.runtime.forget_calls();
    gc.everything_changed();
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(bench.runtime.count(Method::ListContainers), 1);
    bench.runtime.forget_calls();
    gc.pod_changed(&"uid-web".into());
    tokio::time::sleep(Duration::from_mins(2)).await;
    let lists: Vec<String> = bench.runtime.calls().into_iter().map(|call| call.object).collect();
    assert_eq!(lists, ["uid-web"; 2], "only this pod is listed");
}

// behaviour: GC-84
#[tokio::test(start_paused = true)]
async fn failed_pod_removal_is_retried_after_a_minute() {
    let mut bench = Bench::new(Pods::ready(), ContainerPolicy::default());
    let gc = bench.collector();
    tokio::time::sleep(Duration::from_secs(90)).await;
    bench.dead_pod("web", 1).await;
    let fault = Fault::error(Code::Unavailable);
    bench.runtime.inject(Rule::on(Method::RemoveContainer, fault).once());
    gc.pod_is_removable(&"uid-web".into());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(bench.containers().len(), 1);
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!((bench.containers().len(), bench.sandboxes()), (0, 0));
}

// behaviour: GC-78
#[tokio::test(start_paused = true)]
async fn terminated_pods_keep_only_logs_under_disk_pressure() {
    let mut bench = Bench::new(Pods::ready().terminated(&["uid-web"]), ContainerPolicy::default());
    bench.dead_pod("web", 2).await;
    let gc = bench.collector();
    bench.until("the regular pass", |bench| bench.containers().len() == 1).await;
    let report = gc.delete_all_unused().await.report.await.unwrap();
    assert_eq!((report.removed(), report.failed()), (2, 0), "{report:?}");
    assert_eq!((bench.containers().len(), bench.sandboxes()), (0, 0));
    let names = bench.files.list("/var/log/pods".as_ref()).await.unwrap();
    assert_eq!(names, [".keep", "default_web_uid-web"]);
}

// behaviour: GC-63
#[tokio::test(start_paused = true)]
async fn exit_reports_never_block_and_next_pass_handles_overflow() {
    let bench = Bench::new(Pods::ready().active(&["uid-web"]), ContainerPolicy::default());
    bench.dead_pod("web", 62).await;
    let statuses = bench.runtime.containers().into_iter().map(|one| one.id);
    let mut status = RuntimePodStatus::empty("uid-web".into());
    for id in statuses {
        status.containers.push(bench.runtime.container_status(&id).await.unwrap());
    }
    status.containers.sort_by_key(|one| std::cmp::Reverse(one.created_at));
    let newest = status.containers.iter().max_by_key(|one| one.created_at).unwrap().id.to_string();
    let (task, deletor) = Deletor::new(bench.parts.clone());
    let pod = PodName::new("default", "web");
    let died = std::iter::once(newest.clone());
    let pod = ObservedPod { status: &status, name: &pod };
    deletor.died(died, pod, None, bench.clock.now());
    assert_eq!(bench.containers().len(), 62, "no removal yet");
    let mut tasks = JoinSet::new();
    tasks.spawn(task.run(CancellationToken::new()));
    bench.until("fifty are removed", |bench| bench.containers().len() == 12).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(bench.containers().len(), 12);
    assert!(bench.containers().iter().any(|id| id.to_string() == newest));
}

// behaviour: GC-58, GC-82
#[tokio::test(start_paused = true)]
async fn logs_of_running_containers_stay_in_a_partial_pass() {
    let mut bench = Bench::new(Pods::ready(), ContainerPolicy::default());
    let sandbox = bench.sandbox("web", 0).await;
    let id = bench.container("web", &sandbox, 0).await;
    let gc = bench.collector();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let log = "/var/log/pods/default_web_uid-web/main/0.log";
    assert!(bench.files.content(log).is_some(), "a full pass keeps it");
    gc.pod_changed(&"uid-other".into());
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert!(bench.files.content(log).is_some(), "its container still runs");
    // A container that cannot be listed is not gone.
    bench
        .runtime
        .inject(Rule::on(Method::ListContainers, Fault::error(Code::Unavailable)).times(2));
    gc.pod_is_removable(&"uid-web".into());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(bench.runtime.count(Method::RemoveContainer), 0);
    assert!(bench.files.content(log).is_some(), "its state was not requested");
    bench.runtime.kill_container(&id, 0);
    bench.runtime.kill_sandbox(&sandbox);
    bench.runtime.inject(Rule::on(Method::ListContainers, Fault::error(Code::Unavailable)));
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(bench.files.content(log).is_some(), "its state is unknown");
    assert!(!bench.events.all().is_empty(), "and an event reports that");
    bench.runtime.clear_faults();
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(bench.files.content(log).is_none());
}

// behaviour: GC-81, GC-82
#[tokio::test(start_paused = true)]
async fn regular_pass_on_an_idle_node_matches_the_plan() {
    for strays in [1, PODS_ALONE + 1] {
        let pods = Pods::ready().active(&["uid-web", "uid-done"]);
        let mut bench = Bench::new(pods, ContainerPolicy::default());
        let sandbox = bench.sandbox("web", 0).await;
        bench.container("web", &sandbox, 0).await;
        bench.dead_pod("done", 1).await;
        let gc = bench.collector();
        tokio::time::sleep(Duration::from_secs(90)).await;
        assert_eq!(gc.plan().await.plan.removals().count(), 0, "nothing is left to do");
        for stray in 0..strays {
            bench.files.write(format!("/var/log/pods/ns_stray_{stray}/main/0.log"), "x");
            let link = format!("/var/log/containers/stray_ns_main-0123456789{stray}.log");
            bench.files.put_link(link, "/nowhere");
        }
        let before = bench.there().await;
        let planned: BTreeSet<_> = removals(&gc.plan().await.plan);
        assert_eq!(planned.len(), 2 * strays, "{planned:?}");
        bench.runtime.forget_calls();
        tokio::time::sleep(Duration::from_mins(1)).await;
        let after = bench.there().await;
        assert_eq!(before.difference(&after).cloned().collect::<BTreeSet<_>>(), planned);
        assert!(after.is_subset(&before));
        let lists =
            bench.runtime.calls().into_iter().filter(|call| call.method == Method::ListContainers);
        let of_all = lists.filter(|call| call.object.is_empty()).count();
        assert_eq!(of_all, usize::from(strays > PODS_ALONE), "a few are listed one by one");
    }
}

// behaviour: GC-81, GC-82
#[tokio::test(start_paused = true)]
async fn dangling_link_found_by_a_plan_is_removed_by_the_next_pass() {
    let pods = Pods::ready().active(&["uid-done"]);
    let mut bench = Bench::new(pods, ContainerPolicy::default());
    let (_, ids) = bench.dead_pod("done", 1).await;
    let gc = bench.collector();
    tokio::time::sleep(Duration::from_secs(90)).await;
    bench.files.remove("/var/log/pods/default_done_uid-done/main/0.log");
    let before = bench.there().await;
    let planned = removals(&gc.plan().await.plan);
    assert_eq!(planned, [Subject::LogLink(bench.link("done", &ids[0]))].into());
    tokio::time::sleep(Duration::from_mins(1)).await;
    let after = bench.there().await;
    assert_eq!(before.difference(&after).cloned().collect::<BTreeSet<_>>(), planned);
    bench.runtime.forget_calls();
    assert_eq!(gc.plan().await.plan.removals().count(), 0);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(bench.runtime.count(Method::ListContainers), 1, "only the plan's list");
}

/// The runtime status of a pod.
async fn status(bench: &Bench, pod: &str) -> (PodUid, RuntimePodStatus) {
    let uid = PodUid::from(format!("uid-{pod}").as_str());
    let mut status = RuntimePodStatus::empty(uid.clone());
    for one in bench.runtime.containers().into_iter().filter(|one| one.pod_uid == uid) {
        status.containers.push(bench.runtime.container_status(&one.id).await.unwrap());
    }
    status.containers.sort_by_key(|one| std::cmp::Reverse(one.created_at));
    (uid, status)
}

// behaviour: GC-108
#[tokio::test(start_paused = true)]
async fn node_cap_is_enforced_within_seconds_by_one_pass_for_many_exits() {
    let pods = Pods::ready().terminated(&["uid-a", "uid-b", "uid-c", "uid-d", "uid-e"]);
    let policy = ContainerPolicy { in_all: Some(2), ..ContainerPolicy::default() };
    let mut bench = Bench::new(pods.active(&["uid-web"]), policy);
    let gc = bench.collector();
    tokio::time::sleep(Duration::from_secs(15)).await;
    bench.runtime.forget_calls();
    let lists = |bench: &Bench| bench.runtime.count(Method::ListContainers);
    for pod in ["a", "b"] {
        bench.dead_pod(pod, 1).await;
        let (uid, status) = status(&bench, pod).await;
        gc.observe_pod(&uid, &status);
    }
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!((bench.containers().len(), lists(&bench)), (2, 0), "it is within the cap");
    for pod in ["c", "d", "e"] {
        bench.dead_pod(pod, 1).await;
    }
    let died = bench.clock.now();
    for pod in ["c", "d", "e"] {
        let (uid, status) = status(&bench, pod).await;
        gc.observe_pod(&uid, &status);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bench.until("the oldest are removed", |bench| bench.containers().len() == 2).await;
    assert!(bench.clock.now().duration_since(died).as_secs() < 2);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(lists(&bench), 1, "all of them in one pass");
    for pod in ["a", "b", "c", "d", "e"] {
        let (uid, status) = status(&bench, pod).await;
        gc.observe_pod(&uid, &status);
    }
    // Its own dead instance is needed because it may start again; other instances are surplus.
    bench.dead_pod("web", 1).await;
    let (_, web) = status(&bench, "web").await;
    assert_eq!(dead_of(&web, false).spare, 0);
    let died = bench.clock.now();
    gc.observe_pod(&"uid-web".into(), &web);
    bench.until("another one is removed", |bench| bench.containers().len() == 2).await;
    let waited = bench.clock.now().duration_since(died).as_secs();
    assert!((2..10).contains(&waited), "{waited} s: not so soon after the last");
}

// behaviour: GC-109
#[tokio::test(start_paused = true)]
async fn zero_cap_removes_containers_when_their_pod_has_ended() {
    let pods = Pods::ready().terminated(&["uid-done"]).active(&["uid-web"]);
    let mut bench = Bench::new(pods, keep(0));
    let gc = bench.collector();
    tokio::time::sleep(Duration::from_secs(5)).await;
    for pod in ["done", "web"] {
        bench.dead_pod(pod, 1).await;
    }
    bench.runtime.forget_calls();
    for pod in ["done", "web"] {
        let (uid, status) = status(&bench, pod).await;
        gc.observe_pod(&uid, &status);
        gc.pod_changed(&uid);
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let left: Vec<String> =
        bench.runtime.containers().iter().map(|one| one.pod_uid.to_string()).collect();
    assert_eq!(left, ["uid-web"], "its exit determines the next start");
    let lists =
        bench.runtime.calls().into_iter().filter(|call| call.method == Method::ListContainers);
    assert_eq!(lists.map(|call| call.object).collect::<Vec<_>>(), ["uid-done"]);
    gc.pod_has_ended(&"uid-web".into());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(bench.containers().len(), 0);
}

// behaviour: GC-110
#[tokio::test(start_paused = true)]
async fn young_container_is_removed_when_it_reaches_the_minimum_age() {
    let min_age = Duration::from_secs(90);
    let policy = ContainerPolicy { min_age, ..ContainerPolicy::default() };
    let mut bench = Bench::new(Pods::ready().active(&["uid-kept"]), policy);
    bench.dead_pod("kept", 1).await;
    let _gc = bench.collector();
    let made = bench.clock.now();
    bench.dead_pod("gone", 1).await;
    bench.until("it is removed", |bench| bench.containers().len() == 1).await;
    let age = bench.clock.now().duration_since(made).as_secs();
    assert!((90..93).contains(&age), "{age} s");
}

// behaviour: GC-110
#[tokio::test(start_paused = true)]
async fn passes_for_the_minimum_age_are_ten_seconds_apart() {
    let min_age = Duration::from_secs(90);
    let policy = ContainerPolicy { min_age, ..ContainerPolicy::default() };
    let mut bench = Bench::new(Pods::ready(), policy);
    bench.dead_pod("gone", 40).await;
    let _gc = bench.collector();
    tokio::time::sleep(Duration::from_secs(45)).await;
    assert_eq!(bench.containers().len(), 40);
    bench.runtime.forget_calls();
    bench.until("all are removed", |bench| bench.containers().is_empty()).await;
    let passes = bench.runtime.count(Method::ListContainers);
    assert!((4..=7).contains(&passes), "{passes} passes in 45 s");
}
