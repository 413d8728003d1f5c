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
fn a_silent_runtime_is_down_after_half_a_minute() {
    let mut view = RuntimeView::default();
    let never = "container runtime status check may not have completed yet";
    assert_eq!(view.trouble(seconds(500)), Some(never));
    assert_eq!(view.network_error(), Some("network state unknown"));
    assert!(view.heard(&status(true, true), seconds(1)));
    assert!(view.is_ready() && view.trouble(seconds(30)).is_none());
    assert_eq!(view.trouble(seconds(31)), Some("container runtime is down"));
    assert!(!view.heard(&status(true, true), seconds(20)), "the same again is no news");
    assert_eq!(view.trouble(seconds(49)), None);
    assert!(view.heard(&status(true, true), seconds(60)), "it was down");
}

// behaviour: NODE-25
#[test]
fn a_runtime_that_is_not_ready_is_told_in_its_own_words() {
    let mut view = RuntimeView::default();
    assert!(view.heard(&status(true, false), seconds(1)));
    let network = "container runtime network not ready: NetworkReady=false reason:Plugin \
                   message:cni config uninitialized";
    assert_eq!((view.network_error(), view.runtime_error()), (Some(network), None));
    assert!(!view.is_ready());
    assert!(view.heard(&status(false, true), seconds(2)));
    let runtime = "container runtime not ready: RuntimeReady=false reason:Plugin \
                   message:cni config uninitialized";
    assert_eq!((view.network_error(), view.runtime_error()), (None, Some(runtime)));
    // It was last well at the first answer.
    assert_eq!(view.trouble(seconds(31)), Some("container runtime is down"));
    assert!(view.heard(&status(true, true), seconds(3)) && view.is_ready());
}

// behaviour: NODE-25
#[test]
fn what_the_runtime_does_not_say_is_told_as_nothing() {
    let mut view = RuntimeView::default();
    let silent = RuntimeStatus { network: None, runtime: None, ..status(true, true) };
    assert!(view.heard(&silent, seconds(1)) && !view.is_ready());
    assert_eq!(view.network_error(), Some("container runtime network not ready: <nil>"));
    assert_eq!(view.runtime_error(), Some("container runtime not ready: <nil>"));
}

// behaviour: NODE-17
#[test]
fn handlers_are_in_the_order_of_their_names() {
    let mut view = RuntimeView::default();
    view.heard(&status(true, true), seconds(1));
    let names: Vec<&str> = view.handlers.iter().map(|handler| handler.name.as_str()).collect();
    assert_eq!(names, ["", "runsc"]);
    assert!(view.is_called("containerd", "v2.4.2"));
    assert_eq!(view.version.as_deref(), Some("containerd://2.4.2"));
    assert!(!view.is_called("containerd", "2.4.2"));
}
