//! Invariants of the intake over sequences of events, with a model of the sync loop and the workers.

use proptest::prelude::*;

use super::support::{Node, rejection};
use super::*;

const PODS: u8 = 5;

/// A step of a test. Numbers are pods; two of them share each name.
#[derive(Debug, Clone, Copy)]
enum TestEvent {
    List(u8, bool),
    Undecodable(u8),
    Unlist(u8),
    SourcesReady,
    Relist,
    Lives(u8),
    Dies(u8),
    WorkerEnds(u8),
    NodeRefreshed,
    RoomMade,
    /// The next decision of admission.
    Decide(Outcome),
}

#[derive(Debug, Clone, Copy)]
enum Outcome {
    Admit(bool),
    Reject,
    Refresh,
    Preempt,
}

fn test_event() -> impl Strategy<Value = TestEvent> {
    let outcome = prop_oneof![
        4 => any::<bool>().prop_map(Outcome::Admit),
        1 => Just(Outcome::Reject),
        1 => Just(Outcome::Refresh),
        2 => Just(Outcome::Preempt),
    ];
    prop_oneof![
        4 => (0..PODS, any::<bool>()).prop_map(|(pod, fails)| TestEvent::List(pod, fails)),
        1 => (0..PODS).prop_map(TestEvent::Undecodable),
        3 => (0..PODS).prop_map(TestEvent::Unlist),
        2 => Just(TestEvent::SourcesReady),
        2 => Just(TestEvent::Relist),
        2 => (0..PODS).prop_map(TestEvent::Lives),
        2 => (0..PODS).prop_map(TestEvent::Dies),
        4 => (0..PODS).prop_map(TestEvent::WorkerEnds),
        1 => Just(TestEvent::NodeRefreshed),
        1 => Just(TestEvent::RoomMade),
        3 => outcome.prop_map(TestEvent::Decide),
    ]
}

fn uid(number: u8) -> PodUid {
    number.to_string().as_str().into()
}

fn name(number: u8) -> PodName {
    PodName::new("default", (number / 2).to_string())
}

/// Even pods are static. The version makes each listing another object.
fn pod(number: u8, version: u64) -> Arc<Pod> {
    let pod = testkit::pods::pod(&(number / 2).to_string()).uid(&number.to_string());
    let pod = pod.label("version", &version.to_string());
    let source = podspec::annotations::CONFIG_SOURCE;
    let pod = match number % 2 {
        0 => pod.annotation(source, podspec::annotations::SOURCE_FILE),
        _ => pod,
    };
    Arc::new(pod.build())
}

/// The facts about a pod's worker that the invariants need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Worker {
    Runs,
    Terminates,
}

#[derive(Debug)]
struct Harness {
    intake: Intake,
    node: Node,
    pods: BTreeMap<PodUid, Arc<Pod>>,
    undecodable: BTreeSet<PodUid>,
    ready: bool,
    failing: BTreeSet<PodUid>,
    workers: BTreeMap<PodUid, Worker>,
    refreshes: BTreeSet<PodUid>,
    rooms: Vec<Room>,
    next: Outcome,
    version: u64,
}

impl Harness {
    fn new() -> Self {
        Self {
            intake: Intake::default(),
            node: Node::default(),
            pods: BTreeMap::new(),
            undecodable: BTreeSet::new(),
            ready: false,
            failing: BTreeSet::new(),
            workers: BTreeMap::new(),
            refreshes: BTreeSet::new(),
            rooms: Vec::new(),
            next: Outcome::Admit(true),
            version: 0,
        }
    }

    fn step(&mut self, event: IntakeEvent) -> Vec<IntakeCommand> {
        let commands = self.node.step(&mut self.intake, event);
        for command in &commands {
            self.execute(command);
        }
        commands
    }

