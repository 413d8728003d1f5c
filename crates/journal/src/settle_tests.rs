use model::ids::{PodName, PodUid};
use model::ports::journal::{Journal as _, Outcome};
use model::ports::runtime::{Code, Runtime, SandboxService};
use model::verdict::Subject;
use testkit::cgroups::MemoryCgroups;
use testkit::clock::VirtualClock;
use testkit::files::MemoryFiles;
use testkit::runtime::{Fault, MemoryRuntime, Method, RemoteImage, Rule};
use testkit::segments::MemorySegments;
use testkit::wanted::{self, removal};

use super::*;
use crate::disk::SMALLEST;
use crate::query::Query;

/// The state that outlives a process, and what it removes.
struct Harness {
    clock: Arc<VirtualClock>,
    segments: MemorySegments,
    runtime: Arc<MemoryRuntime>,
    files: Arc<MemoryFiles>,
    cgroups: Arc<MemoryCgroups>,
}

impl Harness {
    fn new() -> Self {
        let clock = Arc::new(VirtualClock::new());
        let runtime = Arc::new(MemoryRuntime::new(Arc::clone(&clock) as _));
        runtime.add_image(&RemoteImage::new("image"));
        let (files, cgroups) = (Arc::default(), Arc::default());
        Self { clock, segments: MemorySegments::default(), runtime, files, cgroups }
    }

    fn journal(&self) -> DiskJournal {
        let segments = Arc::new(self.segments.clone());
        DiskJournal::new(segments, Arc::clone(&self.clock) as _, "0.1.0", SMALLEST)
    }

    /// A process that is killed while it removes all these.
    fn killed_over(&self, subjects: &[Subject]) {
        let journal = self.journal();
        for subject in subjects {
            drop(journal.begun(&removal(subject.clone())));
        }
        std::mem::forget(journal);
    }

    /// The next process, with these ports.
    async fn next(&self, checks: &ExistenceChecks) -> DiskJournal {
        let journal = self.journal();
        checks.settle(&journal).await;
        journal
    }

    fn checks(&self) -> ExistenceChecks {
        ExistenceChecks {
            runtime: Some(Runtime::new(Arc::clone(&self.runtime))),
            files: Some(Arc::clone(&self.files) as _),
            cgroups: Some(Arc::clone(&self.cgroups) as _),
        }
    }
}

fn outcomes(journal: &DiskJournal, what: &str) -> Vec<(EntryOutcome, String)> {
    let found = journal.find(&Query::new(what), 10).unwrap();
    let outcome = |entry: Entry| (entry.outcome, entry.error.unwrap_or_default());
    found.entries.into_iter().map(outcome).collect()
}

fn still_there() -> Vec<(EntryOutcome, String)> {
    let error = "the process ended before the answer; it was there after a restart";
    vec![(EntryOutcome::Unknown, error.to_owned())]
}

// behaviour: GC-102
#[tokio::test(start_paused = true)]
async fn interrupted_removal_is_recorded_as_removed_or_unknown_after_a_kill() {
    let harness = Harness::new();
    let pod = wanted::sandbox(&PodName::new("default", "web"), &PodUid::from("u1"));
    let sandbox = harness.runtime.run_pod_sandbox(&pod).await.unwrap();
    harness.files.write("/logs/there/0.log", "text");
    harness.files.put_link("/links/dangling.log", "/nowhere");
    let cgroup = |name: &str| CgroupName::parse(name).unwrap();
    harness.cgroups.enter(&cgroup("/kubepods/there"));
    harness.killed_over(&[
        Subject::Container("c1".into()),
        Subject::Sandbox("s1".into()),
        Subject::Sandbox(sandbox.clone()),
        Subject::Image("i1".to_owned()),
        Subject::Image("image".to_owned()),
        Subject::PodLogs("/logs/gone".into()),
        Subject::PodLogs("/logs/there".into()),
        Subject::LogLink("/links/dangling.log".into()),
        Subject::PodDirectory("/pods/gone".into()),
        Subject::Cgroup(cgroup("/kubepods/gone")),
        Subject::Cgroup(cgroup("/kubepods/there")),
        Subject::Pod("u7".into()),
    ]);
    let journal = harness.next(&harness.checks()).await;
    for gone in ["c1", "s1", "i1", "/logs/gone", "/pods/gone"] {
        assert_eq!(outcomes(&journal, gone), [(EntryOutcome::Removed, String::new())], "{gone}");
        let found = journal.find(&Query::new(gone), 1).unwrap();
        assert_eq!(found.entries[0].detail.text("foundGone").as_deref(), Some("after a restart"));
    }
    assert_eq!(outcomes(&journal, "/kubepods/gone"), [(EntryOutcome::Gone, String::new())]);
    let there =
        [sandbox.as_str(), "image", "/logs/there", "/links/dangling.log", "/kubepods/there"];
    for there in there {
        assert_eq!(outcomes(&journal, there), still_there(), "{there}");
    }
    let unknown = (EntryOutcome::Unknown, "the process ended before the answer".to_owned());
    assert_eq!(outcomes(&journal, "u7"), [unknown]);
    std::mem::forget(journal);
    let again = harness.next(&harness.checks()).await;
    assert_eq!(outcomes(&again, "c1").len(), 1, "it is settled once");
}

#[tokio::test(start_paused = true)]
async fn settling_does_not_wait_for_an_unresponsive_runtime() {
    let harness = Harness::new();
    let hang = Rule::on(Method::ContainerStatus, Fault::hang()).object("c1");
    harness.runtime.inject(hang);
    let fails = Rule::on(Method::ContainerStatus, Fault::error(Code::Unavailable)).object("c2");
    harness.runtime.inject(fails);
    harness.killed_over(&[Subject::Container("c1".into()), Subject::Container("c2".into())]);
    let journal = harness.next(&harness.checks()).await;
    for id in ["c1", "c2"] {
        let outcomes = outcomes(&journal, id);
        let [(EntryOutcome::Unknown, error)] = &*outcomes else { panic!("{outcomes:?}") };
        assert!(error.contains("; cannot check whether it is there: "), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn object_removed_by_the_next_process_is_recorded_once() {
    let harness = Harness::new();
    let subjects = ["c1", "c2"].map(|id| Subject::Container(id.into()));
    harness.killed_over(&subjects);
    let next = harness.journal();
    let left = next.take_unfinished();
    assert_eq!(left.len(), 2);
    next.record(&removal(subjects[0].clone()), Outcome::Removed);
    for left in left {
        next.settle(left, EntryOutcome::Removed, "");
    }
    for (id, found_gone) in [("c1", None), ("c2", Some("after a restart"))] {
        assert_eq!(outcomes(&next, id), [(EntryOutcome::Removed, String::new())]);
        let detail = next.find(&Query::new(id), 1).unwrap().entries[0].detail.clone();
        assert_eq!(detail.text("foundGone").as_deref(), found_gone);
    }
    std::mem::forget(next);
    assert!(harness.journal().take_unfinished().is_empty());
}

#[tokio::test(start_paused = true)]
async fn next_process_continues_settling_after_a_kill() {
    let harness = Harness::new();
    harness.killed_over(&["c1", "c2"].map(|id| Subject::Container(id.into())));
    let second = harness.journal();
    let first = second.take_unfinished().into_iter().next().unwrap();
    second.settle(first, EntryOutcome::Removed, "");
    std::mem::forget(second);
    let third = harness.next(&harness.checks()).await;
    for id in ["c1", "c2"] {
        assert_eq!(outcomes(&third, id), [(EntryOutcome::Removed, String::new())], "{id}");
    }
}
