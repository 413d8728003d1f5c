use std::collections::BTreeSet;
use std::sync::Arc;

use model::ids::PodUid;
use model::observed::PodStatus;
use model::ports::runtime::{Code, RuntimeError};
use model::stamp::{Stamp, Stamps};
use tokio_test::{assert_pending, assert_ready, task};

use super::cache;

fn uid() -> PodUid {
    "uid".into()
}

/// A relist that passed over nobody.
fn all() -> BTreeSet<PodUid> {
    BTreeSet::new()
}

fn seen(ip: &str) -> Arc<PodStatus> {
    Arc::new(PodStatus { ips: vec![ip.parse().unwrap()], ..PodStatus::empty(uid()) })
}

#[test]
fn an_unknown_pod_is_empty_but_not_fresh_before_the_first_relist() {
    let (writer, reader) = cache();
    let stamps = Stamps::default();
    assert_eq!(reader.get(&uid()), Ok(Arc::new(PodStatus::empty(uid()))));
    let uid = uid();
    let mut wait = task::spawn(reader.newer_than(&uid, Stamp::START));
    assert_pending!(wait.poll());
    writer.relisted(stamps.next(), all());
    assert!(wait.is_woken());
    assert_eq!(assert_ready!(wait.poll()), Ok(Arc::new(PodStatus::empty(uid.clone()))));
}

#[test]
fn a_look_that_began_before_the_action_is_not_newer_than_it() {
    let (writer, reader) = cache();
    let stamps = Stamps::default();
    let look = stamps.next();
    let action = stamps.next();
    writer.store(&uid(), Ok(seen("10.0.0.1")), look);
    writer.relisted(look, all());
    let uid = uid();
    let mut wait = task::spawn(reader.newer_than(&uid, action));
    assert_pending!(wait.poll());
    writer.store(&uid, Ok(seen("10.0.0.2")), stamps.next());
    assert_eq!(assert_ready!(wait.poll()), Ok(seen("10.0.0.2")));
}

#[test]
fn a_relist_says_nothing_fresh_about_a_pod_that_it_passed_over() {
    let (writer, reader) = cache();
    let stamps = Stamps::default();
    let look = stamps.next();
    let action = stamps.next();
    let uid = uid();
    let mut wait = task::spawn(reader.newer_than(&uid, action));
    writer.relisted(stamps.next(), [uid.clone()].into());
    assert_pending!(wait.poll());
    // The end of what was under way does not make it newer than its beginning.
    writer.store(&uid, Ok(seen("10.0.0.1")), look);
    assert_pending!(wait.poll());
    writer.unchanged(&uid, look);
    assert_pending!(wait.poll());
    writer.relisted(stamps.next(), all());
    assert_eq!(assert_ready!(wait.poll()), Ok(seen("10.0.0.1")));
}

#[test]
fn a_look_at_one_pod_that_shows_nothing_new_satisfies_those_who_wait_for_it() {
    let (writer, reader) = cache();
    let stamps = Stamps::default();
    writer.store(&uid(), Ok(seen("10.0.0.1")), stamps.next());
    let action = stamps.next();
    let uid = uid();
    let mut wait = task::spawn(reader.newer_than(&uid, action));
    assert_pending!(wait.poll());
    writer.unchanged(&uid, stamps.next());
    assert_eq!(assert_ready!(wait.poll()), Ok(seen("10.0.0.1")));
}

#[test]
fn a_pod_that_went_away_is_empty_for_those_who_wait_for_it() {
    let (writer, reader) = cache();
    let stamps = Stamps::default();
    writer.store(&uid(), Ok(seen("10.0.0.1")), stamps.next());
    let action = stamps.next();
    let uid = uid();
    let mut wait = task::spawn(reader.newer_than(&uid, action));
    assert_pending!(wait.poll());
    writer.forget(&uid, stamps.next());
    assert_eq!(assert_ready!(wait.poll()), Ok(Arc::new(PodStatus::empty(uid.clone()))));
    assert_eq!(reader.get(&uid), Ok(Arc::new(PodStatus::empty(uid.clone()))));
}

#[test]
fn that_a_pod_is_absent_is_known_until_a_relist_says_so_too() {
    let (writer, reader) = cache();
    let stamps = Stamps::default();
    let action = stamps.next();
    let early = stamps.next();
    writer.forget(&uid(), stamps.next());
    let uid = uid();
    // Whoever asks later hears it as well, even if a relist ends meanwhile that began before.
    for passed_over in [all(), [uid.clone()].into()] {
        writer.relisted(early, passed_over);
        let mut wait = task::spawn(reader.newer_than(&uid, action));
        assert_eq!(assert_ready!(wait.poll()), Ok(Arc::new(PodStatus::empty(uid.clone()))));
        assert_eq!(super::lock(&writer.shared).entries.len(), 1);
    }
    writer.relisted(stamps.next(), all());
    assert!(super::lock(&writer.shared).entries.is_empty());
}

#[test]
fn a_status_that_could_not_be_read_is_an_error_for_those_who_wait() {
    let (writer, reader) = cache();
    let stamps = Stamps::default();
    let error = RuntimeError {
        method: "ContainerStatus",
        object: "c".into(),
        code: Code::Unavailable,
        message: "gone".into(),
    };
    writer.store(&uid(), Err(error.clone()), stamps.next());
    let uid = uid();
    let mut wait = task::spawn(reader.newer_than(&uid, Stamp::START));
    assert_eq!(assert_ready!(wait.poll()), Err(error));
}

#[test]
fn waiters_that_gave_up_are_forgotten() {
    let (writer, reader) = cache();
    let stamps = Stamps::default();
    {
        let uid = uid();
        let mut wait = task::spawn(reader.newer_than(&uid, Stamp::START));
        assert_pending!(wait.poll());
    }
    writer.relisted(stamps.next(), [uid()].into());
    assert!(super::lock(&writer.shared).waiters.is_empty());
}
