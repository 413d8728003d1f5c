//! Single passes.

use std::io::ErrorKind;

use model::pod_state::PodState;
use model::ports::runtime::{Code, ContainerService, SandboxService};
use model::verdict::Subject;
use testkit::runtime::{Fault, Rule};

use super::*;
use crate::plan::Fate;

// behaviour: GC-35, GC-80
#[tokio::test(start_paused = true)]
async fn container_is_removed_with_log_and_link_and_the_newest_stays() {
    let bench = Bench::new(Pods::ready().active(&["uid-web"]), keep(1));
    let (_, ids) = bench.dead_pod("web", 3).await;
    let report = bench.pass(false).await;
    assert_eq!((report.removed(), report.failed()), (2, 0), "{report:?}");
    assert_eq!(bench.containers(), [ids[2].clone()]);
    for (attempt, id) in ids.iter().enumerate() {
        let log = format!("/var/log/pods/default_web_uid-web/main/{attempt}.log");
        assert_eq!(bench.files.content(log).is_some(), attempt == 2, "{attempt}");
        assert_eq!(bench.files.look(&bench.link("web", id)).await.is_ok(), attempt == 2);
    }
    assert_eq!(bench.sandboxes(), 1, "the newest sandbox of a pod that exists stays");
}

// behaviour: GC-36
#[tokio::test(start_paused = true)]
async fn container_stays_when_its_log_cannot_be_removed() {
    let bench = Bench::new(Pods::ready().active(&["uid-web"]), keep(1));
    let (_, ids) = bench.dead_pod("web", 2).await;
    let log = "/var/log/pods/default_web_uid-web/main/0.log";
    bench.files.fail(log, ErrorKind::ReadOnlyFilesystem);
    let report = bench.pass(false).await;
    assert_eq!((report.removed(), report.failed()), (0, 1));
    assert_eq!(bench.containers().len(), 2);
    bench.files.repair(log);
    bench.pass(false).await;
    assert_eq!(bench.containers(), [ids[1].clone()]);
}

// behaviour: GC-112
#[tokio::test(start_paused = true)]
async fn container_with_a_log_elsewhere_is_removed_without_its_log() {
    let bench = Bench::new(Pods::ready().active(&["uid-web"]), keep(0));
    let sandbox = bench.sandbox("web", 0).await;
    let in_sandbox = wanted::sandbox(&PodName::new("default", "web"), &"uid-web".into());
    // As another client of the runtime may create it: below the log directory, but with another layout.
    let mut config = wanted::container(&in_sandbox, "main", IMAGE, &["sleep", "forever"]);
    config.log_path = "deep/down/0.log".to_owned();
    let id = bench.runtime.create_container(&sandbox, &config, &in_sandbox).await.unwrap();
    bench.runtime.start_container(&id).await.unwrap();
    bench.runtime.kill_container(&id, 1);
    let status = bench.runtime.container_status(&id).await.unwrap();
    bench.files.write(&*status.log_path, "hello\n");
    let report = bench.pass(false).await;
    assert_eq!((report.removed(), report.failed()), (1, 0), "{}: {report:?}", status.log_path);
    assert_eq!(bench.containers(), []);
    assert!(bench.files.content(&*status.log_path).is_some(), "{}", status.log_path);
}

