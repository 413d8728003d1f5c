use super::*;

fn terms() -> LeaseTerms {
    LeaseTerms { node: "n".to_owned(), duration: Duration::from_secs(40) }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn owner(lease: &Lease) -> &OwnerReference {
    lease.metadata.owner_references.as_ref().unwrap().first().unwrap()
}

// behaviour: NODE-30
#[test]
fn lease_has_owner_holder_and_duration() {
    let lease = terms().make("u1", Timestamp::new(5, 123_456_789).unwrap());
    let name = lease.metadata.name.as_deref();
    assert_eq!((name, lease.metadata.namespace.as_deref()), (Some("n"), Some(NODE_LEASES)));
    let spec = lease.spec.as_ref().unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some("n"));
    assert_eq!(spec.lease_duration_seconds, Some(40));
    let renewed = Timestamp::new(5, 123_456_000).unwrap();
    assert_eq!(spec.renew_time, Some(MicroTime(renewed)));
    assert_eq!((spec.acquire_time.as_ref(), spec.lease_transitions), (None, None));
    let owner = owner(&lease);
    let words = [&owner.api_version, &owner.kind, &owner.name, &owner.uid];
    assert_eq!(words, ["v1", "Node", "n", "u1"]);
    assert_eq!((owner.controller, owner.block_owner_deletion), (None, None));
    assert_eq!(terms().renew_interval(), Duration::from_secs(10));
}

// behaviour: NODE-33
#[test]
fn lease_is_owned_by_the_new_node_object() {
    let lease = terms().make("u1", at(1));
    let renewed = terms().renew(lease.clone(), Some("u2"), at(2));
    assert_eq!(owner(&renewed).uid, "u2");
    assert_eq!(renewed.metadata.owner_references.as_ref().unwrap().len(), 1);
    assert_eq!(owner(&terms().renew(lease.clone(), None, at(2))).uid, "u1");
    let mut orphan = lease.clone();
    orphan.metadata.owner_references = None;
    assert_eq!(owner(&terms().renew(orphan, Some("u3"), at(2))).uid, "u3");
    let mut foreign = lease;
    foreign.metadata.owner_references.as_mut().unwrap()[0].kind = "ConfigMap".to_owned();
    assert_eq!(
        owner(&terms().renew(foreign, Some("u4"), at(2))).uid,
        "u1",
        "it belongs to another object"
    );
}
