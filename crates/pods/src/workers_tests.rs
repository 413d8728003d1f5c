#[path = "workers_tests/scripted.rs"]
mod scripted;

use self::scripted::{Act, Bench};
use model::panics::PanicStep;
use model::pod_failure::PodFailure;

use super::*;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn pod_is_synced_terminated_and_can_be_created_again() {
    let mut bench = Bench::new();
    bench.create("a").await;
    bench.nth(1).await;
    bench.kill("a", 20).await;
    assert_eq!(bench.event().await, WorkerEvent::Finished("a".into()));
    assert_eq!(bench.jobs(), ["sync a", "terminate a 20", "clean up a"]);
    bench.desired([]).await;
    assert_eq!(bench.event().await, WorkerEvent::Forgotten("a".into()));
    bench.create("a").await;
    assert_eq!(bench.nth(4).await.0[3], "sync a");
}

#[tokio::test(start_paused = true)]
async fn pod_has_one_job_at_a_time_and_pods_run_concurrently() {
    let bench = Bench::new();
    bench.script("sync a", [Act::Takes(seconds(5))]);
    bench.create("a").await;
    bench.create("b").await;
    let (mut jobs, at) = bench.nth(2).await;
    jobs.sort();
    assert_eq!((jobs, at), (vec!["sync a".to_owned(), "sync b".to_owned()], seconds(0)));
    bench.update("a").await;
    bench.update("a").await;
    bench.sync("a").await;
    assert_eq!(bench.nth(3).await.1, seconds(5));
    // All updates that arrived meanwhile are one job.
    assert_eq!(bench.after(seconds(10)).await.len(), 3);
}

// behaviour: WRK-15
#[tokio::test(start_paused = true)]
async fn job_uses_an_observation_begun_after_the_previous_job() {
    let bench = Bench::without_observations();
    bench.script("sync a", [Act::Takes(seconds(5))]);
    bench.observations.observe("a", bench.seq.next());
    bench.create("a").await;
    bench.nth(1).await;
    bench.sync("a").await;
    tokio::time::sleep(seconds(3)).await;
    let during = bench.seq.next();
    assert_eq!(bench.after(seconds(3)).await.len(), 1);
    bench.observations.observe("a", during);
    assert_eq!(bench.after(seconds(10)).await.len(), 1, "it began before the end of the job");
    bench.observations.observe("a", bench.seq.next());
    assert_eq!(bench.nth(2).await.1, seconds(16));
}

// behaviour: WRK-19
#[tokio::test(start_paused = true)]
async fn job_does_not_run_while_status_is_unknown() {
    let bench = Bench::without_observations();
    bench.create("a").await;
    assert!(bench.after(seconds(1)).await.is_empty());
    bench.observations.fail("a");
    assert!(bench.unknown().is_empty());
    assert!(bench.after(seconds(1)).await.is_empty());
    assert_eq!(bench.unknown(), ["a".into()], "it is reported");
    bench.observations.observe("a", bench.seq.next());
    // 10 to 15 seconds after the failure.
    let (_, at) = bench.nth(1).await;
    assert!((seconds(11)..=seconds(16)).contains(&at), "{at:?}");
}

// behaviour: WRK-14
#[tokio::test(start_paused = true)]
async fn job_panic_fails_only_its_pod() {
    let bench = Bench::new();
    bench.script("sync a", [Act::Panics, Act::Panics]);
    bench.script("sync b", [Act::Takes(seconds(3))]);
    bench.create("a").await;
    bench.create("b").await;
    bench.nth(2).await;
    bench.sync("b").await;
    let (jobs, at) = bench.nth(3).await;
    assert_eq!((jobs[2].as_str(), at), ("sync b", seconds(3)));
    let (jobs, at) = bench.nth(4).await;
    assert_eq!(jobs[3], "sync a");
    assert!((seconds(10)..=seconds(15)).contains(&at), "{at:?}");
    let (jobs, again) = bench.nth(5).await;
    assert_eq!(jobs[4], "sync a");
    assert!((at + seconds(10)..=at + seconds(15)).contains(&again), "{again:?}");
    assert!(!bench.tasks.is_empty());
    assert_eq!(bench.panics.all(), vec![(PanicStep::PodWorker, "a".to_owned()); 2]);
}