// behaviour: GC-113
#[tokio::test(start_paused = true)]
async fn slow_stop_continues_without_delaying_passes() {
    let mut bench = Bench::new(Pods::ready(), ContainerPolicy::default());
    let sandbox = bench.sandbox("lost", 0).await;
    let lost = bench.container("lost", &sandbox, 0).await;
    bench.runtime.lose_container(&lost);
    bench.runtime.kill_sandbox(&sandbox);
    bench.dead_pod("dead", 1).await;
    let (task, stop) = background_stops(Arc::clone(&bench.parts.stop), bench.parts.panics.clone());
    bench.tasks.spawn(task.run(CancellationToken::new()));
    bench.parts.stop = stop;
    let slow = Fault::delay(Duration::from_mins(5));
    bench.runtime.inject(Rule::on(Method::StopContainer, slow).once());
    let began = bench.clock.now();
    let report = bench.pass(false).await;
    let took = bench.clock.now().duration_since(began).as_secs();
    assert!(took <= 60, "{took} s");
    assert_eq!(report.failed(), 1, "{report:?}");
    assert_eq!(bench.containers(), std::slice::from_ref(&lost), "the other is removed");
    // The next passes wait for the same stop.
    bench.pass(false).await;
    let stops = [Method::StopContainer];
    assert_eq!(bench.calls(&stops), stops);
    tokio::time::sleep(Duration::from_mins(5)).await;
    bench.pass(false).await;
    assert_eq!((bench.containers(), bench.calls(&stops)), (Vec::new(), stops.to_vec()));
}

// behaviour: WRK-38
#[tokio::test(start_paused = true)]
async fn panic_in_a_stop_fails_only_that_stop() {
    let mut bench = Bench::new(Pods::ready(), ContainerPolicy::default());
    let sandbox = bench.sandbox("lost", 0).await;
    let lost = bench.container("lost", &sandbox, 0).await;
    bench.runtime.lose_container(&lost);
    bench.runtime.kill_sandbox(&sandbox);
    let (task, stop) = background_stops(Arc::clone(&bench.parts.stop), bench.parts.panics.clone());
    bench.tasks.spawn(task.run(CancellationToken::new()));
    bench.parts.stop = stop;
    bench.runtime.inject(Rule::on(Method::StopContainer, Fault::panic()).once());
    assert_eq!(bench.pass(false).await.failed(), 1);
    assert_eq!(bench.containers(), std::slice::from_ref(&lost));
    // The task continues, so the next pass stops it.
    bench.pass(false).await;
    assert_eq!(bench.containers(), []);
}

// behaviour: GC-26, GC-27
#[tokio::test(start_paused = true)]
async fn unknown_state_container_is_stopped_first_and_stays_if_that_fails() {
    let bench = Bench::new(Pods::ready().set("uid-web", PodState::Desired), keep(0));
    let sandbox = bench.sandbox("web", 0).await;
    let id = bench.container("web", &sandbox, 0).await;
    bench.runtime.lose_container(&id);
    bench.runtime.inject(Rule::on(Method::StopContainer, Fault::error(Code::Unknown)).once());
    let report = bench.pass(false).await;
    assert_eq!((report.failed(), report.problems.len()), (1, 0));
    let methods = [Method::StopContainer, Method::RemoveContainer];
    assert_eq!(bench.calls(&methods), [Method::StopContainer]);
    bench.runtime.forget_calls();
    assert_eq!(bench.pass(false).await.removed(), 1);
    assert_eq!(bench.calls(&methods), methods);
    assert_eq!(bench.containers(), []);
}

#[tokio::test(start_paused = true)]
async fn unknown_state_container_that_has_exited_is_not_stopped() {
    let bench = Bench::new(Pods::ready().set("uid-web", PodState::Desired), keep(0));
    let sandbox = bench.sandbox("web", 0).await;
    let id = bench.container("web", &sandbox, 0).await;
    bench.runtime.lose_container(&id);
    let late = Fault::late_answer(Duration::from_secs(10));
    bench.runtime.inject(Rule::on(Method::ListContainers, late).once());
    let ends = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        bench.runtime.stop_pod_sandbox(&sandbox).await.unwrap();
    };
    let (report, ()) = tokio::join!(bench.pass(false), ends);
    assert_eq!((report.removed(), report.failed()), (1, 0), "{report:?}");
    let methods = [Method::StopContainer, Method::RemoveContainer];
    assert_eq!(bench.calls(&methods), [Method::RemoveContainer]);
}

