//! Version and status of the runtime.

use model::ports::runtime::{Code, RuntimeCondition, RuntimeInfo, RuntimeVersion};
use proto::runtime_v1 as cri;

use crate::server::Server;

fn condition(kind: &str, status: bool) -> cri::RuntimeCondition {
    cri::RuntimeCondition {
        r#type: kind.into(),
        status,
        reason: format!("{kind}Reason"),
        message: format!("{kind} message"),
    }
}

fn expected(kind: &str, ready: bool) -> RuntimeCondition {
    RuntimeCondition { ready, reason: format!("{kind}Reason"), message: format!("{kind} message") }
}

fn answer(conditions: Vec<cri::RuntimeCondition>) -> cri::StatusResponse {
    cri::StatusResponse {
        status: Some(cri::RuntimeStatus { conditions }),
        ..cri::StatusResponse::default()
    }
}

#[tokio::test]
async fn version_is_that_of_the_runtime_not_of_the_protocol() {
    let server = Server::running();
    server.answer(
        "Version",
        &cri::VersionResponse {
            version: "0.1.0".into(),
            runtime_name: "containerd".into(),
            runtime_version: "v2.1".into(),
            runtime_api_version: "v1".into(),
        },
    );
    let version = server.client().version().await.unwrap();
    let expected = RuntimeVersion {
        name: "containerd".into(),
        version: "v2.1".into(),
        api_version: "v1".into(),
    };
    assert_eq!(version, expected);
    let request: cri::VersionRequest = server.only_request("Version");
    assert_eq!(request, cri::VersionRequest { version: "v1".into() });
}

#[tokio::test]
async fn runtime_conditions_are_decoded_with_reasons() {
    let server = Server::running();
    let conditions = vec![
        condition("Other", true),
        condition("NetworkReady", false),
        condition("RuntimeReady", true),
    ];
    server.answer("Status", &answer(conditions));
    let status = server.client().status().await.unwrap();
    assert_eq!(status.runtime, Some(expected("RuntimeReady", true)));
    assert_eq!(status.network, Some(expected("NetworkReady", false)));
    let request: cri::StatusRequest = server.only_request("Status");
    assert!(!request.verbose);
}

#[tokio::test]
async fn handler_features_are_decoded() {
    let server = Server::running();
    let handler = |name: &str, users, mounts| cri::RuntimeHandler {
        name: name.into(),
        features: Some(cri::RuntimeHandlerFeatures {
            recursive_read_only_mounts: mounts,
            user_namespaces: users,
        }),
    };
    let old = cri::RuntimeHandler { name: "old".into(), features: None };
    let runtime_handlers = vec![handler("", true, false), handler("kata", false, true), old];
    let features = Some(cri::RuntimeFeatures {
        supplemental_groups_policy: true,
        user_namespaces_host_network: false,
    });
    let answer = cri::StatusResponse { runtime_handlers, features, ..answer(vec![]) };
    server.answer("Status", &answer);
    let reported = server.client().status().await.unwrap();
    let all = (
        reported.features.supplemental_groups_policy,
        reported.features.user_namespaces_host_network,
    );
    assert_eq!(all, (true, false));
    let reported: Vec<_> = reported
        .handlers
        .iter()
        .map(|one| (one.name.as_str(), one.user_namespaces, one.recursive_read_only_mounts))
        .collect();
    assert_eq!(reported, [("", true, false), ("kata", false, true), ("old", false, false)]);
}

#[tokio::test]
async fn missing_runtime_condition_is_false() {
    let server = Server::running();
    server.answer("Status", &answer(vec![condition("RuntimeReady", true)]));
    let status = server.client().status().await.unwrap();
    assert_eq!(status.runtime_error(), None);
    assert_eq!(status.network, None);
    let error = "container runtime network not ready: <nil>";
    assert_eq!(status.network_error().as_deref(), Some(error));
}

#[tokio::test]
async fn runtime_status_without_a_status_is_malformed() {
    let server = Server::running();
    server.answer("Status", &cri::StatusResponse::default());
    let error = server.client().status().await.unwrap_err();
    assert_eq!(error.code, Code::DataLoss);
    assert_eq!(error.message, "the runtime's answer has no status");
}
