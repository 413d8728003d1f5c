//! The transition table.

use super::IntakeState::{
    Admitted, AwaitingAdmission, AwaitingNodeRefresh, New, Preempted, Rejected,
    RemovedBeforeFirstList, Terminating, Working,
};
use super::support::*;
use super::*;

const ARRIVED: IntakeState = AwaitingAdmission { arrival: 1, node_refreshed: false };
const EARLIER: IntakeState = AwaitingAdmission { arrival: 0, node_refreshed: false };
const REFRESHED: IntakeState = AwaitingAdmission { arrival: 0, node_refreshed: true };
const WORKING: IntakeState = Working { occupies: true };
const FINISHED: IntakeState = Working { occupies: false };
const ADMITTED: IntakeState = Admitted { occupies: true };
const TERMINATING: IntakeState = Terminating { restart: false };
const RESTARTING: IntakeState = Terminating { restart: true };
const REJECTED: IntakeState = Rejected { worker: false };
const REJECTED_WITH_WORKER: IntakeState = Rejected { worker: true };

fn removed_early(uid: &str) -> IntakeState {
    RemovedBeforeFirstList(api_pod(uid))
}

fn changed(checks: PodChecks) -> IntakeEvent {
    IntakeEvent::PodChanged { uid: uid(), checks }
}

fn passes() -> IntakeEvent {
    changed(PodChecks::default())
}

fn fails() -> IntakeEvent {
    changed(PodChecks { on_arrival: Some(rejection()), on_update: Some(rejection()) })
}

fn state(intake: &Intake) -> Option<IntakeState> {
    intake.state(&uid()).cloned()
}

/// State before, state after, commands: of a listed pod, without anything around it.
fn check(pod: &Arc<Pod>, event: &IntakeEvent, rows: &[(IntakeState, IntakeState, &str)]) {
    for (before, after, expected) in rows {
        let mut intake = with_pod(pod, before.clone());
        let commands = Node::default().step(&mut intake, event.clone());
        assert_eq!(words(&commands), *expected, "{before:?} {event:?}");
        assert_eq!(state(&intake).as_ref(), Some(after), "{before:?} {event:?}");
    }
}

// behaviour: SRC-26, WRK-10
#[test]
fn pod_that_passes_its_checks_is_admitted_or_reaches_its_worker() {
    let rows = [
        (New, ARRIVED, "show"),
        (removed_early("a"), ARRIVED, "show"),
        (EARLIER, EARLIER, "show"),
        (REFRESHED, EARLIER, "show"),
        (AwaitingNodeRefresh, ARRIVED, "show"),
        (ADMITTED, ARRIVED, "show"),
        (WORKING, WORKING, "show, update"),
        (FINISHED, FINISHED, "show, update"),
        (Preempted, Preempted, "show, update"),
        (RESTARTING, RESTARTING, "show, update"),
        (TERMINATING, RESTARTING, "show, restart"),
    ];
    for pod in [api_pod(UID), static_pod(UID), deleted_pod(UID)] {
        check(&pod, &passes(), &rows);
    }
}

// behaviour: ADM-25, API-11, SRC-26
#[test]
fn rejected_pod_stays_so_unless_its_manifest_changes_or_it_is_deleted() {
    let api = [(REJECTED, REJECTED, "show"), (REJECTED_WITH_WORKER, REJECTED_WITH_WORKER, "show")];
    check(&api_pod(UID), &passes(), &api);
    let fixed = [
        (REJECTED, ARRIVED, "forget, show"),
        (REJECTED_WITH_WORKER, RESTARTING, "forget, show, restart"),
    ];
    check(&static_pod(UID), &passes(), &fixed);
    let deleted =
        [(REJECTED, ARRIVED, "show"), (REJECTED_WITH_WORKER, RESTARTING, "show, restart")];
    check(&deleted_pod(UID), &passes(), &deleted);
}