// behaviour: WRK-38
#[tokio::test(start_paused = true)]
async fn task_panic_fails_only_its_pod() {
    let mut bench = Bench::new();
    for uid in ["a", "b"] {
        bench.create(uid).await;
    }
    bench.nth(2).await;
    // When a job that changed something ends, the task requests an observation.
    bench.observations.panic_on(Some("a"));
    for job in ["sync a", "sync b"] {
        bench.script(job, [Act::Acts(Outcome::Done)]);
    }
    for uid in ["a", "b"] {
        bench.sync(uid).await;
    }
    tokio::time::sleep(seconds(60)).await;
    let panics = bench.panics.all();
    assert!((2..=12).contains(&panics.len()), "{panics:?}");
    assert!(panics.iter().all(|one| *one == (PanicStep::PodWorker, "a".to_owned())), "{panics:?}");
    bench.sync("b").await;
    let of_b = bench.after(seconds(1)).await.iter().filter(|job| *job == "sync b").count();
    assert!(of_b >= 3, "{:?}", bench.jobs());
    bench.observations.panic_on(None);
    bench.kill("a", 20).await;
    assert_eq!(bench.event().await, WorkerEvent::Finished("a".into()));
    assert!(!bench.tasks.is_empty());
}

// behaviour: WRK-38
#[test]
fn panicked_worker_steps_are_repeated_in_order() {
    let (now, uid) = (seconds(0), PodUid::from("a"));
    let requested = |update| Work::Event(Event::Updated("a".into(), update));
    let kill = Update::Kill { target: Bench::target("a"), grace: None, failure: None };
    let mut redo = PodRetries::default();
    redo.panicked(&uid, requested(Update::Sync), now);
    redo.keep(&uid, requested(kill));
    redo.keep(&uid, requested(Update::Sync));
    redo.keep(&uid, Work::Command(Command::Terminated(uid.clone())));
    let due = redo.take_due(now + seconds(1));
    let kinds: Vec<&str> = due[0]
        .1
        .iter()
        .map(|work| match work {
            Work::Event(Event::Updated(_, Update::Kill { .. })) => "kill",
            Work::Event(Event::Updated(_, Update::Sync)) => "sync",
            Work::Command(Command::Terminated(_)) => "terminated",
            _ => "other",
        })
        .collect();
    assert_eq!(kinds, ["kill", "sync", "terminated"]);
}

#[tokio::test(start_paused = true)]
async fn panic_during_termination_does_not_prevent_it() {
    let mut bench = Bench::new();
    bench.script("terminate a 20", [Act::Panics]);
    bench.script("clean up a", [Act::Panics]);
    bench.create("a").await;
    bench.nth(1).await;
    bench.kill("a", 20).await;
    assert_eq!(bench.event().await, WorkerEvent::Finished("a".into()));
    let jobs = bench.jobs();
    let ending = ["terminate a 20", "terminate a 20", "clean up a", "clean up a"];
    assert_eq!(jobs[1..], ending);
}

#[tokio::test(start_paused = true)]
async fn shorter_grace_restarts_termination_immediately() {
    let mut bench = Bench::new();
    bench.script("terminate a 20", [Act::Hangs]);
    bench.create("a").await;
    bench.nth(1).await;
    bench.kill("a", 20).await;
    bench.nth(2).await;
    bench.kill("a", 40).await;
    assert_eq!(bench.after(seconds(3)).await.len(), 2, "a longer grace changes nothing");
    bench.kill("a", 5).await;
    let (jobs, at) = bench.nth(3).await;
    assert_eq!((jobs[2].as_str(), at.as_secs()), ("terminate a 5", 3));
    assert_eq!(bench.event().await, WorkerEvent::Finished("a".into()));
}