// behaviour: GC-31
#[tokio::test(start_paused = true)]
async fn created_container_is_removed_without_a_stop() {
    let bench = Bench::new(Pods::ready().terminated(&["uid-web"]), keep(0));
    let sandbox = bench.sandbox("web", 0).await;
    let in_sandbox = wanted::sandbox(&PodName::new("default", "web"), &"uid-web".into());
    let config = wanted::container(&in_sandbox, "main", IMAGE, &["sleep", "forever"]);
    let id = bench.runtime.create_container(&sandbox, &config, &in_sandbox).await.unwrap();
    bench.runtime.forget_calls();
    let report = bench.pass(false).await;
    assert_eq!((report.removed(), report.failed()), (1, 0), "{report:?}");
    assert!(!bench.containers().contains(&id));
    let methods = [Method::StopContainer, Method::RemoveContainer];
    assert_eq!(bench.calls(&methods), [Method::RemoveContainer]);
}

// behaviour: GC-28
#[tokio::test(start_paused = true)]
async fn failed_removal_is_not_replaced_by_another() {
    let policy = ContainerPolicy { per_container: None, in_all: Some(3), ..<_>::default() };
    let bench = Bench::new(Pods::ready().active(&["uid-web"]), policy);
    let (_, ids) = bench.dead_pod("web", 4).await;
    let fault = Fault::error(Code::Internal);
    bench.runtime.inject(Rule::on(Method::RemoveContainer, fault).object(ids[0].as_str()));
    let report = bench.pass(false).await;
    assert_eq!((report.removed(), report.failed()), (0, 1));
    assert_eq!(bench.runtime.count(Method::RemoveContainer), 1);
    assert_eq!(bench.containers().len(), 4);
}

// behaviour: GC-95
#[tokio::test(start_paused = true)]
async fn concurrent_removals_are_limited() {
    let bench = Bench::new(Pods::ready().active(&["uid-web"]), keep(1));
    bench.dead_pod("web", 13).await;
    let slow = Fault::delay(Duration::from_secs(1));
    bench.runtime.inject(Rule::on(Method::RemoveContainer, slow));
    let began = tokio::time::Instant::now();
    assert_eq!(bench.pass(false).await.removed(), 12);
    let seconds = began.elapsed().as_secs();
    assert_eq!(seconds, 3, "four at a time");
}

#[tokio::test(start_paused = true)]
async fn removal_of_a_missing_container_is_not_a_failure() {
    let bench = Bench::new(Pods::ready().active(&["uid-web"]), keep(1));
    bench.dead_pod("web", 3).await;
    for method in [Method::ContainerStatus, Method::RemoveContainer] {
        bench.runtime.inject(Rule::on(method, Fault::error(Code::NotFound)).once());
    }
    let report = bench.pass(false).await;
    assert_eq!((report.removed(), report.failed()), (2, 0), "{report:?}");
}

// behaviour: GC-87
#[tokio::test(start_paused = true)]
async fn container_started_after_the_list_stays() {
    let bench = Bench::new(Pods::ready(), keep(0));
    let sandbox = bench.sandbox("web", 0).await;
    let id = bench.container("web", &sandbox, 0).await;
    let mut survey = survey::all(&bench.parts, false, &mut <_>::default()).await;
    // As an outdated list would show it.
    survey.listed[0].state = model::observed::ContainerState::Created;
    let (sender, mut steps) = mpsc::channel(8);
    let report_step = |step: Step| drop(sender.try_send(step));
    let report = act::carry_out(&bench.parts, &mut survey, &report_step).await;
    assert_eq!(steps.recv().await.unwrap().outcome, Err(KeepReason::Kept("running")));
    let tally = Tally { kept: 1, ..Tally::default() };
    assert_eq!(report.kinds, [("container", tally)].into());
    assert_eq!(bench.containers(), [id]);
    let log = "/var/log/pods/default_web_uid-web/main/0.log";
    assert!(bench.files.content(log).is_some(), "logs of running containers stay");
}