// behaviour: ADM-25, SRC-26
#[test]
fn static_pod_that_fails_a_check_is_rejected_and_its_earlier_version_terminated() {
    let rows = [
        (New, REJECTED, "reject"),
        (EARLIER, REJECTED, "reject"),
        (AwaitingNodeRefresh, REJECTED, "reject"),
        (ADMITTED, REJECTED, "reject"),
        (removed_early("a"), REJECTED, "reject"),
        (REJECTED, REJECTED, "forget, reject"),
        (WORKING, REJECTED_WITH_WORKER, "reject and terminate"),
        (Preempted, REJECTED_WITH_WORKER, "reject and terminate"),
        (TERMINATING, REJECTED_WITH_WORKER, "reject and terminate"),
        (RESTARTING, REJECTED_WITH_WORKER, "reject and terminate"),
        (REJECTED_WITH_WORKER, REJECTED_WITH_WORKER, "forget, reject and terminate"),
    ];
    check(&static_pod(UID), &fails(), &rows);
    // Pods of the API fail at admission or wait; one that is deleted must be terminated.
    let others = [(New, ARRIVED, "show"), (WORKING, WORKING, "show, update")];
    check(&api_pod(UID), &fails(), &others);
    check(&deleted_pod(UID), &fails(), &others);
}

// behaviour: ADM-25
#[test]
fn check_for_updates_counts_only_for_a_pod_with_a_worker() {
    let on_update = changed(PodChecks { on_update: Some(rejection()), ..PodChecks::default() });
    let rows = [(New, ARRIVED, "show"), (WORKING, REJECTED_WITH_WORKER, "reject and terminate")];
    check(&static_pod(UID), &on_update, &rows);
    let on_arrival = changed(PodChecks { on_arrival: Some(rejection()), ..PodChecks::default() });
    let rows = [(New, REJECTED, "reject"), (WORKING, WORKING, "show, update")];
    check(&static_pod(UID), &on_arrival, &rows);
}

#[test]
fn worker_restarts_after_the_removal_of_its_directory() {
    let mut intake = with_pod(&api_pod(UID), TERMINATING);
    let busy = Node { removing: [uid()].into(), ..Node::default() };
    assert_eq!(words(&busy.step(&mut intake, passes())), "show");
    assert!(intake.awaits_restart(&uid()));
    assert_eq!(words(&Node::default().step(&mut intake, passes())), "show, restart");
    assert!(!intake.awaits_restart(&uid()));
}

// behaviour: WRK-20
#[test]
fn removed_pod_is_terminated_or_kept_until_the_start_is_over() {
    let removed = IntakeEvent::PodRemoved { uid: uid(), pod: api_pod(UID) };
    let without_worker = [New, EARLIER, AwaitingNodeRefresh, ADMITTED, REJECTED];
    for before in without_worker {
        for (relisted, all_ready) in [(true, true), (true, false), (false, true)] {
            let mut intake = with_pod(&api_pod(UID), before.clone());
            (intake.relisted, intake.all_ready) = (relisted, all_ready);
            let unlisted = sources(&[], all_ready);
            Node::default().step(&mut intake, unlisted);
            let commands = Node::default().step(&mut intake, removed.clone());
            assert_eq!(words(&commands), "forget", "{before:?}");
            let after = (!(relisted && all_ready)).then(|| removed_early(UID));
            assert_eq!(state(&intake), after, "{before:?}");
        }
    }
    for before in [WORKING, FINISHED, Preempted, RESTARTING, TERMINATING, REJECTED_WITH_WORKER] {
        check(&api_pod(UID), &removed, &[(before, TERMINATING, "terminate")]);
    }
}

fn sources(pods: &[Arc<Pod>], all_ready: bool) -> IntakeEvent {
    let pods = pods.iter().map(|pod| (podspec::view::uid(pod), Arc::clone(pod))).collect();
    IntakeEvent::Sources { pods, undecodable: BTreeSet::new(), all_ready }
}

#[test]
fn listing_is_recorded_at_once_and_changes_no_state() {
    let mut intake = with_pod(&api_pod(UID), WORKING);
    let node = Node::running(&["a", "b"]);
    assert_eq!(node.step(&mut intake, sources(&[api_pod("b")], true)), []);
    assert!(!intake.is_desired(&uid()) && intake.is_desired(&"b".into()));
    assert_eq!(state(&intake), Some(WORKING));
    assert_eq!(intake.index_entry(&"b".into()).map(|entry| entry.listed), Some(true));
    // An outstanding event of a listed pod does not make an orphan of it.
    assert_eq!(node.step(&mut intake, IntakeEvent::Reconcile), []);
    assert_eq!(node.step(&mut intake, sources(&[], true)), []);
    assert_eq!(words(&node.step(&mut intake, IntakeEvent::Reconcile)), "terminate orphan b");
    assert_eq!(Node::default().step(&mut intake, passes()), [], "it is not listed any more");
}

fn decided(decision: AdmissionDecision) -> IntakeEvent {
    IntakeEvent::Decided(uid(), decision)
}

