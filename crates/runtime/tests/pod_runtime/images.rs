//! Present, pulled and missing images.

use k8s_openapi::api::core::v1::Pod;
use model::ports::runtime::Code;
use runtime::SyncError;
use testkit::runtime::{Fault, Method, RemoteImage, Rule};
use tokio::time::Instant;

use crate::harness::{Harness, IMAGE, forever, seconds, web};

const FAR: &str = "ferrolet.test/far:1";
const OTHER: &str = "ferrolet.test/other:1";

fn pod(policy: &str) -> Pod {
    let mut pod = web().container("main", FAR, ["sleep", "forever"]).build();
    pod.spec.as_mut().unwrap().containers[0].image_pull_policy = Some(policy.into());
    pod
}

#[tokio::test(start_paused = true)]
async fn pull_policy_decides_whether_to_pull() {
    let rows: [(&str, bool, &[&str], Option<&str>); 6] = [
        ("Always", false, &["Pulling", "Pulled"], None),
        ("Always", true, &["Pulling", "Pulled"], None),
        ("IfNotPresent", false, &["Pulling", "Pulled"], None),
        ("IfNotPresent", true, &["Pulled"], None),
        ("Never", false, &["ErrImageNeverPull", "Failed"], Some("ErrImageNeverPull")),
        ("Never", true, &["Pulled"], None),
    ];
    for (policy, present, reasons, failure) in rows {
        let harness = Harness::new();
        harness.runtime.publish(RemoteImage::new(FAR));
        if present {
            harness.runtime.add_image(&RemoteImage::new(FAR));
        }
        let synced = harness.sync(&pod(policy)).await;
        assert_eq!(synced.is_err(), failure.is_some(), "{policy} {present}");
        let events = harness.events.reasons();
        assert_eq!(&events[..reasons.len()], reasons, "{policy} {present}");
        let pulls = usize::from(reasons.contains(&"Pulling"));
        assert_eq!(harness.runtime.count(Method::PullImage), pulls, "{policy} {present}");
        let status = harness.status(&pod(policy)).await;
        assert_eq!(status.running().count(), usize::from(failure.is_none()));
    }
}

// behaviour: ACT-135
#[tokio::test(start_paused = true)]
async fn image_is_looked_up_during_sandbox_creation() {
    let (harness, pod) = (Harness::new(), forever());
    for method in [Method::RunPodSandbox, Method::ImageStatus] {
        harness.runtime.inject(Rule::on(method, Fault::delay(seconds(2))).once());
    }
    let begun = Instant::now();
    harness.synced(&pod).await;
    assert_eq!(begun.elapsed(), seconds(2), "side by side");
    let calls = [
        Method::RunPodSandbox,
        Method::ImageStatus,
        Method::PodSandboxStatus,
        Method::CreateContainer,
        Method::StartContainer,
    ];
    assert_eq!(harness.calls(), calls, "and once");
    assert_eq!(harness.events.reasons(), ["Pulled", "Created", "Started"]);
}

// behaviour: ACT-135
#[tokio::test(start_paused = true)]
async fn image_lookup_slower_than_the_sandbox_is_awaited() {
    let harness = Harness::new();
    harness.runtime.publish(RemoteImage::new(FAR));
    let rules = [
        Rule::on(Method::RunPodSandbox, Fault::delay(seconds(1))),
        Rule::on(Method::ImageStatus, Fault::error(Code::Unavailable).after(seconds(3))),
    ];
    for rule in rules {
        harness.runtime.inject(rule.once());
    }
    let begun = Instant::now();
    let (reasons, _) = harness.failed(&pod("IfNotPresent")).await;
    assert_eq!(begun.elapsed(), seconds(3));
    assert_eq!(reasons, [("main".to_owned(), "ImageInspectError")]);
    assert_eq!(
        harness.events.reasons(),
        ["InspectFailed", "Failed"],
        "reported in the turn of the container"
    );
    assert_eq!(harness.runtime.count(Method::ImageStatus), 1, "it is not looked up again");
}

