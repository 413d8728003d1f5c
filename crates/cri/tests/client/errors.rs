//! The content of errors.

use std::time::Duration;

use model::ports::runtime::{Code, ContainerService, ImageService, RuntimeError, SandboxService};
use model::verdict::Subject;

use crate::methods::{METHODS, call};
use crate::server::Server;
use crate::wanted::verdict;

const CODES: [(tonic::Code, Code); 16] = [
    (tonic::Code::Cancelled, Code::Cancelled),
    (tonic::Code::Unknown, Code::Unknown),
    (tonic::Code::InvalidArgument, Code::InvalidArgument),
    (tonic::Code::DeadlineExceeded, Code::DeadlineExceeded),
    (tonic::Code::NotFound, Code::NotFound),
    (tonic::Code::AlreadyExists, Code::AlreadyExists),
    (tonic::Code::PermissionDenied, Code::PermissionDenied),
    (tonic::Code::ResourceExhausted, Code::ResourceExhausted),
    (tonic::Code::FailedPrecondition, Code::FailedPrecondition),
    (tonic::Code::Aborted, Code::Aborted),
    (tonic::Code::OutOfRange, Code::OutOfRange),
    (tonic::Code::Unimplemented, Code::Unimplemented),
    (tonic::Code::Internal, Code::Internal),
    (tonic::Code::Unavailable, Code::Unavailable),
    (tonic::Code::DataLoss, Code::DataLoss),
    (tonic::Code::Unauthenticated, Code::Unauthenticated),
];

#[tokio::test]
async fn errors_contain_method_object_code_and_message() {
    let server = Server::running();
    let client = server.client();
    for (_, method, object, _) in METHODS {
        for (sent, code) in CODES {
            let message = format!("{sent:?} at 100 % of \"{object}\"");
            server.fail(method, sent, &message);
            let error = call(&client, method, Duration::ZERO).await.unwrap_err();
            assert_eq!(error, RuntimeError { method, object: object.into(), code, message });
        }
    }
}

#[tokio::test]
async fn only_code_not_found_is_not_found() {
    let server = Server::running();
    let client = server.client();
    for (sent, code) in CODES {
        server.fail("StopPodSandbox", sent, "");
        let error = client.stop_pod_sandbox(&"s1".into()).await.unwrap_err();
        assert_eq!(error.is_not_found(), code == Code::NotFound, "{error}");
    }
}

#[tokio::test]
async fn error_is_one_line() {
    let server = Server::running();
    server.fail("StartContainer", tonic::Code::NotFound, "container \"c1\" in namespace k8s.io");
    let error = server.client().start_container(&"c1".into()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "StartContainer c1: NotFound: container \"c1\" in namespace k8s.io"
    );
}

#[tokio::test]
async fn empty_and_malformed_responses_are_errors() {
    let server = Server::running();
    let client = server.client();
    for (_, method, object, _) in METHODS {
        server.fail(method, tonic::Code::Ok, "");
        let error = call(&client, method, Duration::ZERO).await.unwrap_err();
        assert_eq!((error.method, error.object.as_str()), (method, object));
        assert_eq!(error.code, Code::Internal, "{error}");

        // A field with an invalid wire type.
        server.answer_bytes(method, vec![0x0f]);
        let error = call(&client, method, Duration::ZERO).await.unwrap_err();
        assert_eq!((error.method, error.object.as_str()), (method, object));
        assert_eq!(error.code, Code::Internal, "{error}");
    }
}

#[tokio::test]
async fn verdict_about_another_object_is_refused_without_a_call() {
    let server = Server::running();
    let client = server.client();
    let container = verdict(Subject::Container("x".into()));
    let sandbox = verdict(Subject::Sandbox("x".into()));
    let image = verdict(Subject::Image("x".into()));
    let refused = [
        (client.remove_pod_sandbox(&container).await, "RemovePodSandbox", "container x"),
        (client.remove_pod_sandbox(&image).await, "RemovePodSandbox", "image x"),
        (client.remove_container(&sandbox).await, "RemoveContainer", "sandbox x"),
        (client.remove_container(&image).await, "RemoveContainer", "image x"),
        (client.remove_image(&container).await, "RemoveImage", "container x"),
        (client.remove_image(&sandbox).await, "RemoveImage", "sandbox x"),
    ];
    for (result, method, object) in refused {
        let error = result.unwrap_err();
        assert_eq!((error.method, error.object.as_str()), (method, object));
        assert_eq!(error.code, Code::InvalidArgument);
    }
    assert!(server.calls().is_empty(), "{:?}", server.calls());
}
