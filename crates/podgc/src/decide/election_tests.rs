use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn elector(identity: &str) -> Elector {
    Elector::new(ElectionPolicy {
        identity: identity.to_owned(),
        lease_duration: SECOND * 15,
        renew_deadline: SECOND * 10,
    })
}

fn wall(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn held(holder: &str, renewed: i64, transitions: i32) -> LeaseRecord {
    LeaseRecord {
        holder: holder.to_owned(),
        duration: SECOND * 15,
        acquired: Some(wall(0)),
        renewed: Some(wall(renewed)),
        transitions,
    }
}

fn lease(record: LeaseRecord) -> Lease {
    Lease { record, uid: "u".into(), version: "1".to_owned() }
}

// behaviour: PGC-60
#[test]
fn missing_lease_is_created() {
    let step = elector("a").step(None, SECOND, wall(7));
    let Step::Create(record) = step else { panic!("{step:?}") };
    assert_eq!(record, LeaseRecord { acquired: Some(wall(7)), ..held("a", 7, 0) });
}

// behaviour: PGC-61
#[test]
fn foreign_lease_is_taken_after_it_is_unchanged_for_its_duration() {
    let mut b = elector("b");
    assert_eq!(b.step(Some(&held("a", 1, 0)), SECOND, wall(0)), Step::HeldBy("a".into()));
    assert_eq!(b.step(Some(&held("a", 1, 0)), SECOND * 15, wall(0)), Step::HeldBy("a".into()));
    assert_eq!(b.step(Some(&held("a", 2, 0)), SECOND * 16, wall(0)), Step::HeldBy("a".into()));
    assert_eq!(b.step(Some(&held("a", 2, 0)), SECOND * 30, wall(0)), Step::HeldBy("a".into()));
    let step = b.step(Some(&held("a", 2, 0)), SECOND * 31, wall(40));
    let Step::Update(record) = step else { panic!("{step:?}") };
    assert_eq!(record, LeaseRecord { acquired: Some(wall(40)), ..held("b", 40, 1) });
    assert!(!b.leads(), "only once it is written");
}

// behaviour: PGC-61
#[test]
fn election_ignores_clocks_of_other_processes() {
    let mut b = elector("b");
    let ahead = held("a", 1_000_000, 0);
    assert_eq!(b.step(Some(&ahead), SECOND, wall(0)), Step::HeldBy("a".into()));
    assert!(matches!(b.step(Some(&ahead), SECOND * 16, wall(0)), Step::Update(_)));
}

// behaviour: PGC-62
#[test]
fn released_lease_is_taken_at_once() {
    assert!(matches!(elector("b").step(Some(&held("", 1, 3)), SECOND, wall(2)), Step::Update(_)));
}

// behaviour: PGC-63
#[test]
fn own_lease_is_renewed_and_keeps_its_acquire_time() {
    let mut a = elector("a");
    a.wrote(&lease(held("a", 1, 2)), SECOND);
    let step = a.step(Some(&held("a", 1, 2)), SECOND * 3, wall(3));
    assert_eq!(step, Step::Update(held("a", 3, 2)));
    assert!(a.leads());
}

// behaviour: PGC-64
#[test]
fn leader_without_a_timely_renewal_has_lost() {
    let mut a = elector("a");
    assert!(a.left(SECOND).is_zero(), "it never led");
    a.wrote(&lease(held("a", 1, 0)), SECOND);
    assert_eq!(a.left(SECOND * 10), SECOND);
    assert!(a.left(SECOND * 11).is_zero());
    assert!(!a.is_overdue(SECOND * 36, SECOND * 20));
    assert!(a.is_overdue(SECOND * 37, SECOND * 20));
}

// behaviour: PGC-65
#[test]
fn leader_that_sees_another_holder_has_lost() {
    let mut a = elector("a");
    a.wrote(&lease(held("a", 1, 0)), SECOND);
    assert_eq!(a.step(Some(&held("b", 2, 1)), SECOND * 2, wall(2)), Step::HeldBy("b".into()));
    assert!(a.left(SECOND * 2).is_zero());
}