// behaviour: GC-37
#[tokio::test(start_paused = true)]
async fn everything_of_a_gone_pod_is_removed() {
    let bench = Bench::new(Pods::ready(), ContainerPolicy::default());
    bench.dead_pod("web", 3).await;
    let report = bench.pass(false).await;
    // Three containers, a sandbox, a log directory.
    assert_eq!((report.removed(), report.failed()), (5, 0), "{report:?}");
    assert_eq!((bench.containers().len(), bench.sandboxes()), (0, 0));
    assert_eq!(bench.files.list("/var/log/pods".as_ref()).await.unwrap(), [".keep"]);
    assert_eq!(bench.files.list("/var/log/containers".as_ref()).await.unwrap(), [""; 0]);
    assert_eq!(
        bench.runtime.count(Method::ContainerStatus),
        0,
        "the log directory is removed as a whole"
    );
}

// behaviour: GC-29
#[tokio::test(start_paused = true)]
async fn exited_containers_without_labels_are_removed_when_sources_are_ready() {
    let pods = Pods::ready().active(&["uid-web"]);
    let mut bench = Bench::new(pods.clone().sources_not_ready(), keep(0));
    let sandbox = bench.sandbox("web", 0).await;
    let of_web = bench.container("web", &sandbox, 0).await;
    let [dead, runs] = [bench.bare(&sandbox, 1).await, bench.bare(&sandbox, 2).await];
    bench.runtime.kill_container(&dead, 1);
    assert_eq!(bench.pass(false).await.removed(), 0);
    bench.parts.pods = Arc::new(pods);
    let planned = survey::all(&bench.parts, false, &mut <_>::default()).await.planned(&bench.parts);
    let items = planned.plan.items.iter();
    let unlabelled: Vec<_> =
        items.filter(|item| item.owner.is_none()).map(|item| (&item.subject, item.rule)).collect();
    let subjects = [&dead, &runs].map(|id| Subject::Container(id.clone()));
    assert_eq!(unlabelled, [(&subjects[0], "pod-is-gone"), (&subjects[1], "running")]);
    let report = bench.pass(false).await;
    assert_eq!((report.removed(), report.failed()), (1, 0), "{report:?}");
    let mut left = [of_web, runs];
    left.sort();
    assert_eq!(bench.containers(), left);
    assert_eq!(bench.files.content("/var/log/pods/default_web_uid-web/bare/1.log"), None);
    assert!(bench.files.content("/var/log/pods/default_web_uid-web/bare/2.log").is_some());
}

// behaviour: GC-49
#[tokio::test(start_paused = true)]
async fn sandbox_stays_when_it_cannot_be_stopped() {
    let bench = Bench::new(Pods::ready(), ContainerPolicy::default());
    bench.dead_pod("web", 0).await;
    bench.runtime.forget_calls();
    bench.runtime.inject(Rule::on(Method::StopPodSandbox, Fault::error(Code::Unknown)).once());
    bench.pass(false).await;
    let methods = [Method::StopPodSandbox, Method::RemovePodSandbox];
    assert_eq!(bench.calls(&methods), [Method::StopPodSandbox]);
    bench.runtime.forget_calls();
    bench.pass(false).await;
    assert_eq!(bench.calls(&methods), methods);
    assert_eq!(bench.sandboxes(), 0);
}

#[tokio::test(start_paused = true)]
async fn sandbox_stays_while_it_has_containers() {
    let bench = Bench::new(Pods::ready(), ContainerPolicy::default());
    let (_, ids) = bench.dead_pod("web", 2).await;
    let fault = Fault::error(Code::Internal);
    bench.runtime.inject(Rule::on(Method::RemoveContainer, fault).object(ids[0].as_str()).once());
    bench.pass(false).await;
    assert_eq!((bench.containers().len(), bench.sandboxes()), (1, 1));
    bench.pass(false).await;
    assert_eq!((bench.containers().len(), bench.sandboxes()), (0, 0));
}

// behaviour: GC-52, GC-53, GC-73
#[tokio::test(start_paused = true)]
async fn missing_log_directory_fails_the_pass_when_sources_are_ready() {
    let bench = Bench::new(Pods::ready(), ContainerPolicy::default());
    bench.dead_pod("web", 1).await;
    bench.files.remove("/var/log/pods");
    let report = bench.pass(false).await;
    assert_eq!(report.problems.len(), 1, "{report:?}");
    assert_eq!((bench.containers().len(), bench.sandboxes()), (0, 0), "the rest is removed");
    let not_ready = Bench::new(Pods::ready().sources_not_ready(), ContainerPolicy::default());
    not_ready.files.remove("/var/log/pods");
    assert_eq!(not_ready.pass(false).await.problems.len(), 0);
}