#[tokio::test(start_paused = true)]
async fn running_sync_is_never_dropped() {
    let bench = Bench::new();
    bench.script("sync a", [Act::Takes(seconds(5))]);
    bench.create("a").await;
    bench.nth(1).await;
    bench.kill("a", 20).await;
    let (jobs, at) = bench.nth(2).await;
    assert_eq!((jobs[1].as_str(), at), ("terminate a 20", seconds(5)));
}

#[tokio::test(start_paused = true)]
async fn waiting_sync_is_cancelled_by_termination() {
    let bench = Bench::without_observations();
    bench.create("a").await;
    assert!(bench.after(seconds(1)).await.is_empty());
    bench.kill("a", 20).await;
    assert!(bench.after(seconds(1)).await.is_empty());
    bench.observations.observe("a", bench.seq.next());
    assert_eq!(bench.nth(1).await.0, ["terminate a 20"]);
}

#[tokio::test(start_paused = true)]
async fn completed_termination_is_not_repeated_for_updates_during_it() {
    let mut bench = Bench::new();
    bench.script("terminate a 20", [Act::Takes(seconds(5))]);
    bench.create("a").await;
    bench.nth(1).await;
    bench.kill("a", 20).await;
    bench.nth(2).await;
    // The exit of its containers is reported while the pod terminates.
    bench.sync("a").await;
    assert_eq!(bench.event().await, WorkerEvent::Finished("a".into()));
    assert_eq!(bench.jobs(), ["sync a", "terminate a 20", "clean up a"]);
}

#[tokio::test(start_paused = true)]
async fn each_outcome_has_its_requeue_delay() {
    let rows = [
        (Outcome::Done, 60.0, 90.0),
        (Outcome::Again(Retry::Resync), 60.0, 90.0),
        (Outcome::Again(Retry::Failure), 10.0, 15.0),
        (Outcome::Again(Retry::Network), 1.0, 1.5),
        (Outcome::Cancelled, 10.0, 15.0),
    ];
    for (outcome, least, most) in rows {
        let bench = Bench::new();
        let mut waits = BTreeSet::new();
        for uid in ["a", "b", "c", "d"] {
            bench.script(&format!("sync {uid}"), [Act::Ends(outcome)]);
            bench.create(uid).await;
        }
        bench.nth(4).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        bench.observations.relist(&["a", "b", "c", "d"]);
        bench.nth(8).await;
        for (job, at) in bench.times().into_iter().skip(4) {
            let waited = at.as_secs_f64();
            assert!((least..=most).contains(&waited), "{outcome:?}: {job} after {waited}");
            waits.insert(at);
        }
        // Periodic syncs may be aligned; failures of all pods must not be retried at the same time.
        let apart = if least > 15.0 { 2 } else { 4 };
        assert!(waits.len() >= apart, "requeues of pods that started together spread out");
    }
}

#[tokio::test(start_paused = true)]
async fn retry_at_a_fixed_time_waits_until_then() {
    let bench = Bench::new();
    let then = bench.clock.now() + seconds(5);
    bench.script("sync a", [Act::Ends(Outcome::Again(Retry::At(then)))]);
    bench.create("a").await;
    let (_, at) = bench.nth(2).await;
    assert!((seconds(5)..=Duration::from_millis(7500)).contains(&at), "{at:?}");
}

#[tokio::test(start_paused = true)]
async fn update_ends_a_wait_and_the_old_wait_is_dropped() {
    let bench = Bench::new();
    bench.create("a").await;
    bench.nth(1).await;
    tokio::time::sleep(seconds(50)).await;
    // The job still runs when the first wait would have ended.
    bench.script("sync a", [Act::Takes(seconds(60))]);
    bench.sync("a").await;
    assert_eq!(bench.nth(2).await.1, seconds(50));
    tokio::time::sleep(seconds(61)).await;
    bench.observations.relist(&["a"]);
    let (_, at) = bench.nth(3).await;
    assert!((seconds(170)..=seconds(200)).contains(&at), "{at:?}");
}

#[tokio::test(start_paused = true)]
async fn finished_pod_is_not_synced_again() {
    let mut bench = Bench::new();
    bench.create("a").await;
    bench.nth(1).await;
    bench.kill("a", 1).await;
    bench.event().await;
    assert_eq!(bench.after(Duration::from_mins(10)).await.len(), 3);
}

