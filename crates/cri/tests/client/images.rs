//! Images: requests and decoded responses.

use cri::{CriRuntime, Deadlines};
use model::image_access::RegistryAuth;
use model::ports::runtime::{
    Code, ContainerFilter, Image, ImageFilesystem, ImageService, ImageUse, ImageUser, RuntimeInfo,
    SandboxService,
};
use model::verdict::Subject;
use proto::runtime_v1 as cri_v1;

use crate::server::Server;
use crate::wanted::{sandbox_config, verdict};

fn spec(image: &str) -> cri_v1::ImageSpec {
    cri_v1::ImageSpec { image: image.into(), ..Default::default() }
}

fn stored(id: &str) -> cri_v1::Image {
    cri_v1::Image {
        id: id.into(),
        repo_tags: vec!["busybox:1".into(), "busybox:latest".into()],
        repo_digests: vec!["busybox@sha256:cafe".into()],
        size: u64::MAX,
        username: "www".into(),
        pinned: true,
        ..Default::default()
    }
}

fn expected(id: &str) -> Image {
    Image {
        id: id.into(),
        repo_tags: vec!["busybox:1".into(), "busybox:latest".into()],
        repo_digests: vec!["busybox@sha256:cafe".into()],
        size: u64::MAX,
        pinned: true,
        user: Some(ImageUser::Name("www".into())),
        runtime_handler: String::new(),
    }
}

#[tokio::test]
async fn image_user_is_a_number_a_name_or_absent() {
    let number = |value| Some(cri_v1::Int64Value { value });
    let rows = [
        (number(0), "", Some(ImageUser::Uid(0))),
        (number(33), "www", Some(ImageUser::Uid(33))),
        (None, "www", Some(ImageUser::Name("www".into()))),
        (None, "", None),
    ];
    for (uid, name, user) in rows {
        let server = Server::running();
        let image = Some(cri_v1::Image { uid, username: name.into(), ..stored("sha256:beef") });
        server.answer("ImageStatus", &cri_v1::ImageStatusResponse { image, ..Default::default() });
        let image = server.client().image_status("busybox").await.unwrap();
        assert_eq!(image.unwrap().user, user, "{uid:?} {name}");
    }
}

#[tokio::test]
async fn image_status_is_found_by_name() {
    let server = Server::running();
    let image = Some(stored("sha256:beef"));
    server.answer("ImageStatus", &cri_v1::ImageStatusResponse { image, ..Default::default() });
    let image = server.client().image_status("busybox").await.unwrap();
    assert_eq!(image, Some(expected("sha256:beef")));
    let request: cri_v1::ImageStatusRequest = server.only_request("ImageStatus");
    assert_eq!(
        request,
        cri_v1::ImageStatusRequest { image: Some(spec("busybox")), verbose: false }
    );
}

#[tokio::test]
async fn image_status_without_an_image_means_absent() {
    let server = Server::running();
    server.answer("ImageStatus", &cri_v1::ImageStatusResponse::default());
    assert_eq!(server.client().image_status("busybox").await, Ok(None));
}

#[tokio::test]
async fn image_status_without_an_id_is_malformed() {
    let server = Server::running();
    let image = Some(stored(""));
    server.answer("ImageStatus", &cri_v1::ImageStatusResponse { image, ..Default::default() });
    let error = server.client().image_status("busybox").await.unwrap_err();
    assert_eq!((error.code, error.object.as_str()), (Code::DataLoss, "busybox"));
}

#[tokio::test]
async fn pull_returns_the_reference_of_the_runtime() {
    let server = Server::running();
    let answer = cri_v1::PullImageResponse { image_ref: "sha256:beef".into() };
    server.answer("PullImage", &answer);
    assert_eq!(server.client().pull_image("busybox", None, None).await.unwrap(), "sha256:beef");
    let request: cri_v1::PullImageRequest = server.only_request("PullImage");
    assert_eq!(
        request,
        cri_v1::PullImageRequest { image: Some(spec("busybox")), ..Default::default() }
    );
}

// behaviour: ACT-142
#[tokio::test]
async fn pull_sends_the_sandbox_configuration() {
    let (pulls, runs, sandbox) = (Server::running(), Server::running(), sandbox_config());
    pulls.client().pull_image("busybox", Some(&sandbox), None).await.unwrap_err();
    runs.client().run_pod_sandbox(&sandbox).await.unwrap_err();
    let pull: cri_v1::PullImageRequest = pulls.only_request("PullImage");
    let run: cri_v1::RunPodSandboxRequest = runs.only_request("RunPodSandbox");
    assert_eq!(pull.image.unwrap().annotations, sandbox.annotations);
    assert!(pull.sandbox_config.is_some());
    assert_eq!(pull.sandbox_config, run.config);
}

#[tokio::test]
async fn pull_sends_the_credentials() {
    let server = Server::running();
    let auth = RegistryAuth {
        username: "user".to_owned(),
        password: "secret".to_owned(),
        registry_token: "token".to_owned(),
        ..RegistryAuth::default()
    };
    server.client().pull_image("busybox", None, Some(&auth)).await.unwrap_err();
    let request: cri_v1::PullImageRequest = server.only_request("PullImage");
    let sent = request.auth.unwrap();
    assert_eq!((&*sent.username, &*sent.password), ("user", "secret"));
    assert_eq!((&*sent.registry_token, &*sent.identity_token), ("token", ""));
}

// behaviour: PULL-9
#[tokio::test]
async fn pull_without_a_reference_fails_with_upstreams_text() {
    let server = Server::running();
    server.answer("PullImage", &cri_v1::PullImageResponse::default());
    let error = server.client().pull_image("busybox", None, None).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "PullImage busybox: Unknown: imageRef of image \"busybox\" is not set"
    );
}

