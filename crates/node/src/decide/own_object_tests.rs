use super::*;
use Change::{Applied, Complete, Gone, Restarted, Unread};

fn node(uid: &str, version: u32) -> Node {
    let mut node = Node::default();
    node.metadata.uid = Some(uid.to_owned());
    node.metadata.resource_version = Some(version.to_string());
    node
}

/// The uid and version of the known object.
fn known(own: &OwnObject) -> Option<String> {
    let metadata = &own.node()?.metadata;
    Some(format!("{}/{}", metadata.uid.as_ref()?, metadata.resource_version.as_ref()?))
}

fn after(changes: Vec<Change<Node, ()>>) -> OwnObject {
    let mut own = OwnObject::default();
    for change in changes {
        own.receive(change);
    }
    own
}

// behaviour: NODE-4
#[test]
fn missing_object_is_known_after_the_first_list() {
    let mut own = OwnObject::default();
    assert!(!own.receive(Restarted) && !own.is_known());
    assert!(own.receive(Complete), "a missing object is a change");
    assert!(own.is_known() && own.node().is_none());
    assert!(!own.receive(Restarted) && !own.receive(Complete), "the second time it is none");
    assert!(own.receive(Applied(node("a", 3))));
    assert!(own.receive(Gone(())) && !own.receive(Gone(())));
}

#[test]
fn older_version_is_ignored_unless_it_is_a_new_object_or_a_list() {
    let first = || after(vec![Restarted, Applied(node("a", 5)), Complete]);
    let mut own = first();
    assert!(
        !own.observe(node("a", 5))
            && !own.observe(node("a", 4))
            && !own.receive(Applied(node("a", 3)))
    );
    assert!(own.observe(node("a", 6)));
    assert_eq!(known(&own).as_deref(), Some("a/6"));
    assert!(own.observe(node("b", 1)), "it was created again");
    // A server that lost its data.
    let mut own = first();
    assert!(!own.receive(Restarted) && !own.receive(Applied(node("a", 2))));
    assert_eq!(known(&own).as_deref(), Some("a/5"), "until the list is complete");
    assert!(own.receive(Complete));
    assert_eq!(known(&own).as_deref(), Some("a/2"));
    let mut own = first();
    own.receive(Restarted);
    assert!(own.receive(Complete));
    assert_eq!(known(&own), None);
    let mut own = first();
    own.receive(Restarted);
    own.receive(Unread(()));
    assert!(!own.receive(Complete));
    assert_eq!(known(&own).as_deref(), Some("a/5"), "it exists, though it could not be decoded");
}

#[test]
fn stale_flag_is_taken_once() {
    let mut own = OwnObject::default();
    assert!(!own.take_stale());
    assert!(own.mark_stale() && !own.mark_stale());
    assert!(own.take_stale() && !own.take_stale());
}