// behaviour: ADM-18
#[test]
fn decision_is_ignored_unless_the_pod_awaits_it() {
    let pod = api_pod(UID);
    let admit = |occupies| decided(AdmissionDecision::Admit { occupies });
    check(&pod, &admit(true), &[(EARLIER, WORKING, "create"), (REFRESHED, WORKING, "create")]);
    check(&pod, &admit(false), &[(EARLIER, FINISHED, "create")]);
    let reject = AdmissionDecision::Reject { pod: Arc::clone(&pod), rejection: rejection() };
    check(&pod, &decided(reject.clone()), &[(EARLIER, REJECTED, "reject")]);
    let refresh = decided(AdmissionDecision::RefreshNode);
    check(&pod, &refresh, &[(EARLIER, AwaitingNodeRefresh, "")]);
    for event in [admit(true), decided(reject), refresh] {
        for other in [New, ADMITTED, FINISHED, REJECTED, TERMINATING, AwaitingNodeRefresh] {
            check(&pod, &event, &[(other.clone(), other, "")]);
        }
    }
}

// behaviour: ADM-18
#[test]
fn pods_are_admitted_in_order_of_arrival_after_the_first_runtime_list() {
    let mut intake = Intake::default();
    let node = Node::default();
    node.step(&mut intake, sources(&[api_pod("c"), api_pod("a"), api_pod("b")], true));
    for uid in ["c", "a", "b", "c"] {
        let checks = PodChecks::default();
        node.step(&mut intake, IntakeEvent::PodChanged { uid: uid.into(), checks });
    }
    assert_eq!(intake.awaiting_admission(), []);
    node.step(&mut intake, IntakeEvent::Relisted);
    assert_eq!(intake.awaiting_admission(), ["c", "a", "b"].map(PodUid::from));
    let late = AdmissionDecision::RefreshNode;
    node.step(&mut intake, IntakeEvent::Decided("c".into(), late));
    assert_eq!(intake.awaiting_admission(), ["a", "b"].map(PodUid::from));
    node.step(&mut intake, IntakeEvent::NodeRefreshed(Some(["c".into()].into())));
    assert_eq!(intake.awaiting_admission(), ["a", "b", "c"].map(PodUid::from));
    assert!(intake.is_node_refreshed(&"c".into()) && !intake.is_node_refreshed(&"a".into()));
}

#[test]
fn lost_node_refresh_ends_the_wait_of_all() {
    for (pods, is_over) in
        [(None, true), (Some([uid()].into()), true), (Some(["b".into()].into()), false)]
    {
        let mut intake = with_pod(&api_pod(UID), AwaitingNodeRefresh);
        Node::default().step(&mut intake, IntakeEvent::NodeRefreshed(pods));
        assert_eq!(intake.is_node_refreshed(&uid()), is_over);
    }
}

fn entry(uid: &str, state: IntakeState) -> Entry {
    Entry { listing: Some(listed(&api_pod(uid))), state, awaits_room: false }
}

fn plan(victims: &[&str]) -> Preemption {
    let victims = victims.iter().copied().map(PodUid::from).collect();
    Preemption { victims, resource: "cpu".to_owned() }
}

// behaviour: ADM-19
#[test]
fn critical_pod_starts_when_the_time_of_its_victims_is_over() {
    let made = Room { uid: uid(), victims: vec!["b".into(), "c".into()] };
    for room in [Some(made), None] {
        let mut intake = started([
            (UID, entry(UID, EARLIER)),
            ("b", entry("b", WORKING)),
            ("c", entry("c", ADMITTED)),
            ("d", entry("d", TERMINATING)),
        ]);
        let node = Node::default();
        let preempts = IntakeEvent::Preempts(uid(), plan(&["b", "c", "d", "gone"]));
        let commands = node.step(&mut intake, preempts);
        assert_eq!(commands, [IntakeCommand::Preempt { uid: uid(), plan: plan(&["b", "c"]) }]);
        assert_eq!(state(&intake), Some(ADMITTED));
        assert!(intake.has_worker(&"c".into()), "the kill creates its worker");
        assert_eq!(intake.occupying().map(|(uid, _)| uid.as_str()).collect::<Vec<_>>(), [UID]);
        assert_eq!(node.step(&mut intake, IntakeEvent::Reconcile), []);
        assert_eq!(words(&node.step(&mut intake, IntakeEvent::RoomMade(room))), "create");
        assert_eq!(state(&intake), Some(WORKING));
        // One that took too long counts again.
        assert_eq!(intake.state(&"b".into()), Some(&WORKING));
        assert_eq!(intake.state(&"c".into()), Some(&WORKING));
    }
}