// behaviour: ACT-135
#[tokio::test(start_paused = true)]
async fn failed_sandbox_does_not_wait_for_the_image_lookup() {
    let (harness, pod) = (Harness::new(), forever());
    let fault = Fault::error(Code::Unavailable).after(seconds(1));
    harness.runtime.inject(Rule::on(Method::RunPodSandbox, fault).once());
    harness.runtime.inject(Rule::on(Method::ImageStatus, Fault::hang()).once());
    let begun = Instant::now();
    let error = harness.sync(&pod).await.unwrap_err();
    assert!(matches!(&error, SyncError::CreateSandbox(_)), "{error}");
    assert_eq!(begun.elapsed(), seconds(1));
    assert_eq!(harness.events.reasons(), ["FailedCreatePodSandBox"]);
    harness.synced(&pod).await;
}

#[tokio::test(start_paused = true)]
async fn repeated_pull_failure_backs_off_longer_each_time() {
    let (harness, pod) = (Harness::new(), pod("IfNotPresent"));
    for delay in [10, 20, 40] {
        let (reasons, error) = harness.failed(&pod).await;
        assert_eq!(reasons, [("main".to_owned(), "ErrImagePull")]);
        assert_eq!(error.retry_at(), None);
        let events = harness.events.reasons();
        assert_eq!(events[events.len() - 3..], ["Pulling", "Failed", "Failed"]);
        let again = harness.now() + seconds(delay);
        tokio::time::sleep(seconds(delay - 1)).await;
        let (reasons, error) = harness.failed(&pod).await;
        assert_eq!(reasons, [("main".to_owned(), "ImagePullBackOff")]);
        assert_eq!(error.retry_at(), Some(again));
        assert_eq!(harness.runtime.count(Method::PullImage), 0);
        let events = harness.events.reasons();
        assert_eq!(events[events.len() - 2..], ["BackOff", "Failed"]);
        assert_eq!(harness.last_message("BackOff"), format!("Back-off pulling image {FAR:?}"));
        assert_eq!(harness.last_message("Failed"), "Error: ImagePullBackOff");
        harness.at(again).await;
    }
    harness.runtime.publish(RemoteImage::new(FAR));
    harness.synced(&pod).await;
}

// behaviour: ACT-79
#[tokio::test(start_paused = true)]
async fn invalid_image_name_is_never_pulled() {
    let id = "0123456789abcdef".repeat(4);
    let why_id =
        format!("invalid repository name ({id}), cannot specify 64-byte hexadecimal strings");
    let rows = [
        ("a:b:c", "invalid reference format"),
        ("team/App", "invalid reference format: repository name (team/App) must be lowercase"),
        (&id, &why_id),
    ];
    for (image, why) in rows {
        for policy in ["Always", "IfNotPresent", "Never"] {
            let (harness, mut pod) = (Harness::new(), pod(policy));
            pod.spec.as_mut().unwrap().containers[0].image = Some(image.to_owned());
            let (reasons, error) = harness.failed(&pod).await;
            assert_eq!(reasons, [("main".to_owned(), "InvalidImageName")]);
            let error_text = format!(
                "Failed to apply default image tag {image:?}: couldn't parse image name {image:?}: {why}"
            );
            let SyncError::StartContainers(failed) = error else { unreachable!() };
            assert_eq!(failed[0].1.message(), error_text);
            assert_eq!(harness.events.reasons(), ["InspectFailed", "Failed"]);
            assert_eq!(harness.last_message("InspectFailed"), error_text);
            assert_eq!(harness.last_message("Failed"), "Error: InvalidImageName");
            assert_eq!(harness.calls(), [Method::RunPodSandbox, Method::PodSandboxStatus]);
        }
    }
}

