//! Image volumes.

use k8s_openapi::api::core::v1::{ImageVolumeSource, Pod, Volume, VolumeMount};
use runtime::SyncError;
use testkit::runtime::{Fault, Method, RemoteImage, Rule};

use crate::harness::{Harness, IMAGE, seconds, web};

const DATA: &str = "ferrolet.test/data:1";

/// Two containers, the first of which mounts an image.
fn pod(policy: &str) -> Pod {
    let pod = web().container("main", IMAGE, ["sleep", "forever"]);
    let mut pod = pod.container("other", IMAGE, ["sleep", "forever"]).build();
    let spec = pod.spec.as_mut().unwrap();
    let mount = VolumeMount {
        name: "data".to_owned(),
        mount_path: "/data".to_owned(),
        ..VolumeMount::default()
    };
    spec.containers[0].volume_mounts = Some(vec![mount]);
    let image = ImageVolumeSource {
        reference: Some(DATA.to_owned()),
        pull_policy: Some(policy.to_owned()),
    };
    let volume = Volume { name: "data".to_owned(), image: Some(image), ..Volume::default() };
    spec.volumes = Some(vec![volume]);
    pod
}

fn counts(harness: &Harness) -> [String; 3] {
    let name =
        |name: &str| harness.counted(&format!("kubelet_image_volume_{name}_total")).remove(0);
    [name("requested"), name("mounted_succeed"), name("mounted_errors")]
        .map(|line| line.rsplit(' ').next().unwrap().to_owned())
}

// behaviour: VOL-95
#[tokio::test(start_paused = true)]
async fn image_volume_is_pulled_and_mounted_by_its_resolved_reference() {
    let harness = Harness::new();
    harness.runtime.publish(RemoteImage::new(DATA));
    harness.runtime.inject(Rule::on(Method::CreateContainer, Fault::delay(seconds(10))));
    let meanwhile = async {
        tokio::time::sleep(seconds(5)).await;
        assert!(harness.claims.names().contains(DATA), "image garbage collection keeps it");
    };
    let pod = pod("IfNotPresent");
    let (synced, ()) = tokio::join!(harness.sync(&pod), meanwhile);
    assert!(synced.unwrap());
    assert!(harness.claims.names().is_empty());
    let pulling = harness.events.all().into_iter().find(|event| event.reason == "Pulling").unwrap();
    assert_eq!(&*pulling.field_path, "", "the event is the pod's");
    let status = harness.status(&pod).await;
    let main = &status.latest("main").unwrap().id;
    let config = harness.runtime.container_config(main).unwrap();
    assert_eq!(config.mounts[0].container_path, "/data");
    assert!(config.mounts[0].image.starts_with("sha256:"), "{:?}", config.mounts[0]);
    assert_eq!(counts(&harness), ["1", "1", "0"]);
}

// behaviour: VOL-96
#[tokio::test(start_paused = true)]
async fn failed_pull_of_an_image_volume_stops_only_containers_that_mount_it() {
    let harness = Harness::new();
    let pod = pod("Never");
    let error = harness.sync(&pod).await.unwrap_err();
    let SyncError::StartContainers(failed) = error else { panic!("{error}") };
    let failed: Vec<(&str, &str)> =
        failed.iter().map(|(name, error)| (name.as_str(), error.label())).collect();
    assert_eq!(failed, [("main", "ErrImageNeverPull")]);
    assert_eq!(harness.last_message("Failed"), "Error: ErrImageNeverPull");
    assert_eq!(harness.status(&pod).await.running().count(), 1);
    assert_eq!(counts(&harness), ["0", "0", "0"]);
}
