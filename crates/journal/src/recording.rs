//! The interceptor that records every removal in the journal.

mod outcome;

use std::sync::Arc;
use std::time::Duration;

use model::image_claims::ImageClaims;
use model::intercept::{Call, Interceptor, Port};
use model::ports::journal::Outcome;
use model::verdict::{Subject, Verdict};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use self::outcome::{Recorded, RemovalResult};
use crate::ledger::Ledger;
use crate::series::{AllSeries, Pending, SeriesKey};

/// Logged where the disk of the journal is slow.
const SLOW_NOTE: &str = "Cannot write the journal in time, removing without a note";

/// The error of a removal that was cancelled.
const GIVEN_UP: &str = "given up before it was known whether it is gone";

/// How long a removal waits for its record. The disk of the journal may hang, and pods must still terminate.
const LONGEST_NOTE: Duration = Duration::from_secs(30);

/// Records the removals of a port.
#[derive(Debug)]
pub struct Recording {
    ledger: Arc<Ledger>,
    claims: ImageClaims,
    series: AllSeries,
}

impl Recording {
    /// Records removals in a ledger, and refuses to remove claimed images: a pod may claim one while its removal
    /// waits for its record.
    pub fn new(ledger: Arc<Ledger>, claims: ImageClaims) -> Self {
        Self { ledger, claims, series: AllSeries::default() }
    }

    /// Records series of removals once their window is over, and all of them when it is stopped.
    pub async fn keep(self: Arc<Self>, stop: CancellationToken) {
        while let Some(over) = stop.run_until_cancelled(self.series.next_over()).await {
            self.record_series(over);
        }
        self.record_series(self.series.take_all());
    }

    fn record_series(&self, over: Vec<Pending>) {
        for pending in over {
            if let Some(verdict) = pending.verdict() {
                self.ledger.record_series(&verdict);
            }
            if let Some(note) = pending.note {
                self.ledger.ended(note);
            }
        }
    }

    /// Carries out a removal that continues a series.
    async fn continue_series<R: RemovalResult>(
        &self,
        key: SeriesKey,
        verdict: &Verdict,
        run: impl Future<Output = R> + Send,
    ) -> R {
        if !self.series.is_noted(&key) {
            let (note, noted) = self.ledger.begun(verdict);
            if timeout(LONGEST_NOTE, noted).await.is_err() {
                warn!(object = %verdict.subject, "{SLOW_NOTE}");
            }
            if let Some(surplus) = self.series.noted(&key, note) {
                self.ledger.ended(surplus);
            }
        }
        let result = run.await;
        match result.recorded() {
            Recorded::Removed | Recorded::Held => {
                self.ledger.count_removed(verdict);
                self.series.add(verdict, key);
            }
            Recorded::AlreadyGone | Recorded::Nothing => {}
            Recorded::Failed(error) => self.ledger.record(verdict, Outcome::Failed(&error)),
        }
        result
    }

    /// The error of a removal that must not happen.
    fn refusal<R: RemovalResult>(&self, verdict: &Verdict) -> Option<R> {
        let Subject::Image(id) = &verdict.subject else { return None };
        if self.claims.names().contains(id) { R::claimed(id) } else { None }
    }
}

impl<P: Port + ?Sized> Interceptor<P> for Recording
where
    Result<P::Removed, P::Error>: RemovalResult,
{
    async fn around_removal(
        &self,
        _call: &Call<'_>,
        verdict: &Verdict,
        run: impl Future<Output = Result<P::Removed, P::Error>> + Send,
    ) -> Result<P::Removed, P::Error> {
        if let Some(key) = SeriesKey::of(verdict) {
            let (continues, over) = self.series.continues(&key, verdict.at);
            self.record_series(over);
            if continues {
                return self.continue_series(key, verdict, run).await;
            }
        }
        let in_progress = RemovalInProgress::begin(&self.ledger, verdict).await;
        if let Some(refusal) = self.refusal(verdict) {
            in_progress.was_nothing();
            return refusal;
        }
        let result = run.await;
        match result.recorded() {
            Recorded::Removed => in_progress.ended(Outcome::Removed),
            Recorded::Held => in_progress.ended(Outcome::Held),
            Recorded::AlreadyGone => in_progress.ended(Outcome::AlreadyGone),
            Recorded::Failed(error) => in_progress.ended(Outcome::Failed(&error)),
            Recorded::Nothing => in_progress.was_nothing(),
        }
        result
    }
}

/// A removal in progress. A cancelled one is recorded too: it may have happened. After a kill
/// the next process records it.
struct RemovalInProgress<'a> {
    ledger: &'a Ledger,
    verdict: &'a Verdict,
    number: u64,
    over: bool,
}

impl<'a> RemovalInProgress<'a> {
    /// Waits until the removal is recorded, or times out. A removal that is cancelled before has not begun.
    async fn begin(ledger: &'a Ledger, verdict: &'a Verdict) -> Self {
        let (number, noted) = ledger.begun(verdict);
        let mut in_progress = Self { ledger, verdict, number, over: true };
        if timeout(LONGEST_NOTE, noted).await.is_err() {
            warn!(object = %verdict.subject, "{SLOW_NOTE}");
        }
        in_progress.over = false;
        in_progress
    }

    fn ended(mut self, outcome: Outcome<'_>) {
        self.over = true;
        self.ledger.record(self.verdict, outcome);
    }

    /// There was nothing to remove, or it was refused before anything was done.
    fn was_nothing(mut self) {
        self.over = true;
    }
}

impl Drop for RemovalInProgress<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.ledger.record(self.verdict, Outcome::Failed(GIVEN_UP));
        }
        self.ledger.ended(self.number);
    }
}

#[cfg(test)]
#[path = "recording_tests.rs"]
mod tests;
