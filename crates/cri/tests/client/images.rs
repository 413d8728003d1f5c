//! Images: what is sent, and what is made of the answers.

use cri::{CriRuntime, Deadlines};
use model::ports::runtime::{Code, Image, ImageUser, Runtime};
use model::verdict::Subject;
use proto::runtime_v1 as cri_v1;

use crate::server::Server;
use crate::wanted::verdict;

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
    }
}

#[tokio::test]
async fn an_images_user_is_a_number_or_a_name_or_not_told() {
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
async fn an_image_is_found_by_its_name() {
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
async fn an_answer_without_an_image_says_that_there_is_none() {
    let server = Server::running();
    server.answer("ImageStatus", &cri_v1::ImageStatusResponse::default());
    assert_eq!(server.client().image_status("busybox").await, Ok(None));
}

#[tokio::test]
async fn an_image_without_an_id_is_malformed() {
    let server = Server::running();
    let image = Some(stored(""));
    server.answer("ImageStatus", &cri_v1::ImageStatusResponse { image, ..Default::default() });
    let error = server.client().image_status("busybox").await.unwrap_err();
    assert_eq!((error.code, error.object.as_str()), (Code::DataLoss, "busybox"));
}

#[tokio::test]
async fn a_pulled_image_is_referred_to_as_the_runtime_says() {
    let server = Server::running();
    let answer = cri_v1::PullImageResponse { image_ref: "sha256:beef".into() };
    server.answer("PullImage", &answer);
    assert_eq!(server.client().pull_image("busybox").await.unwrap(), "sha256:beef");
    let request: cri_v1::PullImageRequest = server.only_request("PullImage");
    assert_eq!(
        request,
        cri_v1::PullImageRequest { image: Some(spec("busybox")), ..Default::default() }
    );
}

#[tokio::test]
async fn a_pull_without_a_reference_is_malformed() {
    let server = Server::running();
    server.answer("PullImage", &cri_v1::PullImageResponse::default());
    let error = server.client().pull_image("busybox").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "PullImage busybox: DataLoss: the runtime's answer has no image reference"
    );
}

#[tokio::test]
async fn a_list_tells_images_and_leaves_out_those_without_an_id() {
    let server = Server::running();
    let images = vec![stored("sha256:beef"), stored(""), stored("sha256:cafe")];
    server.answer("ListImages", &cri_v1::ListImagesResponse { images });
    let list = server.client().list_images().await.unwrap();
    assert_eq!(list, [expected("sha256:beef"), expected("sha256:cafe")]);
    let request: cri_v1::ListImagesRequest = server.only_request("ListImages");
    assert_eq!(request.filter, None);
}

#[tokio::test]
async fn the_image_of_the_verdict_is_removed() {
    let server = Server::running();
    server.answer("RemoveImage", &cri_v1::RemoveImageResponse {});
    let verdict = verdict(Subject::Image("sha256:beef".into()));
    server.client().remove_image(&verdict).await.unwrap();
    let request: cri_v1::RemoveImageRequest = server.only_request("RemoveImage");
    assert_eq!(request.image, Some(spec("sha256:beef")));
}

#[tokio::test]
async fn an_image_service_of_its_own_gets_the_calls_about_images_alone() {
    let (runtime, images) = (Server::running(), Server::absent());
    runtime.answer("Version", &cri_v1::VersionResponse::default());
    let client = CriRuntime::new(&runtime.endpoint(), &images.endpoint(), Deadlines::default());
    client.version().await.unwrap();
    let error = client.list_images().await.unwrap_err();
    assert_eq!(error.code, Code::Unavailable);
    assert!(error.message.contains(images.socket().to_str().unwrap()), "{error}");
    assert_eq!(runtime.calls().len(), 1);
}