    fn execute(&mut self, command: &IntakeCommand) {
        let uid = command.uid().clone();
        let worker = self.workers.get(&uid).copied();
        match command {
            IntakeCommand::CreateWorker(_) => {
                assert_eq!(worker, None, "one worker for each life of {uid}");
                assert!(self.pods.contains_key(&uid) && self.intake.is_relisted());
                self.workers.insert(uid, Worker::Runs);
            }
            IntakeCommand::TerminateOrphan { .. } => {
                assert_eq!(worker, None, "{uid} has a worker");
                assert!(self.ready && self.node.live.contains_key(&uid));
                assert!(!self.intake.is_desired(&uid) && !self.undecodable.contains(&uid));
                self.workers.insert(uid, Worker::Terminates);
            }
            IntakeCommand::Terminate { .. } | IntakeCommand::Reject { terminate: true, .. } => {
                assert!(worker.is_some(), "{command:?}");
                self.workers.insert(uid, Worker::Terminates);
            }
            IntakeCommand::RestartWorker(_) => assert_eq!(worker, Some(Worker::Terminates)),
            IntakeCommand::UpdateWorker(_)
            | IntakeCommand::SyncWorker(_)
            | IntakeCommand::Readmit(_) => assert!(worker.is_some(), "{command:?}"),
            IntakeCommand::Preempt { plan, .. } => {
                for victim in &plan.victims {
                    self.workers.insert(victim.clone(), Worker::Terminates);
                }
                self.rooms.push(Room { uid, victims: plan.victims.clone() });
            }
            IntakeCommand::CleanUp(_) => assert!(!self.pods.contains_key(&uid)),
            IntakeCommand::Show(_)
            | IntakeCommand::Forget(_)
            | IntakeCommand::Reject { terminate: false, .. } => {}
        }
    }

    fn checks(&self, uid: &PodUid) -> PodChecks {
        let rejection = self.failing.contains(uid).then(rejection);
        PodChecks { on_arrival: rejection.clone(), on_update: rejection }
    }

    fn sources(&mut self) {
        let event = IntakeEvent::Sources {
            pods: self.pods.clone(),
            undecodable: self.undecodable.clone(),
            all_ready: self.ready,
        };
        self.step(event);
    }

    fn admit(&mut self) {
        for uid in self.intake.awaiting_admission() {
            let pod = Arc::clone(&self.pods[&uid]);
            let is_final = self.intake.is_node_refreshed(&uid);
            let outcome =
                if self.node.live.contains_key(&uid) { Outcome::Admit(true) } else { self.next };
            let decision = match outcome {
                Outcome::Admit(occupies) => AdmissionDecision::Admit { occupies },
                Outcome::Refresh if !is_final => {
                    self.refreshes.insert(uid.clone());
                    AdmissionDecision::RefreshNode
                }
                Outcome::Reject | Outcome::Refresh => {
                    AdmissionDecision::Reject { pod, rejection: rejection() }
                }
                Outcome::Preempt => {
                    let victims = self.intake.occupying().map(|(uid, _)| uid.clone()).take(2);
                    let plan =
                        Preemption { victims: victims.collect(), resource: "cpu".to_owned() };
                    self.step(IntakeEvent::Preempts(uid, plan));
                    continue;
                }
            };
            self.step(IntakeEvent::Decided(uid, decision));
        }
    }

    /// What the sync loop does after a change of the sources, after the first list and in housekeeping.
    fn reconcile_all(&mut self) -> Vec<IntakeCommand> {
        self.admit();
        self.step(IntakeEvent::Reconcile)
    }

    fn list(&mut self, number: u8, fails: bool) {
        let uid = uid(number);
        self.version += 1;
        self.undecodable.remove(&uid);
        self.pods.insert(uid.clone(), pod(number, self.version));
        if fails && self.version.is_multiple_of(3) {
            self.failing.insert(uid.clone());
        } else {
            self.failing.remove(&uid);
        }
        self.sources();
        let checks = self.checks(&uid);
        self.step(IntakeEvent::PodChanged { uid, checks });
        self.reconcile_all();
    }

