use std::io::{self, BufRead};
use std::path::Path;
use std::sync::Condvar;

use futures_util::FutureExt as _;
use model::image_claims::ImageClaims;
use model::intercept::Intercepted;
use model::ports::files::{HostFiles, Removed};
use model::ports::segments::{Segment, SegmentInfo};
use model::verdict::Subject;
use prometheus::Registry;
use testkit::clock::VirtualClock;
use testkit::files::MemoryFiles;
use testkit::segments::MemorySegments;
use testkit::wanted::removal;

use super::*;
use crate::disk::SMALLEST;
use crate::in_progress;
use crate::ledger::Ledger;
use crate::recording::Recording;

/// How long a disk hangs when a test waits in vain.
const HANGS: Duration = Duration::from_secs(5);

/// Writes wait until it is open.
#[derive(Debug, Default)]
struct Gate(Mutex<bool>, Condvar);

impl Gate {
    fn open(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }

    fn pass(&self) {
        drop(self.1.wait_timeout_while(self.0.lock().unwrap(), HANGS, |open| !*open).unwrap());
    }
}

/// Segments on a disk that hangs.
#[derive(Debug, Clone)]
struct SlowSegments(Arc<dyn Segments>, Arc<Gate>);

#[derive(Debug)]
struct SlowSegment(Arc<dyn Segment>, Arc<Gate>);

impl Segments for SlowSegments {
    fn list(&self) -> Result<Vec<SegmentInfo>, FileError> {
        self.1.pass();
        self.0.list()
    }
    fn append_to(&self, number: u64) -> Result<Arc<dyn Segment>, FileError> {
        self.1.pass();
        Ok(Arc::new(SlowSegment(self.0.append_to(number)?, Arc::clone(&self.1))))
    }
    fn read(&self, number: u64) -> Result<Box<dyn BufRead + Send>, FileError> {
        self.0.read(number)
    }
    fn remove(&self, number: u64) -> Result<(), FileError> {
        self.0.remove(number)
    }
    fn beside(&self, name: &str) -> Arc<dyn Segments> {
        Arc::new(Self(self.0.beside(name), Arc::clone(&self.1)))
    }
}

impl Segment for SlowSegment {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        self.1.pass();
        self.0.append(bytes)
    }
    fn reserve(&self, length: u64) -> io::Result<()> {
        self.0.reserve(length)
    }
    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
}

struct Bench {
    segments: MemorySegments,
    gate: Arc<Gate>,
    journal: Arc<DiskJournal>,
    inner: Arc<MemoryFiles>,
    files: Intercepted<dyn HostFiles, Recording>,
}

impl Bench {
    fn new() -> Self {
        let (segments, gate) = (MemorySegments::default(), Arc::new(Gate::default()));
        let slow = Arc::new(SlowSegments(Arc::new(segments.clone()), Arc::clone(&gate)));
        let journal = DiskJournal::new(slow, Arc::new(VirtualClock::new()), "0.1.0", SMALLEST);
        let journal = Arc::new(journal);
        let ledger = Ledger::new(Arc::clone(&journal) as _, &Registry::new()).unwrap();
        let inner = Arc::new(MemoryFiles::new());
        inner.write("/pods/u1/etc-hosts", "text");
        let recording = Recording::new(Arc::new(ledger), ImageClaims::default());
        let files = Intercepted::new(Arc::clone(&inner) as _, &Arc::new(recording));
        Self { segments, gate, journal, inner, files }
    }

    fn is_there(&self) -> bool {
        self.inner.content("/pods/u1/etc-hosts").is_some()
    }

    fn outcomes(&self) -> Vec<EntryOutcome> {
        let found = self.journal.find(&Query::new("/pods/u1"), 10).unwrap();
        found.entries.iter().map(|entry| entry.outcome).collect()
    }

    /// How many removals in progress the next process would find.
    fn in_progress(&self) -> usize {
        self.journal.flush();
        in_progress::InProgress::new(&self.segments).all().unwrap().len()
    }
}

// behaviour: GC-114
#[tokio::test]
async fn removal_waits_for_a_disk_that_hangs_without_blocking_its_thread() {
    let bench = Bench::new();
    let verdict = removal(Subject::PodDirectory("/pods/u1".into()));
    let mut removal = bench.files.remove(Path::new("/pods"), &verdict);
    assert!((&mut removal).now_or_never().is_none());
    assert!(bench.is_there(), "it is not recorded yet");
    bench.gate.open();
    assert_eq!(removal.await.unwrap(), Removed::Now);
    assert!(!bench.is_there());
    assert_eq!(bench.outcomes(), [EntryOutcome::Removed]);
    assert_eq!(bench.in_progress(), 0);
}

// behaviour: GC-114
#[tokio::test]
async fn removal_cancelled_before_its_note_leaves_no_entry() {
    let bench = Bench::new();
    let verdict = removal(Subject::PodDirectory("/pods/u1".into()));
    let removal = bench.files.remove(Path::new("/pods"), &verdict).now_or_never();
    assert!(removal.is_none() && bench.is_there());
    bench.gate.open();
    assert_eq!(bench.outcomes(), []);
    assert_eq!(bench.in_progress(), 0);
}

// behaviour: GC-114
#[tokio::test(start_paused = true)]
async fn removal_proceeds_without_its_note_after_thirty_seconds() {
    let bench = Bench::new();
    let verdict = removal(Subject::PodDirectory("/pods/u1".into()));
    let began = Instant::now();
    assert_eq!(bench.files.remove(Path::new("/pods"), &verdict).await.unwrap(), Removed::Now);
    assert_eq!(began.elapsed().as_secs(), 30);
    assert!(!bench.is_there());
    bench.gate.open();
    assert_eq!(bench.outcomes(), [EntryOutcome::Removed], "recorded when the disk is back");
}

#[tokio::test]
async fn removal_is_recorded_before_it_starts() {
    let bench = Bench::new();
    bench.gate.open();
    let verdict = removal(Subject::PodDirectory("/pods/u1".into()));
    let (number, noted) = bench.journal.begun(&verdict);
    noted.await;
    let noted = in_progress::InProgress::new(&bench.segments).all().unwrap();
    assert_eq!(noted.len(), 1, "without a flush");
    bench.journal.ended(number);
    assert_eq!(bench.in_progress(), 0);
}

#[tokio::test]
async fn dropped_journal_writes_its_last_entries() {
    let Bench { segments, gate, journal, inner, files } = Bench::new();
    gate.open();
    let verdict = removal(Subject::PodDirectory("/pods/u1".into()));
    journal.record(&verdict, Outcome::Failed("busy"));
    drop((journal, inner, files));
    let found = crate::find::find(&segments, &Query::new("/pods/u1"), 10).unwrap();
    assert_eq!(found.entries.len(), 1);
    assert!(segments.others(in_progress::PLACE).list().unwrap().is_empty());
}

#[tokio::test]
async fn entry_that_panics_the_thread_does_not_end_it() {
    let bench = Bench::new();
    bench.gate.open();
    bench.journal.submit(|_| panic!("injected by a test"));
    let verdict = removal(Subject::PodDirectory("/pods/u1".into()));
    bench.journal.record(&verdict, Outcome::Removed);
    assert_eq!(bench.outcomes(), [EntryOutcome::Removed]);
}