// behaviour: PULL-8
#[tokio::test(start_paused = true)]
async fn pull_back_off_is_not_reset_by_a_success() {
    let (harness, pod) = (Harness::new(), pod("Always"));
    harness.failed(&pod).await;
    tokio::time::sleep(seconds(10)).await;
    harness.failed(&pod).await;
    tokio::time::sleep(seconds(20)).await;
    harness.runtime.publish(RemoteImage::new(FAR));
    harness.synced(&pod).await;
    // The image is pulled with each start, and the delay is over.
    harness.runtime.kill_container(&harness.running(&pod, "main").await, 1);
    harness.synced(&pod).await;
    harness.running(&pod, "main").await;
    harness.runtime.unpublish(FAR);
    tokio::time::sleep(seconds(20)).await;
    harness.runtime.kill_container(&harness.running(&pod, "main").await, 1);
    tokio::time::sleep(seconds(10)).await;
    let (reasons, _) = harness.failed(&pod).await;
    assert_eq!(reasons[0].1, "ErrImagePull");
    // The restarts of the container have a back-off too, and that is over.
    tokio::time::sleep(seconds(20)).await;
    let (reasons, error) = harness.failed(&pod).await;
    assert_eq!(reasons[0].1, "ImagePullBackOff");
    assert_eq!(error.retry_at(), Some(harness.now() + seconds(20)), "40 s from the failure");
}

#[tokio::test(start_paused = true)]
async fn new_pod_does_not_share_the_pull_back_off_of_another() {
    let (harness, pod) = (Harness::new(), pod("IfNotPresent"));
    harness.failed(&pod).await;
    let mut other = pod.clone();
    other.metadata.uid = Some("other".into());
    let (reasons, _) = harness.failed(&other).await;
    assert_eq!(reasons, [("main".to_owned(), "ErrImagePull")]);
}

// behaviour: PULL-3
#[tokio::test(start_paused = true)]
async fn images_are_pulled_serially() {
    let harness = Harness::new();
    harness.runtime.publish(RemoteImage::new(FAR).pull_takes(seconds(5)));
    harness.runtime.publish(RemoteImage::new(OTHER).pull_takes(seconds(5)));
    let one = pod("Always");
    let mut other = one.clone();
    other.metadata.uid = Some("other".into());
    other.spec.as_mut().unwrap().containers[0].image = Some(OTHER.into());
    let begun = Instant::now();
    let (first, second) = tokio::join!(harness.sync(&one), harness.sync(&other));
    assert!(first.unwrap() && second.unwrap());
    assert_eq!(begun.elapsed(), seconds(10));
    let message = harness.last_message("Pulled");
    assert!(message.contains("in 5s (10s including waiting). Image size: "), "{message}");
}

// behaviour: IMG-69
#[tokio::test(start_paused = true)]
async fn image_id_is_claimed_until_its_container_is_created() {
    for policy in ["Always", "IfNotPresent"] {
        let harness = Harness::new();
        // Listed under another name only.
        let id =
            harness.runtime.add_image(&RemoteImage::new("ferrolet.test/near:1").content("same"));
        let far = RemoteImage::new(FAR).content("same");
        harness.runtime.publish(far.clone());
        if policy == "IfNotPresent" {
            harness.runtime.add_image(&far);
        }
        harness.runtime.inject(Rule::on(Method::CreateContainer, Fault::delay(seconds(10))));
        let meanwhile = async {
            tokio::time::sleep(seconds(5)).await;
            assert_eq!(harness.runtime.count(Method::CreateContainer), 1, "{policy}");
            assert!(harness.claims.names().contains(&id), "{policy}: {:?}", harness.claims.names());
        };
        let pod = pod(policy);
        let (synced, ()) = tokio::join!(harness.sync(&pod), meanwhile);
        assert!(synced.unwrap(), "{policy}");
        assert!(harness.claims.names().is_empty(), "{policy}: {:?}", harness.claims.names());
    }
}