    fn happens(&mut self, test_event: TestEvent) {
        match test_event {
            TestEvent::List(number, fails) => self.list(number, fails),
            TestEvent::Undecodable(number) => {
                if !self.pods.contains_key(&uid(number)) {
                    self.undecodable.insert(uid(number));
                    self.sources();
                    self.reconcile_all();
                }
            }
            TestEvent::Unlist(number) => {
                self.undecodable.remove(&uid(number));
                let removed = self.pods.remove(&uid(number));
                self.sources();
                if let Some(pod) = removed {
                    self.step(IntakeEvent::PodRemoved { uid: uid(number), pod });
                }
                self.reconcile_all();
            }
            TestEvent::SourcesReady => {
                self.ready = true;
                self.sources();
                self.reconcile_all();
            }
            TestEvent::Relist => {
                self.step(IntakeEvent::Relisted);
                self.reconcile_all();
            }
            TestEvent::Lives(number) => {
                self.node.live.insert(uid(number), name(number));
                self.step(IntakeEvent::RuntimeChanged { uid: uid(number), needs_sync: true });
            }
            TestEvent::Dies(number) => {
                self.node.live.remove(&uid(number));
                self.step(IntakeEvent::RuntimeChanged { uid: uid(number), needs_sync: true });
            }
            TestEvent::WorkerEnds(number) => self.worker_ends(&uid(number)),
            TestEvent::NodeRefreshed => {
                let pods = std::mem::take(&mut self.refreshes);
                self.step(IntakeEvent::NodeRefreshed(Some(pods)));
                self.reconcile_all();
            }
            TestEvent::RoomMade => {
                if let Some(room) = self.rooms.pop() {
                    self.step(IntakeEvent::RoomMade(Some(room)));
                    self.reconcile_all();
                }
            }
            TestEvent::Decide(next) => self.next = next,
        }
    }

    /// A worker is dropped when it has terminated its pod, unless the pod is desired as it was.
    fn worker_ends(&mut self, uid: &PodUid) {
        let restarts = self.intake.state(uid) == Some(&IntakeState::Terminating { restart: true });
        let stays = self.intake.is_desired(uid) && !restarts;
        if stays || self.workers.get(uid) != Some(&Worker::Terminates) {
            return;
        }
        self.workers.remove(uid);
        self.node.live.remove(uid);
        let checks = self.checks(uid);
        self.step(IntakeEvent::WorkerForgotten { uid: uid.clone(), checks });
        self.reconcile_all();
    }

    fn check(&self) {
        for number in 0..PODS {
            let uid = uid(number);
            assert_eq!(self.intake.has_worker(&uid), self.workers.contains_key(&uid), "{uid}");
            let index = self.intake.index_entry(&uid).unwrap_or_default();
            let listed = self.pods.contains_key(&uid) || self.undecodable.contains(&uid);
            assert_eq!((index.listed, index.worker), (listed, self.workers.contains_key(&uid)));
            let waits = self.intake.state(&uid) == Some(&IntakeState::AwaitingNodeRefresh);
            assert!(!waits || self.refreshes.contains(&uid), "{uid} waits without a reason");
            let waits = self.intake.awaits_room(&uid);
            assert!(
                !waits || self.rooms.iter().any(|room| room.uid == uid),
                "{uid} waits without a reason"
            );
        }
        for (uid, entry) in &self.intake.pods {
            assert!(!entry.is_unused(), "{uid} is dropped");
            let waits = entry.is_awaiting_start();
            assert!(!waits || self.intake.awaiting_start.contains(uid), "{uid} is looked at");
        }
        assert_eq!(self.intake.awaiting_admission(), [], "admission is decided in the same turn");
    }

    /// Everything outstanding is answered.
    fn settle(&mut self) {
        self.next = Outcome::Admit(true);
        self.undecodable.clear();
        self.happens(TestEvent::SourcesReady);
        self.happens(TestEvent::Relist);
        for _ in 0..3 {
            self.happens(TestEvent::NodeRefreshed);
            while !self.rooms.is_empty() {
                self.happens(TestEvent::RoomMade);
            }
            (0..PODS).for_each(|number| self.worker_ends(&uid(number)));
        }
    }
}

proptest! {
    // behaviour: WRK-7, WRK-20
    #[test]
    fn intake_keeps_its_laws(test_events in proptest::collection::vec(test_event(), 0..60)) {
        let mut harness = Harness::new();
        for test_event in test_events {
            harness.happens(test_event);
            harness.check();
            // Housekeeping only repairs.
            prop_assert_eq!(harness.reconcile_all(), []);
        }
        harness.settle();
        harness.check();
        for uid in (0..PODS).map(uid) {
            let is_rejected = harness.intake.is_rejected(&uid);
            let should_work = harness.pods.contains_key(&uid) && !is_rejected;
            prop_assert_eq!(harness.workers.contains_key(&uid), should_work, "{}", uid);
        }
        prop_assert!(harness.intake.is_settled(&BTreeMap::new()));
    }
}
