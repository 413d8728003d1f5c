//! Pods from manifests, from start to end.

use std::time::Duration;

use ferrolet::wiring::Agent;
use model::observed::ContainerState;
use model::ports::events::EventType;
use model::ports::runtime::Code;
use testkit::runtime::{Fault, Method, Rule};

use crate::harness::Harness;
use crate::incidents::incidents;

#[tokio::test(start_paused = true)]
async fn killed_container_is_restarted_in_the_same_sandbox() {
    let harness = Harness::new();
    harness.write_manifest("web", "Always", "[sleep, forever]");
    let _agent = harness.start();
    let first = harness.one_runs("web").await;
    harness.runtime.kill_container(&first.id, 137);
    let second = harness
        .until("another runs", |harness| {
            harness.running("web").into_iter().find(|container| container.id != first.id)
        })
        .await;
    assert_eq!((second.attempt, &second.sandbox_id), (1, &first.sandbox_id));
}

#[tokio::test(start_paused = true)]
async fn agent_restart_changes_nothing_in_the_runtime() {
    let harness = Harness::new();
    harness.write_manifest("web", "Always", "[sleep, forever]");
    harness.write_manifest("job", "Never", "[exit, \"3\"]");
    let agent = harness.start();
    harness.one_runs("web").await;
    harness.until("the job ended", |harness| (harness.live_sandboxes() == 1).then_some(())).await;
    let before = (harness.runtime.containers(), harness.runtime.sandboxes());
    agent.stop().await;
    harness.runtime.forget_calls();
    let _agent = harness.start();
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!((harness.runtime.containers(), harness.runtime.sandboxes()), before);
    for method in [
        Method::RunPodSandbox,
        Method::CreateContainer,
        Method::StartContainer,
        Method::StopContainer,
        Method::RemoveContainer,
        Method::RemovePodSandbox,
    ] {
        assert_eq!(harness.runtime.count(method), 0, "{method:?}");
    }
}

// behaviour: STW-50
#[tokio::test(start_paused = true)]
async fn status_survives_a_restart_of_the_agent_without_an_api_server() {
    let harness = Harness::new();
    harness.write_manifest("web", "Always", "[sleep, forever]");
    let agent = harness.start();
    let status = |agent: &Agent| agent.pods().pods().remove(0).status.unwrap();
    for restarts in 1..=2 {
        let running = harness.one_runs("web").await;
        harness.runtime.kill_container(&running.id, 7);
        let restarted = |harness: &Harness| {
            let again = harness.running("web").pop()?;
            (again.id != running.id && again.attempt == restarts).then_some(())
        };
        harness.until("it runs again", restarted).await;
    }
    tokio::time::sleep(Duration::from_mins(1)).await;
    let before = status(&agent);
    let main = before.container_statuses.as_ref().unwrap()[0].clone();
    let last = main.last_state.unwrap().terminated.unwrap();
    assert_eq!((main.restart_count, last.exit_code), (2, 7));
    agent.stop().await;
    let containers = harness.runtime.containers().into_iter();
    for dead in containers.filter(|one| one.state != ContainerState::Running) {
        harness.runtime.lose_container(&dead.id);
    }
    tokio::time::sleep(Duration::from_mins(10)).await;
    let agent = harness.start();
    harness.until("it has a status", |_| agent.pods().pods().pop()?.status).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(status(&agent), before);
}

// behaviour: WRK-7
#[tokio::test(start_paused = true)]
async fn pod_terminates_when_its_manifest_is_removed_even_while_agent_is_stopped() {
    let harness = Harness::new();
    harness.write_manifest("seen", "Always", "[sleep, forever]");
    harness.write_manifest("unseen", "Always", "[sleep, forever]");
    let agent = harness.start();
    harness.one_runs("seen").await;
    harness.one_runs("unseen").await;
    harness.remove_manifest("seen");
    harness.until("it ended", |harness| harness.running("seen").is_empty().then_some(())).await;
    harness.one_runs("unseen").await;
    agent.stop().await;
    harness.remove_manifest("unseen");
    let _agent = harness.start();
    harness.until("it ended", |harness| harness.running("unseen").is_empty().then_some(())).await;
    harness
        .until("no sandbox lives", |harness| (harness.live_sandboxes() == 0).then_some(()))
        .await;
}