#[test]
fn changed_critical_pod_still_waits_for_its_victims() {
    let mut intake = started([(UID, entry(UID, EARLIER)), ("b", entry("b", WORKING))]);
    let node = Node::default();
    node.step(&mut intake, IntakeEvent::Preempts(uid(), plan(&["b"])));
    node.step(&mut intake, passes());
    let admit = AdmissionDecision::Admit { occupies: true };
    assert_eq!(node.step(&mut intake, decided(admit)), []);
    assert!(intake.awaits_room(&uid()));
    let room = Room { uid: uid(), victims: vec!["b".into()] };
    assert_eq!(words(&node.step(&mut intake, IntakeEvent::RoomMade(Some(room)))), "create");
}

#[test]
fn resize_waits_for_its_victims_and_keeps_its_worker() {
    let mut intake = started([(UID, entry(UID, WORKING)), ("b", entry("b", WORKING))]);
    let node = Node::default();
    let commands = node.step(&mut intake, IntakeEvent::Preempts(uid(), plan(&["b"])));
    assert_eq!(words(&commands), "preempt");
    assert_eq!(state(&intake), Some(WORKING));
    assert!(intake.awaits_room(&uid()));
    let room = Room { uid: uid(), victims: vec!["b".into()] };
    assert_eq!(node.step(&mut intake, IntakeEvent::RoomMade(Some(room))), []);
    assert!(!intake.awaits_room(&uid()));
}

#[test]
fn removed_victim_is_not_counted_again() {
    let mut intake = started([(UID, entry(UID, EARLIER)), ("b", entry("b", WORKING))]);
    let node = Node::default();
    node.step(&mut intake, IntakeEvent::Preempts(uid(), plan(&["b"])));
    node.step(&mut intake, IntakeEvent::PodRemoved { uid: "b".into(), pod: api_pod("b") });
    let room = Room { uid: uid(), victims: vec!["b".into()] };
    node.step(&mut intake, IntakeEvent::RoomMade(Some(room)));
    assert_eq!(intake.state(&"b".into()), Some(&TERMINATING));
}

fn happened(needs_sync: bool) -> IntakeEvent {
    IntakeEvent::RuntimeChanged { uid: uid(), needs_sync }
}

#[test]
fn worker_of_a_desired_pod_syncs_after_runtime_changes() {
    let pod = api_pod(UID);
    for state in [WORKING, FINISHED, Preempted, RESTARTING] {
        check(&pod, &happened(true), &[(state.clone(), state.clone(), "sync")]);
        check(&pod, &happened(false), &[(state.clone(), state, "")]);
    }
    for state in [New, EARLIER, AwaitingNodeRefresh, REJECTED, REJECTED_WITH_WORKER] {
        check(&pod, &happened(true), &[(state.clone(), state, "")]);
    }
    let mut ending = started([(UID, Entry { state: TERMINATING, ..Entry::default() })]);
    assert_eq!(Node::default().step(&mut ending, happened(true)), []);
}

// behaviour: ADM-20
#[test]
fn finished_pod_that_runs_again_is_counted() {
    let mut intake = with_pod(&api_pod(UID), FINISHED);
    assert_eq!(intake.occupying().count(), 0);
    let commands = Node::running(&[UID]).step(&mut intake, happened(true));
    assert_eq!(words(&commands), "readmit, sync");
    assert_eq!(intake.occupying().count(), 1);
}

// behaviour: WRK-7, WRK-20
#[test]
fn running_pod_is_an_orphan_once_all_sources_are_ready_and_none_lists_it() {
    let unlisted = |state| Entry { state, ..Entry::default() };
    let undecodable = Entry { listing: Some(Listing::Undecodable), ..Entry::default() };
    // entry, its state afterwards, command
    let rows = [
        (None, Some(TERMINATING), "terminate orphan"),
        (Some(unlisted(removed_early(UID))), Some(TERMINATING), "terminate known orphan"),
        (Some(unlisted(ADMITTED)), Some(TERMINATING), "terminate orphan"),
        (Some(unlisted(TERMINATING)), Some(TERMINATING), ""),
        (Some(undecodable), Some(New), ""),
        (Some(entry(UID, New)), Some(New), ""),
        (Some(entry(UID, AwaitingNodeRefresh)), Some(AwaitingNodeRefresh), ""),
        (Some(entry(UID, WORKING)), Some(WORKING), ""),
        (Some(entry(UID, REJECTED)), Some(REJECTED_WITH_WORKER), "terminate orphan"),
        (Some(entry(UID, REJECTED_WITH_WORKER)), Some(REJECTED_WITH_WORKER), ""),
    ];
    for (entry, after, expected) in rows {
        for event in [happened(false), IntakeEvent::Reconcile] {
            let before = started(entry.clone().map(|entry| (UID, entry)));
            let mut intake = Intake { pods: before.pods.clone(), ..before };
            let node = Node::running(&[UID]);
            assert_eq!(words(&node.step(&mut intake, event.clone())), expected, "{entry:?}");
            assert_eq!(state(&intake), after, "{entry:?}");
            let mut early =
                Intake { all_ready: false, ..started(entry.clone().map(|one| (UID, one))) };
            assert_eq!(node.step(&mut early, event), [], "{entry:?}");
        }
    }
}

