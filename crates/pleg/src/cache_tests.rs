use std::collections::BTreeSet;
use std::sync::Arc;

use model::ids::PodUid;
use model::observed::RuntimePodStatus;
use model::ports::runtime::{Code, RuntimeError};
use model::seq::{Seq, SeqCounter};
use tokio_test::{assert_pending, assert_ready, task};

use super::cache;

fn uid() -> PodUid {
    "uid".into()
}

/// A relist that skipped no pod.
fn all() -> BTreeSet<PodUid> {
    BTreeSet::new()
}

fn seen(ip: &str) -> Arc<RuntimePodStatus> {
    Arc::new(RuntimePodStatus { ips: vec![ip.parse().unwrap()], ..RuntimePodStatus::empty(uid()) })
}

#[test]
fn unknown_pod_is_empty_and_not_fresh_before_the_first_relist() {
    let (writer, reader) = cache();
    let seq = SeqCounter::default();
    assert_eq!(reader.get(&uid()), Ok(Arc::new(RuntimePodStatus::empty(uid()))));
    let uid = uid();
    let mut wait = task::spawn(reader.newer_than(&uid, Seq::START));
    assert_pending!(wait.poll());
    writer.relisted(seq.next(), all());
    assert!(wait.is_woken());
    assert_eq!(assert_ready!(wait.poll()), Ok(Arc::new(RuntimePodStatus::empty(uid.clone()))));
}

#[test]
fn inspection_that_began_before_an_action_is_not_newer() {
    let (writer, reader) = cache();
    let seq = SeqCounter::default();
    let list = seq.next();
    let action = seq.next();
    writer.store(&uid(), Ok(seen("10.0.0.1")), list);
    writer.relisted(list, all());
    let uid = uid();
    let mut wait = task::spawn(reader.newer_than(&uid, action));
    assert_pending!(wait.poll());
    writer.store(&uid, Ok(seen("10.0.0.2")), seq.next());
    assert_eq!(assert_ready!(wait.poll()), Ok(seen("10.0.0.2")));
}

#[test]
fn relist_does_not_refresh_a_pod_that_it_skipped() {
    let (writer, reader) = cache();
    let seq = SeqCounter::default();
    let list = seq.next();
    let action = seq.next();
    let uid = uid();
    let mut wait = task::spawn(reader.newer_than(&uid, action));
    writer.relisted(seq.next(), [uid.clone()].into());
    assert_pending!(wait.poll());
    // An observation is as old as the beginning of its list.
    writer.store(&uid, Ok(seen("10.0.0.1")), list);
    assert_pending!(wait.poll());
    writer.unchanged(&uid, list);
    assert_pending!(wait.poll());
    writer.relisted(seq.next(), all());
    assert_eq!(assert_ready!(wait.poll()), Ok(seen("10.0.0.1")));
}

#[test]
fn unchanged_single_pod_relist_wakes_waiters() {
    let (writer, reader) = cache();
    let seq = SeqCounter::default();
    writer.store(&uid(), Ok(seen("10.0.0.1")), seq.next());
    let action = seq.next();
    let uid = uid();
    let mut wait = task::spawn(reader.newer_than(&uid, action));
    assert_pending!(wait.poll());
    writer.unchanged(&uid, seq.next());
    assert_eq!(assert_ready!(wait.poll()), Ok(seen("10.0.0.1")));
}

#[test]
fn waiter_gets_an_empty_status_when_the_pod_is_gone() {
    let (writer, reader) = cache();
    let seq = SeqCounter::default();
    writer.store(&uid(), Ok(seen("10.0.0.1")), seq.next());
    let action = seq.next();
    let uid = uid();
    let mut wait = task::spawn(reader.newer_than(&uid, action));
    assert_pending!(wait.poll());
    writer.forget(&uid, seq.next());
    assert_eq!(assert_ready!(wait.poll()), Ok(Arc::new(RuntimePodStatus::empty(uid.clone()))));
    assert_eq!(reader.get(&uid), Ok(Arc::new(RuntimePodStatus::empty(uid.clone()))));
}

#[test]
fn absent_pod_entry_is_kept_until_a_later_relist() {
    let (writer, reader) = cache();
    let seq = SeqCounter::default();
    let action = seq.next();
    let early = seq.next();
    writer.forget(&uid(), seq.next());
    let uid = uid();
    // A later reader gets it too, even if a relist that began before ends meanwhile.
    for skipped in [all(), [uid.clone()].into()] {
        writer.relisted(early, skipped);
        let mut wait = task::spawn(reader.newer_than(&uid, action));
        assert_eq!(assert_ready!(wait.poll()), Ok(Arc::new(RuntimePodStatus::empty(uid.clone()))));
        assert_eq!(super::lock(&writer.shared).entries.len(), 1);
    }
    writer.relisted(seq.next(), all());
    assert!(super::lock(&writer.shared).entries.is_empty());
}

#[test]
fn waiter_gets_the_error_of_a_failed_status_read() {
    let (writer, reader) = cache();
    let seq = SeqCounter::default();
    let error = RuntimeError {
        method: "ContainerStatus",
        object: "c".into(),
        code: Code::Unavailable,
        message: "gone".into(),
    };
    writer.store(&uid(), Err(error.clone()), seq.next());
    let uid = uid();
    let mut wait = task::spawn(reader.newer_than(&uid, Seq::START));
    assert_eq!(assert_ready!(wait.poll()), Err(error));
}

#[test]
fn cancelled_waiters_are_removed() {
    let (writer, reader) = cache();
    let seq = SeqCounter::default();
    {
        let uid = uid();
        let mut wait = task::spawn(reader.newer_than(&uid, Seq::START));
        assert_pending!(wait.poll());
    }
    writer.relisted(seq.next(), [uid()].into());
    assert!(super::lock(&writer.shared).waiters.is_empty());
}