#[tokio::test(start_paused = true)]
async fn changed_pod_starts_after_the_old_one_ended() {
    let harness = Harness::new();
    harness.write_manifest("web", "Always", "[trap, TERM, --exit, \"0\", --delay, 20s]");
    let _agent = harness.start();
    let old = harness.one_runs("web").await;
    harness.write_manifest("web", "Always", "[sleep, forever]");
    let new = harness
        .until("the new one runs", |harness| {
            let running = harness.running("web");
            assert!(running.len() <= 1, "both run: {running:?}");
            running.into_iter().find(|container| container.pod_uid != old.pod_uid)
        })
        .await;
    assert!(
        harness.runtime.containers().iter().all(|container| {
            container.id != old.id || container.state == ContainerState::Exited
        })
    );
    let later = new.created_at.duration_since(old.created_at).as_secs();
    assert!(later >= 20, "{later} s");
}

#[tokio::test(start_paused = true)]
async fn failing_container_restarts_with_back_off() {
    let harness = Harness::new();
    harness.write_manifest("web", "Always", "[exit, \"1\"]");
    let _agent = harness.start();
    tokio::time::sleep(Duration::from_mins(11)).await;
    let calls = harness.runtime.calls().into_iter();
    let created: Vec<_> =
        calls.filter(|call| call.method == Method::CreateContainer).map(|call| call.at).collect();
    let gaps: Vec<i64> =
        created.windows(2).map(|pair| pair[1].duration_since(pair[0]).as_secs()).collect();
    // 10 s doubling to 300 s, each with up to half as much jitter and some seconds for the relist.
    assert!(gaps[0] <= 3, "{gaps:?}");
    for (gap, least) in gaps[1..].iter().zip([10, 20, 40, 80, 160]) {
        assert!((least..=least * 2).contains(gap), "{least}: {gaps:?}");
    }
    assert!((5..=7).contains(&gaps.len()), "{gaps:?}");
    assert!(harness.events.has("BackOff"));
    // The last dead container is kept.
    assert_eq!(harness.runtime.containers().len(), 1);
}

// behaviour: WRK-16, WHY-8
#[tokio::test(start_paused = true)]
async fn active_deadline_ends_a_pod_across_agent_restart() {
    let harness = Harness::new();
    let deadline = "Always\n  activeDeadlineSeconds: 300";
    harness.write_manifest("seen", deadline, "[sleep, forever]");
    harness.write_manifest("unseen", deadline, "[sleep, forever]");
    let polite = "Never\n  activeDeadlineSeconds: 300";
    harness.write_manifest("polite", polite, "[trap, TERM, --exit, \"0\"]");
    let agent = harness.start();
    harness.one_runs("seen").await;
    harness.one_runs("polite").await;
    harness.one_runs("unseen").await;
    tokio::time::sleep(Duration::from_secs(295)).await;
    assert_eq!(harness.running("seen").len(), 1);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(harness.running("seen").is_empty());
    let reported =
        harness.events.all().into_iter().find(|event| event.reason == "DeadlineExceeded");
    assert_eq!(reported.map(|event| event.kind), Some(EventType::Normal));
    let check_failed = |agent: &Agent| {
        for known in agent.pods().pods() {
            let status = known.status.unwrap();
            let reported = (status.phase.as_deref(), status.reason.as_deref());
            assert_eq!(reported, (Some("Failed"), Some("DeadlineExceeded")));
        }
    };
    check_failed(&agent);
    assert_eq!(incidents(&harness, "seen"), ["kill deadline-exceeded: gracePeriod 30s"]);
    agent.stop().await;
    let before = harness.runtime.containers().len();
    let events = |harness: &Harness| {
        harness.events.all().iter().filter(|event| event.reason == "DeadlineExceeded").count()
    };
    assert_eq!(events(&harness), 3);
    let agent = harness.start();
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(events(&harness), 3, "one event at each start of an agent");
    assert_eq!(
        harness.runtime.containers().len(),
        before,
        "no container of an ended pod was started"
    );
    // Also for a pod whose container exited with 0 when it was stopped.
    assert_eq!(agent.pods().pods().len(), 3);
    check_failed(&agent);
}

#[tokio::test(start_paused = true)]
async fn hung_pull_does_not_block_pod_termination() {
    let harness = Harness::new();
    harness.files.write(
        "/manifests/far.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: far}\nspec:\n  containers:\n  \
         - {name: main, image: \"elsewhere.test/far:1\", args: [sleep, forever]}\n",
    );
    harness.runtime.inject(Rule::on(Method::PullImage, Fault::hang()));
    let _agent = harness.start();
    harness
        .until("the sandbox exists", |harness| (harness.live_sandboxes() == 1).then_some(()))
        .await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    harness.remove_manifest("far");
    harness.until("it ended", |harness| (harness.live_sandboxes() == 0).then_some(())).await;
}

