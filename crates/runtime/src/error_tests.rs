//! Event messages about errors of the runtime: upstream's texts.

use model::ids::{ContainerId, PodUid};
use model::ports::runtime::{Code, RuntimeError};

use crate::error::{ResizeError, StartError, SyncError};

fn refused(code: Code, message: &str) -> RuntimeError {
    RuntimeError { method: "Any", object: "thing".to_owned(), code, message: message.to_owned() }
}

// behaviour: ACT-125
#[test]
fn start_error_event_has_the_runtime_message_without_ids() {
    let (image, id) = ("web:1".to_owned(), ContainerId::from("c0ffee"));
    let container = "main".to_owned();
    let source = || refused(Code::Internal, "task c0ffee: no such program");
    let rows = [
        (StartError::Create(source()), "task c0ffee: no such program"),
        (StartError::ImageUser { image, source: source() }, "task c0ffee: no such program"),
        (StartError::Run { container, id, source: source() }, "task main: no such program"),
    ];
    for (error, message) in rows {
        assert_eq!(error.event_message(), message);
        assert_eq!(error.message(), "task c0ffee: no such program", "{}", error.label());
    }
}

// behaviour: ACT-124
#[test]
fn kill_error_event_matches_upstream() {
    let pod = PodUid::from("1234");
    let container = |name: &str, message: &str| SyncError::KillContainer {
        name: name.to_owned(),
        source: refused(Code::Unknown, message),
    };
    let sandbox = |id: &str, message: &str| SyncError::StopSandbox {
        id: id.to_owned(),
        source: refused(Code::DeadlineExceeded, message),
    };
    let one = r#"failed to "KillContainer" for "main" with KillContainerError: "rpc error: code = Unknown desc = the \"shim\" is gone""#;
    let of_sandbox = r#"failed to "KillPodSandbox" for "1234" with KillPodSandboxError: "rpc error: code = DeadlineExceeded desc = late""#;
    let gone = r#"the "shim" is gone"#;
    assert_eq!(container("main", gone).kill_event_message(&pod), one);
    assert_eq!(sandbox("s", "late").kill_event_message(&pod), of_sandbox);
    let all = SyncError::KillPod(vec![
        container("main", gone),
        sandbox("s", "early"),
        sandbox("t", "late"),
    ]);
    assert_eq!(
        all.kill_event_message(&pod),
        format!("[{one}, {of_sandbox}]"),
        "of sandboxes the last one"
    );
    assert_eq!(all.to_string().matches("; ").count(), 2, "our own log has all: {all}");
}

// behaviour: RSZ-38
#[test]
fn resize_error_event_matches_upstream() {
    let source = refused(Code::Unknown, "no");
    let sandbox = ResizeError::Sandbox { id: "s".into(), resource: "memory", source };
    assert_eq!(
        sandbox.event_message(),
        "failed to notify runtime for UpdatePodSandboxResources (resource=memory); resize \
         rejected: updatePodSandboxResources failed for sanboxID \"s\": rpc error: code = Unknown \
         desc = no"
    );
    let source = refused(Code::Internal, "no");
    let container = ResizeError::Container { name: "main".to_owned(), source };
    assert_eq!(container.event_message(), "rpc error: code = Internal desc = no");
}

#[test]
fn refused_image_volume_is_recognized_by_the_start_of_the_message() {
    let rows =
        [("ImageVolumeMountFailed: no such path", true), ("no: ImageVolumeMountFailed", false)];
    for (message, expected) in rows {
        let error = StartError::Create(refused(Code::Unknown, message));
        assert_eq!(error.is_image_volume(), expected, "{message}");
    }
}