#[test]
fn pods_removed_early_are_dropped_when_the_start_is_over() {
    let entry = || Entry { state: removed_early(UID), ..Entry::default() };
    let mut intake = Intake { all_ready: false, ..started([(UID, entry())]) };
    Node::default().step(&mut intake, IntakeEvent::Reconcile);
    assert_eq!(state(&intake), Some(removed_early(UID)));
    Node::default().step(&mut intake, sources(&[], true));
    Node::default().step(&mut intake, IntakeEvent::Reconcile);
    assert_eq!(state(&intake), None);
}

fn forgotten() -> IntakeEvent {
    IntakeEvent::WorkerForgotten { uid: uid(), checks: PodChecks::default() }
}

// behaviour: WRK-10
#[test]
fn forgotten_worker_leaves_no_state_or_starts_over() {
    let listed = [
        (RESTARTING, ARRIVED, "forget, show"),
        (TERMINATING, ARRIVED, "forget, show"),
        (WORKING, ARRIVED, "forget, show"),
        (REJECTED_WITH_WORKER, REJECTED, "forget, show"),
    ];
    check(&api_pod(UID), &forgotten(), &listed);
    let unlisted = || started([(UID, Entry { state: TERMINATING, ..Entry::default() })]);
    let mut intake = unlisted();
    assert_eq!(words(&Node::default().step(&mut intake, forgotten())), "forget, clean up");
    assert_eq!(state(&intake), None);
    let mut intake = unlisted();
    let commands = Node::running(&[UID]).step(&mut intake, forgotten());
    assert_eq!(words(&commands), "forget, clean up, terminate orphan");
    assert_eq!(state(&intake), Some(TERMINATING));
    let checks = PodChecks { on_arrival: Some(rejection()), on_update: None };
    let forgotten = IntakeEvent::WorkerForgotten { uid: uid(), checks };
    let rejected = [(REJECTED_WITH_WORKER, REJECTED, "forget, forget, reject")];
    check(&static_pod(UID), &forgotten, &rejected);
}

// behaviour: WRK-18
#[test]
fn static_pod_waits_for_a_running_pod_of_its_name() {
    let fixed =
        || Entry { listing: Some(listed(&static_pod(UID))), state: EARLIER, awaits_room: false };
    let admit = decided(AdmissionDecision::Admit { occupies: true });
    // It may belong to a source that is not ready.
    let mut intake = Intake { all_ready: false, ..started([(UID, fixed())]) };
    let node = Node::running(&["b"]);
    assert_eq!(node.step(&mut intake, admit.clone()), []);
    assert_eq!(node.step(&mut intake, IntakeEvent::Reconcile), []);
    intake.all_ready = true;
    let commands = node.step(&mut intake, IntakeEvent::Reconcile);
    assert_eq!(words(&commands), "terminate orphan b, create");
    // It ended by itself.
    let mut intake = Intake { all_ready: false, ..started([(UID, fixed())]) };
    node.step(&mut intake, admit.clone());
    let ended = IntakeEvent::RuntimeChanged { uid: "b".into(), needs_sync: true };
    assert_eq!(words(&Node::default().step(&mut intake, ended)), "create");
    // Pods of the API share names.
    let mut intake = Intake { all_ready: false, ..with_pod(&api_pod(UID), EARLIER) };
    assert_eq!(words(&node.step(&mut intake, admit.clone())), "create");
    // Pods with one name start one after the other; their workers ensure this.
    for other in [entry("b", WORKING), entry("b", EARLIER)] {
        let mut intake = started([(UID, fixed()), ("b", other)]);
        assert_eq!(words(&node.step(&mut intake, admit.clone())), "create");
    }
}