// behaviour: GC-54, GC-55
#[tokio::test(start_paused = true)]
async fn dangling_links_are_removed_unless_their_container_may_live() {
    let bench = Bench::new(Pods::ready().active(&["uid-web"]), ContainerPolicy::default());
    let sandbox = bench.sandbox("web", 0).await;
    let id = bench.container("web", &sandbox, 0).await;
    bench.files.remove("/var/log/pods/default_web_uid-web/main/0.log");
    for name in ["old_ns_main-0123456789.log", "short_ns_main-1.log", "notes.txt"] {
        bench.files.put_link(format!("/var/log/containers/{name}"), "/nowhere");
    }
    bench.pass(false).await;
    let left = bench.files.entries("/var/log/containers".as_ref()).await.unwrap();
    let left: Vec<_> = left.iter().map(|entry| entry.name.to_str().unwrap()).collect();
    assert_eq!(left, ["notes.txt", &*format!("web_default_main-{id}.log")]);
    bench.runtime.kill_container(&id, 0);
    bench.pass(false).await;
    assert_eq!(bench.files.list("/var/log/containers".as_ref()).await.unwrap(), ["notes.txt"]);
}

// behaviour: GC-56
#[tokio::test(start_paused = true)]
async fn dangling_link_stays_when_the_runtime_returns_no_status() {
    let bench = Bench::new(Pods::ready(), ContainerPolicy::default());
    bench.files.put_link("/var/log/containers/old_ns_main-0123456789.log", "/nowhere");
    // The error of a malformed response.
    bench.runtime.inject(Rule::on(Method::ContainerStatus, Fault::error(Code::DataLoss)));
    let report = bench.pass(false).await;
    assert_eq!((report.removed(), report.problems.len()), (0, 0), "{report:?}");
    assert_eq!(bench.files.entries("/var/log/containers".as_ref()).await.unwrap().len(), 1);
    bench.runtime.clear_faults();
    assert_eq!(bench.pass(false).await.removed(), 1);
}

// behaviour: GC-55
#[tokio::test(start_paused = true)]
async fn dangling_link_verdict_separates_runtime_failure_from_not_found() {
    let rows = [
        (None, "not-found"),
        (Some(Code::Unavailable), "runtime-failed"),
        (Some(Code::DeadlineExceeded), "runtime-failed"),
    ];
    for (code, word) in rows {
        let bench = Bench::new(Pods::ready(), ContainerPolicy::default());
        bench.files.put_link("/var/log/containers/old_ns_main-0123456789.log", "/nowhere");
        if let Some(code) = code {
            bench.runtime.inject(Rule::on(Method::ContainerStatus, Fault::error(code)));
        }
        let (_, gc) = container_gc(bench.parts.clone());
        let mut plan = gc.plan().await.plan;
        plan.items.retain(|item| matches!(item.subject, Subject::LogLink(_)));
        let [link] = &plan.items[..] else { panic!("{plan:?}") };
        let text =
            link.verdict(jiff::Timestamp::UNIX_EPOCH).expect("the link is removed").to_string();
        assert!(text.contains(&format!("container {word}")), "{text}");
    }
}

