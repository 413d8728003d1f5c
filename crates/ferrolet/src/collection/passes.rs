//! Requested passes, and their progress reports.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use gc::containers::{ContainerGc, KeepReason, Pass, Step};
use gc::images::ImageGc;
use journal::{Inputs, Ledger, Progress};
use server::wire::{GcDone, GcItem, GcLine, GcVerdict};
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{chain, plan_item, removal_item};

/// How many lines are buffered for a slow reader.
const LINES: usize = 64;

/// How long a pass waits for its reader, in total.
const PATIENCE: Duration = Duration::from_secs(10);

/// The client that reads the progress of a pass.
#[derive(Debug)]
pub(super) struct Reader {
    lines: mpsc::Sender<GcLine>,
    /// Receives the result of the pass; never full.
    done: oneshot::Sender<GcDone>,
    /// The remaining time for which the pass waits for the client.
    patience: Duration,
    /// How many lines were delivered.
    taken: u64,
}

impl Reader {
    /// A reader, and the stream that it reads.
    pub(super) fn new() -> (Self, BoxStream<'static, GcLine>) {
        let ((lines, reported), (done, ended)) = (mpsc::channel(LINES), oneshot::channel());
        let next =
            async |mut reported: mpsc::Receiver<GcLine>| Some((reported.recv().await?, reported));
        // The stream ends without a result if the agent stopped first.
        let last = async { ended.await.ok().map(GcLine::Done) };
        let last = stream::once(last).filter_map(std::future::ready);
        let reader = Self { lines, done, patience: PATIENCE, taken: 0 };
        (reader, stream::unfold(reported, next).chain(last).boxed())
    }

    /// Sends a line. A client that disconnected or does not read misses it; the pass continues.
    async fn send(&mut self, line: GcLine) {
        let began = Instant::now();
        let taken = self.lines.send_timeout(line, self.patience).await.is_ok();
        self.patience = self.patience.saturating_sub(began.elapsed());
        self.taken += u64::from(taken);
    }

    /// Sends the result of the pass.
    fn end(self, mut done: GcDone) {
        let counts = [&done.removed, &done.failed, &done.kept];
        let all: u64 = counts.into_iter().flat_map(BTreeMap::values).sum();
        done.left_out = all.saturating_sub(self.taken);
        drop(self.lines);
        // The client may have disconnected.
        drop(self.done.send(done));
    }
}

/// Runs the requested passes one after the other, also when the client has disconnected.
#[derive(Debug)]
pub(super) struct Passes {
    pub(super) containers: ContainerGc,
    pub(super) images: ImageGc,
    pub(super) ledger: Arc<Ledger>,
    pub(super) requested: mpsc::Receiver<Reader>,
}

impl Passes {
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let passes = async {
            while let Some(reader) = self.requested.recv().await {
                self.pass(reader).await;
            }
            // The senders are dropped: the agent stops.
            std::future::pending::<()>().await;
        };
        stop.run_until_cancelled(passes).await;
    }

    /// A pass over everything. Images come first: removing containers makes further images unused, and the pass
    /// must match the plan.
    async fn pass(&self, mut reader: Reader) {
        let mut done = GcDone::default();
        self.images_pass(&mut reader, &mut done).await;
        self.containers_pass(&mut reader, &mut done).await;
        reader.end(done);
    }

    async fn containers_pass(&self, reader: &mut Reader, done: &mut GcDone) {
        let Pass { mut steps, report } = self.containers.run_now().await;
        while let Some(step) = steps.recv().await {
            reader.send(step_line(step)).await;
        }
        let Ok(report) = report.await else {
            done.problems.push("the agent stops".to_owned());
            return;
        };
        for (kind, tally) in report.kinds {
            count(&mut done.removed, kind, tally.removed);
            count(&mut done.failed, kind, tally.failed);
            count(&mut done.kept, kind, tally.kept);
        }
        done.problems.extend(report.problems.iter().map(chain));
    }

    async fn images_pass(&self, reader: &mut Reader, done: &mut GcDone) {
        let mut removals = self.ledger.watch();
        let pass = self.images.run_now();
        let mut pass = std::pin::pin!(pass);
        let report = loop {
            // Biased: removals are reported before the end.
            tokio::select! {
                biased;
                removal = removals.recv() => match removal {
                    Ok(removal) => report_image(&removal, reader).await,
                    // The summary counts lines that were missed.
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => break pass.await,
                },
                report = &mut pass => break report,
            }
        };
        loop {
            match removals.try_recv() {
                Ok(removal) => report_image(&removal, reader).await,
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        for item in &report.claimed {
            reader.send(GcLine::Kept { item: plan_item(item) }).await;
        }
        count(&mut done.kept, "image", report.claimed.len() as u64);
        count(&mut done.removed, "image", report.plan.removals().count() as u64);
        count(&mut done.failed, "image", report.not_removed() as u64);
        done.problems.extend(report.error.as_ref().map(chain));
    }
}

fn count(counts: &mut BTreeMap<String, u64>, kind: &str, number: u64) {
    if number > 0 {
        *counts.entry(kind.to_owned()).or_default() += number;
    }
}

/// Reports the removal of an image; the other collectors report their own removals.
async fn report_image(removal: &Progress, reader: &mut Reader) {
    if removal.verdict.subject.kind() == "image" {
        let outcome = removal.error.clone().map_or(Ok(()), |error| Err(KeepReason::Failed(error)));
        let verdict = removal.verdict.clone();
        reader.send(step_line(Step { verdict, outcome })).await;
    }
}

/// A step of a pass as the socket returns it.
fn step_line(step: Step) -> GcLine {
    let item = removal_item(step.verdict);
    match step.outcome {
        Ok(()) => GcLine::Removed { item },
        Err(KeepReason::Failed(error) | KeepReason::RuntimeAway(error)) => {
            GcLine::Failed { item, error }
        }
        Err(KeepReason::Kept(rule)) => {
            let (verdict, rule, detail) = (GcVerdict::Keep, rule.to_owned(), Inputs::default());
            GcLine::Kept { item: GcItem { verdict, rule, detail, ..item } }
        }
    }
}