// behaviour: API-38
#[test]
fn undecodable_pod_keeps_running_and_keeps_its_name() {
    let fixed =
        Entry { listing: Some(listed(&static_pod(UID))), state: ADMITTED, awaits_room: false };
    let undecodable = Entry { listing: Some(Listing::Undecodable), ..Entry::default() };
    let mut intake = started([(UID, fixed), ("b", undecodable)]);
    let node = Node::running(&["b", "c"]);
    let commands = node.step(&mut intake, IntakeEvent::Reconcile);
    assert_eq!(words(&commands), "terminate orphan c");
    let index = IndexEntry { listed: true, ..IndexEntry::default() };
    assert_eq!(intake.index_entry(&"b".into()), Some(index));
    node.step(&mut intake, sources(&[static_pod(UID)], true));
    let commands = node.step(&mut intake, IntakeEvent::Reconcile);
    assert_eq!(words(&commands), "terminate orphan b, create");
}

// behaviour: SRC-68
#[test]
fn pod_of_an_outdated_copy_waits_for_the_newer_version() {
    let fixed =
        Entry { listing: Some(listed(&static_pod(UID))), state: EARLIER, awaits_room: false };
    let mut intake = started([(UID, fixed)]);
    let outdated = OutdatedCopies { held: [uid()].into(), kept_running: ["b".into()].into() };
    let node = Node { outdated, ..Node::running(&["b"]) };
    let admit = AdmissionDecision::Admit { occupies: true };
    assert_eq!(node.step(&mut intake, decided(admit)), []);
    assert_eq!(node.step(&mut intake, IntakeEvent::Reconcile), []);
    assert!(intake.is_listed(&"b".into()) && intake.known().contains(&PodUid::from("b")));
    assert_eq!(intake.mirrored().count(), 0);
    assert_eq!(intake.index().len(), 2);
    let commands = Node::running(&["b"]).step(&mut intake, IntakeEvent::Reconcile);
    assert_eq!(words(&commands), "terminate orphan b, create");
    assert_eq!(intake.mirrored().count(), 1);
    let worker = IndexEntry { worker: true, ..IndexEntry::default() };
    assert_eq!(intake.index_entry(&"b".into()), Some(worker));
}

#[test]
fn admitted_pod_starts_after_the_removal_of_its_directory() {
    let mut intake = with_pod(&api_pod(UID), EARLIER);
    let busy = Node { removing: [uid()].into(), ..Node::default() };
    let admit = AdmissionDecision::Admit { occupies: true };
    assert_eq!(busy.step(&mut intake, decided(admit)), []);
    assert_eq!(busy.step(&mut intake, IntakeEvent::Reconcile), []);
    assert_eq!(words(&Node::default().step(&mut intake, IntakeEvent::Reconcile)), "create");
}

#[test]
fn mirror_pods_are_created_for_decided_static_pods() {
    let rows = [
        (New, true),
        (EARLIER, false),
        (AwaitingNodeRefresh, false),
        (ADMITTED, true),
        (WORKING, true),
        (RESTARTING, true),
        (REJECTED, false),
    ];
    for (state, expected) in rows {
        let mirrored = with_pod(&static_pod(UID), state.clone()).mirrored().count();
        assert_eq!(mirrored, usize::from(expected), "{state:?}");
    }
    assert_eq!(with_pod(&api_pod(UID), WORKING).mirrored().count(), 0);
}

// behaviour: CGR-40
#[test]
fn index_has_listed_pods_and_workers() {
    let deadline = |pod: &mut Pod| {
        pod.spec.get_or_insert_default().active_deadline_seconds = Some(5);
    };
    let limited = Arc::new(testkit::pods::pod("web").uid(UID).with(deadline).build());
    let row = |listed, has_deadline, rejected, worker| {
        Some(IndexEntry { listed, has_deadline, rejected, worker })
    };
    let index = |pod: &Arc<Pod>, state| with_pod(pod, state).index_entry(&uid());
    assert_eq!(index(&limited, EARLIER), row(true, true, false, false));
    assert_eq!(index(&api_pod(UID), REJECTED), row(true, false, true, false));
    assert_eq!(index(&api_pod(UID), REJECTED_WITH_WORKER), row(true, false, true, true));
    let unlisted = |state| started([(UID, Entry { state, ..Entry::default() })]);
    assert_eq!(unlisted(TERMINATING).index_entry(&uid()), row(false, false, false, true));
    assert_eq!(unlisted(removed_early(UID)).index_entry(&uid()), None);
}