// behaviour: WRK-35
#[tokio::test(start_paused = true)]
async fn leftovers_of_a_finished_pod_are_found_by_observations() {
    let mut bench = Bench::new();
    bench.create("a").await;
    bench.nth(1).await;
    bench.kill("a", 20).await;
    bench.event().await;
    bench.observations.remains("a");
    bench.sync("a").await;
    bench.desired(["a"]).await;
    assert_eq!(bench.after(seconds(1)).await.len(), 3, "nothing of it runs");
    bench.observations.life("a", bench.seq.next());
    bench.sync("a").await;
    assert_eq!(bench.event().await, WorkerEvent::Finished("a".into()));
    assert_eq!(bench.jobs()[3..], ["terminate a 1", "clean up a"]);
    // Also without a notification.
    bench.observations.life("a", bench.seq.next());
    bench.desired(["a"]).await;
    assert_eq!(bench.event().await, WorkerEvent::Finished("a".into()));
    assert_eq!(bench.jobs()[5..], ["terminate a 1", "clean up a"]);
}

// behaviour: WRK-35
#[tokio::test(start_paused = true)]
async fn containers_that_appear_during_clean_up_are_terminated() {
    let mut bench = Bench::without_observations();
    bench.observations.observe("a", bench.seq.next());
    bench.create("a").await;
    bench.nth(1).await;
    bench.observations.observe("a", bench.seq.next());
    bench.script("clean up a", [Act::Takes(seconds(5))]);
    bench.kill("a", 20).await;
    assert_eq!(bench.after(seconds(1)).await.len(), 2);
    bench.observations.observe("a", bench.seq.next());
    assert_eq!(bench.after(seconds(1)).await[2..], ["clean up a"]);
    bench.observations.life("a", bench.seq.next());
    bench.sync("a").await;
    assert_eq!(bench.after(seconds(1)).await.len(), 3);
    assert_eq!(bench.event().await, WorkerEvent::Finished("a".into()));
    assert_eq!(bench.nth(4).await.0[3], "terminate a 1");
}

#[tokio::test(start_paused = true)]
async fn observation_is_requested_once_and_only_when_needed() {
    let bench = Bench::new();
    bench.create("a").await;
    bench.nth(1).await;
    assert_eq!(bench.observations.requested(), 1, "its status was unknown");
    bench.observations.observe("a", bench.seq.next());
    bench.sync("a").await;
    bench.nth(2).await;
    assert_eq!(bench.observations.requested(), 1, "a recent observation existed");
    bench.observations.observe("a", bench.seq.next());
    bench.script("sync a", [Act::Acts(Outcome::Done)]);
    bench.sync("a").await;
    bench.nth(3).await;
    bench.after(seconds(1)).await;
    assert_eq!(bench.observations.requested(), 2, "the effect of the job is observed");
    bench.sync("a").await;
    bench.nth(4).await;
    assert_eq!(bench.observations.requested(), 2, "that observation is used");
}

#[tokio::test(start_paused = true)]
async fn recreated_pod_ignores_leftovers_of_its_earlier_instance() {
    let bench = Bench::without_observations();
    bench.observations.remains("a");
    bench.create("a").await;
    assert!(bench.after(seconds(1)).await.is_empty());
    assert_eq!(bench.observations.requested(), 1);
    bench.observations.remains("a");
    assert_eq!(bench.nth(1).await.0, ["sync a"], "the old status is not used");
}

#[tokio::test(start_paused = true)]
async fn observation_after_a_job_is_used_by_the_next_job() {
    let bench = Bench::without_observations();
    bench.observations.observe("a", bench.seq.next());
    bench.script("sync a", [Act::Acts(Outcome::Finished)]);
    bench.create("a").await;
    assert_eq!(bench.after(seconds(1)).await, ["sync a"]);
    assert_eq!(bench.observations.requested(), 1);
    bench.observations.observe("a", bench.seq.next());
    assert_eq!(bench.nth(2).await.0[1], "terminate a 30");
}

