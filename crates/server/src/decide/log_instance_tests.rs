//! One row for each rule.

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, Pod, PodSpec, PodStatus,
};

use super::*;

fn running() -> ContainerState {
    ContainerState { running: Some(ContainerStateRunning::default()), ..ContainerState::default() }
}

fn terminated(id: &str) -> ContainerState {
    let ended = ContainerStateTerminated {
        container_id: Some(id.to_owned()),
        ..ContainerStateTerminated::default()
    };
    ContainerState { terminated: Some(ended), ..ContainerState::default() }
}

fn waiting(reason: &str) -> ContainerState {
    let waiting = ContainerStateWaiting {
        reason: Some(reason.to_owned()),
        ..ContainerStateWaiting::default()
    };
    ContainerState { waiting: Some(waiting), ..ContainerState::default() }
}

fn status(state: ContainerState, last: ContainerState) -> PodStatus {
    let status = ContainerStatus {
        name: "main".to_owned(),
        container_id: Some("containerd://now".to_owned()),
        state: Some(state),
        last_state: Some(last),
        ..ContainerStatus::default()
    };
    PodStatus { container_statuses: Some(vec![status]), ..PodStatus::default() }
}

fn found(status: &PodStatus, previous: bool) -> Result<String, String> {
    let instance = log_instance("web", status, "main", previous);
    instance.map(|instance| instance.id.to_string()).map_err(|error| error.to_string())
}

#[test]
fn log_instance_is_the_running_or_last_one() {
    let none = ContainerState::default;
    let old = || terminated("containerd://old");
    let refuse = |text: &str| Err(format!("container \"main\" in pod \"web\" {text}"));
    let no_previous =
        || Err("previous terminated container \"main\" in pod \"web\" not found".to_owned());
    let ok = |id: &str| Ok(id.to_owned());
    let rows = [
        (status(running(), old()), ok("now"), ok("old")),
        (status(running(), none()), ok("now"), no_previous()),
        (status(terminated("containerd://ended"), old()), ok("ended"), ok("old")),
        (status(terminated(""), old()), ok("old"), ok("old")),
        (status(terminated(""), none()), refuse("is terminated"), no_previous()),
        (status(waiting("CrashLoopBackOff"), old()), ok("old"), ok("old")),
        (status(waiting("x"), terminated("")), refuse("is terminated"), no_previous()),
        (
            status(waiting("ErrImagePull"), none()),
            refuse("is waiting to start: image can't be pulled"),
            no_previous(),
        ),
        (
            status(waiting("ImagePullBackOff"), none()),
            refuse("is waiting to start: trying and failing to pull image"),
            no_previous(),
        ),
        (
            status(waiting("ContainerCreating"), none()),
            refuse("is waiting to start: ContainerCreating"),
            no_previous(),
        ),
        (status(none(), none()), refuse("is waiting to start - no logs yet"), no_previous()),
    ];
    for (status, current, previous) in rows {
        assert_eq!(found(&status, false), current, "{status:?}");
        assert_eq!(found(&status, true), previous, "{status:?}");
    }
}

#[test]
fn container_without_a_status_is_not_available() {
    let error = log_instance("web", &PodStatus::default(), "main", false).unwrap_err();
    assert_eq!(error.to_string(), "container \"main\" in pod \"web\" is not available");
}

#[test]
fn containers_of_every_kind_are_found_by_name() {
    let container = |name: &str| Container { name: name.to_owned(), ..Container::default() };
    let spec = PodSpec {
        containers: vec![container("main")],
        init_containers: Some(vec![container("first")]),
        ..PodSpec::default()
    };
    let pod = Pod { spec: Some(spec), ..Pod::default() };
    let known = ["main", "first", "other"].map(|name| has_container(&pod, name));
    assert_eq!(known, [true, true, false]);
}

#[test]
fn instance_runs_while_the_status_has_its_id() {
    let none = ContainerState::default;
    assert!(is_running(&status(running(), none()), &"now".into()));
    assert!(!is_running(&status(running(), none()), &"old".into()));
    assert!(!is_running(&status(terminated("containerd://now"), none()), &"now".into()));
    assert!(!is_running(&PodStatus::default(), &"now".into()));
}
