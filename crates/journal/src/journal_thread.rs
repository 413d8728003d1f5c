//! The journal with its own thread: a slow or hanging disk delays removals, which wait until they are recorded,
//! and nothing else.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use model::ports::clock::WallClock;
use model::ports::files::FileError;
use model::ports::incidents::Incident;
use model::ports::journal::{Journal, Outcome, WhenRecorded};
use model::ports::segments::Segments;
use model::ports::streaming::Session;
use model::verdict::Verdict;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use crate::disk::{Disk, SYNC_AFTER};
use crate::entry::EntryOutcome;
use crate::find::SearchResult;
use crate::in_progress::UnfinishedRemoval;
use crate::query::Query;

/// How long closing a journal waits for pending writes.
const LAST_WRITES: Duration = Duration::from_secs(1);

type Job = Box<dyn FnOnce(&Disk) + Send>;

/// Appends entries to segments, and bounds their size. A thread writes entries in the order in which they are
/// recorded; segments in memory need no thread.
#[derive(Debug)]
pub struct DiskJournal {
    // Dropped before the thread, so that the thread holds the last reference.
    disk: Arc<Disk>,
    thread: Option<JournalThread>,
}

/// The thread of the journal; it ends when this handle is dropped.
#[derive(Debug)]
struct JournalThread {
    jobs: Option<mpsc::Sender<Job>>,
    /// Closed when the thread has ended.
    ended: Mutex<mpsc::Receiver<()>>,
}

impl JournalThread {
    fn start(disk: Arc<Disk>) -> Option<Self> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let (end, ended) = mpsc::channel();
        let run = move || {
            for job in queue {
                if catch_unwind(AssertUnwindSafe(|| job(&disk))).is_err() {
                    error!("An entry of the journal is lost");
                }
            }
            drop(disk);
            drop(end);
        };
        match std::thread::Builder::new().name("journal".to_owned()).spawn(run) {
            Ok(_) => Some(Self { jobs: Some(jobs), ended: Mutex::new(ended) }),
            Err(error) => {
                warn!(%error, "Cannot start the thread of the journal");
                None
            }
        }
    }
}

impl Drop for JournalThread {
    fn drop(&mut self) {
        self.jobs = None;
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        // The channel never has a message: it is closed, or the wait times out.
        ended.recv_timeout(LAST_WRITES).ok();
    }
}

impl DiskJournal {
    /// A journal of at most `bound` bytes. Nothing is read or created before the first entry.
    pub fn new(
        segments: Arc<dyn Segments>,
        clock: Arc<dyn WallClock>,
        version: &str,
        max_bytes: u64,
    ) -> Self {
        let waits_for_disk = segments.waits_for_disk();
        let disk = Arc::new(Disk::new(segments, clock, version, max_bytes));
        let thread = waits_for_disk.then(|| JournalThread::start(Arc::clone(&disk))).flatten();
        Self { disk, thread }
    }

    /// Runs a job after all earlier records.
    fn submit(&self, job: impl FnOnce(&Disk) + Send + 'static) {
        match self.thread.as_ref().and_then(|thread| thread.jobs.as_ref()) {
            Some(jobs) => {
                if let Err(mpsc::SendError(job)) = jobs.send(Box::new(job)) {
                    job(&self.disk);
                }
            }
            None => job(&self.disk),
        }
    }

    /// Runs a job after all earlier records, and returns its result.
    fn run_job<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Disk) -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (answer, answered) = oneshot::channel();
        self.submit(move |disk| drop(answer.send(job(disk))));
        answered
    }

    /// Blocks until all records are written.
    fn flush(&self) {
        let (done, is_done) = mpsc::channel::<()>();
        self.submit(move |_| drop(done));
        // The channel never has a message: it is closed.
        is_done.recv().ok();
    }

    /// Finds entries, also those that wait for disk space. Blocks while it reads.
    pub fn find(&self, query: &Query, limit: usize) -> Result<SearchResult, FileError> {
        self.flush();
        self.disk.find(query, limit)
    }

    /// Records a session.
    pub(crate) fn record_session(&self, session: Session) {
        let at = self.disk.now();
        self.submit(move |disk| disk.record_session(&session, at));
    }

    /// Records an incident.
    pub(crate) fn record_incident(&self, incident: Incident) {
        let now = self.disk.now();
        self.submit(move |disk| disk.record_incident(&incident, now));
    }

    /// Removals in progress of earlier processes that were killed. The caller must
    /// [settle](Self::settle) each; until then, the next process gets it too. Blocks while it reads.
    pub fn take_unfinished(&self) -> Vec<UnfinishedRemoval> {
        self.flush();
        self.disk.take_unfinished()
    }

    /// Like `take_unfinished`, without blocking.
    pub(crate) async fn left(&self) -> Vec<UnfinishedRemoval> {
        self.run_job(Disk::take_unfinished).await.unwrap_or_default()
    }

    /// Records the outcome of such a removal, unless this process has removed the same object since.
    pub fn settle(&self, left: UnfinishedRemoval, outcome: EntryOutcome, more: &str) {
        let more = more.to_owned();
        self.submit(move |disk| disk.settle(left, outcome, &more));
    }

    /// Syncs all entries so far to disk. Blocks.
    pub fn sync(&self) {
        self.flush();
        self.disk.sync();
    }

    /// Syncs a while after each write, until it is stopped, and then once more.
    pub async fn keep_synced(self: Arc<Self>, stop: CancellationToken) {
        let mut going = true;
        while going {
            // Biased: a stop comes once.
            going = tokio::select! {
                biased;
                () = stop.cancelled() => false,
                () = async { self.disk.dirtied().await; sleep(SYNC_AFTER).await } => true,
            };
            let journal = Arc::clone(&self);
            let work = move || {
                journal.disk.retry();
                journal.sync();
            };
            if let Err(error) = tokio::task::spawn_blocking(work).await {
                warn!(%error, "Cannot sync the journal of removals");
            }
        }
    }
}

/// An outcome that waits to be written.
enum OwnOutcome {
    Failed(String),
    Other(Outcome<'static>),
}

impl From<Outcome<'_>> for OwnOutcome {
    fn from(outcome: Outcome<'_>) -> Self {
        match outcome {
            Outcome::Failed(error) => Self::Failed(error.to_owned()),
            Outcome::Removed => Self::Other(Outcome::Removed),
            Outcome::AlreadyGone => Self::Other(Outcome::AlreadyGone),
            Outcome::Held => Self::Other(Outcome::Held),
        }
    }
}

impl Journal for DiskJournal {
    fn record(&self, verdict: &Verdict, outcome: Outcome<'_>) {
        let (verdict, outcome) = (verdict.clone(), OwnOutcome::from(outcome));
        let (at, now) = (self.disk.now(), Instant::now().into_std());
        self.submit(move |disk| {
            let outcome = match &outcome {
                OwnOutcome::Failed(error) => Outcome::Failed(error),
                OwnOutcome::Other(outcome) => *outcome,
            };
            disk.record(&verdict, outcome, at, now);
        });
    }

    fn begun(&self, verdict: &Verdict) -> (u64, WhenRecorded) {
        let (number, at, verdict) = (self.disk.next_number(), self.disk.now(), verdict.clone());
        let noted = self.run_job(move |disk| disk.begun(number, &verdict, at));
        // The removal happens even if it cannot be recorded.
        (number, Box::pin(async move { drop(noted.await) }))
    }

    fn ended(&self, number: u64) {
        self.submit(move |disk| disk.ended(number));
    }
}

#[cfg(test)]
#[path = "journal_thread_tests.rs"]
mod tests;
