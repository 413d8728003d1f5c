//! Injected faults, and recorded calls.

use std::time::Duration;

use model::observed::ContainerState;
use model::ports::runtime::{
    Code, ContainerFilter, ContainerService, RuntimeError, SandboxService,
};
use testkit::runtime::{Fault, Method, Rule};
use testkit::wanted;
use tokio::time::{Instant, timeout};

use crate::setup::{IMAGE, pod, runtime, start_web};

#[tokio::test(start_paused = true)]
async fn error_fault_has_no_effect_and_ends_with_its_count() {
    let runtime = runtime();
    runtime.inject(Rule::on(Method::RunPodSandbox, Fault::error(Code::Unavailable)).times(2));
    for _ in 0..2 {
        let error = runtime.run_pod_sandbox(&pod("web")).await.unwrap_err();
        assert_eq!((error.code, error.method), (Code::Unavailable, "RunPodSandbox"));
        assert_eq!(error.object, "default/web");
    }
    assert_eq!(runtime.sandboxes(), []);
    runtime.run_pod_sandbox(&pod("web")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn late_success_takes_effect() {
    let runtime = runtime();
    let fault = Fault::late_success().after(Duration::from_secs(4));
    runtime.inject(Rule::on(Method::RunPodSandbox, fault).once());
    let begun = Instant::now();
    let error = runtime.run_pod_sandbox(&pod("web")).await.unwrap_err();
    assert_eq!(error.code, Code::DeadlineExceeded);
    assert!(error.may_have_happened());
    assert_eq!(begun.elapsed(), Duration::from_secs(4));
    assert_eq!(runtime.sandboxes().len(), 1);
    let again = runtime.run_pod_sandbox(&pod("web")).await.unwrap_err();
    assert!(again.message.contains("reserved"), "{again}");
}

#[tokio::test(start_paused = true)]
async fn hang_fault_may_take_effect_or_not() {
    let runtime = runtime();
    runtime.inject(Rule::on(Method::RunPodSandbox, Fault::hang()).once());
    runtime.inject(Rule::on(Method::RunPodSandbox, Fault::lost_answer()).once());
    let minute = Duration::from_mins(1);
    timeout(minute, runtime.run_pod_sandbox(&pod("web"))).await.unwrap_err();
    assert_eq!(runtime.sandboxes().len(), 0);
    timeout(minute, runtime.run_pod_sandbox(&pod("web"))).await.unwrap_err();
    assert_eq!(runtime.sandboxes().len(), 1);
}

/// The result of a call, and the number of created objects after it was cancelled.
fn under_way() -> [(Fault, usize); 3] {
    let four = Duration::from_secs(4);
    [(Fault::delay(four), 1), (Fault::hang(), 0), (Fault::error(Code::Internal).after(four), 0)]
}

/// The error of another call while one is in progress.
async fn meanwhile<T, F>(call: impl Fn() -> F) -> RuntimeError
where
    F: Future<Output = Result<T, RuntimeError>>,
{
    let other = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        call().await.err().expect("the name is taken")
    };
    tokio::join!(timeout(Duration::from_secs(5), call()), other).1
}

#[tokio::test(start_paused = true)]
async fn sandbox_name_is_reserved_while_its_call_runs() {
    for (fault, made) in under_way() {
        let (runtime, pod) = (runtime(), pod("web"));
        runtime.inject(Rule::on(Method::RunPodSandbox, fault).once());
        let refused = meanwhile(|| runtime.run_pod_sandbox(&pod)).await;
        assert!(refused.is_name_taken(), "{refused}");
        assert_eq!(runtime.sandboxes().len(), made, "{fault:?}");
        assert_eq!(runtime.run_pod_sandbox(&pod).await.is_ok(), made == 0, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn container_name_is_reserved_while_its_call_runs() {
    for (fault, made) in under_way() {
        let (runtime, pod) = (runtime(), pod("web"));
        let sandbox = runtime.run_pod_sandbox(&pod).await.unwrap();
        let config = wanted::container(&pod, "main", IMAGE, &["sleep", "forever"]);
        let create = || runtime.create_container(&sandbox, &config, &pod);
        runtime.inject(Rule::on(Method::CreateContainer, fault).once());
        let refused = meanwhile(create).await;
        assert!(refused.is_name_taken(), "{refused}");
        assert_eq!(runtime.containers().len(), made, "{fault:?}");
        assert_eq!(create().await.is_ok(), made == 0, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn slow_runtime_shares_state_and_reserves_names_at_once() {
    let (runtime, pod) = (runtime(), pod("web"));
    let slower = runtime.slower(Duration::from_secs(4));
    let begun = Instant::now();
    let (made, refused) = tokio::join!(slower.run_pod_sandbox(&pod), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        runtime.run_pod_sandbox(&pod).await.unwrap_err()
    });
    assert_eq!(begun.elapsed(), Duration::from_secs(4));
    assert!(refused.is_name_taken(), "{refused}");
    assert_eq!(runtime.sandboxes()[0].id, made.unwrap());
}

#[tokio::test(start_paused = true)]
async fn fault_for_one_object_lasts_until_cleared() {
    let runtime = runtime();
    let (_, id) = start_web(&runtime, &["sleep", "forever"]).await;
    let delay = Fault::delay(Duration::from_secs(3));
    runtime.inject(Rule::on(Method::ContainerStatus, delay).object(id.as_str()));
    let begun = Instant::now();
    runtime.container_status(&"other".into()).await.unwrap_err();
    assert_eq!(begun.elapsed(), Duration::ZERO);
    runtime.container_status(&id).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_secs(3));
    runtime.clear_faults();
    runtime.container_status(&id).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn abandoned_stop_sends_sigterm_but_does_not_kill() {
    let runtime = runtime();
    let (_, id) = start_web(&runtime, &["trap", "TERM", "--exit", "5", "--delay", "30s"]).await;
    let stop = runtime.stop_container(&id, Duration::from_secs(10));
    timeout(Duration::from_secs(2), stop).await.unwrap_err();
    tokio::time::sleep(Duration::from_secs(27)).await;
    let status = runtime.container_status(&id).await.unwrap();
    assert_eq!(status.state, ContainerState::Running);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let status = runtime.container_status(&id).await.unwrap();
    assert_eq!((status.state, status.exit_code), (ContainerState::Exited, 5));
    let lived = status.finished_at.unwrap().duration_since(status.started_at.unwrap());
    assert_eq!(lived.as_secs(), 30);
}

#[tokio::test(start_paused = true)]
async fn calls_are_counted_and_recorded() {
    let runtime = runtime();
    let (_, id) = start_web(&runtime, &["exit", "0"]).await;
    runtime.inject(Rule::on(Method::StartContainer, Fault::error(Code::Internal)));
    runtime.start_container(&id).await.unwrap_err();
    assert_eq!(runtime.count(Method::StartContainer), 2);
    assert_eq!(runtime.count(Method::Version), 0);
    let calls = runtime.calls();
    let calls: Vec<_> = calls.iter().map(|call| (call.method.name(), &*call.object)).collect();
    assert_eq!(
        calls,
        [
            ("RunPodSandbox", "default/web"),
            ("CreateContainer", "main of default/web"),
            ("StartContainer", id.as_str()),
            ("StartContainer", id.as_str()),
        ]
    );
    runtime.forget_calls();
    assert_eq!((runtime.calls().len(), runtime.count(Method::StartContainer)), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn late_response_has_the_earlier_state() {
    let runtime = runtime();
    let (_, id) = start_web(&runtime, &["sleep", "1"]).await;
    let late = Fault::late_answer(Duration::from_secs(3));
    runtime.inject(Rule::on(Method::ContainerStatus, late).once());
    let begun = Instant::now();
    let state = runtime.container_status(&id).await.unwrap().state;
    assert_eq!((state, begun.elapsed()), (ContainerState::Running, Duration::from_secs(3)));
    assert_eq!(runtime.container_status(&id).await.unwrap().state, ContainerState::Exited);
}

#[tokio::test(start_paused = true)]
async fn list_call_is_recorded_with_its_filter() {
    let runtime = runtime();
    let (sandbox, id) = start_web(&runtime, &["sleep", "forever"]).await;
    runtime.forget_calls();
    let filters = [
        ContainerFilter::default(),
        ContainerFilter { pod_uid: Some("uid-of-web".into()), ..ContainerFilter::default() },
        ContainerFilter { sandbox_id: Some(sandbox.clone()), ..ContainerFilter::default() },
        ContainerFilter { id: Some(id.clone()), ..ContainerFilter::default() },
    ];
    for filter in &filters {
        assert_eq!(runtime.list_containers(filter).await.unwrap().len(), 1);
    }
    let objects: Vec<_> = runtime.calls().into_iter().map(|call| call.object).collect();
    assert_eq!(objects, ["", "uid-of-web", sandbox.as_str(), id.as_str()]);
}