// behaviour: WRK-15
#[tokio::test(start_paused = true)]
async fn observation_of_termination_is_used_for_clean_up() {
    let bench = Bench::without_observations();
    bench.observations.observe("a", bench.seq.next());
    bench.create("a").await;
    assert_eq!(bench.after(seconds(1)).await, ["sync a"]);
    bench.observations.observe("a", bench.seq.next());
    bench.script("terminate a 20", [Act::Takes(seconds(5))]);
    bench.kill("a", 20).await;
    tokio::time::sleep(seconds(3)).await;
    let during = bench.seq.next();
    bench.after(seconds(3)).await;
    assert_eq!(bench.observations.requested(), 1, "the termination is verified");
    bench.observations.observe("a", during);
    assert_eq!(bench.after(seconds(1)).await, ["sync a", "terminate a 20"], "it is too old");
    bench.observations.observe("a", bench.seq.next());
    assert_eq!(bench.nth(3).await.0[2], "clean up a");
    bench.after(seconds(1)).await;
    assert_eq!(bench.observations.requested(), 1, "only once");
}

#[tokio::test(start_paused = true)]
async fn stop_neither_waits_for_nor_starts_jobs() {
    let mut bench = Bench::new();
    bench.script("sync a", [Act::Hangs]);
    bench.create("a").await;
    bench.create("b").await;
    bench.nth(2).await;
    bench.stop.cancel();
    bench.sync("b").await;
    let ended = tokio::time::timeout(seconds(1), bench.tasks.join_next()).await;
    assert!(ended.unwrap().unwrap().is_ok());
    bench.create("c").await;
    assert_eq!(bench.after(Duration::from_mins(5)).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn resync_waits_for_the_next_relist() {
    let bench = Bench::new();
    bench.create("a").await;
    bench.nth(1).await;
    let requested = bench.observations.requested();
    assert_eq!(bench.after(Duration::from_mins(10)).await.len(), 1);
    assert_eq!(bench.observations.requested(), requested);
    bench.observations.relist(&["a"]);
    bench.nth(2).await;
}

// behaviour: WRK-13
#[tokio::test(start_paused = true)]
async fn unchanged_pod_is_synced_every_sync_frequency_without_observation() {
    let bench = Bench::new();
    bench.create("a").await;
    bench.nth(1).await;
    let requested = bench.observations.requested();
    for count in 2..6 {
        let before = bench.times()[count - 2].1;
        bench.after(seconds(30)).await;
        bench.observations.relist_unchanged("a");
        let waited = bench.nth(count).await.1.saturating_sub(before);
        assert!((seconds(60)..=seconds(90)).contains(&waited), "{waited:?}");
    }
    assert_eq!(bench.observations.requested(), requested);
}

#[test]
fn periodic_syncs_are_aligned_within_their_window() {
    let epoch = Instant::now();
    let mut points = BTreeSet::new();
    for millisecond in (0..60_000).step_by(7) {
        let earliest = epoch + Duration::from_millis(millisecond);
        let at = earliest + seconds(30).mul_f64(jitter(&"a".into(), millisecond));
        let point = together(epoch, earliest, at);
        assert!(earliest <= point && point <= at, "{millisecond}");
        if at >= earliest + GRID {
            points.insert(point);
        }
    }
    assert!(points.len() <= 18, "{}", points.len());
    // A window without a grid point is left unchanged.
    let at = epoch + GRID / 2;
    assert_eq!(together(epoch, epoch + GRID / 4, at), at);
}

async fn evict(bench: &Bench, grace: u64) -> Result<(), ExceededGracePeriod> {
    let failure = PodFailure { reason: "Evicted", message: String::new(), disruption: None };
    bench.handle.evict_and_wait("a".into(), Bench::target("a"), seconds(grace), failure).await
}

// behaviour: WRK-17
#[tokio::test(start_paused = true)]
async fn evict_and_wait_returns_when_nothing_of_the_pod_runs() {
    let bench = Bench::new();
    bench.create("a").await;
    bench.nth(1).await;
    bench.script("terminate a 5", [Act::Takes(seconds(4))]);
    let before = Instant::now();
    assert_eq!(evict(&bench, 5).await, Ok(()));
    assert_eq!(before.elapsed(), seconds(4));
    let again = evict(&bench, 5).await;
    assert_eq!((again, before.elapsed()), (Ok(()), seconds(4)), "it has already terminated");
    assert!(bench.events.all().is_empty());
}

// behaviour: WRK-17
#[tokio::test(start_paused = true)]
async fn evict_and_wait_times_out_after_one_and_a_half_grace_periods() {
    let bench = Bench::new();
    bench.create("a").await;
    bench.nth(1).await;
    for (grace, waited) in [(20, 30), (1, 10)] {
        bench.script(&format!("terminate a {grace}"), [Act::Takes(Duration::from_mins(5))]);
        let before = Instant::now();
        let gave_up = evict(&bench, grace).await;
        let expected = ExceededGracePeriod { uid: "a".into(), waited: seconds(waited) };
        assert_eq!(gave_up, Err(expected));
        assert_eq!(before.elapsed(), seconds(waited));
    }
    assert_eq!(bench.events.reasons(), ["ExceededGracePeriod"; 2]);
}

// behaviour: WRK-28
#[tokio::test(start_paused = true)]
async fn update_durations_are_measured() {
    let mut bench = Bench::new();
    bench.script("sync a", [Act::Takes(seconds(5)), Act::Takes(seconds(2))]);
    bench.create("a").await;
    bench.nth(1).await;
    tokio::time::sleep(seconds(1)).await;
    bench.update("a").await;
    bench.sync("a").await;
    bench.sync("unknown").await;
    bench.after(seconds(10)).await;
    bench.kill("a", 20).await;
    bench.event().await;
    let timed: Vec<(String, u64, f64)> = bench
        .registry
        .gather()
        .iter()
        .filter(|family| family.name() == "kubelet_pod_worker_duration_seconds")
        .flat_map(prometheus::proto::MetricFamily::get_metric)
        .map(|metric| {
            let histogram = metric.get_histogram();
            let what = metric.get_label()[0].value().to_owned();
            (what, histogram.get_sample_count(), histogram.get_sample_sum())
        })
        .collect();
    // The update requested meanwhile started four seconds later; the kill takes no time here.
    let expected =
        [("create", 1, 5.0), ("kill", 1, 0.0), ("terminated", 1, 0.0), ("update", 1, 6.0)]
            .map(|(what, count, sum)| (what.to_owned(), count, sum));
    assert_eq!(timed, expected);
}

// behaviour: WRK-31
#[tokio::test(start_paused = true)]
async fn pods_are_counted_by_current_state() {
    let mut bench = Bench::new();
    let counted = |bench: &Bench| -> Vec<String> {
        let text = prometheus::TextEncoder::new().encode_to_string(&bench.registry.gather());
        let text = text.unwrap();
        let lines = text.lines().filter_map(|line| line.strip_prefix("kubelet_working_pods"));
        lines.filter(|line| !line.ends_with(" 0")).map(ToOwned::to_owned).collect()
    };
    let runs = r#"{config="desired",lifecycle="sync",static=""} "#;
    bench.script("terminate a 30", [Act::Takes(seconds(9))]);
    bench.create("a").await;
    bench.create("b").await;
    bench.nth(2).await;
    assert_eq!(counted(&bench), [format!("{runs}2")]);
    bench.desired(["b"]).await;
    bench.nth(3).await;
    let ends = r#"{config="orphan",lifecycle="terminating",static=""} 1"#.to_owned();
    assert_eq!(counted(&bench), [format!("{runs}1"), ends]);
    assert_eq!(bench.event().await, WorkerEvent::Finished("a".into()));
    let over = r#"{config="orphan",lifecycle="terminated",static=""} 1"#.to_owned();
    assert_eq!(counted(&bench), [format!("{runs}1"), over]);
    bench.desired(["b"]).await;
    assert_eq!(bench.event().await, WorkerEvent::Forgotten("a".into()));
    assert_eq!(counted(&bench), [format!("{runs}1")]);
}
