use model::ports::runtime::RuntimeCondition;

use super::*;

fn condition(ready: bool) -> RuntimeCondition {
    let (reason, message) = if ready { ("", "") } else { ("Plugin", "cni config uninitialized") };
    RuntimeCondition { ready, reason: reason.to_owned(), message: message.to_owned() }
}

fn status(runtime: bool, network: bool) -> RuntimeStatus {
    let handler =
        |name: &str| RuntimeHandler { name: name.to_owned(), ..RuntimeHandler::default() };
    RuntimeStatus {
        runtime: Some(condition(runtime)),
        network: Some(condition(network)),
        handlers: vec![handler("runsc"), handler("")],
        features: RuntimeFeatures::default(),
    }
}

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

// behaviour: NODE-22
#[test]
fn runtime_is_down_after_half_a_minute_of_silence() {
    let mut view = RuntimeView::default();
    let never = "container runtime status check may not have completed yet";
    assert_eq!(view.silence_error(seconds(500)), Some(never));
    assert_eq!(view.network_error(), Some("network state unknown"));
    assert!(view.update(&status(true, true), seconds(1)));
    assert!(view.is_ready() && view.silence_error(seconds(30)).is_none());
    assert_eq!(view.silence_error(seconds(31)), Some("container runtime is down"));
    assert!(!view.update(&status(true, true), seconds(20)), "an equal status is no change");
    assert_eq!(view.silence_error(seconds(49)), None);
    assert!(view.update(&status(true, true), seconds(60)), "it was down");
}

// behaviour: NODE-25
#[test]
fn unready_runtime_is_reported_with_its_own_message() {
    let mut view = RuntimeView::default();
    assert!(view.update(&status(true, false), seconds(1)));
    let network = "container runtime network not ready: NetworkReady=false reason:Plugin \
                   message:cni config uninitialized";
    assert_eq!((view.network_error(), view.runtime_error()), (Some(network), None));
    assert!(!view.is_ready());
    assert!(view.update(&status(false, true), seconds(2)));
    let runtime = "container runtime not ready: RuntimeReady=false reason:Plugin \
                   message:cni config uninitialized";
    assert_eq!((view.network_error(), view.runtime_error()), (None, Some(runtime)));
    // The last successful check was the first one.
    assert_eq!(view.silence_error(seconds(31)), Some("container runtime is down"));
    assert!(view.update(&status(true, true), seconds(3)) && view.is_ready());
}

// behaviour: NODE-25
#[test]
fn missing_runtime_conditions_are_reported_as_nil() {
    let mut view = RuntimeView::default();
    let silent = RuntimeStatus { network: None, runtime: None, ..status(true, true) };
    assert!(view.update(&silent, seconds(1)) && !view.is_ready());
    assert_eq!(view.network_error(), Some("container runtime network not ready: <nil>"));
    assert_eq!(view.runtime_error(), Some("container runtime not ready: <nil>"));
}

// behaviour: NODE-17
#[test]
fn handlers_are_sorted_by_name() {
    let mut view = RuntimeView::default();
    view.update(&status(true, true), seconds(1));
    let names: Vec<&str> = view.handlers.iter().map(|handler| handler.name.as_str()).collect();
    assert_eq!(names, ["", "runsc"]);
    assert!(view.set_version("containerd", "v2.4.2"));
    assert_eq!(view.version.as_deref(), Some("containerd://2.4.2"));
    assert!(!view.set_version("containerd", "2.4.2"));
}
