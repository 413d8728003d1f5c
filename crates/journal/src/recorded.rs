//! The ports through which the agent removes, with every removal put on record.

mod cgroups;
mod files;
mod pods;
mod runtime;

use std::time::Duration;

use model::ports::journal::Outcome;
use model::verdict::Verdict;
use tokio::time::timeout;
use tracing::warn;

use crate::ledger::Ledger;

pub use cgroups::RecordedCgroups;
pub use files::RecordedFiles;
pub use pods::RecordedPods;
pub use runtime::RecordedRuntime;

/// Said of a removal whose end nobody waited for.
const GIVEN_UP: &str = "given up before it was known whether it is gone";

/// How long a removal waits for its note. The disk of the journal may hang, and pods must still be able to end.
const LONGEST_NOTE: Duration = Duration::from_secs(30);

/// A removal under way. One that is given up is put on record too: it may have happened. One whose process is
/// killed is put on record by the next.
struct UnderWay<'a> {
    ledger: &'a Ledger,
    verdict: &'a Verdict,
    number: u64,
    over: bool,
}

impl<'a> UnderWay<'a> {
    /// Waits until the removal is noted down, or cannot be in time. One that is given up before has not begun.
    async fn begin(ledger: &'a Ledger, verdict: &'a Verdict) -> Self {
        let (number, noted) = ledger.begun(verdict);
        let mut under_way = Self { ledger, verdict, number, over: true };
        if timeout(LONGEST_NOTE, noted).await.is_err() {
            warn!(object = %verdict.subject, "Cannot write the journal in time, removing without a note");
        }
        under_way.over = false;
        under_way
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

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.ledger.record(self.verdict, Outcome::Failed(GIVEN_UP));
        }
        self.ledger.ended(self.number);
    }
}

#[cfg(test)]
#[path = "recorded_tests.rs"]
mod tests;
