//! Messages of all sizes.

use model::ports::runtime::{Code, Runtime};
use proto::runtime_v1 as cri;

use crate::server::Server;
use crate::wanted::sandbox_config;

const MIB: usize = 1 << 20;

fn images(count: usize, size: usize) -> cri::ListImagesResponse {
    let image = cri::Image { id: "i".repeat(size), ..Default::default() };
    cri::ListImagesResponse { images: vec![image; count] }
}

#[tokio::test]
async fn an_answer_of_20_mib_arrives() {
    let server = Server::running();
    server.answer("ListImages", &images(20_000, 1 << 10));
    let list = server.client().list_images().await.unwrap();
    assert_eq!(list.len(), 20_000);
    assert!(list.iter().all(|image| image.id.len() == 1 << 10));
}

#[tokio::test]
async fn an_answer_above_the_limit_is_an_error_and_the_next_call_works() {
    let server = Server::running();
    let client = server.client();
    server.answer("ListImages", &images(1, 65 * MIB));
    let error = client.list_images().await.unwrap_err();
    assert_eq!(error.code, Code::OutOfRange, "{error}");
    server.answer("ListImages", &images(1, 1));
    assert_eq!(client.list_images().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_request_that_is_too_large_for_the_runtime_is_refused_in_its_own_words() {
    let server = Server::running();
    let client = server.client();
    for size in [5 * MIB, 65 * MIB] {
        let mut config = sandbox_config();
        config.annotations.insert("big".into(), "x".repeat(size));
        let error = client.run_pod_sandbox(&config).await.unwrap_err();
        assert_eq!(error.code, Code::OutOfRange, "{error}");
    }
    server.answer("Version", &cri::VersionResponse::default());
    client.version().await.unwrap();
}