// behaviour: ACT-141
#[tokio::test(start_paused = true)]
async fn failed_image_inspection_is_retried() {
    let harness = Harness::new();
    harness.runtime.publish(RemoteImage::new(FAR));
    harness.runtime.inject(Rule::on(Method::ImageStatus, Fault::error(Code::Unavailable)).once());
    let (reasons, _) = harness.failed(&pod("IfNotPresent")).await;
    assert_eq!(reasons, [("main".to_owned(), "ImageInspectError")]);
    assert_eq!(harness.events.reasons(), ["InspectFailed", "Failed"]);
    harness.synced(&pod("IfNotPresent")).await;
}

/// The waiting message of the first container that did not start.
fn error_text(error: &SyncError) -> String {
    let SyncError::StartContainers(failed) = error else { panic!("{error}") };
    failed[0].1.message()
}

// behaviour: ACT-120
#[tokio::test(start_paused = true)]
async fn image_events_name_the_image_and_the_error() {
    let (harness, absent) = (Harness::new(), pod("IfNotPresent"));
    let (_, error) = harness.failed(&absent).await;
    let why = error_text(&error);
    assert!(why.starts_with("rpc error: code = NotFound desc = "), "{why}");
    let (_, error) = harness.failed(&absent).await;
    assert_eq!(error_text(&error), format!("Back-off pulling image {FAR:?}: ErrImagePull: {why}"));
    let (_, error) = harness.failed(&pod("Never")).await;
    let never = format!("Container image {FAR:?} is not present with pull policy of Never");
    assert_eq!(
        (error_text(&error), harness.last_message("ErrImageNeverPull")),
        (never.clone(), never)
    );
    let harness = Harness::new();
    harness.runtime.publish(RemoteImage::new(FAR).size(1 << 20).pull_takes(seconds(2)));
    harness.synced(&absent).await;
    let pulled = format!(
        "Successfully pulled image {FAR:?} in 2s (2s including waiting). Image size: 1048576 bytes."
    );
    assert_eq!(harness.last_message("Pulled"), pulled);
    harness.runtime.kill_container(&harness.running(&absent, "main").await, 1);
    harness.synced(&absent).await;
    let here = "already present on machine and can be accessed by the pod";
    assert_eq!(harness.last_message("Pulled"), format!("Container image {FAR:?} {here}"));
    let timed = [
        r#"kubelet_image_pull_duration_seconds_sum{image_size_in_bytes="0-10MB"} 2"#,
        r#"kubelet_image_pull_duration_seconds_count{image_size_in_bytes="0-10MB"} 1"#,
    ];
    assert_eq!(harness.counted("kubelet_image_pull_duration_seconds"), timed);
}

// behaviour: ACT-130
#[tokio::test(start_paused = true)]
async fn image_lookups_are_counted_by_policy_and_presence() {
    let harness = Harness::new();
    let wishes = [
        (IMAGE, "IfNotPresent"),
        ("a:b:c", "Never"),
        (FAR, "Never"),
        (FAR, "IfNotPresent"),
        (FAR, "Always"),
    ];
    for (number, (image, policy)) in wishes.into_iter().enumerate() {
        let pod = testkit::pods::pod(&format!("wish-{number}"));
        let mut pod = pod.container("main", image, ["sleep", "forever"]).build();
        pod.spec.as_mut().unwrap().containers[0].image_pull_policy = Some(policy.into());
        assert_eq!(harness.sync(&pod).await.is_ok(), image == IMAGE, "{image} {policy}");
    }
    let name = "kubelet_image_manager_ensure_image_requests_total";
    let expected = [
        r#"{present_locally="false",pull_policy="ifnotpresent",pull_required="true"} 1"#,
        r#"{present_locally="false",pull_policy="never",pull_required="unknown"} 1"#,
        r#"{present_locally="true",pull_policy="ifnotpresent",pull_required="false"} 1"#,
        r#"{present_locally="unknown",pull_policy="always",pull_required="true"} 1"#,
        r#"{present_locally="unknown",pull_policy="never",pull_required="unknown"} 1"#,
    ];
    assert_eq!(harness.counted(name), expected.map(|labels| format!("{name}{labels}")));
}
