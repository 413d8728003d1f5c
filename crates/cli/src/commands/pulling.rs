//! Image pulls in progress: the status of the pod is `ContainerCreating` meanwhile.

use jiff::Timestamp;
use model::ports::events::STILL_PULLING;
use server::wire::{EventItem, LastEvent};
use status::decide::human_duration;

/// The event at the begin of a pull.
const PULLING: &str = "Pulling";

/// The status word for a pod in a table, given its last event: with the pull that it waits for, if any.
pub(super) fn status_word(word: &str, last: Option<&LastEvent>, now: Timestamp) -> Option<String> {
    let is_starting =
        ["ContainerCreating", "PodInitializing"].contains(&word) || word.starts_with("Init:");
    let pull = last.filter(|event| is_starting && event.reason == PULLING)?;
    Some(format!("{word} (pulling for {})", human_duration(now.duration_since(pull.time))))
}

/// The pull that a container waits for: the last event of the container is the start of a pull.
pub(super) fn of_container(name: &str, events: &[EventItem], now: Timestamp) -> Option<String> {
    let of_it = |event: &&EventItem| {
        let path = event.field_path.strip_suffix('}').and_then(|path| path.rsplit_once('{'));
        path.is_some_and(|(_, container)| container == name)
    };
    let of_it = |event: &&EventItem| of_it(event) && event.reason != STILL_PULLING;
    let last = events.iter().filter(of_it).max_by_key(|event| event.last_time)?;
    let ago = human_duration(now.duration_since(last.last_time));
    (last.reason == PULLING).then(|| format!("{}, for {ago} so far", last.message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    // behaviour: PULL-13
    #[test]
    fn starting_pod_whose_last_event_is_a_pull_shows_since_when() {
        let event = |reason: &str| {
            let (reason, message) = (reason.to_owned(), String::new());
            LastEvent { kind: "Normal".to_owned(), reason, message, time: at(100) }
        };
        let word = |word: &str, reason: &str| status_word(word, Some(&event(reason)), at(150));
        let pulling = |word: &str| Some(format!("{word} (pulling for 50s)"));
        assert_eq!(word("ContainerCreating", "Pulling"), pulling("ContainerCreating"));
        assert_eq!(word("Init:0/2", "Pulling"), pulling("Init:0/2"));
        assert_eq!(word("ContainerCreating", "Scheduled"), None);
        assert_eq!(word("ErrImagePull", "Pulling"), None, "the error says more");
        assert_eq!(status_word("ContainerCreating", None, at(150)), None);
    }

    // behaviour: PULL-13
    #[test]
    fn container_waits_for_a_pull_until_a_later_event_of_it() {
        let event = |container: &str, reason: &str, last: i64| EventItem {
            involved: "Pod".to_owned(),
            pod: "default/web".to_owned(),
            pod_uid: "u".to_owned(),
            field_path: format!("spec.containers{{{container}}}"),
            kind: "Normal".to_owned(),
            reason: reason.to_owned(),
            message: "Pulling image \"x\"".to_owned(),
            count: 1,
            first_time: at(0),
            last_time: at(last),
        };
        let events = [
            event("a", "Pulling", 100),
            event("a", STILL_PULLING, 140),
            event("b", "Pulling", 90),
            event("b", "Failed", 95),
        ];
        let expected = "Pulling image \"x\", for 50s so far";
        assert_eq!(of_container("a", &events, at(150)).as_deref(), Some(expected));
        assert_eq!(of_container("b", &events, at(150)), None);
        assert_eq!(of_container("c", &events, at(150)), None);
    }
}
