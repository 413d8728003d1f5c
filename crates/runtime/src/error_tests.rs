//! What people are told when the runtime refuses something: upstream's words.

use model::ids::{ContainerId, PodUid};
use model::ports::runtime::{Code, RuntimeError};

use crate::error::{ResizeError, StartError, SyncError};

fn refused(code: Code, message: &str) -> RuntimeError {
    RuntimeError { method: "Any", object: "thing".to_owned(), code, message: message.to_owned() }
}

// behaviour: ACT-125
#[test]
fn of_containers_the_runtimes_words_are_told_alone_and_no_id_of_a_start_that_failed() {
    let (image, id) = ("web:1".to_owned(), ContainerId::from("c0ffee"));
    let container = "main".to_owned();
    let source = || refused(Code::Internal, "task c0ffee: no such program");
    let rows = [
        (StartError::Create(source()), "task c0ffee: no such program"),
        (StartError::ImageUser { image, source: source() }, "task c0ffee: no such program"),
        (StartError::Run { container, id, source: source() }, "task main: no such program"),
    ];
    for (error, told) in rows {
        assert_eq!(error.told(), told);
        assert_eq!(error.message(), "task c0ffee: no such program", "{}", error.label());
    }
}

// behaviour: ACT-124
#[test]
fn what_of_a_pod_could_not_be_stopped_is_told_as_upstream_does() {
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
    assert_eq!(container("main", gone).kill_told(&pod), one);
    assert_eq!(sandbox("s", "late").kill_told(&pod), of_sandbox);
    let all = SyncError::KillPod(vec![
        container("main", gone),
        sandbox("s", "early"),
        sandbox("t", "late"),
    ]);
    assert_eq!(all.kill_told(&pod), format!("[{one}, {of_sandbox}]"), "of sandboxes the last one");
    assert_eq!(all.to_string().matches("; ").count(), 2, "our own log has all: {all}");
}

// behaviour: RSZ-38
#[test]
fn who_refuses_a_resize_is_told_as_upstream_does() {
    let source = refused(Code::Unknown, "no");
    let sandbox = ResizeError::Sandbox { id: "s".into(), resource: "memory", source };
    assert_eq!(
        sandbox.told(),
        "failed to notify runtime for UpdatePodSandboxResources (resource=memory); resize \
         rejected: updatePodSandboxResources failed for sanboxID \"s\": rpc error: code = Unknown \
         desc = no"
    );
    let source = refused(Code::Internal, "no");
    let container = ResizeError::Container { name: "main".to_owned(), source };
    assert_eq!(container.told(), "rpc error: code = Internal desc = no");
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
