//! Pulls of many pods: shared, in order, limited and cancelled.

use std::num::NonZeroUsize;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use k8s_openapi::api::core::v1::Pod;
use model::ports::runtime::Code;
use runtime::SyncError;
use runtime::decide::{NodeSettings, PullRate, PullSettings, PullSlots};
use testkit::pods;
use testkit::runtime::{Fault, Method, RemoteImage, Rule};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::harness::{Harness, seconds};

const SMALL: &str = "ferrolet.test/small:1";
const LARGE: &str = "ferrolet.test/large:1";

fn pod(name: &str, image: &str, policy: &str) -> Pod {
    let mut pod = pods::pod(name).container("main", image, ["sleep", "forever"]).build();
    pod.spec.as_mut().unwrap().containers[0].image_pull_policy = Some(policy.to_owned());
    pod
}

fn slots(slots: PullSlots) -> PullSettings {
    PullSettings { slots, ..PullSettings::default() }
}

fn parallel(most: usize) -> PullSettings {
    slots(PullSlots::Parallel(NonZeroUsize::new(most).unwrap()))
}

/// The time that the first sync of a pod takes.
async fn took(harness: &Harness, pod: &Pod) -> Duration {
    let begun = Instant::now();
    harness.first_sync(pod, &CancellationToken::new()).await.unwrap();
    begun.elapsed()
}

/// Why the only container of a pod does not start.
fn failure(synced: Result<impl Sized, SyncError>) -> (&'static str, String) {
    let Err(SyncError::StartContainers(failed)) = synced else { panic!("it starts") };
    (failed[0].1.label(), failed[0].1.message())
}

fn counted(harness: &Harness, reason: &str) -> usize {
    harness.events.reasons().iter().filter(|found| *found == reason).count()
}

// behaviour: PULL-10
#[tokio::test(start_paused = true)]
async fn image_is_pulled_once_for_all_pods_that_wait_for_it() {
    for (settings, expected) in [(slots(PullSlots::Unlimited), 5), (PullSettings::default(), 100)] {
        let harness = Harness::with_pulls(settings);
        let image = |number: usize| format!("ferrolet.test/image-{}:1", number % 20);
        for number in 0..20 {
            harness.runtime.publish(RemoteImage::new(&image(number)).pull_takes(seconds(5)));
        }
        let pods: Vec<Pod> = (0..50)
            .map(|number| pod(&format!("pod-{number}"), &image(number), "IfNotPresent"))
            .collect();
        let begun = Instant::now();
        let cancel = CancellationToken::new();
        try_join_all(pods.iter().map(|pod| harness.first_sync(pod, &cancel))).await.unwrap();
        assert_eq!(begun.elapsed(), seconds(expected), "{settings:?}");
        assert_eq!(harness.runtime.count(Method::PullImage), 20);
        assert_eq!((counted(&harness, "Pulling"), counted(&harness, "Pulled")), (50, 50));
        let pulls = harness.incidents.lines();
        assert_eq!(pulls.iter().filter(|line| line.starts_with("pull ")).count(), 20, "{pulls:?}");
    }
}

// behaviour: PULL-10
#[tokio::test(start_paused = true)]
async fn pod_that_joins_a_pull_reports_its_own_wait() {
    let harness = Harness::new();
    harness.runtime.publish(RemoteImage::new(SMALL).pull_takes(seconds(10)));
    let (first, second) = (pod("a", SMALL, "Always"), pod("b", SMALL, "Always"));
    let second = async {
        tokio::time::sleep(seconds(4)).await;
        took(&harness, &second).await
    };
    let (first, second) = tokio::join!(took(&harness, &first), second);
    assert_eq!((first, second), (seconds(10), seconds(6)));
    assert_eq!(harness.runtime.count(Method::PullImage), 1);
    let message = harness.last_message("Pulled");
    assert!(message.contains("in 6s (6s including waiting)"), "{message}");
}

