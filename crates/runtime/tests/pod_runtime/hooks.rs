//! Lifecycle hooks and stop signals.

use k8s_openapi::api::core::v1::{
    Container, ExecAction, HTTPGetAction, Lifecycle, LifecycleHandler, Pod, SleepAction,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use model::observed::ContainerState::{Exited, Running};
use model::ports::runtime::Code;
use runtime::SyncError;
use runtime::decide::{NodeSettings, PodEnd};
use testkit::http::Page;
use testkit::runtime::{Fault, Method, Rule};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::harness::{Harness, IMAGE, seconds, web};

fn exec(words: &[&str]) -> LifecycleHandler {
    let command = words.iter().map(ToString::to_string).collect();
    LifecycleHandler {
        exec: Some(ExecAction { command: Some(command) }),
        ..LifecycleHandler::default()
    }
}

fn http(scheme: &str) -> LifecycleHandler {
    let get = HTTPGetAction {
        path: Some("/hook".into()),
        port: IntOrString::Int(8080),
        scheme: Some(scheme.into()),
        ..HTTPGetAction::default()
    };
    LifecycleHandler { http_get: Some(get), ..LifecycleHandler::default() }
}

fn sleep(seconds: i64) -> LifecycleHandler {
    LifecycleHandler { sleep: Some(SleepAction { seconds }), ..LifecycleHandler::default() }
}

fn post_start(handler: LifecycleHandler) -> Lifecycle {
    Lifecycle { post_start: Some(handler), ..Lifecycle::default() }
}

fn pre_stop(handler: LifecycleHandler) -> Lifecycle {
    Lifecycle { pre_stop: Some(handler), ..Lifecycle::default() }
}

fn with(lifecycle: Lifecycle, args: &[&str]) -> Pod {
    let container = Container {
        name: "main".into(),
        image: Some(IMAGE.into()),
        args: Some(args.iter().map(ToString::to_string).collect()),
        lifecycle: Some(lifecycle),
        ..Container::default()
    };
    web().spec(|spec| spec.containers.push(container)).build()
}

/// How long the kill of a pod with this grace period takes, and the timeout for the runtime: the time of
/// a process that ignores its signal.
async fn end(harness: &Harness, pod: &Pod, grace: u64) -> std::time::Duration {
    let status = harness.status(pod).await;
    harness.runtime.forget_calls();
    let begun = Instant::now();
    harness.pods.kill(pod, &status, Some(seconds(grace)), PodEnd::Deleted).await.unwrap();
    assert_eq!(harness.instances("main")[0].1, Exited);
    begun.elapsed()
}

// behaviour: ACT-82
#[tokio::test(start_paused = true)]
async fn next_container_starts_after_the_post_start_hook() {
    let harness = Harness::new();
    for handler in [exec(&["/workload", "sleep", "4"]), sleep(4)] {
        let harness = Harness::new();
        let mut pod = with(post_start(handler), &["sleep", "forever"]);
        let mut next = pod.spec.as_ref().unwrap().containers[0].clone();
        (next.name, next.lifecycle) = ("next".into(), None);
        pod.spec.as_mut().unwrap().containers.push(next);
        let begun = Instant::now();
        harness.synced(&pod).await;
        assert_eq!(begun.elapsed(), seconds(4));
        harness.running(&pod, "main").await;
        harness.running(&pod, "next").await;
    }
    let pod = with(post_start(http("HTTP")), &["sleep", "forever"]);
    // The first address of the runtime in memory.
    let probe = Harness::new();
    probe.synced(&with(Lifecycle::default(), &["sleep", "forever"])).await;
    let address = probe.status(&pod).await.ips[0];
    let url = format!("http://{address}:8080/hook");
    harness.web.put(&url, Page::Answer(500, b"any answer will do".to_vec()));
    harness.synced(&pod).await;
    let requested = harness.web.request_headers(&url);
    assert!(
        requested[0].0.iter().any(|(_, value)| value == &["kube-lifecycle/1.36"]),
        "{requested:?}"
    );
}

// behaviour: ACT-83, ACT-126
#[tokio::test(start_paused = true)]
async fn container_is_killed_and_backs_off_when_its_post_start_hook_fails() {
    let whose = "for Container \"main\" in Pod \"web_default(uid-of-web)\" failed - error: ";
    let bad = [
        (
            exec(&["/workload", "exit", "3"]),
            "Exec lifecycle hook ([/workload exit 3])",
            "command '/workload exit 3' exited with 3: ",
        ),
        (exec(&["/nonsense"]), "Exec lifecycle hook ([/nonsense])", "rpc error: code = "),
        (http("HTTP"), "HTTP lifecycle hook (/hook)", "Get \"http://"),
    ];
    for (handler, what, why) in bad {
        let harness = Harness::new();
        let pod = with(post_start(handler.clone()), &["sleep", "forever"]);
        let (reasons, error) = harness.failed(&pod).await;
        assert_eq!(reasons, [("main".to_owned(), "PostStartHookError")], "{handler:?}");
        let SyncError::StartContainers(failed) = error else { unreachable!() };
        let error_text = failed[0].1.message();
        assert!(error_text.starts_with(&format!("{what} {whose}{why}")), "{error_text}");
        assert_eq!(harness.instances("main"), [(0, Exited)]);
        let events = ["Pulled", "Created", "Started", "FailedPostStartHook", "Killing"];
        assert_eq!(harness.events.reasons(), events);
        assert_eq!(harness.last_message("Killing"), "FailedPostStartHook");
        assert_eq!(harness.last_message("FailedPostStartHook"), "PostStartHook failed");
        harness.failed(&pod).await;
        let (reasons, _) = harness.failed(&pod).await;
        assert_eq!(reasons, [("main".to_owned(), "CrashLoopBackOff")]);
    }
}

// behaviour: ACT-84, ACT-131
#[tokio::test(start_paused = true)]
async fn pod_termination_cancels_the_post_start_hook() {
    for (handler, slept) in [(exec(&["/workload", "sleep", "forever"]), 0), (sleep(60), 1)] {
        let harness = Harness::new();
        let pod = with(post_start(handler), &["sleep", "forever"]);
        let cancel = CancellationToken::new();
        let (synced, ()) = tokio::join!(harness.sync_until(&pod, &cancel), async {
            tokio::time::sleep(seconds(5)).await;
            cancel.cancel();
        });
        assert!(matches!(synced, Err(SyncError::StartContainers(_))));
        harness.running(&pod, "main").await;
        let counted = [format!("kubelet_lifecycle_handler_sleep_terminated_total {slept}")];
        assert_eq!(harness.counted("kubelet_lifecycle_handler_sleep"), counted);
    }
}

// behaviour: ACT-303, ACT-304
#[tokio::test(start_paused = true)]
async fn http_post_start_hook_is_cancelled_after_its_container_ended() {
    let mut request = http("HTTP");
    request.http_get.as_mut().unwrap().host = Some("hooks.test".into());
    for handler in [request, exec(&["/workload", "sleep", "1"])] {
        let harness = Harness::new();
        harness.web.put("http://hooks.test:8080/hook", Page::Silence);
        harness.runtime.inject(Rule::on(Method::ExecSync, Fault::lost_answer()));
        let pod = with(post_start(handler), &["sleep", "forever"]);
        let begun = Instant::now();
        let ((reasons, error), ()) = tokio::join!(harness.failed(&pod), async {
            tokio::time::sleep(seconds(60)).await;
            let id = harness.running(&pod, "main").await;
            harness.runtime.kill_container(&id, 1);
            harness.pods.container_died(&id);
        });
        assert_eq!(
            (reasons, begun.elapsed()),
            (vec![("main".to_owned(), "PostStartHookError")], seconds(70))
        );
        let SyncError::StartContainers(failed) = error else { unreachable!() };
        let error_text = failed[0].1.message();
        assert!(error_text.contains("failed - error: the container has ended"), "{error_text}");
    }
}

// behaviour: ACT-305
#[tokio::test(start_paused = true)]
async fn exec_post_start_hook_is_awaited_until_the_pod_terminates() {
    for fault in [Fault::hang(), Fault::lost_answer()] {
        let harness = Harness::new();
        harness.runtime.inject(Rule::on(Method::ExecSync, fault));
        let pod = with(post_start(exec(&["/workload", "sleep", "1"])), &["sleep", "forever"]);
        let cancel = CancellationToken::new();
        let begun = Instant::now();
        let (synced, ()) = tokio::join!(harness.sync_until(&pod, &cancel), async {
            tokio::time::sleep(seconds(10_000)).await;
            harness.running(&pod, "main").await;
            cancel.cancel();
        });
        assert!(matches!(synced, Err(SyncError::StartContainers(_))));
        assert_eq!(begun.elapsed(), seconds(10_000));
        assert_eq!(end(&harness, &pod, 10).await, seconds(0));
        assert!(!harness.events.has("FailedPostStartHook"));
    }
}

// behaviour: ACT-85
#[tokio::test(start_paused = true)]
async fn pre_stop_hook_runs_first_and_uses_the_grace_period() {
    let rows = [
        // The process exits on its signal, which comes after the hook.
        (exec(&["/workload", "sleep", "4"]), vec!["sleep", "forever"], 20, 4),
        (sleep(4), vec!["sleep", "forever"], 20, 4),
        // The process ignores its signal: hook and signal together take the grace period.
        (sleep(4), vec!["ignore", "TERM"], 20, 20),
        // After a hook that leaves less than two seconds the process still gets two.
        (sleep(9), vec!["ignore", "TERM"], 10, 11),
        // A hook that exceeds the grace period is not awaited.
        (exec(&["/workload", "sleep", "forever"]), vec!["sleep", "forever"], 10, 10),
        (sleep(100), vec!["ignore", "TERM"], 10, 12),
    ];
    for (handler, args, grace, took) in rows {
        let harness = Harness::new();
        let pod = with(pre_stop(handler.clone()), &args);
        harness.synced(&pod).await;
        assert_eq!(end(&harness, &pod, grace).await, seconds(took), "{handler:?} {args:?} {grace}");
    }
}

// behaviour: ACT-85, ACT-60
#[tokio::test(start_paused = true)]
async fn pre_stop_hook_is_skipped_and_the_runtime_gets_two_seconds_without_grace() {
    for handler in [exec(&["/workload", "exit", "1"]), sleep(1), http("HTTP")] {
        let harness = Harness::new();
        let pod = with(pre_stop(handler.clone()), &["ignore", "TERM"]);
        harness.synced(&pod).await;
        assert_eq!(end(&harness, &pod, 0).await, seconds(2), "{handler:?}");
        assert_eq!(harness.calls(), [Method::StopContainer, Method::StopPodSandbox], "{handler:?}");
        assert!(!harness.events.has("FailedPreStopHook"), "{handler:?}");
    }
}

// behaviour: ACT-86
#[tokio::test(start_paused = true)]
async fn failed_pre_stop_hook_has_an_event_and_does_not_stop_the_kill() {
    let harness = Harness::new();
    let pod = with(pre_stop(exec(&["/workload", "exit", "1"])), &["sleep", "forever"]);
    harness.synced(&pod).await;
    assert_eq!(end(&harness, &pod, 10).await, seconds(0));
    assert_eq!(harness.last_message("FailedPreStopHook"), "PreStopHook failed");
    assert_eq!(harness.calls()[..2], [Method::ExecSync, Method::StopContainer]);
}

// behaviour: ACT-86
#[tokio::test(start_paused = true)]
async fn pre_stop_hook_fails_when_its_container_ends() {
    let mut request = http("HTTP");
    request.http_get.as_mut().unwrap().host = Some("hooks.test".into());
    let rows = [
        (exec(&["/workload", "sleep", "forever"]), 10_000, true),
        // Its result is unknown, and the wait for it is short.
        (request, 10_500, false),
        (sleep(100), 10_000, false),
    ];
    for (handler, took, reported) in rows {
        let harness = Harness::new();
        harness.web.put("http://hooks.test:8080/hook", Page::Silence);
        let pod = with(pre_stop(handler.clone()), &["sleep", "forever"]);
        harness.synced(&pod).await;
        let took = std::time::Duration::from_millis(took);
        assert_eq!(end(&harness, &pod, 10).await, took, "{handler:?}");
        assert_eq!(harness.events.has("FailedPreStopHook"), reported, "{handler:?}");
    }
}

// behaviour: ACT-151
#[tokio::test(start_paused = true)]
async fn http_hook_succeeds_when_the_response_begins() {
    let mut request = http("HTTP");
    request.http_get.as_mut().unwrap().host = Some("hooks.test".into());
    for page in [Page::CutOff, Page::ok(vec![b'x'; 20 << 10])] {
        let harness = Harness::new();
        harness.web.put("http://hooks.test:8080/hook", page);
        let lifecycle =
            Lifecycle { post_start: Some(request.clone()), ..pre_stop(request.clone()) };
        let pod = with(lifecycle, &["sleep", "forever"]);
        harness.synced(&pod).await;
        assert_eq!(end(&harness, &pod, 10).await, seconds(0));
        assert_eq!(harness.web.request_headers("http://hooks.test:8080/hook").len(), 2);
        assert!(
            !harness.events.has("FailedPreStopHook") && !harness.events.has("FailedPostStartHook")
        );
    }
}

// behaviour: ACT-153
#[tokio::test(start_paused = true)]
async fn http_hook_is_sent_to_the_node_on_the_host_network() {
    let harness = Harness::new();
    let lifecycle = Lifecycle { post_start: Some(http("HTTP")), ..pre_stop(http("HTTP")) };
    let mut pod = with(lifecycle, &["sleep", "forever"]);
    pod.spec.as_mut().unwrap().host_network = Some(true);
    harness.files.write("/etc/hosts", "127.0.0.1 localhost\n");
    let url = "http://192.0.2.1:8080/hook";
    harness.web.put(url, Page::ok("yes"));
    harness.synced(&pod).await;
    end(&harness, &pod, 10).await;
    assert_eq!(harness.web.request_headers(url).len(), 2);
    assert!(!harness.events.has("FailedPreStopHook"));
}

// behaviour: ACT-87, ACT-131
#[tokio::test(start_paused = true)]
async fn https_hook_falls_back_to_http() {
    for page in [Page::ok("bye"), Page::CutOff] {
        let harness = Harness::new();
        let pod = with(pre_stop(http("HTTPS")), &["sleep", "forever"]);
        harness.synced(&pod).await;
        let address = harness.status(&pod).await.ips[0];
        harness.web.put(format!("https://{address}:8080/hook"), Page::NotSecure);
        harness.web.put(format!("http://{address}:8080/hook"), page);
        end(&harness, &pod, 10).await;
        let message = format!(
            "request to HTTPS lifecycle hook {address}:8080 got HTTP response, retry with HTTP succeeded"
        );
        assert_eq!(harness.last_message("LifecycleHTTPFallback"), message);
        assert!(!harness.events.has("FailedPreStopHook"));
        let counted = ["kubelet_lifecycle_handler_http_fallbacks_total 1"];
        assert_eq!(harness.counted("kubelet_lifecycle_handler_http"), counted);
    }
}

// behaviour: ACT-88
#[tokio::test(start_paused = true)]
async fn orphaned_pod_uses_the_hook_of_the_container_annotation() {
    let harness = Harness::new();
    let pod = with(pre_stop(sleep(3)), &["sleep", "forever"]);
    harness.synced(&pod).await;
    let mut unknown = Pod { metadata: pod.metadata.clone(), ..Pod::default() };
    unknown.spec = None;
    assert_eq!(end(&harness, &unknown, 10).await, seconds(3));
}

// behaviour: ACT-68
#[tokio::test(start_paused = true)]
async fn container_is_stopped_with_its_stop_signal() {
    let lifecycle = Lifecycle { stop_signal: Some("SIGUSR1".into()), ..Lifecycle::default() };
    let heeded = || Harness::with(NodeSettings { stop_signals: true, ..NodeSettings::default() });
    let harness = heeded();
    let pod = with(lifecycle.clone(), &["trap", "USR1", "--exit", "5"]);
    harness.synced(&pod).await;
    assert_eq!(end(&harness, &pod, 10).await, seconds(0));
    assert_eq!(harness.status(&pod).await.latest("main").unwrap().exit_code, 5);
    let deaf = heeded();
    let pod = with(lifecycle, &["trap", "TERM"]);
    deaf.synced(&pod).await;
    assert_eq!(end(&deaf, &pod, 10).await, seconds(10));
    // Without the gate its choice is ignored.
    let gated = Harness::new();
    gated.synced(&pod).await;
    assert_eq!(end(&gated, &pod, 10).await, seconds(0));
}

// behaviour: ACT-63
#[tokio::test(start_paused = true)]
async fn sidecar_wait_and_hook_share_the_grace_period() {
    let rows = [
        // It ignores its signal: hook, wait and signal together take the grace period.
        (["ignore", "TERM"], 5, 12),
        // The sidecar exits on its signal. Its hook runs at once, in parallel to the stop of the
        // other containers, and is done when they have ended. A hook that waits for them would begin
        // after 3 s.
        (["sleep", "forever"], 5, 5),
        // It still waits for its turn.
        (["sleep", "forever"], 2, 3),
    ];
    for (args, hook, took) in rows {
        let harness = Harness::new();
        let mut pod = web()
            .sidecar("side", IMAGE, args)
            .container("main", IMAGE, ["trap", "TERM", "--delay", "3s"])
            .build();
        pod.spec.as_mut().unwrap().init_containers.as_mut().unwrap()[0].lifecycle =
            Some(pre_stop(sleep(hook)));
        harness.synced(&pod).await;
        harness.synced(&pod).await;
        let status = harness.status(&pod).await;
        let begun = Instant::now();
        harness.pods.kill(&pod, &status, Some(seconds(12)), PodEnd::Deleted).await.unwrap();
        assert_eq!(begun.elapsed(), seconds(took), "{args:?} {hook}");
    }
}

#[tokio::test(start_paused = true)]
async fn failed_stop_does_not_shorten_the_wait_of_sidecars() {
    let harness = Harness::new();
    let pod = web()
        .sidecar("side", IMAGE, ["sleep", "forever"])
        .container("main", IMAGE, ["sleep", "forever"])
        .build();
    harness.synced(&pod).await;
    harness.synced(&pod).await;
    let main = harness.running(&pod, "main").await;
    let fault = Fault::error(Code::Internal);
    harness.runtime.inject(Rule::on(Method::StopContainer, fault).object(main.as_str()));
    let status = harness.status(&pod).await;
    let begun = Instant::now();
    harness.pods.kill(&pod, &status, Some(seconds(6)), PodEnd::Deleted).await.unwrap_err();
    assert_eq!(begun.elapsed(), seconds(6));
    assert_ne!(harness.instances("side")[0].1, Running);
}