// behaviour: GC-81
#[tokio::test(start_paused = true)]
async fn pass_removes_exactly_the_items_of_its_plan() {
    let mut bench = Bench::new(Pods::ready().active(&["uid-web"]), keep(1));
    let gc = bench.collector();
    // The first pass runs at the start; this test is about the next one.
    tokio::time::sleep(Duration::from_secs(5)).await;
    for pod in ["web", "gone", "late"] {
        bench.dead_pod(pod, 3).await;
    }
    bench.files.put_link("/var/log/containers/old_ns_main-0123456789.log", "/nowhere");
    let before = bench.there().await;
    let planned = removals(&gc.plan().await.plan);
    assert_eq!(planned.len(), 2 + 5 + 5 + 1, "{planned:?}");
    assert_eq!(bench.there().await, before, "a plan changes nothing");
    let mut pass = gc.run_now().await;
    let mut done = BTreeSet::new();
    while let Some(step) = pass.steps.recv().await {
        done.insert(step.verdict.subject);
    }
    assert_eq!(done, planned);
    let report = pass.report.await.unwrap();
    assert_eq!((report.removed(), report.failed()), (planned.len() as u64, 0), "{report:?}");
    assert!(bench.there().await.is_disjoint(&planned));
    assert_eq!(gc.plan().await.plan.removals().count(), 0);
}

// behaviour: GC-83
#[tokio::test(start_paused = true)]
async fn oversized_list_is_requested_in_parts() {
    let bench = Bench::new(Pods::ready(), ContainerPolicy::default());
    for pod in ["a", "b", "c"] {
        bench.dead_pod(pod, 2).await;
    }
    // All at once, all created ones, and so on up to all exited ones.
    let fault = Fault::error(Code::ResourceExhausted);
    bench.runtime.inject(Rule::on(Method::ListContainers, fault).object("").times(5));
    bench.runtime.inject(Rule::on(Method::ListPodSandbox, fault).object("").once());
    let report = bench.pass(false).await;
    assert!(report.problems.is_empty(), "{report:?}");
    assert_eq!(bench.runtime.count(Method::ListContainers), 5 + 4 * 3, "each state by sandbox");
    assert_eq!((bench.containers().len(), bench.sandboxes()), (0, 0));
}

// behaviour: GC-72
#[tokio::test(start_paused = true)]
async fn sandboxes_and_logs_are_collected_when_container_list_fails() {
    let bench = Bench::new(Pods::ready(), ContainerPolicy::default());
    bench.dead_pod("web", 0).await;
    bench.dead_pod("other", 1).await;
    bench.files.write("/var/log/pods/default_web_uid-web/main/0.log", "");
    bench.runtime.inject(Rule::on(Method::ListContainers, Fault::error(Code::Unavailable)).once());
    let report = bench.pass(false).await;
    assert_eq!(report.problems.len(), 1);
    assert_eq!((bench.containers().len(), bench.sandboxes()), (1, 1), "the empty one is removed");
    assert_eq!(bench.files.list("/var/log/pods".as_ref()).await.unwrap(), [".keep"]);
}

/// A pod that is gone until the first call of this method, and exists afterwards.
#[derive(Debug)]
struct ReturningPod(Arc<MemoryRuntime>, Method);

impl PodStates for ReturningPod {
    fn sources_ready(&self) -> bool {
        true
    }

    fn state(&self, _: &PodUid) -> PodState {
        if self.0.count(self.1) == 0 { PodState::Gone } else { PodState::Desired }
    }

    fn needs_first_sandbox(&self, _: &PodUid) -> bool {
        false
    }
}

// behaviour: GC-87
#[tokio::test(start_paused = true)]
async fn pod_that_comes_back_during_a_stop_keeps_its_container() {
    let rows = [
        (Method::ContainerStatus, Method::RemoveContainer),
        (Method::StopPodSandbox, Method::RemovePodSandbox),
    ];
    for (requested, removal) in rows {
        let mut bench = Bench::new(Pods::ready(), ContainerPolicy::default());
        if requested == Method::ContainerStatus {
            // The status of an exited container is not requested when all logs of its pod are removed.
            let sandbox = bench.sandbox("web", 0).await;
            let id = bench.container("web", &sandbox, 0).await;
            assert!(bench.runtime.lose_container(&id));
        } else {
            bench.dead_pod("web", 0).await;
        }
        bench.runtime.forget_calls();
        bench.parts.pods = Arc::new(ReturningPod(Arc::clone(&bench.runtime), requested));
        let report = bench.pass(false).await;
        assert_eq!(bench.runtime.count(requested), 1);
        assert_eq!(bench.runtime.count(removal), 0, "{removal:?}");
        assert_eq!((report.removed(), report.failed()), (0, 0), "it stays without a failure");
        assert!(!report.is_complete(), "it is checked again: {report:?}");
    }
}