// behaviour: PULL-5
#[tokio::test(start_paused = true)]
async fn pull_of_a_present_image_does_not_wait_for_a_large_one() {
    let harness = Harness::new();
    harness.runtime.add_image(&RemoteImage::new(SMALL));
    harness.runtime.publish(RemoteImage::new(SMALL).pull_takes(seconds(1)));
    let absent = "ferrolet.test/absent:1";
    for image in [LARGE, absent] {
        harness.runtime.publish(RemoteImage::new(image).pull_takes(seconds(60)));
    }
    let pods = [pod("a", LARGE, "Always"), pod("b", absent, "Always"), pod("c", SMALL, "Always")];
    let took = join_all(pods.iter().map(|pod| took(&harness, pod))).await;
    assert_eq!(took, [seconds(60), seconds(120), seconds(1)]);
}

// behaviour: PULL-4
#[tokio::test(start_paused = true)]
async fn hung_pull_takes_its_own_slot_and_critical_pods_come_first() {
    let harness = Harness::with_pulls(parallel(2));
    harness.runtime.inject(Rule::on(Method::PullImage, Fault::hang()).object(LARGE));
    let names = ["one", "two", "three"];
    let image = |name: &str| format!("ferrolet.test/{name}:1");
    for name in names {
        harness.runtime.publish(RemoteImage::new(&image(name)).pull_takes(seconds(5)));
    }
    let (hung, mut waiting) =
        (pod("hung", LARGE, "Always"), names.map(|name| pod(name, &image(name), "Always")));
    waiting[2].spec.as_mut().unwrap().priority = Some(2_000_000_000);
    let cancel = CancellationToken::new();
    let hung = timeout(seconds(3600), harness.first_sync(&hung, &cancel));
    let (hung, took) = tokio::join!(hung, join_all(waiting.iter().map(|pod| took(&harness, pod))));
    assert!(hung.is_err(), "it hangs");
    assert_eq!(took, [seconds(5), seconds(15), seconds(10)]);
}

// behaviour: PULL-11
#[tokio::test(start_paused = true)]
async fn pull_continues_until_its_last_pod_cancels() {
    let harness = Harness::new();
    harness.runtime.publish(RemoteImage::new(LARGE).pull_takes(seconds(10)));
    let [first, second] = ["a", "b"].map(|name| pod(name, LARGE, "IfNotPresent"));
    let cancel = CancellationToken::new();
    let never = CancellationToken::new();
    let cancelled = async {
        tokio::time::sleep(seconds(5)).await;
        cancel.cancel();
    };
    let begun = Instant::now();
    let (first, second, ()) = tokio::join!(
        harness.first_sync(&first, &cancel),
        harness.first_sync(&second, &never),
        cancelled
    );
    assert_eq!(failure(first).1, "the pod ends");
    second.unwrap();
    assert_eq!(begun.elapsed(), seconds(10), "the pull did not start over");
    assert_eq!(harness.runtime.count(Method::PullImage), 1);
}

// behaviour: PULL-11
#[tokio::test(start_paused = true)]
async fn pull_cancelled_by_all_pods_frees_its_slot() {
    let harness = Harness::new();
    harness.runtime.inject(Rule::on(Method::PullImage, Fault::hang()).object(LARGE).once());
    for image in [LARGE, SMALL] {
        harness.runtime.publish(RemoteImage::new(image).pull_takes(seconds(1)));
    }
    let (hung, next) = (pod("a", LARGE, "IfNotPresent"), pod("b", SMALL, "IfNotPresent"));
    let cancel = CancellationToken::new();
    let cancelled = async {
        tokio::time::sleep(seconds(5)).await;
        cancel.cancel();
    };
    let hung = harness.first_sync(&hung, &cancel);
    let (hung, next, ()) = tokio::join!(hung, took(&harness, &next), cancelled);
    assert_eq!((failure(hung).1.as_str(), next), ("the pod ends", seconds(6)));
    let again = pod("c", LARGE, "IfNotPresent");
    assert_eq!(took(&harness, &again).await, seconds(1), "a later pull is a new one");
}