// behaviour: WRK-16
#[tokio::test(start_paused = true)]
async fn pod_without_sandbox_fails_exactly_at_its_deadline() {
    let harness = Harness::new();
    harness.runtime.inject(Rule::on(Method::RunPodSandbox, Fault::error(Code::Unavailable)));
    let agent = harness.start();
    harness.write_manifest("late", "Always\n  activeDeadlineSeconds: 5", "[sleep, forever]");
    let tried =
        |harness: &Harness| (harness.runtime.count(Method::RunPodSandbox) > 0).then_some(());
    harness.until("a sandbox was attempted", tried).await;
    let phase = || agent.pods().pods().remove(0).status.unwrap().phase.clone();
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(phase().as_deref(), Some("Pending"));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(phase().as_deref(), Some("Failed"));
}

// behaviour: ACT-150
#[tokio::test(start_paused = true)]
async fn pod_ready_to_start_containers_is_true_during_an_image_pull() {
    let far = "\n  containers:\n  - {name: main, image: 'elsewhere.test/far:1', args: [sleep, forever]}\n";
    for fault in [Fault::hang(), Fault::error(Code::Unavailable)] {
        let harness = Harness::new();
        harness.write_spec("far", far);
        harness.runtime.inject(Rule::on(Method::PullImage, fault));
        let agent = harness.start();
        let pulls =
            |harness: &Harness| (harness.runtime.count(Method::PullImage) > 0).then_some(());
        harness.until("its image is pulled", pulls).await;
        // Whether or not that fails and is retried.
        for _ in 0..30 {
            let known = agent.pods().pods();
            let status = known.iter().find_map(|known| known.status.clone()).unwrap();
            let conditions = status.conditions.iter().flatten();
            let ready: Vec<_> = conditions
                .filter(|one| one.type_ == "PodReadyToStartContainers")
                .map(|one| one.status.as_str())
                .collect();
            assert_eq!(ready, ["True"]);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn finished_pod_runs_again_when_its_manifest_is_recreated() {
    let harness = Harness::new();
    let manifest = |args: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: job, uid: fixed}}\nspec:\n  \
             restartPolicy: OnFailure\n  containers:\n  \
             - {{name: main, image: \"ferrolet.test/workload:1\", args: {args}}}\n"
        )
    };
    harness.files.write("/manifests/job.yaml", manifest("[exit, \"0\"]"));
    let _agent = harness.start();
    let ended = |harness: &Harness| {
        let ran = !harness.runtime.containers().is_empty();
        (ran && harness.running("job").is_empty() && harness.live_sandboxes() == 0).then_some(())
    };
    harness.until("it ended", ended).await;
    harness.remove_manifest("job");
    tokio::time::sleep(Duration::from_mins(1)).await;
    harness.runtime.forget_calls();
    harness.files.write("/manifests/job.yaml", manifest("[exit, \"0\"]").replace("main", "other"));
    let created =
        |harness: &Harness| (harness.runtime.count(Method::CreateContainer) > 0).then_some(());
    harness.until("it runs again", created).await;
}

// behaviour: WRK-36
#[tokio::test(start_paused = true)]
async fn status_omits_containers_of_the_previous_run_when_a_pod_starts_over() {
    let harness = Harness::new();
    // Some of its containers never start, and it takes a while to stop.
    let manifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: job, uid: fixed}\nspec:\n  \
                    restartPolicy: Never\n  initContainers:\n  \
                    - {name: side, restartPolicy: Always, image: \"ferrolet.test/workload:1\", \
                    args: [trap, TERM, --exit, \"0\", --delay, 5s]}\n  \
                    - {name: init, image: \"ferrolet.test/workload:1\", args: [exit, \"0\"]}\n  \
                    containers:\n  - {name: main, image: \"elsewhere.test/far:1\"}\n";
    harness.files.write("/manifests/job.yaml", manifest);
    let agent = harness.start();
    tokio::time::sleep(Duration::from_secs(30)).await;
    harness.one_runs("job").await;
    harness.remove_manifest("job");
    tokio::time::sleep(Duration::from_secs(2)).await;
    harness.files.write("/manifests/job.yaml", manifest);
    harness.until("it ended", |harness| (harness.live_sandboxes() == 0).then_some(())).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let reported = |agent: &Agent| {
        let status = agent.pods().pods().remove(0).status.unwrap();
        status.container_statuses.as_ref().unwrap()[0].state.clone().unwrap()
    };
    let main = reported(&agent);
    assert!(main.waiting.is_some(), "it has not run: {main:?}");
    agent.stop().await;
    let agent = harness.start();
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(reported(&agent), main);
}