// behaviour: GC-72
#[tokio::test(start_paused = true)]
async fn logs_stay_while_live_containers_are_unknown() {
    for method in [Method::ListContainers, Method::ListPodSandbox] {
        let bench = Bench::new(Pods::ready(), ContainerPolicy::default());
        bench.files.write("/var/log/pods/default_web_uid-web/main/0.log", "");
        bench.runtime.inject(Rule::on(method, Fault::error(Code::Unavailable)));
        let report = bench.pass(false).await;
        assert!(!report.problems.is_empty());
        let left = bench.files.list("/var/log/pods".as_ref()).await.unwrap();
        assert!(left.contains(&"default_web_uid-web".to_owned()), "{left:?}");
        bench.runtime.clear_faults();
        bench.pass(false).await;
        assert_eq!(bench.files.list("/var/log/pods".as_ref()).await.unwrap(), [".keep"]);
    }
}

#[tokio::test(start_paused = true)]
async fn exit_time_age_needs_one_status_call_per_container() {
    let age_by = crate::policy::AgeBy::Finished;
    let policy = ContainerPolicy { age_by, min_age: Duration::from_mins(5), ..keep(0) };
    let bench = Bench::new(Pods::ready().active(&["uid-web"]), policy);
    let sandbox = bench.sandbox("web", 0).await;
    let (first, second) =
        (bench.container("web", &sandbox, 0).await, bench.container("web", &sandbox, 1).await);
    bench.runtime.kill_container(&first, 0);
    tokio::time::advance(Duration::from_mins(6)).await;
    bench.runtime.kill_container(&second, 0);
    let mut ended = <_>::default();
    let survey = survey::all(&bench.parts, false, &mut ended).await;
    let planned = survey.planned(&bench.parts).plan;
    let gone: Vec<_> = planned.removals().map(|item| item.subject.clone()).collect();
    assert_eq!(gone, [Subject::Container(first)]);
    bench.runtime.forget_calls();
    survey::all(&bench.parts, false, &mut ended).await;
    assert_eq!(bench.runtime.count(Method::ContainerStatus), 0);
}

// behaviour: GC-34
#[tokio::test(start_paused = true)]
async fn exit_time_age_keeps_containers_with_an_unreadable_status() {
    let age_by = crate::policy::AgeBy::Finished;
    let policy = ContainerPolicy { age_by, min_age: Duration::from_mins(5), ..keep(0) };
    let mut bench = Bench::new(Pods::ready().active(&["uid-web"]), policy);
    let sandbox = bench.sandbox("web", 0).await;
    let id = bench.container("web", &sandbox, 0).await;
    tokio::time::advance(Duration::from_mins(6)).await;
    bench.runtime.kill_container(&id, 0);
    let fault = Fault::error(Code::Unavailable);
    bench.runtime.inject(Rule::on(Method::ContainerStatus, fault).times(2));
    let planned = survey::all(&bench.parts, false, &mut <_>::default()).await.planned(&bench.parts);
    let item = &planned.plan.items[0];
    assert_eq!((item.fate, item.rule), (Fate::Keep, "exit-time-unknown"));
    let _gc = bench.collector();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(bench.containers().len(), 1, "it exited a moment ago");
    bench
        .until("it is requested again, and old enough", |bench| bench.containers().is_empty())
        .await;
    // Everything of a gone pod is removed at any age.
    let gone = Bench::new(Pods::ready(), ContainerPolicy { age_by, ..keep(1) });
    gone.dead_pod("web", 1).await;
    gone.runtime.inject(Rule::on(Method::ContainerStatus, fault));
    assert_eq!(gone.pass(false).await.failed(), 0);
    assert_eq!(gone.containers().len(), 0);
}