// behaviour: PULL-6
#[tokio::test(start_paused = true)]
async fn pull_beyond_the_rate_fails_and_backs_off() {
    let rate = PullRate { per_second: 1, burst: 1 };
    let harness = Harness::with_pulls(PullSettings { rate, slots: PullSlots::Unlimited });
    for image in [SMALL, LARGE] {
        harness.runtime.publish(RemoteImage::new(image));
    }
    let (first, second) = (pod("a", SMALL, "Always"), pod("b", LARGE, "Always"));
    took(&harness, &first).await;
    let refused = harness.first_sync(&second, &CancellationToken::new()).await;
    let exceeded = ("ErrImagePull", "pull QPS exceeded".to_owned());
    assert_eq!(failure(refused), exceeded);
    let failed = harness.events.all();
    let text = format!("Failed to pull image {LARGE:?}: pull QPS exceeded");
    assert!(failed.iter().any(|event| event.message == text), "{failed:?}");
    tokio::time::sleep(seconds(9)).await;
    let (reasons, _) = harness.failed(&second).await;
    assert_eq!(reasons[0].1, "ImagePullBackOff");
    tokio::time::sleep(seconds(1)).await;
    harness.synced(&second).await;
}

// behaviour: PULL-12
#[tokio::test(start_paused = true)]
async fn long_pulls_have_reminder_events() {
    let harness = Harness::new();
    harness.runtime.publish(RemoteImage::new(LARGE).pull_takes(Duration::from_mins(11)));
    harness.runtime.publish(RemoteImage::new(SMALL));
    let (large, small) = (pod("large", LARGE, "Always"), pod("small", SMALL, "Always"));
    tokio::join!(took(&harness, &large), took(&harness, &small));
    let mut reminders: Vec<(String, String)> = harness
        .events
        .all()
        .into_iter()
        .filter(|event| event.reason == "StillPulling")
        .map(|event| (event.pod.name.to_string(), event.message))
        .collect();
    reminders.sort();
    let still = |name: &str, text: String| (name.to_owned(), text);
    let waits = |after: &str| {
        format!("Still waiting to pull image {SMALL:?} after {after}: other pulls come first")
    };
    let expected = [
        still("large", format!("Still pulling image {LARGE:?} after 10m0s")),
        still("large", format!("Still pulling image {LARGE:?} after 5m0s")),
        still("small", waits("10m0s")),
        still("small", waits("5m0s")),
    ];
    assert_eq!(reminders, expected);
}

// behaviour: PULL-15
#[tokio::test(start_paused = true)]
async fn restarted_agent_repeats_unfinished_pulls() {
    let harness = Harness::new();
    harness.runtime.publish(RemoteImage::new(LARGE).pull_takes(seconds(60)));
    let pod = pod("a", LARGE, "IfNotPresent");
    let cancel = CancellationToken::new();
    let killed = timeout(seconds(30), harness.first_sync(&pod, &cancel)).await;
    assert!(killed.is_err(), "the process ended in the middle of the pull");
    let next = harness.again(NodeSettings::default(), None);
    let begun = Instant::now();
    next.synced(&pod).await;
    assert_eq!(begun.elapsed(), seconds(60));
    next.running(&pod, "main").await;
}

#[tokio::test(start_paused = true)]
async fn failed_pull_fails_for_all_pods_that_waited() {
    let harness = Harness::new();
    harness.runtime.publish(RemoteImage::new(LARGE));
    let fault = Fault::error(Code::Unknown).after(seconds(5));
    harness.runtime.inject(Rule::on(Method::PullImage, fault).once());
    let pods = ["a", "b"].map(|name| pod(name, LARGE, "IfNotPresent"));
    let cancel = CancellationToken::new();
    for synced in join_all(pods.iter().map(|pod| harness.first_sync(pod, &cancel))).await {
        assert_eq!(failure(synced), ("ErrImagePull", "injected by a test".to_owned()));
    }
    assert_eq!(harness.runtime.count(Method::PullImage), 1);
    assert_eq!(counted(&harness, "Failed"), 4, "two for each pod: the pull and the start");
}
