//! The task that makes all passes.

use std::sync::Arc;
use std::time::Duration;

use model::chain::Chain;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, debug, error, info, info_span};

use super::records::RecordsFile;
use super::snapshot::{Collector, Snapshot};
use super::{ImageGcError, ImagesLeft, Kind, PassReport, Request};
use crate::decide::images::stay;

/// From the end of a pass to the start of the next, like upstream.
const PERIOD: Duration = Duration::from_mins(5);

/// Makes passes: every five minutes, and on request.
#[derive(Debug)]
pub struct ImageGcTask {
    collector: Arc<Collector>,
    /// Closed when all handles are dropped.
    requests: mpsc::Receiver<Request>,
    file: RecordsFile,
    /// The images left by the last pass, for consumers that store data per image.
    left: watch::Sender<Option<Arc<ImagesLeft>>>,
    /// Whether the last periodic pass failed.
    failed: bool,
}

impl ImageGcTask {
    pub(super) fn new(
        collector: Arc<Collector>,
        requests: mpsc::Receiver<Request>,
        left: watch::Sender<Option<Arc<ImagesLeft>>>,
    ) -> Self {
        let file = RecordsFile::new(Arc::clone(&collector.parts.files), &collector.settings.state);
        Self { collector, requests, file, left, failed: false }
    }

    /// Runs until stopped, which may interrupt a pass.
    pub async fn run(mut self, stop: CancellationToken) {
        // Biased: the stop comes first.
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.serve() => unreachable!("it serves without end"),
        }
    }

    async fn serve(&mut self) {
        let records = self.file.load().await;
        self.collector.remember(records);
        if !self.collector.settings.policy.is_periodic() {
            info!(
                "Periodic image garbage collection is disabled: the high threshold is 100 and there is no maximum age"
            );
        }
        let mut next = Instant::now();
        loop {
            // Biased: the periodic pass is rare, and requests repeat.
            tokio::select! {
                biased;
                () = sleep_until(next) => {
                    self.periodic().await;
                    next = Instant::now() + PERIOD;
                }
                Some(Request { kind, answer }) = self.requests.recv() => {
                    let report = self.pass(kind).await;
                    // The caller may have dropped its receiver.
                    drop(answer.send(report));
                }
            }
        }
    }

    /// The periodic work: a pass, or at least a snapshot to record uses.
    async fn periodic(&mut self) {
        if !self.collector.settings.policy.is_periodic() {
            let _watch = self.collector.parts.claims.watch();
            if let Err(error) = self.look().await {
                error!(error = %Chain(&error), "Cannot list images");
            }
            return;
        }
        let report = self.pass(Kind::Ordinary).await;
        match report.error {
            None if self.failed => info!("Image garbage collection succeeds again"),
            None => debug!("Image garbage collection succeeded"),
            Some(ref failure) => {
                let message = Chain(failure).to_string();
                if self.failed {
                    error!(
                        error = message,
                        "Image garbage collection failed multiple times in a row"
                    );
                    self.collector.warn("ImageGCFailed", failure.event_message());
                } else {
                    error!(
                        error = message,
                        "Image garbage collection failed once. Stats initialization may not have completed yet"
                    );
                }
            }
        }
        self.failed = report.error.is_some();
    }

    async fn pass(&mut self, kind: Kind) -> PassReport {
        let span = info_span!("Images/GarbageCollect");
        async {
            // From before the snapshot on, so that no claim is missed.
            let _watch = self.collector.parts.claims.watch();
            let snapshot = match self.look().await {
                Ok(snapshot) => snapshot,
                Err(error) => return PassReport { error: Some(error), ..PassReport::default() },
            };
            let report = self.collector.pass(kind, &snapshot).await;
            self.file.save(&self.collector.records()).await;
            if report.made_room {
                let ids = stay(&report.plan.items);
                self.left.send_replace(Some(Arc::new(ImagesLeft { began: snapshot.now, ids })));
            }
            report
        }
        .instrument(span)
        .await
    }

    /// Takes a snapshot and records it, on disk before any removal depends on it.
    async fn look(&mut self) -> Result<Snapshot, ImageGcError> {
        let snapshot = self.collector.look().await?;
        for name in &snapshot.detected.without_id {
            let message = format!("ImageID is not valid, skipping, image: {name}");
            self.collector.warn("InvalidImageID", message);
        }
        self.collector.remember_snapshot(&snapshot);
        self.collector.parts.claims.forget_uses(&snapshot.made_since);
        self.file.save(&snapshot.detected.records).await;
        Ok(snapshot)
    }
}