#[tokio::test]
async fn image_list_includes_images_without_an_id() {
    let server = Server::running();
    let images = vec![stored("sha256:beef"), stored(""), stored("sha256:cafe")];
    server.answer("ListImages", &cri_v1::ListImagesResponse { images });
    let list = server.client().list_images().await.unwrap();
    assert_eq!(list, [expected("sha256:beef"), expected(""), expected("sha256:cafe")]);
    let request: cri_v1::ListImagesRequest = server.only_request("ListImages");
    assert_eq!(request.filter, None);
}

#[tokio::test]
async fn image_list_has_the_runtime_handler() {
    let server = Server::running();
    let mut image = stored("sha256:beef");
    image.spec = Some(cri_v1::ImageSpec { runtime_handler: "kata".into(), ..spec("") });
    server.answer("ListImages", &cri_v1::ListImagesResponse { images: vec![image] });
    let list = server.client().list_images().await.unwrap();
    assert_eq!(list[0].runtime_handler, "kata");
}

#[tokio::test]
async fn image_uses_include_containers_without_a_pod() {
    let server = Server::running();
    let container = |id: &str, image_id: &str, image_ref: &str| cri_v1::Container {
        id: id.into(),
        image_id: image_id.into(),
        image_ref: image_ref.into(),
        image: Some(cri_v1::ImageSpec { runtime_handler: "kata".into(), ..spec("") }),
        ..Default::default()
    };
    let mut owned = container("c1", "sha256:beef", "by-name");
    let labels = [("pod.name", "web"), ("pod.namespace", "default"), ("pod.uid", "u1")];
    owned.labels = labels.map(|(name, v)| (format!("io.kubernetes.{name}"), v.into())).into();
    let containers = vec![owned, container("c2", "", "by-name"), container("c3", "", "")];
    server.answer("ListContainers", &cri_v1::ListContainersResponse { containers });
    let uses = server.client().list_image_uses(&ContainerFilter::default()).await.unwrap();
    let reported = |container: &str, pod: Option<&str>, image: &str| ImageUse {
        container: container.into(),
        pod_uid: pod.map(Into::into),
        image_id: image.into(),
        runtime_handler: "kata".into(),
    };
    assert_eq!(uses, [reported("c1", Some("u1"), "sha256:beef"), reported("c2", None, "by-name")]);
}

#[tokio::test]
async fn image_filesystems_keep_their_order() {
    let server = Server::running();
    let usage = |place: Option<&str>| cri_v1::FilesystemUsage {
        fs_id: place.map(|place| cri_v1::FilesystemIdentifier { mountpoint: place.into() }),
        used_bytes: Some(cri_v1::UInt64Value { value: 7 }),
        ..Default::default()
    };
    let image_filesystems = vec![usage(None), usage(Some("/b")), usage(Some("/a"))];
    let answer = cri_v1::ImageFsInfoResponse { image_filesystems, ..Default::default() };
    server.answer("ImageFsInfo", &answer);
    let found = server.client().image_fs_info().await.unwrap();
    let at = |place: &str| ImageFilesystem {
        mount_point: place.into(),
        used_bytes: 7,
        ..ImageFilesystem::default()
    };
    assert_eq!(found.images, [at("/b"), at("/a")]);
    assert_eq!(found.containers, []);
}

#[tokio::test]
async fn labels_and_sandbox_image_are_requested_verbosely() {
    let server = Server::running();
    let info = |text: &str| [("info".to_owned(), text.to_owned())].into();
    let labels = r#"{"imageSpec":{"config":{"Labels":{"keep":"yes"}}}}"#;
    let answer = cri_v1::ImageStatusResponse { info: info(labels), ..Default::default() };
    server.answer("ImageStatus", &answer);
    let reported = server.client().image_labels("sha256:beef").await.unwrap();
    assert_eq!(reported.get("keep").map(String::as_str), Some("yes"));
    let request: cri_v1::ImageStatusRequest = server.only_request("ImageStatus");
    assert!(request.verbose);
    let server = Server::running();
    let info = info(r#"{"image":"pause:1"}"#);
    let answer = cri_v1::PodSandboxStatusResponse { info, ..Default::default() };
    server.answer("PodSandboxStatus", &answer);
    let reported = server.client().sandbox_image(&"s1".into()).await.unwrap();
    assert_eq!(reported.as_deref(), Some("pause:1"));
    let request: cri_v1::PodSandboxStatusRequest = server.only_request("PodSandboxStatus");
    assert!(request.verbose);
}

#[tokio::test]
async fn remove_image_sends_the_id_of_the_verdict() {
    let server = Server::running();
    server.answer("RemoveImage", &cri_v1::RemoveImageResponse {});
    let verdict = verdict(Subject::Image("sha256:beef".into()));
    server.client().remove_image(&verdict).await.unwrap();
    let request: cri_v1::RemoveImageRequest = server.only_request("RemoveImage");
    assert_eq!(request.image, Some(spec("sha256:beef")));
}

#[tokio::test]
async fn separate_image_service_receives_only_image_calls() {
    let (runtime, images) = (Server::running(), Server::absent());
    runtime.answer("Version", &cri_v1::VersionResponse::default());
    let client = CriRuntime::new(&runtime.endpoint(), &images.endpoint(), Deadlines::default());
    client.version().await.unwrap();
    let error = client.list_images().await.unwrap_err();
    assert_eq!(error.code, Code::Unavailable);
    assert!(error.message.contains(images.socket().to_str().unwrap()), "{error}");
    assert_eq!(runtime.calls().len(), 1);
}
